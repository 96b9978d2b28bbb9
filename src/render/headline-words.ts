import {clientNames, sourceNames} from '../analyze/outcomes/sources.ts';
import {isKubeProxyChain} from '../analyze/third-party/iptables-rules.ts';
import type {Finding, Variant} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import {type EntryKind, entryNames, entryText, throughEntry} from '../model/service-port.ts';
import {namespacedName, plural} from '../model/text.ts';
import {addressIn, type FindingBlock, membersOf, portText} from './finding-blocks.ts';

/** What the finding of a block says in the first line, such as `pod web-2 gets no traffic`. */
export function whatHappens(block: FindingBlock, report: Told): string {
  const {finding} = block;
  const words = what[finding.code] ?? finding.name.replaceAll('-', ' ');
  return typeof words === 'string' ? words : words(ofAll(block), block, report);
}

/** Without the entry, if the others of the block are about other ones. */
function ofAll({finding, others}: FindingBlock): Finding {
  const {entry, ...rest} = finding;
  const key = JSON.stringify(entry);
  return others.every(other => JSON.stringify(other.finding.entry) === key) ? finding : rest;
}

/** Findings, and the Services of their report, where these are known. */
type Told = Pick<Report, 'findings'> & Partial<Pick<Report, 'services' | 'nodes'>>;

type Words = (finding: Finding, block: FindingBlock, report: Told) => string;

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
  ST117: ({gist}) => gist ?? 'an endpoint is the cluster IP of a Service, connections to it fail',
  ST118: 'the Service range holds addresses of nodes or pods',
  ST119: ({gist}) => gist ?? 'an address is given out twice',
  ST201: ({port, program}, {others}) =>
    `${port?.name && others.length === 0 ? `port ${port.name} is ` : ''}not programmed${by(program)}, connections fail`,
  ST202: ({entry, variant, program}, block) => {
    if (variant === 'ready-as-terminating') return `the Cilium agent still has ${endpointsText(block)} as terminating`;
    const [gets, it] = endpointCount(block) === 1 ? ['gets', 'it'] : ['get', 'them'];
    const told = `${endpointsText(block)} ${gets} no traffic${throughEntry(entry)}${program === undefined ? '' : `, ${program} does not use ${it}`}`;
    return told + lostText(block);
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
      : (finding.gist ??
        `a rule that kube-proxy did not write ${finding.severity === 'error' ? 'takes packets' : 'changes packets'}${where(finding, block)}`),
  ST217: ({gist}) => gist ?? 'a rule is missing',
  ST219: "the load balancer's health checks are blocked",
  ST301: ({gist = "a base chain does not lead to kube-proxy's chains", variant}) =>
    variant === 'no-service-works' ? "kube-proxy's chains are not called, Services do not work" : gist,
  ST302: ({gist}) => gist ?? 'masquerading does not work',
  ST303: (finding, block, report) => {
    const {actual = [], expected = [], entry} = finding;
    const count = affectedCount(block, report);
    const how = actual.some(({text}) => refusing.test(text)) ? 'refused' : 'dropped';
    const packets = `${packetsTo(block)}${count < 2 ? throughEntry(entry) : ` of ${plural(count, 'Service')}`}`;
    const place = placeOf(finding);
    if (place !== '') return `${packets} are ${how}${place} by a rule of another program`;
    return `${packets} are ${how} in FORWARD${expected.length + actual.length === 0 ? ', no rule accepts them' : ''}`;
  },
  ST304: ({affects}) =>
    affects === undefined || affects.length < 2
      ? 'node ports do not work'
      : `node ports of ${plural(affects.length, 'Service')} do not work`,
  ST305: (finding, block, report) => {
    const {affects, variant, gist, family} = finding;
    if (affects !== undefined)
      return `${affects.length === 1 ? 'does' : `${plural(affects.length, 'Service')} do`} not answer, most rules that lead to Services are missing`;
    if (variant === undefined && gist !== undefined) return gist;
    const ofCluster = variant === 'never-ran' && report.nodes?.length === block.nodes.length ? gist : undefined;
    return `no Service works${isOfAllFamilies(block, report) ? '' : ` over ${family}`}, ${ofCluster ?? "kube-proxy's rules are missing"}`;
  },
  ST401: (finding, block) =>
    finding.actual?.some(({text}) => untracked.test(text)) === true
      ? `packets${from(block)}${where(finding, block)} are exempt from connection tracking, and reach no endpoint`
      : finding.variant === 'lost-host-port'
        ? 'a host port does not reach its pod, an older rule takes its packets'
        : `a rule of another program${placeOf(finding)} takes ${partOf(block) || 'the '}packets${from(block)}${where(finding, block)}`,
  ST402: (finding, block) =>
    `a rule of another program${placeOf(finding)} ${stops(finding)} ${partOf(block)}${finding.variant === 'lost-replies' ? 'replies' : `packets${from(block)}`}${where(finding, block)}`,
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
function affectedCount({finding: {code, affects = [], senders, actual}, nodes}: FindingBlock, {findings}: Told): number {
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

/** ` in DOCKER-USER`, ` in inet firewalld/filter_FORWARD`: the chain, whose name often says whose rule it is; empty for chains of kube-proxy. */
function placeOf({actual = []}: Finding): string {
  const places = new Set(actual.map(({table, chain}) => (table.includes(' ') ? `${table}/${chain}` : chain)));
  const [place] = places;
  const isOwn = actual.some(({table, chain}) => isKubeProxyChain(chain, table));
  return places.size !== 1 || isOwn ? '' : ` in ${place}`;
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
export function endpointCount(block: FindingBlock): number {
  const endpoints = [block, ...block.others].map(({finding: {endpoint = ''}}) => endpoint);
  return new Set(isOfOnePort(block) ? endpoints : endpoints.map(addressIn)).size;
}

/** What no other endpoint gets: `, 33% of the connections are lost`. */
function lostText(block: FindingBlock): string {
  const lost = isOfOnePort(block) ? [block, ...block.others].reduce((sum, {finding: {share = 0}}) => sum + share, 0) : 0;
  return lost === 0 ? '' : `, ${lost > 0.995 ? 'all' : `${Math.round(lost * 100)}% of the`} connections are lost`;
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

/** Whether what a finding of a node says holds at all addresses of Services: no Service has IPv6, or its nodes have the same fault in both. */
export function isOfAllFamilies({finding: {code, family}, nodes}: FindingBlock, {services = [], findings}: Told): boolean {
  if (family === 'IPv4' && !services.some(({families}) => families?.includes('IPv6'))) return true;
  const others = findings.filter(other => other.code === code && other.service === undefined && (other.family ?? family) !== family);
  const both = new Set(others.map(({node = ''}) => node));
  return nodes.every(name => both.has(name));
}
