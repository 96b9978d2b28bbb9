import process from 'node:process';
import {listNames} from '../../collect/cluster/cluster-reader.ts';
import {readBundle} from '../../collect/bundle/read-bundle.ts';
import {loadKubeconfig} from '../../collect/kube/load-kubeconfig.ts';
import type {ConnectionFlags} from '../../collect/kube/kubeconfig.ts';
import type {ObjectMeta} from '../../model/api-objects.ts';
import type {Candidate, CommandWords, ValueKind} from './complete.ts';
import {namespacedName} from '../../model/text.ts';

/**
 * The names of a kind: contexts and the like from the kubeconfig, others from the bundle of `--from` or from the cluster. `requestTimeout`:
 * in milliseconds. There are at most two requests, one after the other.
 */
export async function lookUpNames(
  kind: Exclude<ValueKind, 'codes'>,
  {flags}: CommandWords,
  {typed, requestTimeout}: {readonly typed: string; readonly requestTimeout: number},
): Promise<readonly Candidate[]> {
  if (kind === 'contexts' || kind === 'clusters' || kind === 'users') {
    const {config} = loadKubeconfig(flags.get('kubeconfig')?.at(-1), process.env);
    return [...config[kind].keys()].map(value => ({value}));
  }
  const bundle = flags.get('from')?.at(-1);
  if (bundle === '-') return [];
  const source = bundle === undefined ? await clusterNames(connectionOf(flags), requestTimeout) : await bundleNames(bundle);
  if (kind === 'services') return serviceNames(source, typed, flags);
  if (kind === 'pods') return podNames(source, typed);
  return (await source.list(kind === 'nodes' ? 'nodes' : 'namespaces', null)).map(({name}) => ({value: name}));
}

/** Where object names are read from. */
interface NameSource {
  /** The default namespace; null for a bundle, in which all are searched. */
  readonly namespace: string | null;
  readonly list: (kind: 'services' | 'pods' | 'nodes' | 'namespaces', namespace: string | null) => Promise<readonly ObjectMeta[]>;
}

/** In each form that can be typed: `name`, `svc/name` and `namespace/name`. */
async function serviceNames(source: NameSource, typed: string, flags: CommandWords['flags']): Promise<readonly Candidate[]> {
  const [first = '', second] = typed.split('/');
  const isKind = ['svc', 'service', 'services'].includes(first);
  const all = flags.has('all-namespaces') && !isKind;
  const namespace = second !== undefined && !isKind ? first : all ? null : source.namespace;
  const found = await source.list('services', namespace);
  const prefix = second === undefined ? '' : `${first}/`;
  const named = found.map(object => ({value: all ? namespacedName(object) : prefix + object.name}));
  if (second !== undefined || all || named.some(({value}) => value.startsWith(typed))) return named;
  // No Service has this prefix: it may be a namespace.
  return (await source.list('namespaces', null)).map(({name}) => ({value: `${name}/`}));
}

/** `pod/NAME` of the namespace. An address that is typed is not looked up. */
async function podNames(source: NameSource, typed: string): Promise<readonly Candidate[]> {
  if (!typed.startsWith('pod/')) return [{value: 'pod/'}];
  return (await source.list('pods', source.namespace)).map(({name}) => ({value: `pod/${name}`}));
}

async function clusterNames(flags: ConnectionFlags, requestTimeout: number): Promise<NameSource> {
  // Completion from the kubeconfig or a bundle needs no client.
  const [{createKubeApi}, {loadConnection}] = await Promise.all([
    import('../../collect/kube/create-kube-api.ts'),
    import('../../collect/kube/load-connection.ts'),
  ]);
  const connection = loadConnection(flags, {interactive: false, quiet: true});
  const api = createKubeApi(connection, {requestTimeout});
  return {
    namespace: connection.namespace,
    list: async (kind, namespace) => {
      const place = (kind === 'services' || kind === 'pods') && namespace !== null ? `/namespaces/${encodeURIComponent(namespace)}` : '';
      return listNames(api, `/api/v1${place}/${kind}`);
    },
  };
}

async function bundleNames(path: string): Promise<NameSource> {
  const {api, nodes} = await readBundle(path);
  const services = (api.services ?? []).map(({metadata}) => metadata);
  const namespaces = [...new Set(services.map(({namespace = 'default'}) => namespace))].sort();
  const ofKind = {
    services,
    pods: (api.pods ?? []).map(({metadata}) => metadata),
    nodes: nodes.map(({name}) => ({name})),
    namespaces: namespaces.map(name => ({name})),
  };
  return {
    namespace: null,
    list: async (kind, namespace) => ofKind[kind].filter(object => namespace === null || (object as ObjectMeta).namespace === namespace),
  };
}

function connectionOf(flags: CommandWords['flags']): ConnectionFlags {
  const values = Object.fromEntries([...flags].map(([name, given]) => [name, given.at(-1)]));
  return {
    ...values,
    'as-group': flags.get('as-group'),
    'as-user-extra': flags.get('as-user-extra'),
    'insecure-skip-tls-verify': flags.has('insecure-skip-tls-verify') ? true : undefined,
  };
}
