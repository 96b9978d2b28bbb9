import type {CountedRule, PortTrace} from '../../model/service-trace.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import {fileText, type NodeDump} from '../../model/snapshot.ts';
import {compareText} from '../../model/text.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import {parseIpvsadm, type StrayServer, type UnweightedServer} from '../../parse/ipvs/ipvsadm-save.ts';
import {type IpvsStats, parseIpvsadmStats} from '../../parse/ipvs/ipvsadm-stats.ts';
import {wholeText} from '../../parse/pasted/split-text.ts';
import {readDumps} from '../iptables/node-rulesets.ts';
import type {Dumps} from '../proxy-mode.ts';
import {readNft} from '../nftables/nft-rules.ts';
import {iptablesServices} from './iptables-services.ts';
import {nftServices} from './nft-services.ts';
import {entryTrace, type ShownPath, type ShownPick, unseenEntry} from './shown-port.ts';

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
  const isNodePort = port >= 30_000 && port <= 32_767;
  const step = {...placeOf(server, server), to: `virtual server ${address}`};
  const entry = {kind: isNodePort ? 'nodePort' : 'clusterIP', address: isNodePort ? null : address, port} as const;
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
  const connections = stats.servers.get(serverKey(server))?.get(real.hostPort)?.connections ?? null;
  const rule = {...placeOf(server, real), ...(connections === null ? {} : {connections})};
  return {hostPort: real.hostPort, share, pick: rule, rewrite: rule};
}
