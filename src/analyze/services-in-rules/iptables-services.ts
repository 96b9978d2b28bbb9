import {parseChainName} from '../../expect/iptables/chain-names.ts';
import {type Chain, commentOf, matchOptionOf, optionOf, type Rule, type Ruleset, targetOptionOf} from '../../model/ruleset.ts';
import type {Entry} from '../../model/service-port.ts';
import type {EntryTrace, PortTrace, TraceStep} from '../../model/service-trace.ts';
import {servicePortText} from '../../model/text.ts';
import {hiddenInterfaces} from '../../parse/iptables/iptables-list.ts';
import {notInText, portTraces, type ShownEntry, type ShownPath, type ShownPick, stepOf, unseenEntry} from './shown-port.ts';

/** The Service ports that rules of iptables serve, or reject, with the path from each entry to the endpoints. */
export function iptablesServices(node: string, ruleset: Ruleset): readonly PortTrace[] {
  const names = portsByHash(ruleset);
  const entries = [...serviceEntries(ruleset, names), ...refusedEntries(ruleset), ...portalEntries(ruleset)];
  return portTraces(node, ruleset.family, [...entries, ...chainsWithoutEntry(ruleset, names, entries)]);
}

function rulesIn(ruleset: Ruleset, table: string, ...chains: readonly string[]): readonly Rule[] {
  return chains.flatMap(chain => ruleset.chain(table, chain)?.rules() ?? []);
}

function serviceEntries(ruleset: Ruleset, names: ReadonlyMap<string, CommentedPort>): readonly ShownEntry[] {
  return rulesIn(ruleset, 'nat', 'KUBE-SERVICES', 'KUBE-NODEPORTS').flatMap(rule => {
    const target = parseChainName(rule.target?.name ?? '');
    if (target === null || target.role === 'SEP' || rule.target === null) return [];
    const port = commentedPort(rule) ?? names.get(target.hash) ?? unnamed(rule.target.name);
    const entry = entryOf(rule, port);
    if (entry === null) return [];
    const path = pathFrom(ruleset, rule.target.name, [stepOf(rule, rule.target.name)]);
    const marked = path.masquerade || isMasqueradedBefore(ruleset, rule);
    return {...port, entry, protocol: protocolOf(rule), path: {...path, masquerade: marked && entry.kind !== 'clusterIP'}};
  });
}

/** Up to 1.21 the previous rule in the same chain marks packets to the same entry. */
function isMasqueradedBefore(ruleset: Ruleset, rule: Rule): boolean {
  const rest = rule.text.replace(/ -j .*$/, '');
  return rulesIn(ruleset, 'nat', rule.chain).some(({text}) => text === `${rest} -j KUBE-MARK-MASQ`);
}

/** Services without endpoints are rejected in table filter. */
function refusedEntries(ruleset: Ruleset): readonly ShownEntry[] {
  return rulesIn(ruleset, 'filter', 'KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES').flatMap(rule => {
    const port = commentedPort(rule);
    const verdict = rule.target?.name === 'REJECT' ? 'rejected' : rule.target?.name === 'DROP' ? 'dropped' : null;
    if (port === null || verdict === null) return [];
    // `iptables -L` without `-n` may name the port.
    const entry = entryOf(rule, port) ?? unseenEntry;
    return {...port, entry, protocol: protocolOf(rule), path: {steps: [], picks: [], masquerade: false, end: {verdict, rule}}};
  });
}

/** In userspace mode rules redirect to a port of kube-proxy itself, which picks the endpoint. */
function portalEntries(ruleset: Ruleset): readonly ShownEntry[] {
  const chains = ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST', 'KUBE-NODEPORT-CONTAINER', 'KUBE-NODEPORT-HOST'];
  return rulesIn(ruleset, 'nat', ...chains).flatMap(rule => {
    const port = commentedPort(rule);
    const entry = port === null ? null : entryOf(rule, port);
    const to = targetOptionOf(rule, '--to-ports', '--to-destination');
    if (port === null || entry === null || to === undefined) return [];
    const hostPort = `kube-proxy itself, at ${to.includes(':') ? to : `port ${to} of the node`}`;
    const path: ShownPath = {steps: [], picks: [{hostPort, share: 1, pick: rule, rewrite: rule}], masquerade: false, end: null};
    return {...port, entry, protocol: protocolOf(rule), path};
  });
}

