import {hasCiliumTables} from '../../expect/cilium/cilium-node.ts';
import {askMap, notInMap} from '../../analyze/packet-in-map.ts';
import {canonicalAddress, type Cidr, contains, type Family, familyOf, parseAddress, parseCidr, joinHostPort} from '../../model/address.ts';
import {clusterIPOf, ClusterView} from '../../expect/cluster/cluster-view.ts';
import {knownServiceRanges, nodesInRanges, overlaps} from '../../expect/cluster/service-range.ts';
import {nodeFacts} from '../../expect/read-node-facts.ts';
import {isLoopback, addressesOfPod, addressesOfPods, podCIDRsOf, podsByNode} from '../../expect/node-context.ts';
import {isStuck} from '../../checks/st508-stale-conntrack.ts';
import {parseConntrack, type TrackedConnection} from '../../parse/conntrack.ts';
import {askPacket, type PacketAnswer} from '../../analyze/packet-query.ts';
import type {OtherNodes, PacketNode} from '../../analyze/packet-node.ts';
import type {PacketQuery} from '../../analyze/packet-service.ts';
import type {PacketRules} from '../../analyze/packet-rules.ts';
import {askedEntry} from '../../analyze/packet-service.ts';
import {readDumps} from '../../analyze/iptables/node-rulesets.ts';
import {allOf} from '../../analyze/proxy-mode.ts';
import {misprintsOf, whyMisprinted} from '../../analyze/iptables/misprints.ts';
import {readNft, whyNftMisprinted} from '../../analyze/nftables/nft-rules.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import {type PodObject, proxyNameLabel, type ServiceObject} from '../../model/api-objects.ts';
import {emptyRuleset, isExcerpt} from '../../analyze/iptables/excerpt.ts';
import {withGaps} from '../../analyze/iptables/text-gaps.ts';
import {once} from '../../model/once.ts';
import {expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import {inferConfig} from '../../expect/iptables/infer-config.ts';
import {resolveProxyConfig} from '../../expect/resolve-proxy-config.ts';
import {tablesOf} from '../../trace/nftables/walk-nft-packet.ts';
import {servicesInRules} from '../../analyze/services-in-rules/services-in-rules.ts';
import type {NodeChoice} from '../scope/choose-nodes.ts';
import {selectInRules} from '../scope/select-in-rules.ts';
import {hasAddress, parseServiceName, splitPort} from '../scope/select-services.ts';
import {namespacedName} from '../../model/text.ts';
import {escapeText} from '../../render/renderer.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import {networksOnLink} from '../../model/node/policy-routing.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../../model/snapshot.ts';
import {notRead, wrongUse} from '../wrong-use.ts';

export interface PacketFlags {
  readonly source: string;
  readonly destination: string;
  readonly port?: string | undefined;
  readonly protocol?: string | undefined;
  readonly namespace?: string | undefined;
  readonly 'in-interface'?: string | undefined;
  readonly 'source-port'?: number | undefined;
  readonly 'local-address'?: readonly string[] | undefined;
}

/** Ports as reports print them, behind a name or an address, are those of the flags. Throws a CLIError (exit 2) where both are given and differ. */
export function withPrintedPorts<F extends PacketFlags>(flags: F): F {
  const [to, from] = [splitPort(flags.destination), splitPort(flags.source)];
  const refuse = (flag: string): never => wrong(`${flag} and the port in the address are not the same: give one of them`);
  if (to.port !== undefined && flags.port !== undefined && flags.port !== to.port) refuse('--port');
  const number = from.port === undefined ? flags['source-port'] : Number(from.port);
  if (number !== undefined && !(number >= 1 && number <= 65_535)) wrong(`--source ${flags.source}: ${from.port} is no port number`);
  if (from.port !== undefined && flags['source-port'] !== undefined && flags['source-port'] !== number) refuse('--source-port');
  return {...flags, destination: to.host, port: to.port ?? flags.port, source: from.host, 'source-port': number};
}

/**
 * Walks the packet on the chosen nodes, and where it is sent on, on the endpoint's node if that is one of the snapshot. Throws a CLIError
 * (exit 2) for input that cannot be found or read.
 */
export function askNodes(flags: PacketFlags, snapshot: Snapshot, chosen: (name: string) => boolean = () => true): readonly PacketAnswer[] {
  return snapshot.nodes.filter(({name}) => chosen(name)).map(nodeAsker(flags, snapshot));
}

/** What one node after the other does to the packet, and those of the snapshot to which it is sent on. Throws as `askNodes` does. */
export function nodeAsker(flags: PacketFlags, snapshot: Snapshot): (node: NodeDump) => PacketAnswer {
  const query = packetQuery(flags, snapshot);
  const packetNode = once((node: NodeDump): PacketNode | null => {
    const rules = packetRules(node, query.family, snapshot);
    const facts = withAddresses(nodeFacts(node, snapshot.api), flags['local-address'] ?? []);
    return rules === null ? null : {node, facts, ...rules};
  });
  const byName = new Map(snapshot.nodes.map(node => [node.name, node]));
  const others: OtherNodes = {
    nodeOf: address => nodesByAddress(snapshot.api).get(address) ?? null,
    find: name => {
      const node = byName.get(name);
      return node === undefined ? null : packetNode(node);
    },
    isOwnPod: address => addressesOfPods(snapshot.api).has(address),
    podsOn: (node, family) => podsByNode(snapshot.api, family).get(node),
    isClusterIP: address => query.isClusterIP === true && address === query.destination,
    isPod: address => podNetworks(snapshot.api).some(network => contains(network, address)),
  };
  const isInside = isInCluster(flags, query, snapshot);
  return node => {
    const facts = withAddresses(nodeFacts(node, snapshot.api), flags['local-address'] ?? []);
    const unallocatedIn = isOnLink(query.destination, facts) ? undefined : query.unallocatedIn;
    const asked = {...query, entry: askedEntry(query, snapshot.api, facts), unallocatedIn};
    const isOwn = isLoopback(query.source) || facts.addresses.includes(query.source);
    const byMap = askMap(asked, {node, facts, api: snapshot.api, nodeOf: others.nodeOf, isInside: isOwn || isInside});
    if (byMap !== null) return byMap;
    const here = packetNode(node);
    if (here !== null) return ofFlow(askPacket(asked, here, others), node);
    if (hasCiliumTables(node)) return notInMap(asked, node.name);
    throw notRead(`node ${node.name} has no ${query.family} dump to walk the packet through`);
  };
}

/** A tracked flow is not translated by the rules again. */
function ofFlow(answer: PacketAnswer, node: NodeDump): PacketAnswer {
  const {protocol, source, destination, port, sourcePort} = answer.query;
  const flows = parseConntrack(node.read('conntrack')?.toString('utf8') ?? '', protocol.toLowerCase());
  // A connection of TCP that is served keeps its endpoint by design: only its own packets belong to it.
  const isAsked = (flow: TrackedConnection): boolean =>
    protocol !== 'TCP' || isStuck(flow) || (sourcePort != null && flow.state === 'ESTABLISHED');
  const endOf = ({reply}: TrackedConnection): string => joinHostPort(canonicalAddress(reply.source) ?? '', reply.sourcePort);
  const flow = [...flows]
    .filter(isAsked)
    .find(
      own =>
        canonicalAddress(own.original.source) === source &&
        canonicalAddress(own.original.destination) === destination &&
        own.original.destinationPort === port &&
        (sourcePort == null || own.original.sourcePort === sourcePort) &&
        answer.outcomes.every(outcome => (outcome.destination ?? outcome.rewrittenTo) !== endOf(own)),
    );
  if (flow === undefined) return answer;
  const end = endOf(flow);
  const from = `source port ${flow.original.sourcePort}`;
  const tracked = `packets from ${from} belong to the flow on line ${flow.line} of conntrack, which goes to ${end} whatever the rules of table nat are now`;
  if (sourcePort == null) return {...answer, tracked: {gist: `from ${from} still to ${end}, by a tracked flow`, text: tracked}};
  const condition = `sent to ${end}, where the tracked flow on line ${flow.line} leads`;
  return {
    ...answer,
    outcomes: answer.outcomes.map(outcome => ({
      ...outcome,
      verdict: 'undecided',
      condition,
      reason: outcome.reason === undefined ? tracked : `${outcome.reason}; ${tracked}`,
    })),
  };
}

/** Whether the source is a pod or a node of the cluster; null if it may be a pod that was not read. */
function isInCluster({source: text}: PacketFlags, {source}: PacketQuery, {api}: Snapshot): boolean | null {
  const address = parseAddress(source);
  if (canonicalAddress(text) === null || address === null || nodesByAddress(api).has(source)) return true;
  if (podNetworks(api).some(network => contains(network, address))) return true;
  const isWhole = api.pods !== null && api.podsOf === undefined && api.namespaces === undefined;
  return isWhole || (address.family === 'IPv4' && !privateIPv4.test(source)) ? false : null;
}

/** Pods of IPv6 often have public addresses. */
const privateIPv4 = /^(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])|169\.254)\./;

