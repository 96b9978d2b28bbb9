import {familyOf, joinHostPort, parseAddress} from '../../model/address.ts';
import {uniqueBy} from '../../model/lists.ts';
import {once} from '../../model/once.ts';
import {matchOptionOf, optionOf, type Ruleset} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {fileText, type NodeDump} from '../../model/snapshot.ts';
import {namespacedName, plural, servicePortText, someOf} from '../../model/text.ts';
import {parseConntrack} from '../../parse/conntrack.ts';
import {parseIpvsadm} from '../../parse/ipvs/ipvsadm-save.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {ipvsDevice, parseIpvsDevice} from '../../parse/ipvs/kube-ipvs0.ts';
import {type Listed, listedIn, type ListedService} from '../../parse/pasted/listed-objects.ts';
import {unservedIn} from '../../parse/pasted/listed-state.ts';
import {wholeText} from '../../parse/pasted/split-text.ts';
import {endOfTrace, tracedPackets} from '../../parse/pasted/traced-packets.ts';
import {readDumps} from '../iptables/node-rulesets.ts';
import {readNft} from '../nftables/nft-rules.ts';
import {servicesInRules} from './services-in-rules.ts';
import {unmetNftRules, unmetRules} from './what-rules-say.ts';

/** What a pasted text shows to be wrong beside the Services that its rules serve, each in a few words. Most telling first. */
export const whatTextSays = once((node: NodeDump): readonly string[] => {
  const {lines, listed, nft, ...read} = readText(node);
  const rulesets = [...read.rulesets.values()];
  const traces = servicesInRules(node);
  const unserved = unservedIn(lines);
  return [
    ...tracesEnd(lines, rulesets),
    ...besideLists(node, listed, traces),
    ...unboundAddresses(node, {lines, listed, traces}),
    ...besideLog(lines, traces),
    ...(unserved === null ? [] : [unserved]),
    ...waitingConnections(lines, fileText(node, 'conntrack')),
    ...hostPortsBefore(rulesets, traces),
    ...rulesets.flatMap(unmetRules),
    ...rulesets.flatMap(notMasqueraded),
    ...(nft === null ? [] : unmetNftRules(nft)),
  ];
});

/** A text may have thousands of Services, each of which is looked for. */
const readText = once((node: NodeDump) => {
  const lines = fileText(node, wholeText).split('\n');
  return {
    lines,
    listed: listedIn(lines),
    rulesets: readDumps(node).current,
    nft: readNft(node),
    servers: parseIpvsadm(fileText(node, 'ipvsadm-save')),
  };
});

/** Endpoints that rules for all clients send to, and that what kubectl printed in the same text does not list for the Service. */
export function staleBesideLists(node: NodeDump, traces: readonly PortTrace[]): readonly StaleEndpoint[] {
  const lists = readText(node).listed.endpoints;
  const namespaces = Map.groupBy(
    uniqueBy(traces, ({service}) => namespacedName(service)),
    ({service}) => service.name,
  );
  return traces.flatMap(trace => {
    const {node: name, family, service, entries} = trace;
    // Without its namespace a name may be that of another Service.
    const isAlone = namespaces.get(service.name)?.length === 1;
    const list = lists.get(namespacedName(service)) ?? (isAlone ? lists.get(service.name) : undefined) ?? new Set();
    const own = [...list].filter(end => end.startsWith('[') === (family === 'IPv6'));
    if (name !== node.name || own.length === 0) return [];
    // A Local policy may send to what is about to go, and is in no list.
    const sent = entries.flatMap(({entry, endpoints}) => (entry.kind === 'clusterIP' ? endpoints : []));
    const stale = uniqueBy(
      sent.filter(({hostPort, pick}) => isShown(hostPort) && !own.includes(hostPort) && !/^(?:KUBE-SVL-|local-)/.test(pick?.chain ?? '')),
      ({hostPort}) => hostPort,
    );
    return stale.map(endpoint => ({trace, endpoint, listed: own}));
  });
}

/** The text may leave out where the chain of an endpoint leads. */
function isShown(hostPort: string): boolean {
  return parseAddress(splitHostPort(hostPort).address) !== null;
}

