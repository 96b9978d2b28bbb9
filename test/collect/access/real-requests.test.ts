import {setTimeout as sleep} from 'node:timers/promises';
import {describe, expect, onTestFinished, test} from 'vitest';
import {permissionsFor} from '../../../src/collect/access/permissions.ts';
import {nodeInfos, readAgentPods, readCiliumSettings} from '../../../src/collect/cluster/read-agent-pods.ts';
import {type ClusterReading, readCluster, readServicePods} from '../../../src/collect/cluster/read-cluster.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {watchServices} from '../../../src/collect/watch/service-watches.ts';
import type {ClusterScope} from '../../../src/collect/cluster/cluster-reader.ts';
import type {ApiError, KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {removeLeftovers} from '../../../src/collect/transports/debug.ts';
import {kubeProxyLogOf} from '../../../src/collect/transports/host-agents.ts';
import {type TransportName, transportNamed} from '../../../src/collect/transports/transports.ts';
import {type Permission, resourceText} from '../../../src/model/permission.ts';
import {roleManifest} from '../../../src/render/access/access-report.ts';
import {type ApiServer, type LoggedRequest, startApiServer} from '../../stand-in/api-server.ts';
import {allowedBy} from './roles.ts';
import {someOf} from '../../cases.ts';

// The Roles that "access" prints are sufficient for a run, and a run uses every permission in them.

const objects = {
  services: [{metadata: {namespace: 'shop', name: 'web'}, spec: {selector: {app: 'web'}, ports: [{port: 80}]}}],
  endpointslices: [{metadata: {namespace: 'shop', name: 'web-1', labels: {'kubernetes.io/service-name': 'web'}}, endpoints: []}],
  nodes: [{metadata: {name: 'node-a'}}],
  pods: [
    {
      metadata: {namespace: 'kube-system', name: 'kube-proxy-1', labels: {'k8s-app': 'kube-proxy'}},
      spec: {nodeName: 'node-a', hostNetwork: true, containers: [{name: 'kube-proxy'}]},
      status: {phase: 'Running'},
    },
    {metadata: {namespace: 'kube-system', name: 'cilium-1', labels: {'k8s-app': 'cilium'}}, spec: {nodeName: 'node-b'}},
    {metadata: {namespace: 'shop', name: 'web-1', labels: {app: 'web'}}, spec: {nodeName: 'node-a'}, status: {phase: 'Pending'}},
  ],
};

const debugNamespace = 'debugging';
const dump = '*nat\nCOMMIT\n';

interface Run {
  readonly server: ApiServer;
  readonly problems: readonly string[];
  readonly files: readonly string[];
}

/** A run of a user with these permissions and no other. */
async function runWith(permissions: readonly Permission[], transport: TransportName, namespace: string | null): Promise<Run> {
  // With what Roles leave out, for who grants it.
  const allow = allowedBy(roleManifest(permissions.map(({opens: _, ...permission}) => permission)));
  const server = await startApiServer({
    objects,
    tokens: {weak: {user: 'ann'}},
    allow,
    pods: {startDelay: 1, stopDelay: 1},
    exec: ({argv}) => ({stdout: argv.includes('iptables-save') ? dump : ''}),
    nodePage: () => ({body: '{}'}),
  });
  onTestFinished(() => server.close());
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig, token: 'weak'}, {environment: {}}), {backoff: 1});
  onTestFinished(() => api.close());
  const scope = namespace === null ? ({kind: 'cluster'} as const) : ({kind: 'namespaces', namespaces: [namespace]} as const);
  const cluster = await readCluster(api, scope);
  const named = await readCluster(api, {kind: 'services', services: [{namespace: 'shop', name: 'web'}]});
  const agents = await readAgentPods(api, ['node-a']);
  const settings = await readCiliumSettings(api, agents.pods ?? []);
  const {podsOf} = await readServicePods(api, cluster.api.services ?? []);
  const problems = [...cluster.problems, ...named.problems, ...agents.problems, ...settings.problems].map(({message}) => message);
  // What was not listed cannot be watched.
  if (problems.length > 0) return {server, problems, files: []};
  problems.push(...(await watched(api, server, {scope, cluster})));
  if (podsOf.size === 0) problems.push('no pods of Services');
  await api.get('/api/v1/namespaces/shop/pods/web-1').catch((error: unknown) => problems.push(String(error)));
  const [info] = nodeInfos(['node-a'], cluster.api.nodes ?? [], agents);
  if (info !== undefined)
    await kubeProxyLogOf(api)(info, new AbortController().signal).catch((error: unknown) => problems.push(String(error)));
  const files = transport === 'exec' || transport === 'debug' ? await collected() : [];
  return {server, problems, files};

  async function collected(): Promise<readonly string[]> {
    if (transport === 'debug') await removeLeftovers(api, debugNamespace);
    const [node] = nodeInfos(['node-a'], cluster.api.nodes ?? [], agents);
    if (node === undefined) throw new Error('no node');
    const selected = transportNamed(transport, {api, debug: {namespace: debugNamespace, startTimeoutMs: 600_000}});
    const read = await collectNode(node, selected, {
      signal: new AbortController().signal,
      timeoutMs: 600_000,
      wants: file => file === 'iptables-save' || (transport === 'exec' && file === 'healthz.json'),
    });
    problems.push(...read.problems.map(({message}) => message), ...read.missing.map(({reason}) => reason));
    return read.files;
  }
}