/** Chains of Services that no rule of the text jumps to. */
function chainsWithoutEntry(
  ruleset: Ruleset,
  names: ReadonlyMap<string, CommentedPort>,
  entries: readonly ShownEntry[],
): readonly ShownEntry[] {
  const reached = new Set(entries.flatMap(({path}) => path.steps.map(({to}) => to)));
  const chains = [...(ruleset.tables.get('nat')?.chains.startingWith('KUBE-SVC-', 'KUBE-SVL-', 'KUBE-XLB-') ?? [])];
  return chains.flatMap(chain => {
    const hash = parseChainName(chain.name)?.hash;
    if (chain.rules().length === 0 || hash === undefined || reached.has(chain.name)) return [];
    const port = names.get(hash) ?? unnamed(chain.name);
    if (
      entries.some(other => servicePortText(other.service, {name: other.portName}) === servicePortText(port.service, {name: port.portName}))
    )
      return [];
    const path = pathFrom(ruleset, chain.name, []);
    const protocol = path.picks
      .map(({rewrite}) => (rewrite === null ? null : / -p (tcp|udp|sctp)\b/.exec(rewrite.text)?.[1]))
      .find(Boolean);
    const entry: Entry = chain.name.startsWith('KUBE-XLB-') ? {...unseenEntry, kind: 'nodePort'} : unseenEntry;
    return {...port, entry, protocol: (protocol ?? 'tcp').toUpperCase(), path};
  });
}

/** A chain whose Service no comment names: the chain name is a hash. */
function unnamed(chain: string): CommentedPort {
  return {service: {namespace: 'unnamed', name: chain}, portName: '', rest: ''};
}

function entryOf(rule: Rule, {rest}: CommentedPort): Entry | null {
  const dport = matchOptionOf(rule, '--dport');
  const address = optionOf(rule, '-d')?.replace(/\/(?:32|128)$/, '') ?? null;
  if (dport === undefined) return null;
  const isNodePort = rule.chain.includes('NODEPORT') || address === null || address.includes('/');
  const kind = isNodePort
    ? 'nodePort'
    : /external IP/.test(rest) || rule.chain === 'KUBE-EXTERNAL-SERVICES'
      ? 'externalIP'
      : /loadbalancer IP/.test(rest)
        ? 'loadBalancerIP'
        : 'clusterIP';
  return {kind, address: isNodePort ? null : address, port: Number(dport)};
}

function protocolOf(rule: Rule): string {
  return (optionOf(rule, '-p') ?? 'tcp').toUpperCase();
}

/** The content of a kube-proxy comment: `shop/web:http cluster IP`. */
interface CommentedPort {
  readonly service: PortTrace['service'];
  readonly portName: string;
  /** The part after the name: `cluster IP`, `-> 10.244.1.5:8080`. */
  readonly rest: string;
}

/** The Service port in a rule's comment; null if it names none. */
export function commentedPort(rule: Rule): CommentedPort | null {
  const text = commentOf(rule)?.replace(
    /^(?:Balancing rule \d+ for|masquerade (?:LOCAL )?traffic for|pod traffic for|route LOCAL traffic for) /,
    '',
  );
  // Who pastes rules may have put words in the place of names, as in <namespace>/my_service.
  const found = text === undefined ? null : /^(?:([\w<*][\w.<>*-]*)\/)?([\w<*][\w.<>*-]*)(?::([\w<>*-]*))?(?:\s+(.*))?$/.exec(text);
  if (text === undefined || found === null || (found[1] === undefined && !isOfService.test(text))) return null;
  const [, namespace = 'unnamed', name = '', portName = '', rest = ''] = found;
  return {service: {namespace, name}, portName, rest};
}

/** Of a comment without the namespace, which who pastes it may have left out. */
const isOfService = /^\S+ (?:has no (?:local )?endpoints|(?:cluster|external|loadbalancer) IP)$/;

/** The Service ports of chains, by the 16 characters that all chains of one have in common. */
function portsByHash(ruleset: Ruleset): ReadonlyMap<string, CommentedPort> {
  const ports = new Map<string, CommentedPort>();
  for (const chain of ruleset.tables.get('nat')?.chains.values() ?? []) {
    if (!chain.name.startsWith('KUBE-')) continue;
    const own = parseChainName(chain.name);
    for (const rule of chain.rules()) {
      const port = commentedPort(rule);
      const target = parseChainName(rule.target?.name ?? '');
      if (port === null) continue;
      if (own !== null && own.role !== 'SEP') ports.set(own.hash, port);
      if (target !== null && target.role !== 'SEP') ports.set(target.hash, port);
    }
  }
  return ports;
}