interface StaleEndpoint {
  readonly trace: PortTrace;
  readonly endpoint: PortTrace['entries'][number]['endpoints'][number];
  readonly listed: readonly string[];
}

function besideLists(node: NodeDump, listed: Listed, traces: readonly PortTrace[]): readonly string[] {
  const stale = staleBesideLists(node, traces).map(
    ({trace: {service, port}, endpoint, listed: own}) =>
      `${servicePortText(service, port)} sends to ${endpoint.hostPort}, which is none of the endpoints that kubectl lists (${someOf(own)})`,
  );
  return [...lackedEntries(node, listed, traces), ...stale, ...lackedEndpoints(listed, traces)];
}

/** Services of which kubectl lists ready endpoints, and whose cluster IPs lead to none. Hints and policies leave out only some. */
function lackedEndpoints({services, endpoints, ready}: Listed, traces: readonly PortTrace[]): readonly string[] {
  const byAddress = Map.groupBy(
    traces.flatMap(({entries}) => entries),
    ({entry}) => entry.address,
  );
  return services.flatMap(({name, clusterIPs}) => {
    const own = clusterIPs.flatMap(address => byAddress.get(address) ?? []);
    const isRefused = own.length > 0 && own.every(({end, endpoints: all}) => all.length === 0 && end?.verdict === 'rejected');
    const listed = ready.has(name) ? [...(endpoints.get(name) ?? [])] : [];
    const ofFamily = listed.filter(end => own.some(({entry}) => end.startsWith('[') === (entry.address?.includes(':') === true)));
    return isRefused && ofFamily.length > 0
      ? [
          `the rules refuse every packet to ${name}, and kubectl lists ${someOf(ofFamily)} as ready: kube-proxy does not follow, or its traffic policy is Local`,
        ]
      : [];
  });
}

/** Services that kubectl lists, and that rules which are shown whole do not have. */
function lackedEntries(node: NodeDump, {services, endpoints, empty}: Listed, traces: readonly PortTrace[]): readonly string[] {
  const keyOf = (address: string | null | undefined, port: number): string => `${address ?? 'node port'} ${port}`;
  const shown = new Set(
    traces.flatMap(({entries}) => entries.map(({entry}) => keyOf(entry.kind === 'nodePort' ? null : entry.address, entry.port))),
  );
  return services.flatMap(({name, clusterIPs, ports}) => {
    const nodePorts = ports.flatMap(({nodePort}) => nodePort ?? []);
    const asked = [...clusterIPs.map(address => ({address, all: ports.map(({port}) => port)})), {address: null, all: nodePorts}];
    return asked.flatMap(({address, all}) => {
      const lacked = all.filter(port => !shown.has(keyOf(address, port)));
      const whole = lacked.length === 0 ? null : wholeRules(node, address);
      // kube-proxy refuses packets to a Service without endpoints in another table, and has a virtual server in IPVS mode.
      if (whole === null || (empty.has(name) && !whole.isOfIpvs)) return [];
      const ends = [...(endpoints.get(name) ?? [])];
      const otherwise = `, unless ${whole.isOfIpvs || ends.length > 0 ? '' : 'it has no endpoint, or '}another proxy serves it`;
      const why = `${ends.length > 0 ? ` with the endpoints ${someOf(ends)}` : ''}${otherwise}`;
      const what = address === null ? `node port ${lacked.join(', ')}` : `${address}, port ${lacked.join(', ')}`;
      return [`${whole.what} no entry for ${name} (${what}), which kubectl lists${why}`];
    });
  });
}