/** The nodes of endpoints, pods and nodes by their addresses, as the API has them. */
export const nodesByAddress = once(({pods, endpointSlices, nodes}: ApiObjects): ReadonlyMap<string, string> => {
  const known = new Map<string, string>();
  const note = (node: string | null | undefined, addresses: readonly (string | undefined)[]): void => {
    for (const address of addresses) {
      const canonical = canonicalAddress(address ?? '');
      if (canonical !== null && typeof node === 'string') known.set(canonical, node);
    }
  };
  for (const pod of pods ?? []) note(pod.spec?.nodeName, addressesOfPod(pod));
  for (const {endpoints} of endpointSlices ?? []) for (const {nodeName, addresses} of endpoints ?? []) note(nodeName, addresses ?? []);
  for (const {metadata, status} of nodes ?? [])
    note(
      metadata.name,
      (status?.addresses ?? []).map(({address}) => address),
    );
  return known;
});

const podNetworks = once(({nodes}: ApiObjects): readonly Cidr[] =>
  (nodes ?? []).flatMap(node => podCIDRsOf(node).flatMap(text => parseCidr(text) ?? [])),
);

/** The node's rules of one family, and which parts of them pasted text shows; null if there are none. */
function packetRules(node: NodeDump, family: Family, snapshot: Snapshot): Pick<PacketNode, 'rules' | 'shown' | 'misprint'> | null {
  const dumps = readDumps(node);
  const read = dumps.current.get(family) ?? null;
  const others = allOf(dumps, family).filter(({backend}) => backend !== read?.backend);
  const iptables = read ?? rulesBesideIpvs(node, family);
  const nft = readNft(node);
  if (iptables !== null) {
    const isPart = isExcerpt(iptables) || isPasted(snapshot);
    const rules: PacketRules = {iptables: isPart ? withGapsOf(iptables, node, snapshot) : iptables, nft, others};
    const found = misprintsOf(dumps.current).get(family);
    const misprint = found === undefined ? whyNftUnreadable(nft) : whyMisprinted(found);
    return isPart ? {rules, shown: {iptables, nft}, misprint} : {rules, misprint};
  }
  if (nft === null || tablesOf(nft, family).length === 0) return null;
  const [rules, misprint] = [{iptables: null, nft}, whyNftUnreadable(nft)];
  return isPasted(snapshot) ? {rules, shown: rules, misprint} : {rules, misprint};
}

