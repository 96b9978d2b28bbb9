import {endpointBase, hostPort, portBase} from './chain-names.ts';
import type {Endpoint, Service, ServicePort} from './model.ts';
import * as nft from './nft-objects.ts';
import type {Element, Json} from './nft-objects.ts';
import {contains} from './contains.ts';
import {policies} from './choose-endpoints.ts';
import {type PortFacts, portFacts, type RuleOrder} from './service-rules.ts';

/** The objects of one family that depend on the Services. */
export interface NftObjects {
  readonly elements: Element[];
  readonly sets: Json[];
  readonly chains: Json[];
  readonly rules: Json[];
}

/** Adds what kube-proxy 1.35 writes in nftables mode for one port of one Service in one family. */
export function addNftServicePort(objects: NftObjects, service: Service, port: ServicePort, order: RuleOrder): void {
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
