import type {Finding, ServiceName, Since, Variant} from '../model/finding.ts';
import {type EntryKind, entryNames, entryText, throughEntry} from '../model/service-port.ts';
import {namesServices, type Report, type ReportedService} from '../model/report.ts';
import {namespacedName, plural} from '../model/text.ts';
import {clientNames, sourceNames} from '../analyze/outcomes/sources.ts';
import {programOf, sinceOf, sinceOfNodes} from './block-texts.ts';
import {addressIn, causeBlocks, type FindingBlock, freshFindings, isStated, membersOf, portText, severityOf} from './finding-blocks.ts';

/** One cause of errors or warnings: which Services or nodes, where, and what happens. */
export interface Cause {
  readonly code: string;
  readonly severity: Finding['severity'];
  readonly family: Finding['family'];
  readonly nodes: readonly string[];
  /** Empty if it affects all Services of its nodes. */
  readonly services: readonly ServiceName[];
  readonly since?: Since;
  /** The rules of its nodes are older than the API, as their findings show together. */
  readonly isOutdated: boolean;
  /** `shop/web on node-a: pod web-2 gets no traffic`. Not escaped. */
  readonly message: string;
  /** What it has in common with others that are no more causes beside it: one rule, or an endpoint that was replaced. */
  readonly roots: readonly string[];
  /** It names no Service as its own. */
  readonly isOfNode: boolean;
  /** The same with the code; without it where only the rules show the cause, and the code is that of one of its effects. */
  readonly text: string;
}

type CausesInput = Pick<Report, 'findings'> & Partial<Report>;

/** The worst first. What a baseline knows, and infos, are none. */
export function causesOf(report: CausesInput, readAt: string | undefined): readonly Cause[] {
  return causeBlocks(freshFindings(report.findings)).map(block => {
    const services = servicesOf(block);
    const since = sinceOfNodes(block);
    const {code} = block.finding;
    const told = ofAsked(block, report.services ?? []);
    const more = (block.finding.affects?.length ?? 0) - (told.finding.affects?.length ?? 0);
    const place = placeText(told, report, more);
    const message = `${place}: ${inFamily(whatText(told, readAt, report), told, report)}`;
    return {
      code,
      severity: severityOf(block),
      family: block.finding.family,
      nodes: block.nodes,
      services,
      since: since ?? undefined,
      isOutdated: block.reason === 'older-rules',
      message,
      roots: rootsOf(block),
      isOfNode: block.finding.service === undefined,
      text: block.reason === 'older-rules' ? message : `${message} (${code})`,
    };
  });
}

function rootsOf(block: FindingBlock): readonly string[] {
  const {finding, effects} = block;
  const {code, service, variant, port, family, endpoint, actual = []} = finding;
  const isReplaced = code === 'ST202' || code === 'ST203' || variant === 'lacks-backend' || variant === 'has-backend';
  const rule = actual[0]?.text;
  return [
    ...(rule !== undefined && ['ST202', 'ST203', 'ST206', 'ST303', 'ST401', 'ST402'].includes(code) ? [[rule]] : []),
    ...(isReplaced && effects.length === 0 ? [['replaced', service, port, family]] : []),
    // A pod that several Services lack, or of which they have another address.
    ...(endpoint !== undefined && effects.length === 0 && ['ST202', 'ST204'].includes(code) && endpointCount(block) === 1
      ? [['pod', addressIn(endpoint)]]
      : []),
  ].map(root => JSON.stringify(root));
}

/** The nodes that the table calls `outdated`, with the cause. */
export function outdatedNodes(report: Pick<Report, 'findings' | 'nodes'>, readAt?: string): ReadonlyMap<string, Cause> {
  const causes = causesOf(report, readAt).filter(({isOutdated}) => isOutdated);
  return new Map(causes.flatMap(cause => cause.nodes.map(node => [node, cause] as const)));
}

