import {heldIn} from '../model/once.ts';
import {commandLine, type CommandLine, plural, servicePortText, someOf} from '../model/text.ts';
import {proxyVersion, type PortEntry} from '../expect/cluster/cluster-view.ts';
import {canonicalAddress, families, type Family, familyOf, joinHostPort, parseAddress} from '../model/address.ts';
import {addressesOfPod, nodeContext, nodePortDestinations} from '../expect/node-context.ts';
import {type Observation, ofPort} from '../model/finding.ts';
import type {PodObject} from '../model/api-objects.ts';
import {isRulesAlone, type NodeDump} from '../model/snapshot.ts';
import {holds} from '../model/intervals.ts';
import {addressesIn} from '../parse/nftables/address-list.ts';
import type {Endpoint} from '../model/endpoint.ts';
import type {ServicePort} from '../model/service-port.ts';
import {parseConntrack, type TrackedConnection} from '../parse/conntrack.ts';
import type {NodeCheckContext} from './check-types.ts';
import {catalogRow, check} from './catalog.ts';
import {run, withUpgrade} from './commands/commands.ts';
import {ipvsContext} from '../expect/ipvs/ipvs-context.ts';
import {nftContext} from '../expect/nftables/expect-table.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import {mendedBugs} from '../expect/patch-releases.ts';
import {servicesInRules} from '../analyze/services-in-rules/services-in-rules.ts';
import type {EntryTrace} from '../model/service-trace.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';

const {remedy} = catalogRow('ST508');

const {flowsToBalancers, flowsToIpvsBalancers, flowsOfUnready, flowsFromStart, flowsOfTerminating, flowsUnreconciled, flowsOfEmpty} =
  mendedBugs;
const bugs = [flowsToBalancers, flowsToIpvsBalancers, flowsOfUnready, flowsFromStart, flowsOfTerminating, flowsUnreconciled];

export const staleConntrack = check('ST508', {
  *node(context) {
    const texts = ['conntrack', 'conntrack-tcp'].flatMap(file => context.node.read(file)?.toString('utf8') ?? []);
    if (texts.length === 0) return;
    const connections = texts.flatMap(text => [...parseConntrack(text, 'udp'), ...[...parseConntrack(text, 'tcp')].filter(isStuck)]);
    if (isRulesAlone(context)) return yield* flowsBesideRules(context.node, connections);
    const entries = trackedEntries(context);
    const stale = new Map<PortEntry, Map<string, TrackedConnection>>();
    for (const connection of connections) {
      const entry = entries.get(`${connection.protocol} ${destinationKey(connection)}`);
      if (entry === undefined || !isStale(connection, entry, context)) continue;
      const known = heldIn(stale, entry.served, () => new Map<string, TrackedConnection>());
      // `conntrack -L` of some versions lists IPv6 flows with and without `-f ipv6`.
      const key = JSON.stringify([connection.original, connection.reply]);
      if (!known.has(key)) known.set(key, connection);
    }
    yield* staleHostPorts(context, connections, entries);
    for (const [{port, set}, flows] of stale) {
      const connections = [...flows.values()];
      const ends = [...new Set(connections.map(endOf))];
      const lines = someOf(connections.map(({line}) => String(line)));
      const causes = set.endpoints.some(({ready, serving}) => ready || serving) ? bugs : [...bugs, flowsOfEmpty];
      yield {
        ...ofPort(port),
        message: `${port.servicePortName}: ${connections.length} tracked ${port.protocol} ${wordFor(port, connections.length)} to ${someOf(ends)}, no endpoint of the Service (conntrack line ${lines})${clientsOf(connections)}`,
        ...(port.protocol === 'UDP' ? {remedy: withUpgrade(remedy, context, causes)} : {}),
        ...run(...deletions(connections, port.family)),
      };
    }
  },
});

/**
 * Flows to a port of the node whose pod is gone: they keep the address, whatever pod has the port now. Only where all pods were read, for
 * addresses of the node's own pod network. A pod that is younger than the list of pods is known by the rule that leads to it.
 */
function* staleHostPorts(
  context: NodeCheckContext,
  connections: readonly TrackedConnection[],
  entries: ReadonlyMap<string, TrackedEntry>,
): Iterable<Observation> {
  const {api, facts, node} = context;
  const {pods} = api;
  if (pods === null || api.podsOf !== undefined) return;
  const candidates = connections.filter(
    flow =>
      flow.protocol === 'udp' &&
      facts.addresses.includes(canonicalAddress(flow.original.destination) ?? '') &&
      !entries.has(`udp ${destinationKey(flow)}`),
  );
  if (candidates.length === 0) return;
  const known = addressesInUse(context, pods);
  const isUnknown = ({reply}: TrackedConnection): boolean => {
    const address = parseAddress(reply.source);
    return address !== null && !known.has(address.text) && holds(addressesIn(facts.podCIDRs, address.family), address.value);
  };
  const placeOf = ({original, reply}: TrackedConnection): string => `${original.destinationPort} ${reply.source}:${reply.sourcePort}`;
  for (const [place, flows] of Map.groupBy(candidates.filter(isUnknown), placeOf)) {
    const [first] = flows;
    if (first === undefined || isInRules(first.reply.source, node)) continue;
    const [port, end] = place.split(' ');
    const lead = flows.length === 1 ? '1 tracked UDP flow leads' : `${flows.length} tracked UDP flows lead`;
    const lines = someOf(flows.map(({line}) => String(line)));
    const message = `${lead} from port ${port} of this node to ${end}: no pod has this address of its pod network, and no rule leads to it. The pod of a host port is gone (conntrack line ${lines})${clientsOf(flows)}`;
    yield {message, ...run(...deletions(flows, familyOf(first.original.destination) ?? 'IPv4'))};
  }
}

