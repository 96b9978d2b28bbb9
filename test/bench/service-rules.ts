import {endpointChain, hostPort, servicePortHash, servicePortName} from './chain-names.ts';
import {chooseEndpoints, type ChosenEndpoints, policies} from './choose-endpoints.ts';
import {contains} from './contains.ts';
import type {Cluster, ClusterNode, Endpoint, Family, Service, ServicePort} from './model.ts';
import type {Chain, RuleSet} from './rule-set.ts';

export interface RuleOrder {
  cluster: Cluster;
  node: ClusterNode;
  family: Family;
  large: boolean;
}

/** Adds what kube-proxy 1.36 writes for one port of one Service in one family. */
export function addServicePort(rules: RuleSet, service: Service, port: ServicePort, order: RuleOrder): void {
  const facts = portFacts(service, port, order);
  addClusterIPRules(rules, facts);
  addExternalRules(rules, facts);
  addServiceChains(rules, facts);
  for (const endpoint of facts.chosen.reachable) {
    rules.nat.chains.push(endpointChainOf(endpoint, facts));
  }
}

export interface PortFacts extends PortContext {
  clusterIP: string;
  nodeIP: string;
  podCIDR: string;
  externalIPs: string[];
  loadBalancerIPs: string[];
  ranges: string[];
  chosen: ChosenEndpoints;
  reachableFromOutside: boolean;
  hasInternal: boolean;
  hasExternal: boolean;
  usesFirewall: boolean;
  chain: Record<'external' | 'firewall' | 'cluster' | 'local', string>;
  internalChain: string;
  externalPolicyChain: string;
}

export function portFacts(service: Service, port: ServicePort, order: RuleOrder): PortFacts {
  const {cluster, family, large, node} = order;
  const name = servicePortName(service, port);
  const hash = servicePortHash(name, port);
  const chain = {
    external: `KUBE-EXT-${hash}`,
    firewall: `KUBE-FW-${hash}`,
    cluster: `KUBE-SVC-${hash}`,
    local: `KUBE-SVL-${hash}`,
  };
  const externalIPs = service.externalIPs.filter(ip => familyOf(ip) === family);
  const loadBalancerIPs = service.ingress
    .filter(({ipMode}) => ipMode !== 'Proxy')
    .flatMap(({ip}) => (ip !== undefined && familyOf(ip) === family ? [ip] : []));
  const ranges = service.sourceRanges.filter(range => familyOf(range) === family);
  const reachableFromOutside = port.nodePort !== 0 || externalIPs.length > 0 || loadBalancerIPs.length > 0;
  const chosen = chooseEndpoints(service.endpoints[family], node, policies(service, reachableFromOutside));
  const hasLocal = chosen.local.length > 0;
  return {
    service,
    port,
    family,
    name,
    large,
    clusterIP: service.clusterIPs[service.families.indexOf(family)] ?? '',
    nodeIP: node.address[family],
    podCIDR: cluster.podCIDR[family],
    externalIPs,
    loadBalancerIPs,
    ranges,
    chosen,
    reachableFromOutside,
    hasInternal: chosen.any && (!service.internalLocal || hasLocal),
    hasExternal: chosen.any && (!service.externalLocal || hasLocal),
    usesFirewall: chosen.any && loadBalancerIPs.length > 0 && ranges.length > 0,
    chain,
    internalChain: service.internalLocal ? chain.local : chain.cluster,
    externalPolicyChain: service.externalLocal ? chain.local : chain.cluster,
  };
}

function familyOf(text: string): Family {
  return text.includes(':') ? 'IPv6' : 'IPv4';
}

/** The part of a rule that picks traffic to one address and port. */
function toAddress(address: string, facts: PortFacts, comment: string): string {
  const bits = facts.family === 'IPv4' ? 32 : 128;
  const protocol = facts.port.protocol.toLowerCase();
  return `-d ${address}/${bits} -p ${protocol} -m comment --comment "${comment}" -m ${protocol} --dport ${facts.port.port}`;
}

/** What the filter table does to traffic that has nowhere to go, and why. */
function refusal({chosen, family, name}: PortFacts): {comment: string; target: string} {
  const reject = family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable';
  return chosen.any
    ? {comment: `${name} has no local endpoints`, target: 'DROP'}
    : {comment: `${name} has no endpoints`, target: `REJECT --reject-with ${reject}`};
}

function addClusterIPRules(rules: RuleSet, facts: PortFacts): void {
  if (facts.hasInternal) {
    const match = toAddress(facts.clusterIP, facts, `${facts.name} cluster IP`);
    rules.nat.services.push(`-A KUBE-SERVICES ${match} -j ${facts.internalChain}`);
  } else {
    const {comment, target} = refusal(facts);
    const match = toAddress(facts.clusterIP, facts, comment);
    rules.filter.services.push(`-A KUBE-SERVICES ${match} -j ${target}`);
  }
}