function whyNftUnreadable(nft: NftRuleset | null): string | undefined {
  return nft?.misprint === undefined ? undefined : whyNftMisprinted(nft.misprint, nft.toolVersion);
}

/** Text without API objects may be the output of any command: the node may have more rules than it shows. */
function isPasted({api}: Snapshot): boolean {
  return api.services === null && api.nodes === null;
}

/** Text with only virtual servers shows no rules of iptables. */
function rulesBesideIpvs(node: NodeDump, family: Family): Ruleset | null {
  const hasServers = node.read('ipvsadm-save') !== null || node.read('ipvsadm-part') !== null;
  return hasServers && readNft(node) === null ? emptyRuleset(family) : null;
}

/** The rules of an excerpt, called from the base rules that kube-proxy writes. */
function withGapsOf(ruleset: Ruleset, node: NodeDump, {api}: Snapshot): Ruleset {
  const {config} = resolveProxyConfig(node, api, {}, () => inferConfig(new Map([[ruleset.family, ruleset]])));
  if (config.mode.value !== 'iptables' || [...ruleset.tables.values()].some(({chains}) => holdsIpvsRules(chains.keys())))
    return withGaps(ruleset, null);
  const view = new ClusterView({...api, services: []});
  return withGaps(ruleset, expectRuleset({view, config, facts: nodeFacts(node, api), family: ruleset.family, ruleset}));
}

function holdsIpvsRules(chains: Iterable<string>): boolean {
  return [...chains].some(name => /^KUBE-(?:IPVS-|LOAD-BALANCER$|NODE-PORT$)/.test(name));
}

/** Addresses given by hand are all addresses of the node. */
function withAddresses(facts: NodeFacts, texts: readonly string[]): NodeFacts {
  if (texts.length === 0) return facts;
  const addresses = texts
    .flatMap(text => text.split(','))
    .map(text => canonicalAddress(text.trim()) ?? wrong(`--local-address ${text} is no address`));
  return {
    ...facts,
    addresses: [...addresses, '127.0.0.1', '::1'],
    hostIPs: facts.hostIPs.length > 0 ? facts.hostIPs : addresses,
    allAddresses: true,
  };
}