/** Of the node, of all pods and of all endpoints. */
function addressesInUse({facts, view, config}: NodeCheckContext, pods: readonly PodObject[]): ReadonlySet<string> {
  const endpoints = families.flatMap(family => view.entries(family, proxyVersion(config)).flatMap(({set}) => set.endpoints));
  return new Set([
    ...[...facts.addresses, ...pods.flatMap(addressesOfPod)].flatMap(text => canonicalAddress(text) ?? []),
    ...endpoints.map(({address}) => address),
  ]);
}

/** Whether a rule, a route or a virtual server of the node names the address. */
function isInRules(address: string, node: NodeDump): boolean {
  const word = new RegExp(`(?<![\\w.:])${address.replaceAll('.', '\\.')}(?![\\w.]|:[\\da-f]*:)`);
  const isOfRules = (file: string): boolean => /-save$|^nft|^routes\.json$/.test(file);
  return node.files.some(file => isOfRules(file) && word.test(node.read(file)?.toString('latin1') ?? ''));
}

function endOf({original, reply}: TrackedConnection): string {
  const end = joinHostPort(reply.source, reply.sourcePort);
  return reply.source === original.destination ? `${end} (untranslated: no rule sent it to an endpoint when it began)` : end;
}

/** Deletes the flows and no others. A flow by a node port has the address of the node as its destination. */
function deletions(connections: readonly TrackedConnection[], family: Family): readonly (CommandLine | null)[] {
  const lines = connections.map(({protocol, original, reply}) => {
    const flow = [original.destination, String(original.destinationPort), reply.source, String(reply.sourcePort)] as const;
    const [address, port, endpoint, endpointPort] = flow;
    return commandLine`conntrack -D -f ${family.toLowerCase()} -p ${protocol} --orig-dst ${address} --orig-port-dst ${port} --reply-src ${endpoint} --reply-port-src ${endpointPort}`;
  });
  return [...new Set(lines)].slice(0, maxDeletions);
}

/** More are shown by the next check. */
const maxDeletions = 10;

/** An address and port at which clients reach a Service port on this node. */
interface TrackedEntry {
  readonly served: PortEntry;
  /** By a cluster IP; every other entry is for external clients. */
  readonly isInternal: boolean;
}

function wordFor({protocol}: ServicePort, count: number): string {
  const [one, many] = protocol === 'TCP' ? ['connection leads', 'connections lead'] : ['flow leads', 'flows lead'];
  return count === 1 ? one : many;
}

function clientsOf(connections: readonly TrackedConnection[]): string {
  const clients = [...new Set(connections.map(({original}) => original.source))];
  const ages = connections.flatMap(({age}) => age ?? []);
  return `; from ${someOf(clients)}${ages.length === 0 ? '' : `, the oldest for ${ages.reduce((most, age) => Math.max(most, age), 0)} s`}`;
}

/**
 * A TCP connection whose client gets no answer: it repeats its first packet, or data (the kernel then keeps the entry for five minutes
 * only). Others keep their endpoint by design.
 */
export function isStuck({state, expiresIn}: TrackedConnection): boolean {
  return state === 'SYN_SENT' || (state === 'ESTABLISHED' && expiresIn <= 300);
}

/** By protocol, address and port. */
function trackedEntries(context: NodeCheckContext): ReadonlyMap<string, TrackedEntry> {
  const {view, config} = context;
  const entries = new Map<string, TrackedEntry>();
  const proxy = proxyVersion(config);
  for (const family of families) {
    const own = nodePortAddresses(context, family);
    for (const served of view.entries(family, proxy)) {
      const {port} = served;
      if (port.protocol === 'SCTP') continue;
      const protocol = port.protocol.toLowerCase();
      const external = [...port.externalIPs, ...port.loadBalancerVIPs].map(address => `${address} ${port.port}`);
      const onNode = port.nodePort === 0 ? [] : own.map(address => `${address} ${port.nodePort}`);
      for (const key of [...onNode, ...external]) entries.set(`${protocol} ${key}`, {served, isInternal: false});
      entries.set(`${protocol} ${port.clusterIP} ${port.port}`, {served, isInternal: true});
    }
  }
  return entries;
}

function destinationKey({original}: TrackedConnection): string {
  return `${canonicalAddress(original.destination) ?? original.destination} ${original.destinationPort}`;
}

