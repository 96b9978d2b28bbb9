import {nodeObject} from '../../expect/api-index.ts';
import {canonicalAddress, contains, families, parseAddress, parseCidr} from '../../model/address.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {isOlderKernel, sysctlNumber} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {namespacedName} from '../../model/text.ts';
import {parseNodeAddresses} from '../../parse/ipvs/kube-ipvs0.ts';
import {countOf} from '../../parse/kube-proxy/kube-proxy-state.ts';
import {type NodeSetup, expectedSide, thirdPartyTexts} from '../sides.ts';
import {advise, type AdviceCase, externalAddresses, namesOf, type NodeAdvice, checkByHand, serviceRange} from './advice-case.ts';

/** Effects that no single packet shows: in operation, and at the moment of the switch. Empty if nothing changes. */
export function adviceOf(adviceCase: AdviceCase): readonly NodeAdvice[] {
  const parts = adviceCase.setup.config.mode.value === adviceCase.configAfter.mode.value ? ofOneMode : ofTwoModes;
  return parts.flatMap(part => part(adviceCase));
}

const ofOneMode = [serviceRange, sameMode];

/** Above this number, first syncs of several minutes were reported (kubernetes#139513). */
const manyServices = 5000;

const always: readonly NodeAdvice[] = [
  ...advise('change', 'service-addresses', {
    ofCluster: true,
    reason:
      'IPVS mode binds all Service addresses to kube-ipvs0: nodes answer ping to them and accept them as source addresses; after the change they do not',
    remedy: 'Adapt checks that ping Service addresses, and programs that bind them.',
  }),
  ...advise('change', 'idle-connections', {
    ofCluster: true,
    reason:
      'idle TCP connections live 15 minutes in IPVS (kernel default) and 24 hours in connection tracking (kube-proxy default): more entries are kept',
    remedy: 'Raise conntrack.maxPerCore or lower conntrack.tcpEstablishedTimeout.',
  }),
  ...advise('change', 'ending-endpoints', {
    ofCluster: true,
    reason:
      'in IPVS mode an endpoint that ends keeps its server, with the weight 0, until its TCP connections end or are idle for 15 minutes; after the change its rules are removed at once, and connection tracking carries its connections on until they end',
    remedy: 'No action where pods close their connections when they end. Clients of pods that vanish wait for timeouts of their own.',
  }),
];

const ofTwoModes = [serviceRange, invalidPackets, fromIpvs, toNftables, hostPorts, atTheSwitch, checkByHand];

/**
 * Ports that both a hostPort and a Service claim: in nftables mode their precedence is no longer the order of rules in one chain. hostPorts
 * are known by their rules: chains of the CNI plugin portmap (`CNI-HOSTPORT-DNAT`, table `cni_hostport`), or any other translation.
 */