/** Resolves the words of the command line: pods and Services to addresses, port names to numbers. */
export function packetQuery(flags: PacketFlags, snapshot: Snapshot): PacketQuery {
  const service =
    canonicalAddress(flags.destination) !== null
      ? null
      : snapshot.api.services === null && snapshot.nodes.length > 0
        ? serviceInText(flags, snapshot)
        : findService(flags.destination, flags.namespace, snapshot);
  const literal = canonicalAddress(flags.source);
  const family =
    (literal === null ? null : familyOf(literal)) ??
    familyOf(flags.destination) ??
    (service === null ? null : primaryFamily(service)) ??
    'IPv4';
  const destination =
    service === null
      ? (canonicalAddress(flags.destination) ?? '')
      : (clusterIPOf(service, family) ?? wrong(`Service ${flags.destination} has no ${family} cluster IP`));
  const source = literal ?? podAddress(flags.source, flags.namespace, family, snapshot);
  if (familyOf(source) !== familyOf(destination))
    wrong(`the source ${source} and the destination ${destination} are of different families`);
  const {port, protocol} = portOf(flags, service);
  return {
    family,
    source,
    destination,
    port,
    protocol,
    isClusterIP: isClusterIP(destination, snapshot),
    unallocatedIn: unallocatedIn(destination, snapshot),
    inInterface: flags['in-interface'] ?? null,
    sourcePort: flags['source-port'] ?? null,
  };
}

function primaryFamily(service: ServiceObject): Family | null {
  return clusterIPOf(service, 'IPv4') !== null ? 'IPv4' : clusterIPOf(service, 'IPv6') !== null ? 'IPv6' : null;
}

/** The Service of rules alone, by the names in their comments, as `trace` finds it. Its ports are those whose entries the text shows. */
function serviceInText({destination, namespace}: PacketFlags, {nodes}: Snapshot): ServiceObject {
  if (isLikeAddress(destination)) return wrong(`--destination ${destination}: ${whatIsMissing('Service', destination, namespace)}`);
  const all = nodes.flatMap(node => [...servicesInRules(node)]);
  const traces = selectInRules(all, {names: [destination], namespace, allNamespaces: false});
  const [{service} = {service: {namespace: '', name: destination}}] = traces;
  const entries = traces.flatMap(({port, entries: own}) => own.map(({entry}) => ({port, entry})));
  const withAddress = entries.filter(({entry}) => entry.address !== null);
  const [first] = withAddress.toSorted((a, b) => Number(a.entry.kind !== 'clusterIP') - Number(b.entry.kind !== 'clusterIP'));
  const address = first?.entry.address ?? null;
  if (address === null) return wrong(`--destination ${destination}: the text shows no address of ${namespacedName(service)}; give one`);
  const ports = withAddress
    .filter(({entry}) => entry.address === address)
    .map(({port, entry}) => ({name: port.name, protocol: port.protocol as 'TCP', port: entry.port}));
  return {metadata: service, spec: {clusterIP: address, clusterIPs: [address], ports}};
}

/** Whether the API, or rules alone, show the address as that of a Service within the cluster, which is no other proxy's. */
function isClusterIP(address: string, {api, nodes}: Snapshot): boolean {
  if (api.services !== null)
    return api.services.some(service => hasClusterIP(service, address) && service.metadata.labels?.[proxyNameLabel] === undefined);
  return nodes.some(node =>
    servicesInRules(node).some(({entries}) =>
      entries.some(({entry}) => entry.kind === 'clusterIP' && canonicalAddress(entry.address ?? '') === address),
    ),
  );
}

/** The range of cluster IPs that holds an address, where all Services and Nodes were read and none of them has it. */
function unallocatedIn(address: string, {api}: Snapshot): string | undefined {
  if (api.services === null || api.nodes === null || api.namespaces !== undefined) return undefined;
  if (api.services.some(service => hasAddress(service, address))) return undefined;
  const own = knownServiceRanges(api).filter(range => overlaps(address, [range]));
  return nodesInRanges(api, own).length === 0 ? own[0]?.text : undefined;
}

/** Whether a network of the node, such as that of a bridge of Docker, has the address. */
function isOnLink(text: string, facts: NodeFacts): boolean {
  const address = parseAddress(text);
  return address !== null && networksOnLink(facts).some(({cidr}) => contains(cidr, address));
}

function hasClusterIP({spec}: ServiceObject, address: string): boolean {
  return [spec?.clusterIP, ...(spec?.clusterIPs ?? [])].some(one => canonicalAddress(one ?? '') === address);
}