/** The reply is expected from an address that is not an endpoint: a former one, or the Service's own if the packet was not translated. */
function isStale(connection: TrackedConnection, entry: TrackedEntry, context: NodeCheckContext): boolean {
  const {port: servicePort, set} = entry.served;
  const {reply} = connection;
  const source = canonicalAddress(reply.source) ?? reply.source;
  if (`${source} ${reply.sourcePort}` === destinationKey(connection)) {
    // What the node itself answers may be unrelated to the Service.
    const isOther = (connection.isAnswered || connection.protocol === 'tcp') && context.facts.addresses.includes(source);
    return !isOther && isUntranslated(entry, context);
  }
  const {version, featureGates} = context.config;
  // kube-proxy deletes the flows to an endpoint when it removes the endpoint.
  const former = context.view.formerEndpoints(servicePort, {version: version.value, gates: featureGates.value});
  const leadsTo = ({address, port}: Pick<Endpoint, 'address' | 'port'>) => address === source && port === reply.sourcePort;
  return !set.endpoints.some(leadsTo) && !former.some(leadsTo);
}

/** Without an endpoint, packets are not translated. */
function isUntranslated({served: {port, set}, isInternal}: TrackedEntry, {facts}: NodeCheckContext): boolean {
  const usable = set.endpoints.filter(({ready, serving}) => ready || serving);
  const isLocalOnly = isInternal ? port.internalPolicyLocal : port.externalPolicyLocal;
  return (isLocalOnly ? usable.filter(({nodeName}) => nodeName === facts.name) : usable).length > 0;
}

/** The node's addresses of one family that serve node ports in the mode of its kube-proxy. */
function nodePortAddresses({config, facts}: {readonly config: ProxyConfig; readonly facts: NodeFacts}, family: Family): readonly string[] {
  switch (config.mode.value) {
    case 'ipvs':
      return ipvsContext(family, config, facts, []).nodeAddresses;
    case 'nftables':
      // By default only the Node's own addresses serve node ports: without the Node none is known.
      return facts.hostIPs.length === 0 ? [] : served(nodePortDestinations(nftContext(family, config, facts, null)));
    default:
      return served(nodePortDestinations(nodeContext(family, config, facts, unseen)));
  }

  function served(addresses: readonly string[] | null): readonly string[] {
    return addresses ?? facts.addresses.filter(address => familyOf(address) === family);
  }
}

const unseen = {nfacct: false, clearsMark: null, dropsInvalid: null};

/** Of rules alone: flows that lead elsewhere than these rules. A tracked flow keeps its way while packets come. */
function* flowsBesideRules(node: NodeDump, flows: readonly TrackedConnection[]): Iterable<Observation> {
  if (flows.length === 0) return;
  for (const {service, port, family, entries} of servicesInRules(node)) {
    const own = flows.filter(
      flow =>
        flow.protocol.toUpperCase() === port.protocol &&
        entries.some(entry => leadsElsewhere(flow, entry) && (showsAllEndpoints(entry) || isPassedBy(flow, entry))),
    );
    const ends = [...new Set(own.map(({reply}) => joinHostPort(reply.source, reply.sourcePort)))];
    const [many, add] = port.protocol === 'TCP' ? ['connection', ' without an answer'] : ['flow', ''];
    const what = `${plural(own.length, `tracked ${port.protocol} ${many}`)}${add} ${own.length === 1 ? 'leads' : 'lead'} to ${someOf(ends)}`;
    const lines = someOf(own.map(({line}) => String(line)));
    if (own.length > 0) {
      const message = `${servicePortText(service, port)}: ${what}, and these rules to none of them (conntrack line ${lines}): the rules are not asked again while packets of the flow come`;
      yield {family, service, port, message};
    }
  }
}

function leadsElsewhere({original, reply}: TrackedConnection, {entry, endpoints}: EntryTrace): boolean {
  const [destination, end] = [canonicalAddress(original.destination), canonicalAddress(reply.source)];
  // A flow to a node port goes to an address of the node: if it was not translated, it may be one through the node.
  const isToEntry = entry.address === null ? entry.kind === 'nodePort' && destination !== end : entry.address === destination;
  return (
    isToEntry &&
    entry.port === original.destinationPort &&
    !endpoints.some(({hostPort}) => hostPort === joinHostPort(end ?? '', reply.sourcePort))
  );
}

/** Where a rule sends packets on, whatever the endpoints are. */
function isPassedBy({original, reply}: TrackedConnection, {end}: EntryTrace): boolean {
  return (
    reply.source === original.destination && reply.sourcePort === original.destinationPort && (end === null || end.verdict === 'undecided')
  );
}

/** The text shows the address of each endpoint, and no share of the packets is left for others. */
function showsAllEndpoints({endpoints, end}: EntryTrace): boolean {
  const total = endpoints.reduce((sum, {share}) => sum + (share ?? 0), 0);
  return end === null && total > 0.999 && endpoints.every(({hostPort}) => parseAddress(splitHostPort(hostPort).address) !== null);
}
