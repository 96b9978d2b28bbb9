import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {writeEndpointSlices, writeNodes, writeServices} from './api-objects.ts';
import {buildCluster} from './build-cluster.ts';
import type {ClusterSize, ProxyMode} from './cluster-size.ts';
import {dumpLines} from './dump.ts';
import {type Cluster, type ClusterNode, type Endpoint, FAMILIES, type Family, type Service, type ServicePort} from './model.ts';
import {writeNodeFiles} from './node-files.ts';
import {writeText} from './text-file.ts';
import * as nft from './nft-objects.ts';
import type {Element, Json} from './nft-objects.ts';
import {servicesWithRules} from './services-with-rules.ts';
import {endpointBase, hostPort, portBase} from './chain-names.ts';
import {contains} from './contains.ts';
import {policies} from './choose-endpoints.ts';
import {type PortFacts, portFacts, type RuleOrder} from './service-rules.ts';

/** What `nft -j list ruleset` prints on one node of nftables mode with kube-proxy 1.35. */
function nftDump(cluster: Cluster, node: ClusterNode): string {
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

/**
 * Writes a bundle of a made-up cluster whose nodes are in step with its API
 * objects: what kube-proxy 1.36 would write in iptables mode, or 1.35 in
 * nftables mode, rule by rule.
 *
 * Nothing here comes from the product's own sources. The two were written
 * apart, from what kube-proxy does, so that a mistake in one shows in the other.
 * There are no pods: a missing file is "not looked at", an endpoint without its
 * pod would be a finding.
 */
export function writeCluster(dir: string, size: ClusterSize): void {
  writeBundle(dir, buildCluster(size), size.proxyMode);
}

export function writeBundle(dir: string, cluster: Cluster, mode: ProxyMode = 'iptables'): void {
  writeApiObjects(dir, cluster);
  for (const node of cluster.nodes) {
    const nodeDir = join(dir, 'nodes', node.name);
    mkdirSync(nodeDir, {recursive: true});
    writeNodeFiles(nodeDir, {cluster, node, mode});
    if (mode === 'nftables') writeFileSync(join(nodeDir, 'nft.json'), nftDump(cluster, node));
    else {
      writeText(join(nodeDir, 'iptables-save'), dumpLines(cluster, node, 'IPv4'));
      writeText(join(nodeDir, 'ip6tables-save'), dumpLines(cluster, node, 'IPv6'));
    }
  }
}

export function writeApiObjects(dir: string, cluster: Cluster): void {
  const api = join(dir, 'api');
  mkdirSync(api, {recursive: true});
  writeServices(join(api, 'services.json'), cluster);
  writeEndpointSlices(join(api, 'endpointslices.json'), cluster);
  writeNodes(join(api, 'nodes.json'), cluster);
}

/** The objects of one family that depend on the Services. */
interface NftObjects {
  readonly elements: Element[];
  readonly sets: Json[];
  readonly chains: Json[];
  readonly rules: Json[];
}

/** Adds what kube-proxy 1.35 writes in nftables mode for one port of one Service in one family. */
function addNftServicePort(objects: NftObjects, service: Service, port: ServicePort, order: RuleOrder): void {
  const facts = portFacts(service, port, order);
  const base = portBase(service, port);
  const plan: Plan = {
    ...{facts, base, word: nft.ipWord(facts.family), objects},
    internal: `${service.internalLocal ? 'local' : 'service'}-${base}`,
    external: `${service.externalLocal ? 'local' : 'service'}-${base}`,
  };
  addEntries(plan);
  addExternalChain(plan);
  addPolicyChains(plan);
  addFirewall(plan);
  for (const endpoint of facts.chosen.reachable) addEndpoint(plan, endpoint);
}

interface Plan {
  readonly facts: PortFacts;
  readonly base: string;
  readonly word: 'ip' | 'ip6';
  readonly objects: NftObjects;
  readonly internal: string;
  readonly external: string;
}

function addEntries({facts, base, objects: {elements}, internal}: Plan): void {
  const {chosen, clusterIP, hasInternal, port} = facts;
  const protocol = port.protocol.toLowerCase();
  const key = (address: string): Json => nft.concat(address, protocol, port.port);
  const refused = (set: string, of: Json): void => {
    const verdict: Json = chosen.any ? {drop: null} : nft.goTo('reject-chain');
    elements.push({set, entry: [{elem: {val: of, comment: facts.name}}, verdict]});
  };
  elements.push({set: 'cluster-ips', entry: clusterIP});
  if (hasInternal) elements.push({set: 'service-ips', entry: [key(clusterIP), nft.goTo(internal)]});
  else refused('no-endpoint-services', key(clusterIP));
  for (const address of new Set([...facts.externalIPs, ...facts.loadBalancerIPs])) {
    if (chosen.any) elements.push({set: 'service-ips', entry: [key(address), nft.goTo(`external-${base}`)]});
    if (!facts.hasExternal) refused('no-endpoint-services', key(address));
  }
  if (port.nodePort === 0) return;
  const nodePort = nft.concat(protocol, port.nodePort);
  if (chosen.any) elements.push({set: 'service-nodeports', entry: [nodePort, nft.goTo(`external-${base}`)]});
  if (!facts.hasExternal) refused('no-endpoint-nodeports', nodePort);
}

function addExternalChain({facts, base, word, objects, external}: Plan): void {
  if (!facts.chosen.any || !facts.reachableFromOutside) return;
  const chain = `external-${base}`;
  const marks = nft.jump('mark-for-masquerade');
  const fromNode = nft.match({fib: {result: 'type', flags: ['saddr']}}, 'local');
  const toAll = nft.goTo(`service-${base}`);
  const shortcuts = [
    nft.rule(chain, [nft.match(nft.payload(word, 'saddr'), nft.prefix(facts.podCIDR)), toAll], 'short-circuit pod traffic'),
    nft.rule(chain, [fromNode, marks], 'masquerade local traffic'),
    nft.rule(chain, [fromNode, toAll], 'short-circuit local traffic'),
  ];
  objects.chains.push(nft.plainChain(chain));
  objects.rules.push(...(facts.service.externalLocal ? shortcuts : [nft.rule(chain, [marks])]));
  if (facts.hasExternal) objects.rules.push(nft.rule(chain, [nft.goTo(external)]));
}

function addPolicyChains(plan: Plan): void {
  const {facts, base} = plan;
  const {usesCluster, usesLocal} = policies(facts.service, facts.reachableFromOutside);
  if (usesCluster) addPolicyChain(plan, `service-${base}`, facts.chosen.cluster);
  if (usesLocal) addPolicyChain(plan, `local-${base}`, facts.chosen.local);
}

/** Masquerade of traffic to the cluster IP, sticky clients, then by chance. */
function addPolicyChain({facts, word, objects, internal}: Plan, chain: string, endpoints: readonly Endpoint[]): void {
  if (endpoints.length === 0) return;
  const {service, port} = facts;
  const source = nft.payload(word, 'saddr');
  const bases = inOrder(endpoints, facts).map(endpoint => endpointBase(service, port, endpoint));
  objects.chains.push(nft.plainChain(chain));
  if (chain === internal && facts.hasInternal) {
    const toService = nft.match(nft.payload(word, 'daddr'), facts.clusterIP);
    const fromOthers = nft.match(source, nft.prefix(facts.podCIDR), '!=');
    objects.rules.push(nft.rule(chain, [toService, fromOthers, nft.jump('mark-for-masquerade')]));
  }
  if (service.affinitySeconds !== 0)
    for (const name of bases) objects.rules.push(nft.rule(chain, [nft.match(source, `@affinity-${name}`), nft.goTo(`endpoint-${name}`)]));
  const random: Json = {numgen: {mode: 'random', mod: bases.length, offset: 0}};
  objects.rules.push(nft.rule(chain, [nft.vmap(random, {set: bases.map((name, index) => [index, nft.goTo(`endpoint-${name}`)])})]));
}

/** kube-proxy sorts endpoints as text. */
function inOrder(endpoints: readonly Endpoint[], {family, port}: PortFacts): readonly Endpoint[] {
  const text = ({address}: Endpoint): string => hostPort(family, address, port.targetPort);
  return [...endpoints].sort((a, b) => (text(a) < text(b) ? -1 : 1));
}

function addFirewall({facts, base, word, objects}: Plan): void {
  const {loadBalancerIPs, nodeIP, port, ranges} = facts;
  if (!facts.usesFirewall && (ranges.length === 0 || loadBalancerIPs.length === 0)) return;
  const chain = `firewall-${base}`;
  const own = ranges.some(range => contains(range, nodeIP)) ? loadBalancerIPs : [];
  // The kernel keeps a list of networks sorted. These do not overlap.
  const allowed = [...ranges, ...own].sort((a, b) => firstNumber(a) - firstNumber(b));
  for (const address of new Set(loadBalancerIPs)) {
    const key = nft.concat(address, port.protocol.toLowerCase(), port.port);
    objects.elements.push({set: 'firewall-ips', entry: [key, nft.goTo(chain)]});
  }
  objects.chains.push(nft.plainChain(chain));
  objects.rules.push(
    nft.rule(chain, [
      nft.match(nft.payload(word, 'saddr'), {set: allowed.map(one => (one.includes('/') ? nft.prefix(one) : one))}, '!='),
      {drop: null},
    ]),
  );
}

function firstNumber(address: string): number {
  return Number(address.split('.')[0]);
}

function addEndpoint({facts, word, objects}: Plan, endpoint: Endpoint): void {
  const {port, service} = facts;
  const name = endpointBase(service, port, endpoint);
  const chain = `endpoint-${name}`;
  const source = nft.payload(word, 'saddr');
  const add = (...statements: readonly Json[]): number => objects.rules.push(nft.rule(chain, statements));
  objects.chains.push(nft.plainChain(chain));
  add(nft.match(source, endpoint.address), nft.jump('mark-for-masquerade'));
  if (service.affinitySeconds !== 0) {
    const type = facts.family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
    objects.sets.push(nft.affinitySet(`affinity-${name}`, type, service.affinitySeconds));
    add({set: {op: 'update', elem: source, set: `@affinity-${name}`}});
  }
  add(nft.match(nft.l4proto, port.protocol.toLowerCase()), {dnat: {addr: endpoint.address, port: port.targetPort}});
}
