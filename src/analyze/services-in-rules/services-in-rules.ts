import type {CountedRule, PortTrace} from '../../model/service-trace.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import {fileText, type NodeDump} from '../../model/snapshot.ts';
import {isNodePort} from '../../model/service-port.ts';
import {compareText, plural, servicePortText, someOf} from '../../model/text.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import {parseIpvsadm, type StrayServer, type UnweightedServer} from '../../parse/ipvs/ipvsadm-save.ts';
import {type IpvsStats, parseIpvsadmStats} from '../../parse/ipvs/ipvsadm-stats.ts';
import {wholeText} from '../../parse/pasted/split-text.ts';
import {readDumps} from '../iptables/node-rulesets.ts';
import {type Dumps, ipsetsOf} from '../proxy-mode.ts';
import {readNft} from '../nftables/nft-rules.ts';
import {iptablesServices} from './iptables-services.ts';
import {nftServices} from './nft-services.ts';
import {entryTrace, type ShownPath, type ShownPick, unseenEntry} from './shown-port.ts';
import {contains, joinHostPort, parseAddress, parseCidr} from '../../model/address.ts';
import {matchOptionOf, targetOptionOf, type Rule, type Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {commandAnswers} from '../../parse/pasted/command-answers.ts';
import type {Listed} from '../../parse/pasted/listed-objects.ts';
import {unrouted} from '../../parse/pasted/listed-state.ts';

/** The rules of a node. Parsed ones of a large text take much memory and time: who has them passes them on, and nothing keeps them. */
export interface RulesOfNode {
  readonly rulesets: Dumps['current'];
  readonly nft: NftRuleset | null;
}

export function rulesOf(node: NodeDump): RulesOfNode {
  return {rulesets: readDumps(node).current, nft: readNft(node)};
}

/** The Service ports in the rules of a node, in any proxy mode, sorted by name. The traces say what the rules do not show. */
export function servicesInRules(node: NodeDump, {rulesets, nft} = rulesOf(node)): readonly PortTrace[] {
  const traces = [
    ...[...rulesets.values()].flatMap(ruleset => iptablesServices(node.name, ruleset)),
    ...(nft === null ? [] : nftServices(node.name, nft)),
    ...ipvsServices(node),
  ];
  return traces.toSorted((a, b) => compareText(traceKey(a), traceKey(b)));
}

function traceKey({service, port, family}: PortTrace): string {
  return `${service.namespace === 'unnamed' ? '~' : ''}${service.namespace}/${service.name}:${port.name}/${port.protocol}/${family}`;
}

/** The virtual servers of IPVS with their real servers. The kernel stores the addresses of Services, not their names. */
function ipvsServices(node: NodeDump): readonly PortTrace[] {
  const whole = node.read('ipvsadm-save');
  const text = (whole ?? node.read('ipvsadm-part'))?.toString('utf8');
  if (text === undefined) return [];
  const {servers, unweighted, strays} = parseIpvsadm(text);
  const stats = parseIpvsadmStats(text);
  const isPart = whole === null && !isWholeByServer(fileText(node, wholeText));
  const byServer = new Map(strays.map(stray => [stray.server, stray] as const).toReversed());
  return [
    ...servers.map(server => {
      const stray = byServer.get(server.line);
      return serverTrace(node.name, server, stray === undefined ? picksOf(server, stats) : unweightedPicks(server, stats), {
        stray,
        isPart,
      });
    }),
    ...unweighted.map(server => serverTrace(node.name, server, unweightedPicks(server, stats), {stray: byServer.get(server.line), isPart})),
    ...[...byServer.values()].flatMap(stray => strayTrace(node.name, stray)),
  ];
}

/** `ipvsadm -Ln -t 10.96.1.1:80` lists one virtual server, and all of it. */
export function isWholeByServer(text: string): boolean {
  const commands = text.split('\n').filter(line => /\bipvsadm\s+-/.test(line));
  return commands.length > 0 && commands.every(line => /\bipvsadm\b[^|]*\s-[tuf]\s+\S+[^|]*$/.test(line)) && !/^\s*(?:\.{3}|…)/m.test(text);
}

/** A virtual server with a name in place of its address, as ipvsadm prints it without -n. */
function strayTrace(node: string, stray: StrayServer): readonly PortTrace[] {
  const [word, name] = String(stray.server).split(' ');
  const protocol = (['TCP', 'UDP', 'SCTP'] as const).find(each => each === word);
  if (name === undefined || protocol === undefined) return [];
  const path = {steps: [], picks: [], masquerade: false, end: notRead(stray)};
  const trace = {node, family: 'IPv4', service: {namespace: 'ipvs', name}, port: {name: '', protocol, port: 0}} as const;
  return [{...trace, entries: [entryTrace(unseenEntry, path)]}];
}

function notRead({line}: StrayServer): ShownPath['end'] {
  return {verdict: 'undecided', rule: null, reason: `line ${line} has no address that can be read; ipvsadm -Ln prints addresses`};
}

type AnyServer = VirtualServer | UnweightedServer;

interface ListedServer {
  readonly stray: StrayServer | undefined;
  /** The list may leave out real servers. */
  readonly isPart: boolean;
}

function serverTrace(node: string, server: AnyServer, picks: readonly ShownPick[], {stray, isPart}: ListedServer): PortTrace {
  const {family, address, port, protocol} = server;
  const isOfNode = isNodePort(port);
  const step = {...placeOf(server, server), to: `virtual server ${address}`};
  const entry = {kind: isOfNode ? 'nodePort' : 'clusterIP', address: isOfNode ? null : address, port} as const;
  return {
    node,
    family,
    service: {namespace: 'ipvs', name: address},
    port: {name: '', protocol, port},
    entries: [
      entryTrace(entry, {
        steps: [step],
        picks,
        masquerade: false,
        end: stray === undefined ? endOf(server, picks, isPart) : notRead(stray),
      }),
    ],
  };
}

/** A virtual server without real servers that take connections refuses each. */
function endOf(server: AnyServer, picks: readonly ShownPick[], isPart: boolean): ShownPath['end'] {
  if (picks.length > 0) return null;
  const rule = placeOf(server, server);
  if (!isPart) return {verdict: 'rejected', rule};
  const shown = server.realServers.length === 0 ? 'no real server' : 'real servers of weight 0 alone';
  return {verdict: 'undecided', rule, reason: `this part of a list shows ${shown}: if there are no others, packets are refused`};
}

type Place = Pick<VirtualServer, 'line' | 'text'>;

function placeOf({address}: Pick<AnyServer, 'address'>, {line, text}: Place): CountedRule {
  return {table: 'ipvs', chain: address, line, text};
}

function picksOf(server: VirtualServer, stats: IpvsStats): readonly ShownPick[] {
  const total = server.realServers.reduce((sum, {weight}) => sum + weight, 0);
  return server.realServers.filter(({weight}) => weight > 0).map(real => pickOf(server, real, {share: real.weight / total, stats}));
}

/** Without weights it is not known which real servers take new connections, and how many. */
function unweightedPicks(server: AnyServer, stats: IpvsStats): readonly ShownPick[] {
  return server.realServers.map(real => pickOf(server, real, {share: null, stats}));
}

function pickOf(
  server: AnyServer,
  real: Place & {readonly hostPort: string},
  {share, stats}: {readonly share: number | null; readonly stats: IpvsStats},
): ShownPick {
  const connections = stats.get(serverKey(server))?.get(real.hostPort)?.connections ?? null;
  const rule = {...placeOf(server, real), connections: connections ?? undefined};
  return {hostPort: real.hostPort, share, pick: rule, rewrite: rule};
}

interface ShownBeside {
  readonly lines: readonly string[];
  readonly listed: Listed;
  readonly traces: readonly PortTrace[];
  readonly rulesets: readonly Ruleset[];
}

/** What routes, lists, sets, connections and answers of commands show beside the rules, each in a few words. Most telling first. */
export function beyondRules(node: NodeDump, {lines, listed, traces, rulesets}: ShownBeside): readonly string[] {
  return [
    leftBehind(lines, listed, traces),
    lackedByHosts(lines),
    unrouted(lines, endpointsOf(traces)),
    rulesets.flatMap(ruleset => refusedAddresses(ruleset, ipsetsOf(node))),
    rulesets.flatMap(ruleset => refusesLocal(ruleset, lines)),
    rulesets.flatMap(ruleset => keptAtOne(ruleset, lines)),
    lackedLoops(lines, ipsetsOf(node), traces),
    silentServers(lines),
    stuckConnections(fileText(node, node.files.includes('ipvsadm-part') ? 'ipvsadm-part' : 'ipvsadm-save'), listed),
    lackedServers(lines, traces),
    commandAnswers(lines),
  ].flat();
}

/** Services that the whole table nat of one host does not have, and the rules of another host in the same text have. */
function lackedByHosts(lines: readonly string[]): readonly string[] {
  const hosts = new Map<string, {readonly names: Set<string>; isWhole: boolean}>();
  let [host, table] = ['', ''];
  for (const line of lines) {
    table = /^\*(\w+)\s*$/.exec(line)?.[1] ?? table;
    host = /^\s*\[?[\w-]+@([\w.-]+)[: ][^#$]{0,80}[#$]\s+\S/.exec(line)?.[1] ?? host;
    const own = hosts.get(host) ?? {names: new Set(), isWhole: false};
    const name = /^-A KUBE-SERVICES .*--comment "([\w.-]+\/[\w.:-]+) cluster IP".* -j KUBE-SVC-/.exec(line)?.[1];
    if (name !== undefined) own.names.add(name);
    // IPVS mode has sets in their place.
    if (line.includes('--match-set KUBE-CLUSTER-IP')) table = '';
    if (table === 'nat' && /^COMMIT\s*$/.test(line)) own.isWhole = true;
    if (host !== '' && (own.isWhole || name !== undefined)) hosts.set(host, own);
  }
  return [...hosts].flatMap(([place, {names, isWhole}]) => {
    const [other, ...rest] = [...hosts].filter(([one]) => one !== place);
    const lacked = [...(other?.[1].names ?? [])].filter(name => !names.has(name));
    if (!isWhole || other === undefined || rest.length > 0 || lacked.length === 0) return [];
    return `the rules of ${place} do not serve ${someOf(lacked)}, and those of ${other[0]} do: kube-proxy of ${place} does not follow the API server, its rules are refused (its log says so), or they are in the other backend of iptables`;
  });
}

/** Each once. */
function endpointsOf(traces: readonly PortTrace[]): readonly string[] {
  return [...new Set(traces.flatMap(({entries}) => entries.flatMap(({endpoints}) => endpoints.map(({hostPort}) => hostPort))))];
}

/** Services of rules that a list of all namespaces does not have. */
function leftBehind(lines: readonly string[], {services}: Listed, traces: readonly PortTrace[]): string | readonly string[] {
  const isWhole =
    services.some(({name}) => name === 'default/kubernetes') &&
    lines.some(line => line.includes('NAMESPACE') && /\bNAMESPACE\s+NAME\s+TYPE\s/.test(line)) &&
    !lines.some(line => /\.{3}|…|\bget\b/.test(line) && shortened.test(line));
  const listed = services.flatMap(({clusterIPs}) => clusterIPs);
  // kubectl shows one of the addresses of a Service with two families.
  if (!isWhole || listed.some(address => address.includes(':'))) return [];
  // The usual range of Services is as wide, and addresses of load balancers are mostly elsewhere.
  const ranges = [...new Set(listed.map(address => parseCidr(`${address}/12`)?.text ?? ''))].flatMap(text => parseCidr(text) ?? []);
  const inRows = new Set(lines.flatMap(line => (/\s(?:ClusterIP|NodePort|LoadBalancer)\s/.test(line) ? line.split(/[\s,]+/) : [])));
  const gone = traces.flatMap(({service, port, entries}) =>
    entries.flatMap(({entry: {kind, address}}) => {
      const parsed = kind === 'clusterIP' && address != null ? parseAddress(address) : null;
      if (parsed === null || address == null || inRows.has(address)) return [];
      return ranges.some(range => contains(range, parsed))
        ? [service.namespace === 'ipvs' ? `${address}:${port.port}` : `${servicePortText(service, port)} (${address})`]
        : [];
    }),
  );
  if (gone.length === 0) return [];
  return `the rules serve ${someOf([...new Set(gone)])}, which the list of all Services does not have: left behind, or the list is older`;
}

/** What leaves rows out of a list of Services. */
const shortened =
  /^\s*(?:\.{3,}|…)|\sLoadBalancer\s.*\.{3}\s|\bget\b.*\b(?:svc|services?|all)\b.*(?:\||\s-l|--(?:selector|field-selector))/;

/** Session affinity, where somebody sees all requests at one endpoint. */
function keptAtOne({tables}: Ruleset, lines: readonly string[]): readonly string[] {
  const sees = /\b(?:one|same|single) (?:pod|endpoint|backend|replica)\b|\buneven|\bnot (?:evenly |being )?(?:balanced|distributed)/i;
  if (!lines.some(line => !/^-A|\/\*/.test(line) && sees.test(line))) return [];
  const picks = [...(tables.get('nat')?.chains.startingWith('KUBE-SVC-', 'KUBE-SVL-') ?? [])].flatMap(chain => chain.rules());
  const kept = picks.filter(rule => matchOptionOf(rule, '--seconds') !== undefined);
  return [...Map.groupBy(kept, rule => matchOptionOf(rule, '--comment')?.replace(/ -> .*/, ''))].flatMap(([name, [rule]]) =>
    name === undefined || rule === undefined
      ? []
      : `${name} has session affinity by client IP (${matchOptionOf(rule, '--seconds')} s): all connections of one address, such as that of a proxy before it, go to one endpoint`,
  );
}

export const localPolicy = /\bexternal ?Traffic ?Policy\W+(?:to\W+)?Local\b/i;

/** A filter of IPVS mode without a rule that lets external IPs of a Local policy through, beside a Service that has this policy. */
function refusesLocal(ruleset: Ruleset, lines: readonly string[]): string | readonly string[] {
  const asked = ipvsFilter(ruleset).map(rule => matchOptionOf(rule, '--match-set'));
  if (!asked.includes('KUBE-IPVS-IPS') || !asked.includes('KUBE-EXTERNAL-IP') || asked.includes('KUBE-EXTERNAL-IP-LOCAL')) return [];
  return lines.some(line => localPolicy.test(line))
    ? 'KUBE-IPVS-FILTER refuses external IPs of Services with the external traffic policy Local: it does not ask KUBE-EXTERNAL-IP-LOCAL, as kube-proxy does since 1.28.6, 1.29.2 and 1.30'
    : [];
}

/** The rules of KUBE-IPVS-FILTER, if the text shows all of them. */
function ipvsFilter({tables}: Ruleset): readonly Rule[] {
  const filter = tables.get('filter')?.chains.get('KUBE-IPVS-FILTER');
  return filter?.complete === true ? filter.rules() : [];
}

/** Addresses that IPVS mode refuses where no set that the filter lets through has them. */
function refusedAddresses(ruleset: Ruleset, sets: ReadonlyMap<string, IpSet>): readonly string[] {
  const rules = ipvsFilter(ruleset);
  const refused = new Set(sets.get('KUBE-IPVS-IPS')?.elements.map(([address = '']) => address));
  if (refused.size === 0 || !rules.some(rule => rule.target?.name === 'REJECT' && matchOptionOf(rule, '--match-set') === 'KUBE-IPVS-IPS'))
    return [];
  const asked = rules.flatMap(rule => (rule.target?.name === 'RETURN' ? (matchOptionOf(rule, '--match-set') ?? []) : []));
  const passed = new Set(asked.flatMap(name => sets.get(name)?.elements.map(element => element.join()) ?? []));
  const unseen = asked.filter(name => !sets.has(name));
  return [...sets.values()].flatMap(({name, parts, elements}) => {
    if (!name.startsWith('KUBE-') || parts.join() !== 'ip,port' || asked.includes(name)) return [];
    const stopped = elements.filter(element => refused.has(element[0] ?? '') && !passed.has(element.join()));
    if (stopped.length === 0) return [];
    const otherwise = unseen.length === 0 ? '' : `, unless ${someOf(unseen)} has it, which is not shown`;
    return `KUBE-IPVS-FILTER refuses ${someOf(stopped.map(element => element.join()))}: KUBE-IPVS-IPS has the address, and none of the sets that are asked before has it with the port (${name} is not asked)${otherwise}`;
  });
}

/** Real servers that KUBE-LOOP-BACK, which somebody listed alone, does not have: it has those on its own node. */
function lackedLoops(lines: readonly string[], sets: ReadonlyMap<string, IpSet>, traces: readonly PortTrace[]): string | readonly string[] {
  const loops = sets.get('KUBE-LOOP-BACK');
  if (loops === undefined || !lines.some(line => /\bipset\b.*\bKUBE-LOOP-BACK\b/.test(line))) return [];
  const held = new Set(loops.elements.map(([address = '', port = '']) => `${address} ${port.replace(/^\w+:/, '')}`));
  const lacked = endpointsOf(traces.filter(({service}) => service.namespace === 'ipvs')).filter(hostPort => {
    const {address, port} = splitHostPort(hostPort);
    return !held.has(`${address} ${port}`);
  });
  if (lacked.length === 0) return [];
  return `KUBE-LOOP-BACK does not have ${someOf(lacked)}: those of these pods that are on this node do not reach themselves by a Service`;
}

/** A whole PREROUTING of table nat, where no chain of kube-proxy is. */
export function lackedJump(lines: readonly string[], rulesets: readonly Ruleset[]): readonly string[] {
  const nat = rulesets.flatMap(({tables}) => tables.get('nat') ?? []);
  const rules = nat.flatMap(({chains}) => chains.get('PREROUTING') ?? []).flatMap(chain => (chain.complete ? chain.rules() : []));
  const isOfOthers = nat.some(({chains}) => [...chains.startingWith('KUBE-', 'CILIUM_', 'OVN-KUBE-')].length > 0);
  if (rules.length === 0 || isOfOthers || rules.some(({text}) => /KUBE-|CILIUM_/.test(text))) return [];
  const inPod = nat.flatMap(({chains}) => [...chains.startingWith('ISTIO_', 'PROXY_INIT_', 'KUMA_MESH_', 'CONSUL_PROXY_')]);
  const ports = new Set(inPod.flatMap(chain => chain.rules().flatMap(rule => targetOptionOf(rule, '--to-ports') ?? [])));
  if (ports.size > 0)
    return [
      `the rules are those of a pod, and not of a node: they send its connections to the proxy of a service mesh in the pod (port ${someOf([...ports])}), which connects to Services itself and refuses what it does not know. The log of its container (istio-proxy, linkerd-proxy) says why`,
    ];
  const why = lines.some(line => line.includes('iptables-legacy tables present'))
    ? 'the rules of kube-proxy may be those of iptables-legacy, which has tables, too (iptables-legacy-save)'
    : 'in iptables and IPVS mode a firewall that was reloaded may have removed the jump, which a restart of kube-proxy writes again';
  return [`PREROUTING of table nat does not lead to KUBE-SERVICES: ${why}`];
}

/** Real servers that `ipvsadm --stats` shows to get packets of TCP, and from which none came back through the node. */
function silentServers(lines: readonly string[]): readonly string[] {
  let hasTotals = false;
  let server = '';
  if (!lines.some(line => line.includes(' Conns '))) return [];
  return lines.flatMap(line => {
    const words = line.trim().split(/\s+/);
    if (words[0] === 'Prot') hasTotals = words[2] === 'Conns';
    if (/^(?:TCP|UDP|SCTP|FWM)$/.test(words[0] ?? '')) server = words[0] === 'TCP' ? (words[1] ?? '') : '';
    const [arrow, real = '', , received = '', sent] = words;
    return hasTotals && server !== '' && arrow === '->' && /^[1-9]\d*[KMGT]?$/.test(received) && sent === '0'
      ? `${real} got ${received} packets for ${server}, and none came back through this node: it does not answer, or its answers take another way`
      : [];
  });
}

/** Connections that stay at real servers of weight 0, where kubectl lists another one of the virtual server and not this, or many ended lately. */
function stuckConnections(text: string, {endpoints, ready}: Listed): readonly string[] {
  const lists = [...endpoints].flatMap(([name, list]) => (ready.has(name) ? [list] : []));
  const stats = parseIpvsadmStats(text);
  return parseIpvsadm(text).servers.flatMap(server => {
    const list = lists.find(own => server.realServers.some(({hostPort}) => own.has(hostPort)));
    return server.realServers.flatMap(({hostPort, weight}) => {
      const {open: ofNow, closing} = stats.get(serverKey(server))?.get(hostPort) ?? {};
      const open = ofNow ?? 0;
      if (lists.length === 0 && weight === 0 && (closing ?? 0) >= 100)
        return `${hostPort} has the weight 0, its endpoint is about to go, and ${closing} connections ended lately: clients that use their ports again are sent there even when the pod is gone, unless net.ipv4.vs.conn_reuse_mode is 1`;
      return list === undefined || list.has(hostPort) || weight > 0 || open === 0
        ? []
        : `${plural(open, 'connection')} to ${joinHostPort(server.address, server.port)} ${open === 1 ? 'stays' : 'stay'} at ${hostPort}, which is none of the endpoints that kubectl lists (${someOf([...list])}): a real server of weight 0 keeps them until they end`;
    });
  });
}

/** A whole list of virtual servers that has none, where no other rules serve Services. */
function lackedServers(lines: readonly string[], traces: readonly PortTrace[]): readonly string[] {
  const at = traces.length > 0 ? -1 : lines.findIndex(line => /^\s*-> RemoteAddress:Port\s/.test(line));
  const isFiltered = lines.slice(Math.max(0, at - 4), at).some(line => /\bipvsadm\b.*(?:\||\s-[tuf]\s|-service)/.test(line));
  return at < 0 ||
    isFiltered ||
    lines.some(line => /^\s*(?:TCP|UDP|SCTP|FWM)\s+\S+:?\S*\s|KUBE-S(?:VC|EP)-|^table ip6? kube-proxy/.test(line))
    ? []
    : ['ipvsadm lists no virtual server: in IPVS mode kube-proxy has written none, not even that of default/kubernetes'];
}
