import {type Cluster, type ClusterNode, FAMILIES, type Family} from './model.ts';
import * as nft from './nft-objects.ts';
import type {Json} from './nft-objects.ts';
import {addNftServicePort, type NftObjects} from './nft-service-rules.ts';
import {servicesWithRules} from './services-with-rules.ts';

/** What `nft -j list ruleset` prints on one node of nftables mode with kube-proxy 1.35. */
export function nftDump(cluster: Cluster, node: ClusterNode): string {
  const metainfo = '{"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}}';
  const objects = FAMILIES.flatMap(family => [...familyObjects(cluster, node, family)].map(object => nft.inFamily(object, family)));
  return `{"nftables": [${[metainfo, ...objects].join(', ')}]}\n`;
}

/** As nft prints a table: sets, chains, and then the rules chain by chain. */
function* familyObjects(cluster: Cluster, node: ClusterNode, family: Family): Generator<Json> {
  const own = serviceObjects(cluster, node, family);
  yield {table: {family: '', name: 'kube-proxy', handle: 1}};
  yield* sharedSets(own, node, family);
  yield* own.sets;
  yield* baseChains;
  yield* own.chains;
  yield* baseRules(family);
  yield* own.rules;
}

function serviceObjects(cluster: Cluster, node: ClusterNode, family: Family): NftObjects {
  const objects: NftObjects = {elements: [], sets: [], chains: [], rules: []};
  for (const service of servicesWithRules(cluster, family))
    for (const port of service.ports) addNftServicePort(objects, service, port, {cluster, node, family, large: true});
  return objects;
}

function sharedSets({elements}: NftObjects, node: ClusterNode, family: Family): readonly Json[] {
  const address = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
  const nodePort = ['inet_proto', 'inet_service'];
  const entry = [address, ...nodePort];
  const of = (name: string): Json[] => elements.filter(({set}) => set === name).map(one => one.entry);
  return [
    nft.setOf('cluster-ips', address, [...new Set(of('cluster-ips'))]),
    nft.setOf('nodeport-ips', address, [node.address[family]]),
    nft.verdictMap('no-endpoint-services', entry, of('no-endpoint-services')),
    nft.verdictMap('no-endpoint-nodeports', nodePort, of('no-endpoint-nodeports')),
    nft.verdictMap('firewall-ips', entry, of('firewall-ips')),
    nft.verdictMap('service-ips', entry, of('service-ips')),
    nft.verdictMap('service-nodeports', nodePort, of('service-nodeports')),
  ];
}

const baseChains: readonly Json[] = [
  nft.baseChain('filter-prerouting-pre-dnat', ['filter', 'prerouting', -110]),
  nft.baseChain('filter-output-pre-dnat', ['filter', 'output', -110]),
  nft.baseChain('filter-input', ['filter', 'input', 0]),
  nft.baseChain('filter-forward', ['filter', 'forward', 0]),
  nft.baseChain('filter-output', ['filter', 'output', 0]),
  nft.baseChain('nat-prerouting', ['nat', 'prerouting', -100]),
  nft.baseChain('nat-output', ['nat', 'output', -100]),
  nft.baseChain('nat-postrouting', ['nat', 'postrouting', 100]),
  ...['nodeport-endpoints-check', 'service-endpoints-check', 'firewall-check', 'services', 'masquerading'].map(nft.plainChain),
  ...['cluster-ips-check', 'mark-for-masquerade', 'reject-chain'].map(nft.plainChain),
];

function baseRules(family: Family): readonly Json[] {
  const word = nft.ipWord(family);
  const toNode = nft.match(nft.payload(word, 'daddr'), '@nodeport-ips');
  const toService = nft.match(nft.payload(word, 'daddr'), '@cluster-ips');
  const nodePort = nft.concat(nft.l4proto, nft.payload('th', 'dport'));
  const entry = nft.concat(nft.payload(word, 'daddr'), nft.l4proto, nft.payload('th', 'dport'));
  const mark: Json = {meta: {key: 'mark'}};
  const setMark = (operator: string): Json => ({mangle: {key: mark, value: {[operator]: [mark, 0x4000]}}});
  const reject: Json = {reject: {type: family === 'IPv4' ? 'icmp' : 'icmpv6', expr: 'port-unreachable'}};
  return [
    newTo('filter-prerouting-pre-dnat', 'firewall-check'),
    newTo('filter-output-pre-dnat', 'firewall-check'),
    newTo('filter-input', 'nodeport-endpoints-check'),
    newTo('filter-input', 'service-endpoints-check'),
    newTo('filter-forward', 'service-endpoints-check'),
    newTo('filter-forward', 'cluster-ips-check'),
    newTo('filter-output', 'service-endpoints-check'),
    newTo('filter-output', 'cluster-ips-check'),
    nft.rule('nat-prerouting', [nft.jump('services')]),
    nft.rule('nat-output', [nft.jump('services')]),
    nft.rule('nat-postrouting', [nft.jump('masquerading')]),
    nft.rule('nodeport-endpoints-check', [toNode, nft.vmap(nodePort, '@no-endpoint-nodeports')]),
    nft.rule('service-endpoints-check', [nft.vmap(entry, '@no-endpoint-services')]),
    nft.rule('firewall-check', [nft.vmap(entry, '@firewall-ips')]),
    nft.rule('services', [nft.vmap(entry, '@service-ips')]),
    nft.rule('services', [toNode, nft.vmap(nodePort, '@service-nodeports')]),
    nft.rule('masquerading', [nft.match({'&': [mark, 0x4000]}, 0), {return: null}]),
    nft.rule('masquerading', [setMark('^')]),
    nft.rule('masquerading', [{masquerade: {flags: 'fully-random'}}]),
    nft.rule('cluster-ips-check', [toService, reject], 'Reject traffic to invalid ports of ClusterIPs'),
    nft.rule('mark-for-masquerade', [setMark('|')]),
    nft.rule('reject-chain', [reject]),
  ];
}

function newTo(chain: string, target: string): Json {
  return nft.rule(chain, [nft.match({ct: {key: 'state'}}, 'new', 'in'), nft.jump(target)]);
}