/** The rules that would have a cluster IP, or a node port, if the text shows all of them. */
function wholeRules(node: NodeDump, address: string | null): {readonly what: string; readonly isOfIpvs: boolean} | null {
  const {servers, rulesets, nft} = readText(node);
  if (servers.servers.length > 0 && servers.cut === null) return address === null ? null : {what: 'ipvsadm shows', isOfIpvs: true};
  const family = address === null ? 'IPv4' : familyOf(address);
  if (family === null || node.files.includes('ipvsadm-part')) return null;
  const [name, map] = address === null ? ['KUBE-NODEPORTS', 'service-nodeports'] : ['KUBE-SERVICES', 'service-ips'];
  const chain = rulesets.get(family)?.chain('nat', name);
  if (chain?.complete === true && chain.rules().some(({target}) => /^KUBE-(?:SVC|EXT|XLB)-/.test(target?.name ?? '')))
    return {what: `${name} of table nat has`, isOfIpvs: false};
  const elements = nft?.tables.get(`${family === 'IPv4' ? 'ip' : 'ip6'} kube-proxy`)?.set(map);
  return elements?.complete === true && elements.elements.size > 0 ? {what: `${map} of nftables has`, isOfIpvs: false} : null;
}

interface TextOfNode {
  readonly lines: readonly string[];
  readonly listed: Listed;
  readonly traces: readonly PortTrace[];
}