function servicesOf(block: FindingBlock): readonly ServiceName[] {
  const own = membersOf(block).flatMap(({service, affects = []}) => [...(service === undefined ? [] : [service]), ...affects]);
  return [...new Map(own.map(({namespace, name}) => [namespacedName({namespace, name}), {namespace, name}])).values()];
}

/** In a report of one Service, what happens to it is asked, also where the cause affects others. */
function ofAsked(block: FindingBlock, services: readonly ReportedService[]): FindingBlock {
  const {finding} = block;
  const [asked, ...others] = services;
  const own = finding.affects?.filter(({namespace, name}) => namespace === asked?.namespace && name === asked.name) ?? [];
  return own.length === 0 || others.length > 0 ? block : {...block, finding: {...finding, affects: own}};
}

/** `shop/web and 2 more Services on node-a`; the nodes alone, if it is their fault. `unnamed` Services are affected beside those of the block. */
function placeText(block: FindingBlock, {nodes, services = []}: CausesInput, unnamed: number): string {
  const where = nodesText(block.nodes, nodes?.length);
  const {service: own, affects = []} = block.finding;
  const isOfOne = own === undefined && affects.length === 1 && namesServices(block.finding);
  if ((own === undefined && !isOfOne) || block.reason === 'older-rules' || block.effects.length > 0)
    return where === '' ? 'the cluster' : where;
  const named = isOfOne ? affects : [block, ...block.others].flatMap(({finding: {service}}) => service ?? []);
  const names = [...new Set(named.map(namespacedName))];
  const count = names.length - 1 + unnamed;
  const more = count === 0 ? '' : ` and ${plural(count, 'more Service')}`;
  return `${names[0]}${ofPort(block, services)}${more}${where === '' ? '' : ` on ${where}`}`;
}

/** `:dns`, if it is one of several ports of its Service, and nothing else says which. */
function ofPort(block: FindingBlock, services: readonly ReportedService[]): string {
  const {service, port, entry, code} = block.finding;
  if (service === undefined || port === undefined || entry !== undefined || port.name === '' || code === 'ST201') return '';
  const {ports = 1} = services.find(({namespace, name}) => namespace === service.namespace && name === service.name) ?? {};
  return ports > 1 && membersOf(block).every(member => portText(member) === portText(block.finding)) ? `:${port.name}` : '';
}

/** Names while they are few: `node-a, node-b`, `100 of 300 nodes`. */
function nodesText(names: readonly string[], nodeCount: number | undefined): string {
  if (names.length <= 3) return names.join(', ');
  if (nodeCount === undefined) return plural(names.length, 'node');
  return names.length === nodeCount ? `all ${nodeCount} nodes` : `${names.length} of ${nodeCount} nodes`;
}

function whatText(block: FindingBlock, readAt: string | undefined, report: CausesInput): string {
  const {finding, reason} = block;
  const since = sinceOf(block, readAt);
  if (isStated(finding))
    return since === null || finding.variant === 'behind' ? finding.gist : `${finding.gist}, and stopped applying changes ${since}`;
  if (since !== null) return `${programOf(block)} stopped applying changes ${since}`;
  if (reason === 'older-rules') return `${programOf(block)} no longer applies changes`;
  if (reason === 'flushed-filter')
    return "kube-proxy's rules in table filter are missing, packets that should be refused or dropped are not";
  const words = what[finding.code] ?? finding.name.replaceAll('-', ' ');
  return typeof words === 'string' ? words : words(ofAll(block), block, report);
}

/** Whether what a finding of a node says holds at all addresses of Services: no Service has IPv6, or its nodes have the same fault in both. */
function isOfAllFamilies({finding: {code, family}, nodes}: FindingBlock, {services = [], findings}: CausesInput): boolean {
  if (family === 'IPv4' && !services.some(({families}) => families?.includes('IPv6'))) return true;
  const others = findings.filter(other => other.code === code && other.service === undefined && (other.family ?? family) !== family);
  const both = new Set(others.map(({node = ''}) => node));
  return nodes.every(name => both.has(name));
}