function hostPorts({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const [from, to] = [setup.config.mode.value, configAfter.mode.value];
  if (!((from === 'iptables' && to === 'nftables') || (from === 'ipvs' && to !== 'ipvs'))) return [];
  const texts = families.flatMap(family => thirdPartyTexts(setup, family));
  const lines = texts.flatMap(text => text.split('\n')).filter(line => /HOSTPORT|hostport|DNAT|dnat/.test(line));
  const translated = lines.flatMap(hostPortsOf);
  if (translated.length === 0) return [];
  const shared = claimsOf(setup).filter(claim => translated.some(hostPort => isShared(claim, hostPort, setup)));
  if (shared.length === 0) return [];
  const reason = `${[...new Set(shared.map(claimText))].join(', ')}: in ${precedence[from]}, in ${precedence[to]}`;
  return advise('change', 'host-ports', {reason, remedy: 'Use different ports.'});
}

/** IPVS sees packets only after all translations. */
const precedence: Readonly<Record<string, string>> = {
  iptables: 'iptables mode the order of the rules decides',
  ipvs: 'IPVS mode the hostPort gets the packets',
  nftables: 'nftables mode whichever chain was registered last',
};

interface HostPort {
  /** `30080/TCP`. */
  readonly port: string;
  /** Null for every address of the node. */
  readonly address: string | null;
}

/** A port of a Service; of a node port the address is null. */
interface Claim extends HostPort {
  readonly service: string;
}

function claimsOf({api}: NodeSetup): readonly Claim[] {
  return (api.services ?? []).flatMap(service => {
    const name = namespacedName(service.metadata);
    const addresses = externalAddresses(service).map(text => canonicalAddress(text) ?? text);
    return (service.spec?.ports ?? []).flatMap(({port = 0, nodePort = 0, protocol = 'TCP'}) => [
      ...(nodePort === 0 ? [] : [{port: `${nodePort}/${protocol}`, address: null, service: name}]),
      ...addresses.map(address => ({port: `${port}/${protocol}`, address, service: name})),
    ]);
  });
}

/** Rules for hostPorts match addresses of the node, or the one that the pod names as hostIP. */
function isShared(claim: Claim, hostPort: HostPort, {hostFacts}: NodeSetup): boolean {
  if (claim.port !== hostPort.port) return false;
  const own = hostFacts().addresses;
  if (claim.address === null) return hostPort.address === null || own.includes(hostPort.address);
  return hostPort.address === null ? own.includes(claim.address) : hostPort.address === claim.address;
}

function claimText({port, address, service}: Claim): string {
  return address === null ? `${port} is a hostPort and a node port` : `${port} at ${address} is a hostPort and an address of ${service}`;
}

/** What one rule names, for both protocols if it names none. */
function hostPortsOf(rule: string): readonly HostPort[] {
  const protocol = /(?:-p|l4proto|^|\s)\s*(tcp|udp|sctp)\b/.exec(rule)?.[1]?.toUpperCase();
  const given = /(?:(?<!! )-d|ip6? daddr) ([\da-fA-F.:]+)(?:\/(?:32|128))?(?![\d/])/.exec(rule)?.[1];
  const address = given === undefined ? null : (canonicalAddress(given) ?? null);
  const ports = [...rule.matchAll(/dports? (?:\{ )?([\d, ]+)/g)].flatMap(([, list = '']) => list.split(',').map(port => port.trim()));
  const names = ports.flatMap(port => (protocol === undefined ? [`${port}/TCP`, `${port}/UDP`] : [`${port}/${protocol}`]));
  return names.map(port => ({port, address}));
}

/** iptables mode drops packets in state INVALID that are forwarded (kubernetes#74839); the others have no such rule. */
function invalidPackets({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const from = setup.config.mode.value;
  const to = configAfter.mode.value;
  const dropsInvalid = (config: ProxyConfig): boolean =>
    expectedSide({setup, view: setup.view, config, family: 'IPv4', besideOthers: false}).context.invalidDrop;
  const kernel = nodeObject(setup.api, setup.node.name)?.status?.nodeInfo?.kernelVersion ?? '';
  if (from === 'iptables' && to === 'nftables' && isOlderKernel(kernel, [6, 1]) !== false && dropsInvalid(setup.config)) {
    const dropped = countOf(setup.node.read('metrics'), 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total');
    const reason = `iptables mode drops packets in state INVALID when they are forwarded, nftables mode does not: on kernels before 6.1 long TCP flows can be reset (kernel ${kernel === '' ? 'not known' : kernel}${dropped > 0 ? '; kube-proxy has dropped such packets since it started' : ''})`;
    return advise('change', 'invalid-packets', {reason, remedy: 'Set conntrack.tcpBeLiberal: true.'});
  }
  if (from === 'ipvs' && to === 'iptables' && dropsInvalid(configAfter))
    return advise('change', 'invalid-packets', {
      reason: 'iptables mode drops packets in state INVALID when they are forwarded, IPVS mode does not: asymmetric routes break',
      remedy: 'Set conntrack.tcpBeLiberal: true before kube-proxy starts.',
    });
  return [];
}

/** Hazards of a change of version or settings within one mode. */
function sameMode({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  return [...emptyChains(setup.config, configAfter), ...startsToListen({setup, configAfter})];
}

/** 1.33 to 1.35 keep the endpoint chains that they find, and 1.36 empties them. */
function emptyChains({version: {value: before}}: ProxyConfig, {version: {value: after}}: ProxyConfig): readonly NodeAdvice[] {
  if (before.minor < 36 || after.minor > 35 || after.minor < 33) return [];
  const reason = `kube-proxy ${after.text} keeps the endpoint chains that it finds, and ${before.text} left those of Services without affinity empty: connections to these Services fail for up to an hour`;
  const remedy = 'Delete the tables before it starts: nft delete table ip kube-proxy; nft delete table ip6 kube-proxy.';
  return advise('switch', 'empty-endpoint-chains', {effect: 'lost', ofCluster: true, reason, remedy});
}

/** kubernetes#142183. */
function startsToListen({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const listens = (config: ProxyConfig): readonly (boolean | undefined)[] =>
    families.map(family => expectedSide({setup, view: setup.view, config, family, besideOthers: false}).context.listensOnLocalhost);
  const [before, after] = [listens(setup.config), listens(configAfter)];
  if (!before.some((was, index) => was === false && after[index] === true)) return [];
  const reason =
    'kube-proxy cannot write its tables when node ports on loopback addresses are allowed after they were rejected (kubernetes#142183)';
  const remedy = 'Delete the tables before it starts: nft delete table ip kube-proxy; nft delete table ip6 kube-proxy.';
  return advise('switch', 'localhost-node-ports', {effect: 'lost', reason, remedy});
}

/** What a node needs before its kube-proxy runs in nftables mode. */
function toNftables({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  const advice: NodeAdvice[] = [];
  if (families.some(family => thirdPartyTexts(setup, family).some(text => /(?:-j|jump) KUBE-MARK-MASQ/.test(text))))
    advice.push({
      topic: 'change',
      id: 'mark-chain',
      reason:
        "rules that are not kube-proxy's jump to KUBE-MARK-MASQ: on a new node in nftables mode the chain does not exist, and where it is left over the whole table nat of kube-proxy stays",
      remedy: 'Give these rules a mark chain of their own (CNI portmap: externalSetMarkChain).',
    });
  if (setup.config.masqueradeAll.value && !configAfter.masqueradeAll.value) {
    const reason = 'masqueradeAll is set for iptables mode and not for nftables mode, which has a setting of its own';
    advice.push({topic: 'change', id: 'masquerade-all', reason, remedy: 'Set nftables.masqueradeAll: true if Services rely on it.'});
  }
  const accepted = countOf(setup.node.read('metrics'), 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total');
  if (accepted > 0)
    advice.push({
      topic: 'change',
      id: 'localhost-node-ports',
      reason: 'node ports on loopback addresses are in use: kube-proxy has counted packets to them since it started',
      remedy: 'Find the clients on these nodes (conntrack -L -d 127.0.0.1), and let them use the address of the node.',
    });
  const count = (setup.api.services ?? []).filter(({spec}) => spec?.type !== 'ExternalName' && spec?.clusterIP !== 'None').length;
  if (count > manyServices)
    advice.push({
      topic: 'switch',
      id: 'large-clusters',
      ofCluster: true,
      reason: `the first sync of ${count} Services takes minutes in nftables mode`,
      remedy: 'Use kube-proxy 1.36 or newer, and switch one node at a time.',
    });
  return advice;
}

/** What happens when kube-proxy starts in another mode. */
function atTheSwitch({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const sticky = (setup.api.services ?? []).filter(({spec}) => spec?.sessionAffinity === 'ClientIP');
  const reason =
    'kube-proxy removes the rules of the old mode when it starts and writes the new ones with its first sync: new connections to Services fail in between';
  const advice: NodeAdvice[] = [
    ...advise('switch', 'the-gap', {ofCluster: true, reason, remedy: 'Switch one node at a time, and drain it if the gap matters.'}),
    ...advise('switch', 'order-of-nodes', {
      ofCluster: true,
      reason:
        'nodes in different modes work side by side, so that no order breaks anything: the nodes that are ready and lose the least come first',
      remedy: 'Switch the first node alone, compare it with the plan, then go on.',
    }),
    ...establishedConnections(setup.config.mode.value, configAfter.mode.value),
  ];
  if (sticky.length > 0)
    advice.push({
      topic: 'switch',
      id: 'session-affinity',
      ofCluster: true,
      reason: `the endpoints that clients of ${namesOf(sticky)} are kept at are forgotten`,
      remedy: 'Expect clients to be sent to another endpoint once.',
    });
  return advice;
}

/** Only in nftables mode kube-proxy removes the virtual servers that hold the connections of IPVS. */
function establishedConnections(from: string, to: string): readonly NodeAdvice[] {
  if (from !== 'ipvs') {
    const reason =
      'established connections go on if anything else on the node keeps connection tracking and NAT in use, or stall until the first sync';
    return advise('switch', 'established-connections', {ofCluster: true, reason, remedy: 'No action; drain the node if a stall matters.'});
  }
  return advise('switch', 'established-connections', {
    ofCluster: true,
    reason:
      to === 'nftables'
        ? 'established connections through IPVS break when its virtual servers are removed'
        : 'established connections through IPVS go on while its virtual servers are left over, and break when kube-proxy --cleanup or a reboot removes them',
    remedy: `Drain the node before the ${to === 'nftables' ? 'switch' : 'cleanup'}.`,
  });
}

/** Features of IPVS mode beside forwarding: the addresses of kube-ipvs0, its timeouts and schedulers. */
function fromIpvs({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (setup.config.mode.value !== 'ipvs') return [];
  return [
    ...always,
    ...ownConnections(setup, configAfter),
    ...answersArp(setup),
    ...keptSwitches(setup),
    ...nodeAddresses(setup),
    ...scheduler(setup, configAfter.mode.value),
    ...endingEndpoints(setup, configAfter.mode.value),
    ...reusedPorts(setup),
  ];
}

/**
 * What the node itself sends to a cluster IP has that address as its source in IPVS mode, because kube-ipvs0 has it, and is masqueraded
 * (`KUBE-CLUSTER-IP src,dst`). Agents in the host network then lost the API (containers-roadmap#2826).
 */
function ownConnections(setup: NodeSetup, configAfter: ProxyConfig): readonly NodeAdvice[] {
  const [before, after] = [setup.config, configAfter].map(
    config => expectedSide({setup, view: setup.view, config, family: 'IPv4', besideOthers: false}).context,
  );
  const masquerades = (context: typeof before): boolean => context?.masqueradeAll === true || context?.detector.kind !== 'none';
  if (masquerades(after) || before === undefined) return [];
  return advise('change', 'masquerade-all', {
    reason:
      'what the node and its host-network pods send to cluster IPs is masqueraded in IPVS mode, and after the change it keeps the source address of the route to the cluster IP: kube-proxy has no masqueradeAll, clusterCIDR or detectLocalMode. Where endpoints, such as those of the API, are behind another interface, their replies can be lost',
    remedy: `Set ${configAfter.mode.value === 'nftables' ? 'nftables' : 'iptables'}.masqueradeAll: true, or clusterCIDR. Test the API's cluster IP from the node of the first switch.`,
  });
}

/** Only neighbors in one of the node's networks send ARP requests for an address in it. */
function answersArp({node, config, api}: NodeSetup): readonly NodeAdvice[] {
  if (config.ipvsStrictARP.value) return [];
  const text = node.read('addresses.json')?.toString('utf8');
  const networks =
    text === undefined ? null : (parseNodeAddresses(text)?.flatMap(({name, networks: own}) => (name === 'kube-ipvs0' ? [] : own)) ?? null);
  const isNear = (address: string): boolean => {
    const parsed = parseAddress(address);
    if (parsed === null || parsed.family === 'IPv6') return false;
    return networks === null || networks.flatMap(network => parseCidr(network) ?? []).some(cidr => contains(cidr, parsed));
  };
  const near = (api.services ?? []).filter(service => externalAddresses(service).some(isNear));
  if (near.length === 0) return [];
  return advise('change', 'service-addresses', {
    reason: `nodes answer ARP for the ${near.length === 1 ? 'address' : 'addresses'} of ${namesOf(near)} because ${near.length === 1 ? 'it is' : 'they are'} on the interface kube-ipvs0 and strictARP is off; after the change they do not`,
    remedy: 'Announce the addresses with MetalLB, kube-vip or the cloud provider, or route them.',
  });
}

/** kube-proxy sets these when it starts with strictARP, and no mode sets them back. */
function keptSwitches({config}: NodeSetup): readonly NodeAdvice[] {
  if (!config.ipvsStrictARP.value) return [];
  const reason = 'strictARP has set arp_ignore=1 and arp_announce=2 for all interfaces, and they stay until the node restarts';
  const remedy =
    'No action, unless something else on the node needs the usual answers to ARP. Announcers such as MetalLB no longer need strictARP.';
  return advise('switch', 'service-addresses', {ofCluster: true, reason, remedy});
}

/** kubernetes#127410. */
function nodeAddresses({api}: NodeSetup): readonly NodeAdvice[] {
  const own = new Set((api.nodes ?? []).flatMap(node => node.status?.addresses?.map(({address}) => address) ?? []));
  const shared = (api.services ?? []).filter((service: ServiceObject) => externalAddresses(service).some(address => own.has(address)));
  if (shared.length === 0) return [];
  const reason = `an external or load-balancer IP of ${namesOf(shared)} is the address of a node: kube-ipvs0 makes it local on every other node, other modes do not`;
  const remedy = 'Test access to that node and to the Service after the change.';
  return advise('change', 'node-addresses', {ofCluster: true, reason, remedy});
}

function scheduler({config}: NodeSetup, to: string): readonly NodeAdvice[] {
  const {value} = config.ipvsScheduler;
  if (['', 'rr'].includes(value)) return [];
  const reason = `the IPVS scheduler is ${value}; ${to} mode chooses an endpoint at random for each connection`;
  return advise('change', 'ipvs-scheduler', {reason, remedy: 'Use sessionAffinity: ClientIP where clients must stay at one endpoint.'});
}

/** Graceful termination: kube-proxy deletes a server with the weight 0 once IPVS counts no connection of it. */
function endingEndpoints(setup: NodeSetup, to: string): readonly NodeAdvice[] {
  const servers = setup.ipvs().servers ?? [];
  if (!servers.some(({realServers}) => realServers.some(({weight}) => weight === 0))) return [];
  const reason = `IPVS has servers with the weight 0, for the connections of endpoints that end: ${to === 'nftables' ? 'they break with all others' : 'nothing removes these servers any more'}`;
  return advise('switch', 'ending-endpoints', {reason, remedy: 'Wait until they are gone (ipvsadm -Ln), or drain the node.'});
}

/** `conn_reuse_mode`: kube-proxy sets it to 0 on kernels before 5.9, and leaves it alone on newer ones. */
function reusedPorts({node, api, facts}: NodeSetup): readonly NodeAdvice[] {
  const kernel = nodeObject(api, node.name)?.status?.nodeInfo?.kernelVersion ?? '';
  const isOld = isOlderKernel(kernel, [5, 9]);
  const read = sysctlNumber(facts.network, 'net.ipv4.vs.conn_reuse_mode');
  const value = read ?? (isOld === true ? 0 : null);
  if (value === null || (value > 0 && isOld !== true)) return [];
  const reason = `a client that soon uses a source port again ${value === 0 ? 'gets the endpoint of its earlier connection, even one that ends' : 'waits for a second'} (net.ipv4.vs.conn_reuse_mode is ${value}${read === null ? ' on this kernel' : ''}); after the change it gets an endpoint as any new connection does`;
  return advise('change', 'reused-ports', {reason, remedy: 'No action: errors and delays of clients with many short connections end.'});
}