/** Addresses of virtual servers, and of Services that kubectl lists, that kube-ipvs0 does not have. */
function unboundAddresses(node: NodeDump, {lines, listed, traces}: TextOfNode): readonly string[] {
  const listedBound = parseIpvsDevice(fileText(node, `${ipvsDevice}.json`));
  if (listedBound === null) return [];
  const bound = new Set(listedBound);
  const served = traces.flatMap(({service, entries}) =>
    service.namespace === 'ipvs' ? entries.flatMap(({entry}) => (entry.kind === 'clusterIP' ? (entry.address ?? []) : [])) : [],
  );
  const all = new Set([...served, ...listed.services.flatMap(({clusterIPs}: ListedService) => clusterIPs)]);
  // `ip addr` may show another interface that has it, and half of the list one family.
  const families = new Set(listedBound.map(familyOf));
  const elsewhere = new Set(lines.flatMap(line => /\binet6? ([^\s/]+)\//.exec(line)?.[1] ?? []));
  const lacked = [...all].filter(
    address => !bound.has(address) && !elsewhere.has(address) && (bound.size === 0 || families.has(familyOf(address))),
  );
  if (lacked.length === 0) return [];
  const [is, it] = lacked.length === 1 ? ['is the address', 'it'] : ['are addresses', 'them'];
  const [whose, otherwise] = lacked.some(address => served.includes(address))
    ? ['virtual servers', '']
    : ['Services that kubectl lists', `, or another proxy serves ${it}`];
  return [
    `${ipvsDevice} lacks ${someOf(lacked)}, which ${is} of ${whose}: packets of pods pass the node by, unless another interface has ${it}${otherwise}`,
  ];
}

/** Service ports that the log of kube-proxy adds or opens, and that no rule of the text has. */
function besideLog(lines: readonly string[], traces: readonly PortTrace[]): readonly string[] {
  if (traces.length === 0) return [];
  const opened = new Map<string, string>();
  for (const line of lines) {
    const [, name = '', port] = /Opened local port.*?nodePort for ([^"\\\s]+)\W+\([^)]*?:(\d+)\/\w+\)/.exec(line) ?? [];
    if (port !== undefined) opened.set(name, `node port ${port}`);
    const [, removed] = /Removing service port "?([^"\s]+)"?/.exec(line) ?? [];
    if (removed !== undefined) opened.delete(removed);
  }
  const shown = new Set(traces.flatMap(({entries}) => entries.map(({entry}) => `node port ${entry.port}`)));
  const lacked = [...opened].filter(([, port]) => !shown.has(port));
  return lacked.length === 0
    ? []
    : [
        `the log says that kube-proxy opened ${someOf(lacked.map(([name, port]) => `${port} of ${name}`))}, and no rule of this text has it: these rules are of the other backend of iptables (iptables-legacy-save, iptables-nft-save show both), another program removed it, or the command left it out`,
      ];
}

/** In IPVS mode the node has the addresses of Services: a host port that is asked before takes their packets. */
function hostPortsBefore(rulesets: readonly Ruleset[], traces: readonly PortTrace[]): readonly string[] {
  const servers = traces
    .filter(({service}) => service.namespace === 'ipvs')
    .flatMap(({port: {protocol}, entries}) =>
      entries.flatMap(({entry}) => (entry.kind === 'clusterIP' ? [{protocol, address: entry.address, port: entry.port}] : [])),
    );
  return rulesets.flatMap(({tables}) => {
    const nat = tables.get('nat');
    const hooks = nat?.chains.get('PREROUTING')?.rules() ?? [];
    const ofPorts = hooks.findIndex(({target}) => target !== null && /^(?:CNI-HOSTPORT-DNAT|KUBE-HOSTPORTS)$/.test(target.name));
    const ofServices = hooks.findIndex(({target}) => target?.name === 'KUBE-SERVICES');
    if (nat === undefined || ofPorts < 0 || (ofServices >= 0 && ofServices < ofPorts)) return [];
    const published = [...nat.chains.values()].filter(({name}) => /^(?:CNI-DN-|KUBE-HP-)/.test(name)).flatMap(chain => chain.rules());
    return published.flatMap(rule => {
      const port = matchOptionOf(rule, '--dport');
      const to = rule.target?.options.find(({flag}) => flag === '--to-destination')?.values[0];
      const taken = servers.filter(server => String(server.port) === port && server.protocol.toLowerCase() === optionOf(rule, '-p'));
      if (to === undefined || taken.length === 0 || optionOf(rule, '-d') !== undefined) return [];
      return `host port ${port} (${rule.chain}, to ${to}) takes packets to ${someOf(taken.map(({address}) => `${address}:${port}`))}: in IPVS mode the node has these addresses, and ${hooks[ofPorts]?.target?.name} is asked before KUBE-SERVICES`;
    });
  });
}

/**
 * Connections whose handshake is not complete: `TCP 00:57 SYN_RECV 10.244.1.3:40112 10.96.0.10:53 10.244.2.5:53` of IPVS, and those that
 * conntrack lists as SYN_SENT.
 */
function waitingConnections(lines: readonly string[], tracked: string): readonly string[] {
  const ofIpvs = lines.flatMap(line => {
    const [, server = '', end] = /^\s*TCP\s+\d+:\d\d\s+SYN_(?:RECV|SENT)\s+\S+\s+(\S+:\d+)\s+(\S+:\d+)/.exec(line) ?? [];
    return end === undefined ? [] : [{server, end}];
  });
  const ofRules = [...parseConntrack(tracked, 'tcp')].flatMap(({state, original, reply}) => {
    const [server, end] = [joinHostPort(original.destination, original.destinationPort), joinHostPort(reply.source, reply.sourcePort)];
    return state === 'SYN_SENT' && server !== end ? [{server, end}] : [];
  });
  return [...Map.groupBy([...ofIpvs, ...ofRules], ({server, end}) => `${server} ${end}`).values()].map(all => {
    const [{server = '', end = ''} = {}] = all;
    return `${plural(all.length, 'connection')} to ${server} ${all.length === 1 ? 'waits' : 'wait'} for ${end}: it does not answer, or its answers do not come back through this node`;
  });
}

/** Where the trace of a packet ends, and the rule or policy there. */
function tracesEnd(lines: readonly string[], rulesets: readonly Ruleset[]): readonly string[] {
  const all = tracedPackets(lines);
  const opening = all.filter(({passedNat}) => passedNat);
  const told = (opening.length > 0 ? opening : all).map(packet => endOfTrace(packet, rulesets));
  return [...new Set(told)];
}

/** Masquerading needs a jump of POSTROUTING, which is shown whole. */
function notMasqueraded({tables}: Ruleset): readonly string[] {
  const chains = tables.get('nat')?.chains;
  const base = chains?.get('POSTROUTING');
  if (
    chains === undefined ||
    base?.complete !== true ||
    base.ruleCount === 0 ||
    !(chains.has('KUBE-SERVICES') || chains.has('KUBE-POSTROUTING'))
  )
    return [];
  // A chain of another program may lead there.
  const leads = base.rules().some(({target}) => target !== null && !/^(?:ACCEPT|RETURN|MASQUERADE|SNAT|MARK|LOG)$/.test(target.name));
  return leads
    ? []
    : [
        'POSTROUTING of table nat does not lead to KUBE-POSTROUTING: packets that need it are not masqueraded, and their answers may not come back through this node',
      ];
}