function findService(text: string, namespace: string | undefined, {api}: Snapshot): ServiceObject {
  const {name, namespace: own} = parseServiceName(text, {names: [], namespace, allNamespaces: false, selector: undefined});
  const found = (api.services ?? []).filter(({metadata}) => metadata.name === name && (own === undefined || metadata.namespace === own));
  const [first] = found;
  if (first === undefined) return wrong(`--destination ${text}: ${whatIsMissing('Service', name, own)}`);
  if (found.length > 1) return wrong(`there are ${found.length} Services named ${name}: say which with --namespace or NAMESPACE/${name}`);
  return first;
}

/** Digits and colons are a mistyped address rather than a name. */
function isLikeAddress(text: string): boolean {
  return /^[\d.]+$|:/.test(text);
}

function whatIsMissing(kind: 'Service' | 'pod', name: string, namespace: string | undefined): string {
  if (isLikeAddress(name)) return `is not an IP address, and no ${kind} has this name`;
  return `${kind} "${name}" not found${namespace === undefined ? '' : ` in namespace ${namespace}`}`;
}

/** The node of a pod that is named as the source: its packets start there. Null if no pod is named, or nodes are. */
export function startNode(flags: PacketFlags & NodeChoice, snapshot: Snapshot): string | null {
  const isChosen = flags.node !== undefined || flags['node-selector'] !== undefined || flags.sample !== undefined;
  if (isChosen || canonicalAddress(flags.source) !== null) return null;
  return podOf(flags.source, flags.namespace, snapshot).spec?.nodeName ?? null;
}

export function notAmong(source: string, node: string): string {
  return escapeText(`${source} runs on ${node}, whose rules are not there; --node names another node to follow the packet through`);
}

function podAddress(text: string, namespace: string | undefined, family: Family, snapshot: Snapshot): string {
  const pod = podOf(text, namespace, snapshot);
  return addressesOfPod(pod).find(address => familyOf(address) === family) ?? wrong(`pod ${pod.metadata.name} has no ${family} address`);
}

/** A pod as `pod/NAME` or `NAMESPACE/NAME`. */
function podOf(text: string, namespace: string | undefined, {api}: Snapshot): PodObject {
  const parts = text.split('/');
  const name = parts.at(-1) ?? '';
  const own = parts.length > 1 && !['pod', 'po', 'pods'].includes(parts[0] ?? '') ? parts[0] : namespace;
  const found = (api.pods ?? []).filter(({metadata}) => metadata.name === name && (own === undefined || metadata.namespace === own));
  if (found.length > 1) wrong(`there are ${found.length} pods named ${name}: say which with --namespace or NAMESPACE/${name}`);
  return found[0] ?? wrong(`--source ${text}: ${whatIsMissing('pod', name, own)}`);
}

function portOf({port: text, protocol}: PacketFlags, service: ServiceObject | null): {readonly port: number; readonly protocol: string} {
  const wanted = protocol?.toUpperCase();
  // An echo request has no port.
  if (wanted === 'ICMP') return {port: 0, protocol: wanted};
  const ports = (service?.spec?.ports ?? []).filter(port => wanted === undefined || (port.protocol ?? 'TCP') === wanted);
  if (text === undefined) {
    const [only] = ports;
    if (only?.port === undefined || ports.length > 1)
      return wrong(
        service === null
          ? 'say which port with --port'
          : `say which port with --port: ${ports.map(({port, name}) => name ?? port).join(', ')}`,
      );
    return {port: only.port, protocol: only.protocol ?? 'TCP'};
  }
  const named = ports.find(port => port.name === text || String(port.port) === text);
  if (named?.port !== undefined) return {port: named.port, protocol: wanted ?? named.protocol ?? 'TCP'};
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 65_535)
    return wrong(`--port ${text} is no port number${service === null ? '' : ' and no port of the Service'}`);
  if (service !== null) return wrong(notOfService(text, service));
  return {port: number, protocol: wanted ?? 'TCP'};
}

function notOfService(port: string, service: ServiceObject): string {
  const {metadata, spec} = service;
  const ports = (spec?.ports ?? []).map(
    ({name, port: number, protocol = 'TCP'}) => `${number}/${protocol}${name === undefined ? '' : ` (${name})`}`,
  );
  return `Service ${namespacedName(metadata)} has no port ${port}; it has ${ports.join(', ')}. For another port, give --destination its address`;
}

function wrong(message: string): never {
  throw wrongUse(message);
}