/** Follows the jumps from a chain of a Service port to the chain that picks an endpoint, and from there to the endpoints. */
function pathFrom(ruleset: Ruleset, first: string, start: readonly TraceStep[]): ShownPath {
  const steps = [...start];
  let masquerade = false;
  for (let name = first; ; ) {
    const chain = ruleset.chain('nat', name);
    if (chain === undefined) return {steps, picks: [], masquerade, end: notInText(`chain ${name}`)};
    const rules = chain.rules();
    if (rules.some(isPick)) return {steps, masquerade, ...picksOf(ruleset, chain)};
    masquerade ||= rules.some(rule => rule.target?.name === 'KUBE-MARK-MASQ' && isForAll(rule));
    // The conditions of these chains are for pods and the node itself, those of KUBE-FW for clients in the source ranges.
    const isForOutside = ['EXT', 'XLB'].includes(parseChainName(name)?.role ?? '');
    const jump = rules.findLast(rule => leadsOn(rule) && isForAll(rule)) ?? (isForOutside ? undefined : rules.find(leadsOn));
    if (jump === undefined || steps.length > 8) return {steps, picks: [], masquerade, end: endOf(chain)};
    name = jump.target?.name ?? '';
    steps.push(stepOf(jump, name));
  }
}

function isPick({target, matches}: Rule): boolean {
  return parseChainName(target?.name ?? '')?.role === 'SEP' && !matches.some(({options}) => options.some(({flag}) => flag === '--rcheck'));
}

function leadsOn({target}: Rule): boolean {
  const role = parseChainName(target?.name ?? '')?.role;
  return role !== undefined && role !== 'SEP';
}

/** The rule has no condition that only some packets fulfill. */
function isForAll({options, matches}: Rule): boolean {
  return options.every(({flag}) => flag === '-p' || flag === '-d') && matches.every(({name}) => passing.has(name));
}

const passing = new Set(['comment', 'tcp', 'udp', 'sctp', hiddenInterfaces]);

function picksOf(ruleset: Ruleset, chain: Chain): Pick<ShownPath, 'picks' | 'end'> {
  let rest = 1;
  const picks = chain
    .rules()
    .filter(isPick)
    .map((rule): ShownPick => {
      const share = rest * probabilityOf(rule);
      rest -= share;
      return {...endpointOf(ruleset, rule), share, pick: rule};
    });
  if (rest < 1e-6) return {picks, end: null};
  const part = `${Math.round(rest * 1000) / 10}% of the packets`;
  return {picks, end: chain.complete ? {verdict: 'passed', rule: null} : notInText(`the rule of ${chain.name} for ${part}`)};
}

export function probabilityOf(rule: Rule): number {
  return Number(matchOptionOf(rule, '--probability') ?? 1);
}

/** The endpoint of an endpoint chain; up to 1.30 the comment of the jump shows it, too. */
function endpointOf(ruleset: Ruleset, jump: Rule): Pick<ShownPick, 'hostPort' | 'rewrite'> {
  const name = jump.target?.name ?? '';
  const rewrite = rulesIn(ruleset, 'nat', name).find(({target}) => target?.name === 'DNAT') ?? null;
  const to = rewrite === null ? undefined : targetOptionOf(rewrite, '--to-destination');
  const said = / -> (\S+)"/.exec(jump.text)?.[1];
  return {hostPort: to ?? said ?? `${name}, which is not in this text`, rewrite};
}

function endOf(chain: Chain): EntryTrace['end'] {
  const drop = chain.rules().find(({target}) => target?.name === 'KUBE-MARK-DROP' || target?.name === 'DROP');
  if (drop !== undefined) return {verdict: 'dropped', rule: drop};
  if (!chain.complete) return notInText(`what chain ${chain.name} leads to`);
  return {verdict: 'passed', rule: null, reason: `chain ${chain.name} ${picksNothing}`};
}

/** Of a chain of a Service that is whole. */
export const picksNothing = 'picks no endpoint';
