import {familyOf, joinHostPort, parseAddress} from '../../model/address.ts';
import {uniqueBy} from '../../model/lists.ts';
import {keptWith, once} from '../../model/once.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import type {ServiceName} from '../../model/finding.ts';
import {entryText, isNodePort} from '../../model/service-port.ts';
import {fileText, type NodeDump} from '../../model/snapshot.ts';
import {namespacedName, plural, servicePortText, someOf} from '../../model/text.ts';
import {parseConntrack} from '../../parse/conntrack.ts';
import {parseIpvsadm} from '../../parse/ipvs/ipvsadm-save.ts';
import {localhostRejectMap} from '../../expect/nftables/nft-names.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {ipvsDevice, parseIpvsDevice} from '../../parse/ipvs/kube-ipvs0.ts';
import {packetsOf, type TextFact, told} from '../../parse/pasted/captured-packets.ts';
import {type ClientError, clientErrors, isLocal, objectRelations} from '../../parse/pasted/client-errors.ts';
import {type Listed, listedIn, type ListedService} from '../../parse/pasted/listed-objects.ts';
import {besideLog} from '../../parse/pasted/listed-state.ts';
import {stoppedInKernel} from '../../parse/pasted/kernel-lines.ts';
import {wholeText} from '../../parse/pasted/split-text.ts';
import {servesNothing} from '../iptables/excerpt.ts';
import {picksNothing} from './iptables-services.ts';
import {beyondRules, isWholeByServer, lackedJump, localPolicy, type RulesOfNode, rulesOf, servicesInRules} from './services-in-rules.ts';
import {type TakenEntry, takenEntries, isOfServer, unmetNftRules, unmetRules} from './what-rules-say.ts';

/** The same node says the same, whoever asks first. */
export function whatTextSays(node: NodeDump, rules?: RulesOfNode, traces?: readonly PortTrace[]): readonly TextFact[] {
  return keptWith(node, 'what its text says', () => {
    const read = rules ?? rulesOf(node);
    return factsOf(node, {...read, traces: traces ?? servicesInRules(node, read)});
  });
}

/** What to paste beside rules in which nothing is known to be wrong: where a path ends at a chain that they do not have, that chain. */
export function whatIsLacking(node: NodeDump, traces: readonly PortTrace[]): string {
  const [open] = traces.flatMap(({family, service, port, entries}) =>
    entries.flatMap(({entry, end}) => {
      const chain = /^chain (\S+) is not in this text/.exec(end?.reason ?? '')?.[1];
      if (chain === undefined || entry.port === 0) return [];
      const [tool, ofNft] = family === 'IPv4' ? ['iptables', 'ip'] : ['ip6tables', 'ip6'];
      const list = chain.startsWith('KUBE-') ? `${tool} -t nat -S ${chain}` : `nft list chain ${ofNft} kube-proxy ${chain}`;
      return `${servicePortText(service, port)} (${entryText(entry)}) leads to chain ${chain}, which is not in this text (${list})`;
    }),
  );
  if (open !== undefined) return open;
  if (traces.every(({entries}) => entries.every(({entry}) => entry.port === 0)))
    return 'these rules show no address and port of a Service: paste all that iptables-save prints (ipvsadm -Ln in IPVS mode)';
  return listedOf(node).services.length > 0
    ? 'nothing is known to be wrong in these rules, and in what kubectl lists beside them'
    : 'paste with these rules what kubectl get svc,endpoints -A -o wide prints';
}

interface RulesOfText extends RulesOfNode {
  readonly traces: readonly PortTrace[];
}