function addExternalRules(rules: RuleSet, facts: PortFacts): void {
  const {chain, chosen, name} = facts;
  const refused = refusal(facts);
  for (const ip of facts.externalIPs) {
    if (chosen.any) {
      const match = toAddress(ip, facts, `${name} external IP`);
      rules.nat.services.push(`-A KUBE-SERVICES ${match} -j ${chain.external}`);
    }
  }
  for (const ip of facts.loadBalancerIPs) {
    if (chosen.any) {
      const match = toAddress(ip, facts, `${name} loadbalancer IP`);
      const target = facts.usesFirewall ? chain.firewall : chain.external;
      rules.nat.services.push(`-A KUBE-SERVICES ${match} -j ${target}`);
    }
    if (facts.usesFirewall) {
      const match = toAddress(ip, facts, `${name} traffic not accepted by ${chain.firewall}`);
      rules.filter.proxyFirewall.push(`-A KUBE-PROXY-FIREWALL ${match} -j DROP`);
    }
  }
  if (!facts.hasExternal) {
    for (const ip of [...facts.externalIPs, ...facts.loadBalancerIPs]) {
      const match = toAddress(ip, facts, refused.comment);
      rules.filter.externalServices.push(`-A KUBE-EXTERNAL-SERVICES ${match} -j ${refused.target}`);
    }
  }
  addNodePortRules(rules, facts);
}

function addNodePortRules(rules: RuleSet, facts: PortFacts): void {
  const {chain, chosen, name, port, service} = facts;
  const protocol = port.protocol.toLowerCase();
  if (port.nodePort !== 0 && chosen.any) {
    rules.nat.nodePorts.push(
      `-A KUBE-NODEPORTS -p ${protocol} -m comment --comment "${name}" -m ${protocol} --dport ${port.nodePort} -j ${chain.external}`,
    );
  }
  if (port.nodePort !== 0 && !facts.hasExternal) {
    const {comment, target} = refusal(facts);
    rules.filter.externalServices.push(
      `-A KUBE-EXTERNAL-SERVICES -p ${protocol} -m comment --comment "${comment}" -m addrtype --dst-type LOCAL -m ${protocol} --dport ${port.nodePort} -j ${target}`,
    );
  }
  if (service.healthCheckNodePort !== 0) {
    rules.filter.nodePorts.push(
      `-A KUBE-NODEPORTS -p tcp -m comment --comment "${name} health check node port" -m tcp --dport ${service.healthCheckNodePort} -j ACCEPT`,
    );
  }
}

function addServiceChains(rules: RuleSet, facts: PortFacts): void {
  const {chain, chosen} = facts;
  const {usesCluster, usesLocal} = policies(facts.service, facts.reachableFromOutside);
  if (chosen.any && facts.reachableFromOutside) {
    rules.nat.chains.push({name: chain.external, rules: () => externalChainRules(facts)});
  }
  if (facts.usesFirewall) {
    rules.nat.chains.push({name: chain.firewall, rules: () => firewallChainRules(facts)});
  }
  const balanced = [
    {name: chain.cluster, used: usesCluster, endpoints: chosen.cluster},
    {name: chain.local, used: usesLocal, endpoints: chosen.local},
  ];
  for (const {name, used, endpoints} of balanced) {
    if (used && endpoints.length > 0) {
      rules.nat.chains.push({
        name,
        rules: () => [
          ...(facts.hasInternal && name === facts.internalChain ? [masqueradeRule(facts)] : []),
          ...balancingRules(name, endpoints, facts),
        ],
      });
    }
  }
}

/** Traffic to the cluster IP that no pod sent must come back through this node. */
function masqueradeRule(facts: PortFacts): string {
  const match = toAddress(facts.clusterIP, facts, `${facts.name} cluster IP`);
  return `-A ${facts.internalChain} ! -s ${facts.podCIDR} ${match} -j KUBE-MARK-MASQ`;
}