/** Says that it is IPv6 alone, where a Service that it concerns has IPv4 too, and nothing else says so: a word or an address. */
function inFamily(text: string, block: FindingBlock, report: CausesInput): string {
  if (/IPv6|\[/.test(text) || membersOf(block).some(({family}) => family !== 'IPv6')) return text;
  if (block.finding.service === undefined && isOfAllFamilies(block, report)) return text;
  const {services: all = []} = report;
  const own = new Set(servicesOf(block).map(namespacedName));
  const concerned = own.size === 0 ? all : all.filter(service => own.has(namespacedName(service)));
  const lackIPv4 = concerned.length > 0 && concerned.every(({families}) => families?.includes('IPv4') === false);
  return lackIPv4 ? text : `${text} over IPv6`;
}

/** Without the entry, if the others of the block are about other ones. */
function ofAll({finding, others}: FindingBlock): Finding {
  const {entry, ...rest} = finding;
  const key = JSON.stringify(entry);
  return others.every(other => JSON.stringify(other.finding.entry) === key) ? finding : rest;
}

type Words = (finding: Finding, block: FindingBlock, report: CausesInput) => string;

/** What happens, by code. */
const what: Readonly<Record<string, string | Words>> = {
  ST101: 'no ready endpoint',
  ST102: ({port}) => `port ${port?.name || (port?.port ?? '')} has no endpoint`,
  ST103: ({gist}) => gist ?? 'EndpointSlices contradict one another',
  ST105: 'an address is of a family that the Service does not have',
  ST106: byVariant("externalIPs holds a node's own address", {'of-api-server': 'externalIPs holds the address of the API server'}),
  ST108: 'the Local traffic policy has no local endpoint on any node',
  ST109: 'an endpoint is on a node that does not exist',
  ST110: byVariant('another Service port claims the same address and port', {
    'port-of-node-program': 'its node port is the port of a program on the nodes',
  }),
  ST114: 'loadBalancerSourceRanges leave one address family open',
  ST115: 'loadBalancerSourceRanges are ignored for an external IP',
  ST116: 'kube-proxy up to 1.35 does not serve it, because of the headless label',
  ST117: byVariant('an endpoint is the cluster IP of a Service, connections to it fail', {
    'node-port': 'an endpoint is a node port, which its own node does not reach',
  }),
  ST118: 'the Service range holds addresses of nodes or pods',
  ST119: ({gist}) => gist ?? 'an address is given out twice',
  ST201: ({port, program}, {others}) =>
    `${port?.name && others.length === 0 ? `port ${port.name} is ` : ''}not programmed${by(program)}, connections fail`,
  ST202: ({entry, variant, program}, block) => {
    if (variant === 'ready-as-terminating') return `the Cilium agent still has ${endpointsText(block)} as terminating`;
    const [gets, it] = endpointCount(block) === 1 ? ['gets', 'it'] : ['get', 'them'];
    return `${endpointsText(block)} ${gets} no traffic${throughEntry(entry)}${program === undefined ? '' : `, ${program} does not use ${it}`}`;
  },
  ST203: ({endpoint, program, entry}, block) => {
    const sends = program === undefined ? `traffic${throughEntry(entry)} goes to` : `${program} still sends to`;
    if (endpointCount(block) > 1) return `${sends} ${endpointCount(block)} addresses that are no endpoints`;
    const one = isOfOnePort(block) ? endpoint : endpoint && addressIn(endpoint);
    return `${sends} ${one ?? 'an address'}, which is no usable endpoint`;
  },
  ST204: ({variant, entry}, block) =>
    variant === 'dropped-by-pod'
      ? `packets for ${endpointsText(block)} are not translated, and the pod drops them`
      : `traffic${throughEntry(entry)} for ${endpointsText(block)} goes to a wrong address`,
  // One of a Service that the API has is about an address of a port.
  ST205: ({port, gist}, {others}) => {
    if (gist !== undefined && others.length === 0) return gist;
    return port === undefined ? 'not in the API, and still answers' : 'an address that the API no longer has still answers';
  },
  ST206: ({entry, variant, gist, program, actual = []}, block) => {
    if (variant === 'left-to-nobody')
      return 'node ports and load-balancer IPs do not answer, Cilium leaves them to a kube-proxy that is not there';
    if (gist !== undefined) return gist;
    const [text, verb] = entry === undefined ? entriesText(block) : [entryText(entry), 'is'];
    if (actual.length > 0) return `${text} ${verb === 'are' ? 'do not lead to their' : 'does not lead to its'} endpoints`;
    return `${text} ${verb} not programmed${by(program)}`;
  },
  ST207: byVariant('the traffic policy is not applied', {
    'served-without-local-endpoint': 'the Local policy is not applied, clients are served where packets should be dropped',
    'not-dropped': 'packets that the Local policy should drop are not dropped, and reach no endpoint',
    'dropped-beside-local-endpoint': 'packets are dropped although an endpoint is on the node',
    'bypass-missing': 'pods of the node cannot reach all endpoints, because the Local policy is applied to them',
  }),
  ST208: ({gist}) => gist ?? 'endpoints get unequal shares of the traffic',
  ST209: ({gist}) => gist ?? 'session affinity is not applied as configured',
  ST210: byVariant('loadBalancerSourceRanges are not applied', {
    'not-dropped': 'packets that loadBalancerSourceRanges should drop are not dropped, and reach no endpoint',
    'ranges-not-enforced': 'clients outside loadBalancerSourceRanges are served',
    'allowed-client-dropped': 'clients that loadBalancerSourceRanges allow are dropped',
    'ranges-not-configured': 'clients are dropped as if there were loadBalancerSourceRanges',
  }),
  ST211: (finding, block) => {
    const packets = `packets${atEntry(finding, block)} are`;
    if (finding.variant === 'to-itself') return 'pods cannot reach themselves through a Service';
    if (finding.variant === 'not-masqueraded') return `${packets} not masqueraded, and their answers may be lost`;
    if (finding.variant === 'masqueraded') return `${packets} masqueraded, endpoints see the node's address in place of the client's`;
    return finding.gist ?? `${packets} masqueraded wrongly`;
  },
  ST212: (finding, block) => {
    const what = 'hang or leave the node in place of a refusal';
    if (finding.service === undefined) return `connections to Services without endpoints ${what}`;
    return `has no endpoint, and connections${atEntry(finding, block)} ${what}`;
  },
  ST213: (finding, block) =>
    `kube-proxy refuses or drops connections${finding.service === undefined ? ' to Services' : atEntry(finding, block)} although there are endpoints`,
  ST214: (finding, block) => {
    const why = 'a rule jumps to a chain that is empty or missing';
    const {share} = finding;
    if (share === undefined) return `connections${atEntry(finding, block)} are lost where ${why}`;
    if (share < 0.001) return `${endpointsText(block)} ${endpointCount(block) === 1 ? 'gets' : 'get'} no traffic, ${why}`;
    return share > 0.999 ? `all connections are lost, ${why}` : `${Math.round(share * 100)}% of the connections are lost, ${why}`;
  },
  ST216: (finding, block) =>
    finding.variant === 'misnamed-chain'
      ? 'the chain of an endpoint has not the name that kube-proxy gives it'
      : `a rule that kube-proxy did not write ${finding.severity === 'error' ? 'takes packets' : 'changes packets'}${where(finding, block)}`,
  ST217: ({gist}) => gist ?? 'a rule is missing',
  ST219: "the load balancer's health checks are blocked",
  ST301: ({gist = "a base chain does not lead to kube-proxy's chains", variant}) =>
    variant === 'no-service-works' ? "kube-proxy's chains are not called, Services do not work" : gist,
  ST302: ({gist}) => gist ?? 'masquerading does not work',
  ST303: ({actual, entry}, block, report) => {
    const count = affectedCount(block, report);
    const how = actual?.some(({text}) => refusing.test(text)) === true ? 'refused' : 'dropped';
    return `${packetsTo(block)}${count < 2 ? throughEntry(entry) : ` of ${plural(count, 'Service')}`} are ${how} in FORWARD`;
  },
  ST304: ({affects}) =>
    affects === undefined || affects.length < 2
      ? 'node ports do not work'
      : `node ports of ${plural(affects.length, 'Service')} do not work`,
  ST305: (finding, block, report) =>
    finding.affects === undefined
      ? finding.variant !== 'no-service-works' && finding.gist !== undefined
        ? finding.gist
        : `no Service works${isOfAllFamilies(block, report) ? '' : ` over ${finding.family}`}, kube-proxy's rules are missing`
      : `${finding.affects.length === 1 ? 'does' : `${plural(finding.affects.length, 'Service')} do`} not answer, most rules that lead to Services are missing`,
  ST401: (finding, block) =>
    finding.actual?.some(({text}) => untracked.test(text)) === true
      ? `packets${from(block)}${where(finding, block)} are exempt from connection tracking, and reach no endpoint`
      : finding.variant === 'lost-host-port'
        ? 'a host port does not reach its pod, an older rule takes its packets'
        : `a rule of another program takes ${partOf(block) || 'the '}packets${from(block)}${where(finding, block)}`,
  ST402: (finding, block) =>
    `a rule of another program ${stops(finding)} ${partOf(block)}${finding.variant === 'lost-replies' ? 'replies' : `packets${from(block)}`}${where(finding, block)}`,
  ST403: ({gist}) => gist ?? 'a rule on the path cannot be evaluated',
  ST501: ({gist}) => gist ?? 'both backends of iptables hold Service rules',
  ST502: byVariant('rules of another proxy mode are left behind', {
    'every-sync-fails': 'kube-proxy cannot sync, chains of an older version are left behind',
  }),
  ST503: 'kube-proxy reports another mode than the kernel holds',
  ST504: "the masquerade rules do not fit the pod network, endpoints may see the node's address in place of a pod's",
  ST505: 'kube-proxy does not apply changes',
  ST506: ({gist}) => gist ?? 'the dump does not show the rules as they are',
  ST507: 'kube-proxy runs under another node name, no endpoint is local',
  ST508: 'tracked connections still go to an address that is no endpoint',
  ST509: 'kube-proxy does not know the zone of its node',
  ST510: 'kube-proxy cannot sync, a Service port name is too long for nft',
  ST511: 'kube-proxy cannot sync, a chain cannot be deleted',
  ST514: 'an endpoint gets none of the new connections',
  ST516: 'two programs serve Services at once',
  ST601: 'forwarding is off, the kernel forwards no packets',
  ST602: 'packets between pods on one bridge bypass the rules',
  ST603: ({severity}) =>
    severity === 'error'
      ? "the bridge that is the node's interface drops what node ports send on to other nodes"
      : 'pods cannot reach themselves through a Service, hairpin mode is off',
  ST604: ({severity}) =>
    severity === 'error'
      ? 'the kernel drops packets whose way back is by another interface'
      : 'answers leave by another interface than the one that clients ask',
  ST605: ({severity}) =>
    severity === 'error'
      ? 'the table of tracked connections is full, new connections are dropped'
      : 'the table of tracked connections is nearly full',
  ST606: 'the kernel drops packets that it cannot track',
  ST607: 'node ports are in the range of local ports',
  ST608: ({gist}) => gist ?? 'switches of IPVS lose or delay connections',
  ST609: 'every node answers ARP for load-balancer addresses',
  ST610: 'the MTU of a tunnel leaves no room for its headers',
  ST611: byVariant('no route to pods', {
    'no-route-to-services': "the node's own processes have no route to Services",
    'led-elsewhere': 'packets to endpoints are sent to the wrong node or pod',
    'tunnels-differ': 'the tunnels of nodes do not fit together, pods of others are not reached',
    'link-down': 'the interface that leads to pods is down',
    'refused-by-routing-rules': 'the routing rules of the node refuse packets to pods',
  }),
  ST612: 'packets in a tunnel are masqueraded a second time',
  ST613: 'the MTU of pods differs from other nodes',
  ST614: 'node ports do not answer on 127.0.0.1, loopback routing is off',
  ST701: ({gist = 'what the API promises is broken'}) => `${gist}, because of a setting of kube-proxy`,
  ST702: ({gist}) => `kube-proxy does not tell the node's pods from other clients${gist === undefined ? '' : `, ${gist}`}`,
  ST703: ({gist = 'what the API promises is broken'}) => `${gist}, because of a known bug of this kube-proxy`,
  ST801: ({endpoint, variant, gist}, block) =>
    variant === 'lacks-entry'
      ? block.others.length === 0 && gist !== undefined
        ? gist
        : "connections fail, the kernel's map of Cilium lacks entries"
      : variant === 'lacks-backend'
        ? `${endpointsText(block)} ${endpointCount(block) === 1 ? 'gets' : 'get'} no traffic, the kernel's map of Cilium lacks ${endpointCount(block) === 1 ? 'it' : 'them'}`
        : variant === 'has-backend'
          ? `the kernel's map of Cilium still sends to ${block.others.length === 0 ? endpoint : plural(endpointCount(block), 'address', 'addresses')}`
          : (gist ?? "the kernel's map of Cilium differs from the agent's table"),
  ST802: ({gist}) => gist ?? 'the Cilium agent says that it fails',
  ST803: "packets to the node's own address are dropped at every port without a Service, by the kernel's map of Cilium",
  ST804: "connections are dropped, a slot of the kernel's map of Cilium leads to no backend",
  ST805: 'no connection works, the Cilium agent refuses the whole Service',
  ST806: ({gist}) => gist ?? 'an endpoint is out of rotation',
  ST901: ({gist}) => gist ?? 'not checked',
  ST902: ({family}) => `${family ?? 'a family'} was not checked`,
};

/** What a finding says of itself is more than what is usual for its code. */
function byVariant(usual: string, words: Readonly<Partial<Record<Variant, string>>>): Words {
  // That of an agent may be any text.
  const known = new Map<string | undefined, string>(Object.entries(words));
  return ({variant, gist}) => known.get(variant) ?? gist ?? usual;
}

function by(program: Finding['program']): string {
  return program === undefined ? '' : ` by ${program}`;
}

/** ` at its node port 30080`; ` at their node ports` of several Services; empty where they differ in kind. */
function atEntry({entry}: Finding, block: FindingBlock): string {
  if (entry !== undefined) return ` at its ${entryText(entry)}`;
  const kind = kindOf(block);
  return kind === undefined ? '' : ` at their ${entryNames[kind]}s`;
}

/** Of entries that differ, what they have in common, and the verb that follows: `load-balancer IP 192.0.2.1` of several ports. */
function entriesText(block: FindingBlock): readonly [string, 'is' | 'are'] {
  const kind = kindOf(block);
  const {address = null} = block.finding.entry ?? {};
  if (kind === undefined) return ['an entry', 'is'];
  const isOne = address !== null && membersOf(block).every(({entry}) => entry?.address === address);
  return isOne ? [`${entryNames[kind]} ${address}`, 'is'] : [`${entryNames[kind]}s`, 'are'];
}

/** Of which kind the entries of all its findings are. */
function kindOf(block: FindingBlock): EntryKind | undefined {
  const kinds = new Set(membersOf(block).map(({entry}) => entry?.kind));
  return kinds.size === 1 ? [...kinds][0] : undefined;
}

/** ` to 3 Services at their node ports`, as far as the place that is named before does not say it. */
function where(finding: Finding, block: FindingBlock): string {
  const {affects = [], variant} = finding;
  const services = affects.length < 2 ? '' : ` ${variant === 'lost-replies' ? 'of' : 'to'} ${plural(affects.length, 'Service')}`;
  return services + atEntry(finding, block);
}

/** `packets from outside the cluster to pods`; of one endpoint that is hit alone its pod: `packets to pod web-2`. */
function packetsTo(block: FindingBlock): string {
  const ends = new Set(membersOf(block).map(({pod, endpoint}) => pod ?? endpoint));
  if (ends.size === 1 && block.finding.endpoint !== undefined) return `packets${from(block)} to ${endpointText(block.finding)}`;
  return `${partOf(block)}packets${from(block)} to pods`;
}

/** How many Services a finding of nodes affects, those that it affects in the other family of addresses too. */
function affectedCount({finding: {code, affects = [], senders, actual}, nodes}: FindingBlock, {findings}: CausesInput): number {
  const isAlike = (other: Finding): boolean =>
    other.code === code &&
    other.senders?.text === senders?.text &&
    other.actual?.length === actual?.length &&
    nodes.includes(other.node ?? '');
  const others = affects.length < 2 ? [] : findings.filter(other => other.service === undefined && isAlike(other));
  return new Set([affects, ...others.map(other => other.affects ?? [])].flat().map(namespacedName)).size;
}

/**
 * ` from 10.244.1.9 (pod shop/web-1)`, ` from outside the cluster`; empty where pods of the node are hit, whichever they are. Those that an
 * endpoint sends to itself may be the least that are lost.
 */
function from(block: FindingBlock): string {
  const texts = new Set(membersOf(block).map(({senders}) => senders?.text));
  const [text] = texts;
  if (text === undefined || texts.size > 1 || text === sourceNames.pod) return '';
  const others = text === sourceNames.endpoint ? (block.finding.hitSenders ?? []).filter(name => name !== clientNames.pod) : [];
  return ` from ${[text, ...others].join(' and ')}`;
}

/** `33% of the `; empty where it is all of them, or not known. */
function partOf(block: FindingBlock): string {
  const shares = membersOf(block).map(({share = 1}) => share);
  if (shares.some(share => share > 0.995)) return '';
  const parts = new Set(shares.map(share => Math.max(1, Math.round(share * 100))));
  return parts.size === 1 && block.finding.isShareOfOne !== true ? `${[...parts][0]}% of the ` : 'a part of the ';
}

/** What its rules do to packets, if it is one thing: one that changes an address or a mark makes the kernel lose them. */
function stops({actual = []}: Finding): string {
  const all = new Set(actual.map(({text}) => (refusing.test(text) ? 'refuses' : dropping.test(text) ? 'drops' : 'loses')));
  const [verb] = all;
  return all.size > 1 || verb === undefined ? 'drops or refuses' : verb;
}

/** The targets of iptables and nftables that refuse packets, and those that drop them. */
const refusing = /-j REJECT|\breject\b/;
const dropping = /-j DROP|\bdrop\b/;

/** The targets of iptables and nftables that exempt packets from connection tracking, and so from DNAT. */
const untracked = /-j NOTRACK|-j CT .*--notrack|\bnotrack\b/;

/** At several Service ports one pod is one. */
function endpointCount(block: FindingBlock): number {
  const endpoints = [block, ...block.others].map(({finding: {endpoint = ''}}) => endpoint);
  return new Set(isOfOnePort(block) ? endpoints : endpoints.map(addressIn)).size;
}

function isOfOnePort({finding, others}: FindingBlock): boolean {
  return others.every(other => portText(other.finding) === portText(finding));
}

/** `pod web-2`, `endpoint 10.0.0.1:80`, `2 of 3 endpoints`. */
function endpointsText(block: FindingBlock): string {
  const {finding} = block;
  const {endpoints} = finding;
  const count = endpointCount(block);
  if (count > 1) return `${isOfOnePort(block) && endpoints !== undefined ? `${count} of ${endpoints}` : count} endpoints`;
  return endpointText(finding);
}

/** `pod web-2`, `endpoint 10.0.0.1:80`. */
function endpointText({service, pod, endpoint}: Finding): string {
  const own = `${service?.namespace}/`;
  if (pod === undefined) return endpoint === undefined ? 'an endpoint' : `endpoint ${endpoint}`;
  return `pod ${pod.startsWith(own) ? pod.slice(own.length) : pod}`;
}