/** What a pasted text shows to be wrong beside the Services that its rules serve. Most telling first. */
function factsOf(node: NodeDump, {nft, traces, ...rules}: RulesOfText): readonly TextFact[] {
  const lines = linesOf(node);
  const rulesets = [...rules.rulesets.values()];
  const servers = parseIpvsadm(fileText(node, node.files.includes('ipvsadm-part') ? 'ipvsadm-part' : 'ipvsadm-save'));
  const listed = listedOf(node);
  return [
    ...told(rulesets.some(servesNothing) ? ['KUBE-SERVICES of table nat is empty and serves no Service'] : []),
    ...stoppedInKernel(lines, fileText(node, 'sysctls'), {hasSix: node.files.includes('ip6tables-save'), rulesets}),
    ...lackedEntries({...rules, nft, servers, node}, listed, traces),
    ...besideLists(node, listed, traces),
    ...emptyServers(lines, servers),
    ...(node.files.includes('ipvsadm-part') && !isWholeByServer(fileText(node, wholeText)) ? bareServers(lines, servers) : []),
    ...told(besideNodePorts(lines, servers, listed)),
    ...unboundAddresses(node, listed, traces),
    ...told([openedInLog(lines, traces), besideLog(lines, listed), listed.faults, objectRelations(lines, listed)].flat()),
    ...packetsOf(lines, fileText(node, 'conntrack'), listed),
    ...strayFlows(fileText(node, 'conntrack'), traces),
    ...takenBefore({...rules, nft}, traces),
    ...sentToClusterIPs(lines, traces),
    ...told([
      ...leadNowhere(traces),
      ...beyondRules(node, {lines, listed, traces, rulesets}),
      ...rulesets.flatMap(unmetRules),
      ...rulesets.flatMap(notMasqueraded),
      ...rulesets.flatMap(ruleset => withoutClusterCIDR(ruleset, lines)),
      ...(nft === null ? lackedJump(lines, rulesets) : unmetNftRules(nft)),
    ]),
    ...askedByClients(lines, {...rules, nft, servers, node}, traces),
  ];
}

function linesOf(node: NodeDump): readonly string[] {
  return fileText(node, wholeText).split('\n');
}

const listedOf = once((node: NodeDump) => listedIn(linesOf(node)));

/** Endpoints that rules for all clients send to, and that what kubectl printed in the same text does not list for the Service. */
export function staleBesideLists(node: NodeDump, traces: readonly PortTrace[]): readonly StaleEndpoint[] {
  const listed = listedOf(node);
  const keysOf = keysInLists(listed, traces);
  return traces.flatMap(trace => {
    const {node: name, family, service, entries} = trace;
    const [list = new Set<string>()] = keysOf(service).flatMap(key => listed.endpoints.get(key) ?? []);
    const own = [...list].filter(end => end.startsWith('[') === (family === 'IPv6'));
    if (name !== node.name || own.length === 0) return [];
    // A Local policy may send to what is about to go, and is in no list.
    const sent = entries.flatMap(({entry, endpoints}) => (entry.kind === 'clusterIP' ? endpoints : []));
    const stale = uniqueBy(
      // Without weights it is not known which real servers take new connections.
      sent.filter(
        ({hostPort, share, pick}) =>
          isShown(hostPort) &&
          (share !== null || service.namespace !== 'ipvs') &&
          !own.includes(hostPort) &&
          !/^(?:KUBE-SVL-|local-)/.test(pick?.chain ?? ''),
      ),
      ({hostPort}) => hostPort,
    );
    return stale.map(endpoint => ({trace, endpoint, listed: own}));
  });
}