function externalChainRules(facts: PortFacts): string[] {
  const {chain, name} = facts;
  const tail = facts.hasExternal ? [`-A ${chain.external} -j ${facts.externalPolicyChain}`] : [];
  if (!facts.service.externalLocal) {
    return [`-A ${chain.external} -m comment --comment "masquerade traffic for ${name} external destinations" -j KUBE-MARK-MASQ`, ...tail];
  }
  return [
    `-A ${chain.external} -s ${facts.podCIDR} -m comment --comment "pod traffic for ${name} external destinations" -j ${chain.cluster}`,
    `-A ${chain.external} -m comment --comment "masquerade LOCAL traffic for ${name} external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
    `-A ${chain.external} -m comment --comment "route LOCAL traffic for ${name} external destinations" -m addrtype --src-type LOCAL -j ${chain.cluster}`,
    ...tail,
  ];
}

function firewallChainRules(facts: PortFacts): string[] {
  const {chain, name} = facts;
  const bits = facts.family === 'IPv4' ? 32 : 128;
  // A load balancer may send from its own address, as seen from a node inside a range.
  const own = facts.ranges.some(range => contains(range, facts.nodeIP)) ? facts.loadBalancerIPs.map(ip => `${ip}/${bits}`) : [];
  return [
    ...[...facts.ranges, ...own].map(
      source => `-A ${chain.firewall} -s ${source} -m comment --comment "${name} loadbalancer IP" -j ${chain.external}`,
    ),
    `-A ${chain.firewall} -m comment --comment "other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL"`,
  ];
}

/** One Service port in one family, as its rules need it. */
interface PortContext {
  service: Service;
  port: ServicePort;
  family: Family;
  name: string;
  /** Past 1,000 endpoints in a family, kube-proxy leaves the comments of these rules out. */
  large: boolean;
}

interface Target {
  chain: string;
  /** "address:port". */
  text: string;
}

/** The rules that spread a chain's traffic over endpoints: sticky clients first, then by chance. */
function balancingRules(chain: string, endpoints: readonly Endpoint[], context: PortContext): string[] {
  const targets = inKubeProxyOrder(endpoints, context);
  const seconds = context.service.affinitySeconds;
  const sticky = seconds === 0 ? [] : targets.map(target => stickyRule(chain, target, context));
  const spread = targets.map((target, index) => {
    const left = targets.length - index;
    const chance = left === 1 ? '' : ` -m statistic --mode random --probability ${printedProbability(left)}`;
    return `-A ${chain}${arrowComment(target, context)}${chance} -j ${target.chain}`;
  });
  return [...sticky, ...spread];
}

function stickyRule(chain: string, target: Target, context: PortContext): string {
  const recent = `--rcheck --seconds ${context.service.affinitySeconds} --reap`;
  const list = `--name ${target.chain} --mask ${fullMask(context.family)} --rsource`;
  return `-A ${chain}${arrowComment(target, context)} -m recent ${recent} ${list} -j ${target.chain}`;
}

/** The chain of one endpoint: masquerade what the endpoint sends to itself, then rewrite. */
function endpointChainOf(endpoint: Endpoint, context: PortContext): Chain {
  const target = targetOf(endpoint, context);
  return {name: target.chain, rules: () => endpointRules(endpoint.address, target, context)};
}

function endpointRules(address: string, target: Target, context: PortContext): string[] {
  const {family, large, name, port, service} = context;
  const protocol = port.protocol.toLowerCase();
  const comment = large ? '' : ` -m comment --comment "${name}"`;
  const bits = family === 'IPv4' ? 32 : 128;
  const remember = service.affinitySeconds === 0 ? '' : ` -m recent --set --name ${target.chain} --mask ${fullMask(family)} --rsource`;
  return [
    `-A ${target.chain} -s ${address}/${bits}${comment} -j KUBE-MARK-MASQ`,
    `-A ${target.chain} -p ${protocol}${comment}${remember} -m ${protocol} -j DNAT --to-destination ${target.text}`,
  ];
}

function targetOf(endpoint: Endpoint, {family, name, port}: PortContext): Target {
  const text = hostPort(family, endpoint.address, port.targetPort);
  return {chain: endpointChain(name, port, text), text};
}

/** kube-proxy sorts endpoints as text: 10.0.0.10:80 comes before 10.0.0.2:80. */
function inKubeProxyOrder(endpoints: readonly Endpoint[], context: PortContext): Target[] {
  return endpoints.map(endpoint => targetOf(endpoint, context)).sort((a, b) => (a.text < b.text ? -1 : 1));
}

function arrowComment(target: Target, {large, name}: PortContext): string {
  return large ? '' : ` -m comment --comment "${name} -> ${target.text}"`;
}

function fullMask(family: Family): string {
  return family === 'IPv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
}

/**
 * kube-proxy writes 1/n with ten decimals, the kernel keeps the nearest multiple
 * of 2^-31, and iptables-save prints that with eleven.
 */
function printedProbability(n: number): string {
  const kept = Math.floor(Number((1 / n).toFixed(10)) * 2 ** 31 + 0.5);
  return (kept / 2 ** 31).toFixed(11);
}
