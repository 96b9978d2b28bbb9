import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import type {EndpointSliceObject, ServiceObject} from '../../../src/model/api-objects.ts';
import {families} from '../../../src/model/address.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {seededRandom} from '../../bench/random.ts';
import {capturePath} from '../../fixtures.ts';
import {withRules} from '../../rendered-dump.ts';
import type {LiveCluster} from './cluster.ts';

/** The kube-proxies of a live cluster, each of which writes its node's rules, by iptables-restore, when a test asks for it. */
export class LiveKubeProxies {
  readonly #cluster: LiveCluster;
  readonly #captured: Snapshot;
  readonly #edits = new Map<string, (dump: string) => string>();

  private constructor(cluster: LiveCluster, captured: Snapshot) {
    this.#cluster = cluster;
    this.#captured = captured;
  }

  static async open(cluster: LiveCluster, capture: string): Promise<LiveKubeProxies> {
    return new LiveKubeProxies(cluster, await readBundle(capturePath(capture)));
  }

  /** From now on the rules of a node are changed by this as soon as kube-proxy has written them. */
  edit(node: string, edit: (dump: string) => string): void {
    this.#edits.set(node, edit);
  }

  /** Writes all rules of these nodes by what the API holds now. */
  sync(...names: readonly string[]): void {
    const {store} = this.#cluster.api;
    const api = {
      ...this.#captured.api,
      services: store.all('services') as unknown as readonly ServiceObject[],
      endpointSlices: store.all('endpointslices') as unknown as readonly EndpointSliceObject[],
    };
    const nodes = this.#captured.nodes.filter(({name}) => names.includes(name));
    for (const {name, read} of withRules({...this.#captured, api, nodes}, seededRandom(1)).nodes) {
      const node = this.#cluster.node(name);
      const edit = this.#edits.get(name) ?? (dump => dump);
      for (const family of families)
        node.load(family, edit(withKubelet(read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save')?.toString() ?? '')));
    }
  }

  /** Whether the pod of a node's kube-proxy is ready, as the API says. */
  ready(node: string, isReady: boolean): void {
    const {store} = this.#cluster.api;
    const pod = store.find('pods', 'kube-system', `kube-proxy-${node}`);
    if (pod === undefined) throw new Error(`there is no kube-proxy on ${node}`);
    store.put('pods', {...pod, status: {phase: 'Running', conditions: [{type: 'Ready', status: isReady ? 'True' : 'False'}]}});
  }
}

/** kube-proxy's rules jump to a chain that the kubelet makes. */
export function withKubelet(dump: string): string {
  return dump.includes('\n:KUBE-FIREWALL ') ? dump : dump.replace('*filter\n', '*filter\n:KUBE-FIREWALL - [0:0]\n');
}

/** Gives the first endpoint of a Service that is ready another address, as if its pod had been replaced. */
export function replaceEndpoint({api}: LiveCluster, service: string, address: string): void {
  const slice = api.store.all('endpointslices').find(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === service);
  if (slice === undefined) throw new Error(`there is no slice of ${service}`);
  const {endpoints} = slice as unknown as EndpointSliceObject;
  const replaced = endpoints?.find(({conditions}) => conditions?.ready);
  const changed = endpoints?.map(endpoint => (endpoint === replaced ? {...endpoint, addresses: [address]} : endpoint));
  api.store.put('endpointslices', {...slice, endpoints: changed});
}