/** The names that a Service of rules may have in what kubectl lists: without its namespace one may be that of another Service. */
function keysInLists({services}: Listed, traces: readonly PortTrace[]): (service: ServiceName) => readonly string[] {
  const namespaces = Map.groupBy(
    uniqueBy(traces, ({service}) => namespacedName(service)),
    ({service}) => service.name,
  );
  const byAddress = new Map(services.flatMap(({name, clusterIPs}) => clusterIPs.map(address => [address, name])));
  return service => [
    ...(service.namespace === 'ipvs' ? [byAddress.get(service.name) ?? ''] : [namespacedName(service)]),
    ...(namespaces.get(service.name)?.length === 1 ? [service.name] : []),
  ];
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

/** Services whose rules have other endpoints than kubectl lists, and those of which it lists no ready endpoint, and whose cluster IPs lead to some. */
function besideLists(node: NodeDump, listed: Listed, traces: readonly PortTrace[]): readonly TextFact[] {
  const keysOf = keysInLists(listed, traces);
  const stale = staleBesideLists(node, traces).map(({trace: {service, port, entries}, endpoint: {hostPort}, listed: own}) => {
    const text = `${inRulesName(service, port)} sends to ${hostPort}, which is none of the endpoints that kubectl lists (${someOf(own)})`;
    return {text, about: [hostPort, ...addressesOf(entries)]};
  });
  const unlisted = traces.flatMap(({node: name, service, port, entries}) => {
    const isEmpty = listed.empty.size > 0 && name === node.name && keysOf(service).some(key => listed.empty.has(key));
    const ofCluster = entries.flatMap(({entry, endpoints}) => (isEmpty && entry.kind === 'clusterIP' ? endpoints : []));
    const sent = [...new Set(ofCluster.map(({hostPort}) => hostPort))];
    const text = `${inRulesName(service, port)} sends to ${someOf(sent)}, and kubectl lists no ready endpoint for it: kube-proxy does not follow, or these pods are about to go and still serve`;
    return sent.length === 0 ? [] : {text, about: [...sent, ...addressesOf(entries)]};
  });
  return [...stale, ...unlisted, ...lackedEndpoints(listed, traces)];
}

function inRulesName(service: ServiceName, port: PortTrace['port']): string {
  return service.namespace === 'ipvs' ? `virtual server ${joinHostPort(service.name, port.port)}` : servicePortText(service, port);
}

function addressesOf(entries: PortTrace['entries']): readonly string[] {
  return entries.flatMap(({entry: {address, port}}) => (address == null ? [] : joinHostPort(address, port)));
}

/** Services of which kubectl lists ready endpoints, and whose cluster IPs lead to none. Hints and policies leave out only some. */
function lackedEndpoints({services, endpoints, ready}: Listed, traces: readonly PortTrace[]): readonly TextFact[] {
  const byAddress = Map.groupBy(
    traces.flatMap(({entries}) => entries),
    ({entry}) => entry.address,
  );
  return services.flatMap(({name, clusterIPs}) => {
    const own = clusterIPs.flatMap(address => byAddress.get(address) ?? []);
    const isRefused = own.length > 0 && own.every(({end, endpoints: all}) => all.length === 0 && end?.verdict === 'rejected');
    const listed = ready.has(name) ? [...(endpoints.get(name) ?? [])] : [];
    const ofFamily = listed.filter(end => own.some(({entry}) => end.startsWith('[') === (entry.address?.includes(':') === true)));
    if (!isRefused || ofFamily.length === 0) return [];
    const how = own.every(({end}) => isOfServer(end?.rule?.text ?? ''))
      ? ' (the virtual server has no real server, or all have the weight 0)'
      : '';
    const text = `the rules refuse every packet to ${name}${how}, and kubectl lists ${someOf(ofFamily)} as ready: kube-proxy does not follow, or its traffic policy is Local`;
    return {text, about: clusterIPs};
  });
}

/** Services that kubectl lists, and that rules which are shown whole do not have. */
function lackedEntries(read: WholeText, {services, endpoints, empty, ready}: Listed, traces: readonly PortTrace[]): readonly TextFact[] {
  const keyOf = (address: string | null | undefined, port: number): string => `${address ?? 'node port'} ${port}`;
  const shown = new Set(
    traces.flatMap(({entries}) => entries.map(({entry}) => keyOf(entry.kind === 'nodePort' ? null : entry.address, entry.port))),
  );
  return services.flatMap(({name, clusterIPs, ports, balancers = []}) => {
    const nodePorts = ports.flatMap(({nodePort}) => nodePort ?? []);
    const asked = [
      ...[...clusterIPs, ...balancers].map(address => ({address, all: ports.map(({port}) => port)})),
      {address: null, all: nodePorts},
    ];
    return asked.flatMap(({address, all}) => {
      const lacked = all.filter(port => !shown.has(keyOf(address, port)));
      const whole = lacked.length === 0 ? null : wholeRules(read, address);
      // kube-proxy refuses packets to a Service without endpoints in another table, and has a virtual server in IPVS mode.
      if (whole === null || (empty.has(name) && !whole.isOfIpvs)) return [];
      const ends = [...(endpoints.get(name) ?? [])];
      const isServed = whole.isOfIpvs || (ends.length > 0 && ready.has(name));
      const otherwise = `, unless ${isServed ? '' : `it has no ${ends.length > 0 ? 'ready ' : ''}endpoint, or `}another proxy serves it`;
      const why = `${ends.length > 0 ? ` with the endpoints ${someOf(ends)}` : ''}${otherwise}`;
      const what = address === null ? `node port ${lacked.join(', ')}` : `${address}, port ${lacked.join(', ')}`;
      const about = address === null ? lacked.map(String) : [address];
      return [{text: `${whole.what} no entry for ${name} (${what}), which kubectl lists${why}`, about}];
    });
  });
}

/** The rules that would have a cluster IP, or a node port, if the text shows all of them. */
function wholeRules(
  {node, servers, rulesets, nft}: WholeText,
  address: string | null,
): {readonly what: string; readonly isOfIpvs: boolean} | null {
  const family = address === null ? 'IPv4' : familyOf(address);
  if (family === null || node.files.includes('ipvsadm-part')) return null;
  if (servers.servers.length > 0 && servers.strays.length === 0 && servers.truncation === null)
    return address === null ? null : {what: 'ipvsadm shows', isOfIpvs: true};
  const [name, map] = address === null ? ['KUBE-NODEPORTS', 'service-nodeports'] : ['KUBE-SERVICES', 'service-ips'];
  const chain = rulesets.get(family)?.chain('nat', name);
  if (chain?.complete === true && chain.rules().some(({target}) => /^KUBE-(?:SVC|EXT|XLB)-/.test(target?.name ?? '')))
    return {what: `${name} of table nat has`, isOfIpvs: false};
  const elements = nft?.tables.get(`${family === 'IPv4' ? 'ip' : 'ip6'} kube-proxy`)?.set(map);
  return elements?.complete === true && elements.elements.size > 0 ? {what: `${map} of nftables has`, isOfIpvs: false} : null;
}

interface WholeText extends RulesOfNode {
  readonly node: NodeDump;
  readonly servers: ReturnType<typeof parseIpvsadm>;
}

/** Addresses of virtual servers, and of Services that kubectl lists, that kube-ipvs0 does not have. */
function unboundAddresses(node: NodeDump, listed: Listed, traces: readonly PortTrace[]): readonly TextFact[] {
  const listedBound = parseIpvsDevice(fileText(node, `${ipvsDevice}.json`));
  if (listedBound === null) return [];
  const bound = new Set(listedBound);
  const served = traces.flatMap(({service, entries}) =>
    service.namespace === 'ipvs' ? entries.flatMap(({entry}) => (entry.kind === 'clusterIP' ? (entry.address ?? []) : [])) : [],
  );
  const all = new Set([...served, ...listed.services.flatMap(({clusterIPs}: ListedService) => clusterIPs)]);
  // `ip addr` may show another interface that has it, and half of the list one family.
  const families = new Set(listedBound.map(familyOf));
  const elsewhere = new Set(linesOf(node).flatMap(line => /\binet6? ([^\s/]+)\//.exec(line)?.[1] ?? []));
  const lacked = [...all].filter(
    address => !bound.has(address) && !elsewhere.has(address) && (bound.size === 0 || families.has(familyOf(address))),
  );
  if (lacked.length === 0) return [];
  const [is, it] = lacked.length === 1 ? ['is the address', 'it'] : ['are addresses', 'them'];
  const [whose, otherwise] = lacked.some(address => served.includes(address))
    ? ['virtual servers', '']
    : ['Services that kubectl lists', `, or another proxy serves ${it}`];
  const text = `${ipvsDevice} lacks ${someOf(lacked)}, which ${is} of ${whose}: packets of pods pass the node by, unless another interface has ${it}${otherwise}`;
  return [{text, about: lacked}];
}

/** Service ports that the log of kube-proxy adds or opens, and that no rule of the text has. */
function openedInLog(lines: readonly string[], traces: readonly PortTrace[]): string | readonly string[] {
  if (traces.length === 0) return [];
  const opened = lines.flatMap(line => {
    const [, name = '', port] = /Opened local port.*?nodePort for ([^"\\\s]+)\W+\([^)]*?:(\d+)\/\w+\)/.exec(line) ?? [];
    return port === undefined ? [] : [{name, port: Number(port)}];
  });
  const removed = new Set(lines.flatMap(line => /Removing service port "?([^"\s]+)"?/.exec(line)?.[1] ?? []));
  const shown = new Set(traces.flatMap(({entries}) => entries.map(({entry}) => entry.port)));
  const lacked = opened.flatMap(({name, port}) => (removed.has(name) || shown.has(port) ? [] : `node port ${port} of ${name}`));
  if (lacked.length === 0) return [];
  return `the log says that kube-proxy opened ${someOf([...new Set(lacked)])}, and no rule of this text has it: these rules are of the other backend of iptables (iptables-legacy-save, iptables-nft-save show both), another program removed it, or the command left it out`;
}

/** Packets of Services that a rule of another program takes. In IPVS mode the node has their addresses, too. */
function takenBefore(rules: RulesOfNode, traces: readonly PortTrace[]): readonly TextFact[] {
  return [...Map.groupBy(takenEntries(rules, traces), ({rule, effect}) => `${effect} ${rule.line}`).values()].flatMap(taken => {
    const [first] = taken;
    if (first === undefined) return [];
    const {effect, sources, rule} = first;
    const nameOf = ({trace: {service, port}, at}: TakenEntry): string =>
      service.namespace === 'ipvs' ? `the virtual server ${at}` : `${servicePortText(service, port)} (${at})`;
    const from = sources.length === 0 ? '' : ` from ${someOf(sources)}`;
    const other = effect.startsWith('are sent') ? ', which is no endpoint of it,' : '';
    const text = `packets${from} to ${someOf([...new Set(taken.map(nameOf))])} ${effect}${other} by a rule before kube-proxy's chains: "${rule.text}" (table ${rule.table})`;
    return {text, about: [...new Set(taken.map(({at}) => at))]};
  });
}

/** Rules of another program that send on to a cluster IP, in this backend or the other one. OVN serves these itself. */
function sentToClusterIPs(lines: readonly string[], traces: readonly PortTrace[]): readonly TextFact[] {
  const owners = new Map(
    traces.flatMap(({service, port, entries}) =>
      entries.flatMap(({entry}) => (entry.kind === 'clusterIP' ? [[entry.address, servicePortText(service, port)] as const] : [])),
    ),
  );
  return lines.flatMap(line => {
    const [, address = '', to = ''] = line.includes(' DNAT ')
      ? (/^-A (?!OVN-).* -d ([\d.]+)(?:\/32)? .*--to-destination ([\d.]+)/.exec(line) ?? [])
      : [];
    const owner = owners.get(to);
    if (owner === undefined) return [];
    const text = `a rule translates ${address} to ${to}, the cluster IP of ${owner}, and a packet is translated once: kube-proxy, in either backend of iptables, does not send it on to an endpoint`;
    return {text, about: [address]};
  });
}

/** UDP flows to an entry of a Service that no rule translated, or that go on to an endpoint to which no rule sends any more. */
function strayFlows(tracked: string, traces: readonly PortTrace[]): readonly TextFact[] {
  if (tracked === '') return [];
  const all = traces.flatMap(({service, port, entries}) =>
    port.protocol === 'UDP' ? entries.map(one => ({...one, isOfIpvs: service.namespace === 'ipvs'})) : [],
  );
  const byKey = Map.groupBy(all, ({entry}) => `${entry.address ?? ''} ${entry.port}`);
  const flows = [...parseConntrack(tracked, 'udp')].flatMap(({original: {destination, destinationPort: port}, reply}) => {
    const own = byKey.get(`${destination} ${port}`) ?? byKey.get(` ${port}`) ?? [];
    const end = reply.source === destination ? null : joinHostPort(reply.source, reply.sourcePort);
    const isRight = own.some(
      ({endpoints, end: last}) => endpoints.some(({hostPort}) => !isShown(hostPort) || hostPort === end) || last?.verdict === 'undecided',
    );
    const isStray = end === null ? own.some(({endpoints, isOfIpvs}) => endpoints.length > 0 && !isOfIpvs) : own.length > 0 && !isRight;
    const unless = own[0]?.entry.address == null ? `, unless ${destination} is the address of another node` : '';
    return isStray ? [{to: joinHostPort(destination, port), end, unless}] : [];
  });
  return [...Map.groupBy(flows, ({to, end}) => `${to} ${end}`).values()].flatMap(([first, ...more]) => {
    if (first === undefined) return [];
    const {to, end, unless} = first;
    const [is, go] = more.length === 0 ? ['is', 'goes'] : ['are', 'go'];
    const what =
      end === null
        ? `${is} tracked without translation${unless}: rules are asked before the first packet alone, so that packets reach no endpoint as long as they come`
        : `${go} to ${end}, to which no rule sends: a flow keeps its endpoint as long as packets come`;
    return [{text: `${plural(more.length + 1, 'UDP flow')} to ${to} ${what}`, about: end === null ? [to] : [to, end]}];
  });
}

/** Virtual servers that a list shows without real servers, and those that it shows twice with other ones. */
function emptyServers(lines: readonly string[], {servers, contradiction}: ReturnType<typeof parseIpvsadm>): readonly TextFact[] {
  const [, name = ''] = contradiction === null ? [] : (/^\s*(?:TCP|UDP|SCTP)\s+(\S+)/.exec(lines[contradiction - 1] ?? '') ?? []);
  const first = servers.find(({address, port}) => joinHostPort(address, port) === name);
  if (first === undefined || contradiction === null) return [];
  const isEmpty = !/^\s*->/.test(lines[contradiction] ?? '');
  const how = isEmpty ? 'no real server' : 'other real servers';
  const others = someOf(first.realServers.map(({hostPort}) => hostPort));
  const text = `virtual server ${name} has ${how} on line ${contradiction}, and ${others} on line ${first.line}: the lists are of several nodes or times, and some of them are out of date`;
  return [{text, about: [name]}];
}

/** Virtual servers that a part of a list shows without real servers, where no filter took these, and no dots stand for them. */
function bareServers(lines: readonly string[], {servers}: ReturnType<typeof parseIpvsadm>): readonly TextFact[] {
  if (lines.some(line => /\bipvsadm\b.*\|(?!\s*(?:less|more)\b)/.test(line))) return [];
  const bare = servers.flatMap(({realServers, address, port, line}) =>
    realServers.length === 0 && !/^\s*(?:\.{3}|…)/.test(lines[line] ?? '') ? joinHostPort(address, port) : [],
  );
  if (bare.length === 0) return [];
  const text = `no real server is shown for ${someOf(bare)}: unless the text leaves some out, connections are refused there, as kube-proxy does for a Service without endpoints, and for a Local external traffic policy without one on this node`;
  return [{text, about: bare}];
}

/** Virtual servers with real servers that a node port lacks, beside a Local policy: it is that of load balancers and external IPs, too. */
function besideNodePorts(lines: readonly string[], {servers}: ReturnType<typeof parseIpvsadm>, {services}: Listed): readonly string[] {
  if (!lines.some(line => localPolicy.test(line))) return [];
  const ofCluster = new Set(services.flatMap(({clusterIPs}) => clusterIPs));
  const all = servers.map(({address, port, realServers}) => ({
    at: joinHostPort(address, port),
    isOfCluster: ofCluster.has(address),
    port,
    reals: new Set(realServers.map(({hostPort}) => hostPort)),
  }));
  return all.flatMap(({at, port, isOfCluster, reals}) => {
    if (isNodePort(port) || isOfCluster) return [];
    const local = all.find(
      other =>
        isNodePort(other.port) && other.reals.size > 0 && other.reals.size < reals.size && [...other.reals].every(real => reals.has(real)),
    );
    if (local === undefined) return [];
    const others = someOf([...reals].filter(real => !local.reals.has(real)));
    return `${at} sends to ${others} too, and node port ${local.port} to ${someOf([...local.reals])} alone: with the external traffic policy Local that is right of a cluster IP, and a load-balancer address or external IP must have the real servers of this node alone, as packets to others are not masqueraded and get no answer`;
  });
}

/** Servers that programs do not reach, and where the rules send what comes to them. */
function askedByClients(lines: readonly string[], {nft, rulesets, servers}: WholeText, traces: readonly PortTrace[]): readonly TextFact[] {
  const entries = traces.flatMap(trace => trace.entries.map(each => ({...each, trace, name: inRulesName(trace.service, trace.port)})));
  const isNatShown = nft !== null || servers.servers.length > 0 || [...rulesets.values()].some(({tables}) => tables.has('nat'));
  const whereTo = ({host, port, why}: ClientError, asked: string): string | null => {
    const own =
      entries.find(({entry}) => entry.address === host && entry.port === port) ??
      entries.find(({entry}) => entry.kind === 'nodePort' && entry.port === port);
    const ofPod = entries.find(({endpoints}) => endpoints.some(({hostPort}) => hostPort === asked));
    if (own === undefined && ofPod !== undefined)
      return `it is an endpoint of ${ofPod.name}, asked without a rule of a Service: its program does not listen there, or packets to the pod are lost`;
    if (own === undefined)
      return isNatShown
        ? 'no entry of a Service that the text shows has this address and port'
        : lines.some(line => ofIpvs.test(line))
          ? 'virtual servers, by which IPVS mode serves Services, are not shown by their addresses (ipvsadm -Ln prints them)'
          : 'table nat, in which kube-proxy translates Services, is not shown (iptables-save prints it)';
    const isNft = nft !== null && ![...nft.tables.values()].some(({sets}) => sets.has(localhostRejectMap));
    const where =
      own.trace.service.namespace === 'ipvs'
        ? `IPVS mode serves at the addresses of the node (${joinHostPort(own.trace.service.name, port)})`
        : isNft && own.entry.kind === 'nodePort'
          ? 'nftables mode serves at the addresses of the set nodeport-ips'
          : null;
    if (isLocal.test(host) && where !== null) return `it is a node port, which ${where} and not at ${host}`;
    const ends = own.endpoints.flatMap(({hostPort}) => (isShown(hostPort) ? hostPort : []));
    if (own.end?.verdict === 'undecided' || ends.length === 0) return own.end?.reason ?? null;
    const effect = /refused/i.test(why)
      ? 'no program listens there, or it does at 127.0.0.1 of the pod alone (ss -lnt in the pod), unless a NetworkPolicy refuses'
      : /no route/i.test(why)
        ? 'a firewall refuses them on the way or there (REJECT with icmp-host-prohibited, as firewalld writes it), or no host has that address'
        : 'packets or their answers are lost on the way there, or a rule that the text does not show stops them. curl to these endpoints from the node and from that of the pod shows which';
    return `the rules send what comes for ${own.name} to ${someOf(ends)}: ${effect}`;
  };
  return uniqueBy(clientErrors(lines), ({host, port}) => joinHostPort(host, port))
    .slice(0, 2)
    .flatMap(error => {
      const asked = joinHostPort(error.host, error.port);
      const text = whereTo(error, asked);
      return text === null ? [] : {text: `a program does not reach ${asked} (${error.why}): ${text}`, about: [asked]};
    });
}

const ofIpvs = /KUBE-IPVS-|^\s*IP Virtual Server version /;

/** Masquerading needs a jump of POSTROUTING, which is shown whole. */
function notMasqueraded({tables}: Ruleset): string | readonly string[] {
  const chains = tables.get('nat')?.chains;
  const base = chains?.get('POSTROUTING');
  const isOfKubeProxy = chains?.has('KUBE-SERVICES') === true || chains?.has('KUBE-POSTROUTING') === true;
  if (base?.complete !== true || base.ruleCount === 0) return [];
  if (!isOfKubeProxy && !base.rules().some(({target}) => ofPlugins.test(target?.name ?? ''))) return [];
  // A chain of another program may lead there. Up to 1.1 kube-proxy has its rule here.
  const leads = base
    .rules()
    .some(
      ({target, text}) =>
        target !== null &&
        !ofPlugins.test(target.name) &&
        (!/^(?:ACCEPT|RETURN|MASQUERADE|SNAT|MARK|LOG)$/.test(target.name) || text.includes('--mark ')),
    );
  if (leads) return [];
  return `POSTROUTING of table nat does not lead to KUBE-POSTROUTING: ${isOfKubeProxy ? '' : 'in iptables and IPVS mode '}packets that need it are not masqueraded, and their answers may not come back through this node`;
}

/** Chains of network plugins that call none of kube-proxy's, and that do not serve Services themselves. */
const ofPlugins = /^(?:FLANNEL-POSTRTG|CNI-[\w-]+|IP-MASQ-AGENT|WEAVE)$/;

/** Addresses of Services whose rules lead to a chain that is whole and picks no endpoint. */
function leadNowhere(traces: readonly PortTrace[]): readonly string[] {
  return traces.flatMap(({service, port, entries}) => {
    const [first] = entries.filter(
      ({entry, end, endpoints}) => end?.reason?.endsWith(picksNothing) === true && endpoints.length === 0 && entry.port !== 0,
    );
    if (first === undefined) return [];
    return `${servicePortText(service, port)} (${entryText(first.entry)}): ${first.end?.reason}, so that its packets are not translated`;
  });
}

/** Cluster IPs for which nothing is marked, where somebody complains of nodes. The marks are in KUBE-SERVICES, and later in chains of Services. */
function withoutClusterCIDR({tables}: Ruleset, lines: readonly string[]): string | readonly string[] {
  const chains = tables.get('nat')?.chains;
  const services = chains?.get('KUBE-SERVICES');
  if (services === undefined || !lines.some(line => !/^-A|\/\*/.test(line) && fromNodes.test(line))) return [];
  const rules = [services, ...(chains?.startingWith('KUBE-SVC-') ?? [])].flatMap(chain => chain.rules());
  const ofClusters = rules.filter(({text}) => text.includes(' cluster IP'));
  // A search for the name or the address of a Service finds both.
  const words = lines.flatMap(
    line => /\biptables\S*.*\|\s*(?:sudo )?grep (?:-[iE]+ )?["']?((?!KUBE-)[\w.:/-]+)["']?\s*$/.exec(line)?.[1] ?? [],
  );
  if (!services.complete && !ofClusters.every(({text}) => words.some(word => text.includes(word)))) return [];
  if (ofClusters.length === 0 || ofClusters.some(({target}) => /^(?:KUBE-MARK-MASQ|MARK)$/.test(target?.name ?? ''))) return [];
  return 'no rule marks what comes to cluster IPs for masquerading: kube-proxy has no clusterCIDR (--cluster-cidr), so that nodes and programs in their network get answers from pods of their own node alone, unless the network routes their addresses to pods and back';
}

const fromNodes =
  /\b(?:nodes?|hosts?|master)\b[^.]*\b(?:can(?:'t|not| not| only)|unable|only (?:reach|connect|work)|time[sd]? ?out|unreachable|fails?)|\b(?:time[sd]? ?out|unreachable|not (?:reachable|accessible)|fails?)\b[^.]*\bfrom (?:the |a |any |all )?(?:nodes?|hosts?|master)\b/i;
