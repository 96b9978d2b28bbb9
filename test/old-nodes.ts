import {ClusterView} from '../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../src/expect/iptables/expect-ruleset.ts';
import {hasCanary, servesBothFamilies} from '../src/expect/iptables/iptables-versions.ts';
import {nodeFacts} from '../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../src/expect/resolve-proxy-config.ts';
import type {Family} from '../src/model/address.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../src/model/snapshot.ts';
import {seededRandom} from './bench/random.ts';
import {nodeDump} from './cluster.ts';
import {snapshotOf} from './fixtures.ts';
import {iptablesSave} from './rendered-dump.ts';

/**
 * The cluster of a capture with kube-proxies of an old version such as `1.14` (a late patch) or `1.22.3`, for which there is no capture: each dump holds what
 * that version writes. `told` puts files beside the dumps; without them, only the dumps show which kube-proxy wrote them.
 */
export async function oldNodes(version: string, told: Readonly<Record<string, string>> = {}): Promise<Snapshot> {
  const {nodes, ...rest} = await written(version);
  return {...rest, nodes: nodes.map(({name, files}) => nodeDump(name, {...files, ...told}))};
}

/** What each version writes is worked out once. */
const writtenBy = new Map<string, ReturnType<typeof write>>();

function written(version: string): ReturnType<typeof write> {
  const known = writtenBy.get(version) ?? write(version);
  writtenBy.set(version, known);
  return known;
}

async function write(version: string) {
  const {api, ...rest} = await snapshotOf('eras/1.21-endpoints');
  // Servers before 1.17 have no slices.
  const objects = {...api, endpointSlices: Number(version.split('.')[1]) < 17 ? null : api.endpointSlices};
  const nodes = rest.nodes.map(node => {
    const addresses = {'addresses.json': node.read('addresses.json')?.toString() ?? '[]'};
    const bare = nodeDump(node.name, addresses);
    const dumps = {
      'iptables-save': dump(bare, objects, {version, family: 'IPv4'}),
      'ip6tables-save': dump(bare, objects, {version, family: 'IPv6'}),
    };
    return {name: node.name, files: {...addresses, ...dumps}};
  });
  return {...rest, api: objects, nodes};
}

function dump(node: NodeDump, api: ApiObjects, wanted: {readonly version: string; readonly family: Family}): string {
  const patch = wanted.version.split('.').length === 2 ? '.9' : '';
  const overrides = {version: `v${wanted.version}${patch}`, clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56']};
  const {config} = resolveProxyConfig(node, api, overrides);
  const input = {view: new ClusterView(api), config, facts: nodeFacts(node, api), family: wanted.family, ruleset: null};
  const whole = iptablesSave(expectRuleset(input), seededRandom(1));
  const version = config.version.value;
  const served = wanted.family === 'IPv4' || servesBothFamilies(version, {});
  const own = served ? whole : whole.replace(/^:KUBE-.*\n|^-A KUBE-.*\n|^-A .*-j KUBE-.*\n/gm, '');
  return hasCanary(version) ? own : own.replace(/^:KUBE-PROXY-CANARY.*\n/gm, '');
}