/** What is refused while Services are followed, as long as nodes are read. */
async function watched(
  api: KubeApi,
  {requests}: ApiServer,
  {scope, cluster: {api: objects, versions}}: {readonly scope: ClusterScope; readonly cluster: ClusterReading},
): Promise<readonly string[]> {
  const refusals: string[] = [];
  const end = new AbortController();
  const onRefused = ({message}: ApiError) => void refusals.push(message);
  const {ended: watching} = watchServices(api, {scope, objects, versions, onChange: () => {}, onRefused}, end.signal);
  // Services and slices; what is refused is answered at once.
  await expect.poll(() => requests.filter(({resource}) => resource?.verb === 'watch')).toHaveLength(2);
  await sleep(50);
  end.abort();
  await watching;
  return refusals;
}

function asked({requests}: ApiServer): ReadonlySet<string> {
  return new Set(requests.flatMap(request => wordsOf(request)));
}

function wordsOf({resource}: LoggedRequest): readonly string[] {
  if (resource === null) return [];
  const {verb, group, resource: plural, subresource, namespace, name} = resource;
  const verbs = subresource === 'exec' ? ['get', 'create'] : [verb];
  const oneOnly = plural === 'configmaps' ? {name} : {};
  const text = resourceText({group, resource: plural, ...(subresource === '' ? {} : {subresource}), ...oneOnly});
  return verbs.map(each => `${each} ${text} ${namespace || '(all)'}`);
}

const wordsOfPermission = (permission: Permission) => `${permission.verb} ${resourceText(permission)} ${permission.namespace ?? '(all)'}`;

describe.each<[TransportName, string | null]>([
  ['exec', null],
  ['exec', 'shop'],
  ['debug', null],
  ['debug', 'shop'],
  ['ssh', null],
  ['ssh', 'shop'],
])('with --transport %s and the Services of %s', (transport, namespace) => {
  const permissions = permissionsFor({transport, namespace, debugNamespace});

  test('the Roles are sufficient', async () => {
    const {problems, files} = await runWith(permissions, transport, namespace);
    expect(problems).toEqual([]);
    expect(files).toEqual(transport === 'ssh' ? [] : transport === 'exec' ? ['healthz.json', 'iptables-save'] : ['iptables-save']);
  });

  test('no permission is granted without being used', async () => {
    const {server} = await runWith(permissions, transport, namespace);
    const requests = asked(server);
    // A right for all namespaces may be used in one of them.
    const used = (permission: Permission): boolean =>
      requests.has(wordsOfPermission(permission)) ||
      (permission.namespace === null && requests.has(wordsOfPermission({...permission, namespace: 'shop'})));
    expect(permissions.filter(permission => !used(permission)).map(wordsOfPermission)).toEqual([]);
  });

  // That these may not be read is no problem, and nothing is said of it.
  const reported = permissions.filter(({group}) => group !== 'networking.k8s.io');

  test.each(someOf(reported.map(permission => [wordsOfPermission(permission), permission] as const)))(
    '%s is required',
    async (_, permission) => {
      const others = permissions.filter(other => other !== permission && !covers(other, permission));
      const {problems} = await runWith(others, transport, namespace).catch((error: unknown) => ({problems: [String(error)]}));
      expect(problems).not.toEqual([]);
    },
  );

  test('without the right to list ServiceCIDRs and NetworkPolicies nothing is reported', async () => {
    expect((await runWith(reported, transport, namespace)).problems).toEqual([]);
  });
});

/** What lists the pods of all namespaces lists those of one, too. */
function covers(one: Permission, other: Permission): boolean {
  return one.namespace === null && one.verb === other.verb && resourceText(one) === resourceText(other);
}
