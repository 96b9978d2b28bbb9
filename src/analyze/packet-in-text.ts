import {parseChainName} from '../expect/iptables/chain-names.ts';
import {isBaseChain} from '../expect/iptables/expected-ruleset.ts';
import type {NftRuleset, NftTable} from '../model/nft-ruleset.ts';
import type {ChainsByName, Ruleset, RuleText} from '../model/ruleset.ts';
import {onceAsked} from '../model/once.ts';
import {someOf} from '../model/text.ts';
import type {VirtualServer} from '../model/virtual-server.ts';
import type {Packet} from '../trace/walked-packet.ts';
import {joinHostPort, type Address} from '../model/address.ts';
import {bridgeOfOthers} from './services-in-rules/what-rules-say.ts';
import {isUnhooked, servesNothing} from './iptables/excerpt.ts';
import {holdsKubeProxy, isGap, mayNameInterface, withoutInterfaces, withoutRule} from './iptables/text-gaps.ts';
import {byLastRule, type PacketOutcome, type PacketRules, type Walked, walkRules} from './packet-rules.ts';
import type {PartOfServers} from './ipvs/shown-servers.ts';
import {effectText, rivalsOf, type Taker, takersOf, type UncalledChain, uncalledChains, uncalledNftChains} from './uncalled-chains.ts';

/**
 * Walks the rules of pasted text. An outcome stands only if no rule that the text leaves out can change it; otherwise the answer says what
 * the shown rules do, and which others decide. `rules` are those that are shown, with their gaps.
 */
export function walkShown(
  rules: PacketRules,
  shown: PacketRules,
  walked: Walked & Pick<ShownText, 'servers' | 'isUnbound'> & {readonly isOfService: boolean},
): readonly PacketOutcome[] {
  const {packet, environment, servers, isUnbound, isOfService} = walked;
  const isLocal = environment.isLocal(packet.destination);
  const server = environment.virtualServer?.(packet);
  // kube-proxy gives the node the addresses of its virtual servers.
  const ofServer = server !== undefined && isLocal === null ? true : null;
  // In nftables mode the node has no addresses of Services.
  const ofTables = shown.iptables === null && isOfService && isLocal === null ? false : null;
  const place = ofServer ?? ofTables ?? hookOf(shown.iptables, isLocal);
  const here = {
    ...walked,
    environment: place === null ? environment : {...environment, isLocal: (one: Address) => environment.isLocal(one) ?? place},
  };
  const plain: PacketRules = rules.iptables === null ? rules : {...rules, iptables: withoutInterfaces(rules.iptables)};
  const elsewhere = onceAsked(() => walkRules(plain, {...here, environment: {...here.environment, isLocal: () => false}}));
  const takers = onceAsked(() =>
    plain.iptables === null || shown.iptables === null ? [] : takersOf(shown.iptables, plain.iptables, walked),
  );
  const text: ShownText = {
    ...shown,
    takers,
    missing: missingOf(shown),
    assumed: place,
    packet,
    server,
    servers,
    isUnbound,
    elsewhere,
    isLocal: place ?? isLocal,
  };
  const uncalled = () => [
    ...(plain.iptables === null || shown.iptables === null ? [] : uncalledChains(shown.iptables, plain.iptables, here)),
    ...(shown.nft === null ? [] : uncalledNftChains(shown.nft, here)),
  ];
  const outcomes = walkRules(rules, here);
  const others = plain === rules ? outcomes : walkRules(plain, here);
  if (outcomes.some(({doubt}) => mayNameInterface(doubt)))
    return others.map(outcome => ifNoInterface(answerOf(outcome, text, uncalled), otherwise(outcome, plain, here)));
  // A row that may name an interface, and that jumps to a chain that is not shown, changes nothing that the walk knows.
  return (gapsOf(others) > gapsOf(outcomes) ? others : outcomes).map(outcome => {
    const beside = besideBridges(outcome, plain, here);
    return beside === null ? answerOf(outcome, text, uncalled) : unlessOnBridge(answerOf(beside.outcome, text, uncalled), beside.bridges);
  });
}

/**
 * What stops a packet that does not pass the bridges of other programs, where only rules about these leave its outcome undetermined: pods are
 * mostly on other ones. Null where something else decides.
 */
function besideBridges(first: PacketOutcome, rules: PacketRules, walked: Walked) {
  let [outcome, {iptables}] = [first, rules];
  const bridges = new Set<string>();
  for (let tries = 0; tries < maxRules && iptables !== null && outcome.verdict === 'undecided' && outcome.doubt !== undefined; tries++) {
    const bridge = bridgeOfOthers.exec(outcome.doubt.text)?.[1];
    if (bridge === undefined) return null;
    bridges.add(bridge);
    iptables = withoutRule(iptables, outcome.doubt);
    const [only, ...more] = walkRules({...rules, iptables}, walked);
    if (only === undefined || more.length > 0) return null;
    outcome = only;
  }
  return bridges.size > 0 && (outcome.verdict === 'drop' || outcome.verdict === 'reject') ? {outcome, bridges} : null;
}

const maxRules = 20;

function unlessOnBridge(outcome: PacketOutcome, bridges: ReadonlySet<string>): PacketOutcome {
  const passes = `it passes ${someOf([...bridges])}`;
  const {verdict, condition, reason, stopped} = outcome;
  if (verdict === 'accept') return outcome;
  if (verdict === 'undecided') {
    if (stopped === undefined) return outcome;
    return {
      ...outcome,
      ...(condition === undefined ? {} : {condition: `${condition}, or ${passes}`}),
      stopped: {...stopped, unless: [stopped.unless, passes].filter(part => part !== null).join(', or ')},
      reason: `${reason ?? ''}, or ${passes}`,
    };
  }
  const done = `${verdict === 'drop' ? 'dropped' : 'refused'} ${stoppedBy(outcome).by}`;
  return {...undecidedAt(outcome, `${done}, unless ${passes}`), condition: `${done} unless ${passes}`, stopped: {verdict, unless: passes}};
}

function gapsOf(outcomes: readonly PacketOutcome[]): number {
  return outcomes.flatMap(({path}) => path.filter(isGap)).length;
}

/** Rows of `iptables -L` do not show interfaces without `-v`. */
function ifNoInterface(outcome: PacketOutcome, instead: string | null): PacketOutcome {
  const {verdict, reason} = outcome;
  const other = instead === null ? '' : ` (${instead})`;
  const condition = `if no rule on this path names an interface, which iptables -L shows with -v alone${other}`;
  if (verdict === 'undecided') {
    const made = {...outcome, reason: `${condition}; ${reason ?? ''}`};
    return instead === null || outcome.condition !== undefined ? made : {...made, condition: instead};
  }
  const word = {accept: 'accepted', drop: 'dropped', reject: 'refused'}[verdict];
  const made = undecidedAt(outcome, `${[word, reason].filter(part => part !== undefined).join(' ')}, ${condition}`);
  const stopped =
    verdict === 'accept' ? {} : {stopped: {verdict, unless: 'a rule names an interface, which iptables -L shows with -v alone'}};
  return {...made, ...stopped, condition: `${word} if no rule names an interface`};
}

/** The outcome of a packet that a rule accepts, if this rule names another interface; null if that is not one word. */
function otherwise({verdict, path}: PacketOutcome, plain: PacketRules, walked: Walked): string | null {
  const last = path.findLast(rule => !isGap(rule));
  if (verdict !== 'accept' || plain.iptables === null || last === undefined) return null;
  if (!mayNameInterface(last) || !last.text.endsWith('-j ACCEPT')) return null;
  const [end, ...others] = walkRules({...plain, iptables: withoutRule(plain.iptables, last)}, walked);
  if (end === undefined || others.length > 0 || (end.verdict !== 'drop' && end.verdict !== 'reject')) return null;
  return `${end.verdict === 'drop' ? 'dropped' : 'refused'} ${stoppedBy(end).by} if line ${last.line} names another interface`;
}

/** What nftables lack. */
interface Missing {
  readonly text: string;
  /** It is in the table of kube-proxy, and no other table lacks anything. */
  readonly isOfKubeProxy: boolean;
}

/** Whether the text shows virtual servers of IPVS: all, none, or what it shows of that of the packet. */
type ShownServers = 'all' | 'none' | PartOfServers;

interface ShownText {
  readonly iptables: Ruleset | null;
  readonly nft: NftRuleset | null;
  readonly missing: Missing | null;
  /** Whether the destination is taken as an address of the node, where that is not known. */
  readonly assumed: boolean | null;
  readonly packet: Packet;
  readonly isLocal: boolean | null;
  /** The virtual server of the packet. */
  readonly server: VirtualServer | undefined;
  readonly servers: ShownServers;
  /** kube-ipvs0, as far as the text shows it, lacks the destination of the packet. */
  readonly isUnbound: boolean;
  /** The outcomes if the node does not have the destination of the packet, as after address translation to a pod. */
  readonly elsewhere: () => readonly PacketOutcome[];
  readonly takers: () => readonly Taker[];
}

/** Whether the destination is taken as an address of the node: by the chains that the text shows; null where nothing has to be assumed. */
function hookOf(shown: Ruleset | null, isLocal: boolean | null): boolean | null {
  if (shown === null || isLocal !== null) return null;
  const filter = shown.tables.get('filter')?.chains;
  const [input, forward] = [filter?.has('INPUT') === true, filter?.has('FORWARD') === true];
  if (input && forward && shown.hasTable('nat')) return null;
  return input && !forward;
}

function answerOf(found: PacketOutcome, text: ShownText, uncalled: () => readonly UncalledChain[]): PacketOutcome {
  const gaps = found.path.filter(isGap);
  const outcome = {...found, path: found.path.filter(rule => !isGap(rule))};
  const {verdict, lost} = outcome;
  if (lost === undefined && (verdict === 'drop' || verdict === 'reject')) return ofStopped({...outcome, verdict}, gaps, text);
  const missing = [
    ...((text.server !== undefined && text.assumed === true) || isPartUnbound(text)
      ? [`that ${text.isUnbound ? 'another interface than kube-ipvs0, which lacks it,' : 'kube-ipvs0'} has ${text.packet.destination.text}`]
      : []),
    ...namesOf(gaps, text),
    ...(text.missing === null ? [] : [text.missing.text]),
  ];
  const answer = missing.length === 0 ? ofWhole(outcome, text) : ofPart(outcome, missing, text, uncalled());
  const port = outcome.doubt === undefined ? redirectedTo(answer) : undefined;
  return port === undefined ? answer : {...answer, condition: `sent to port ${port} of the node itself`};
}

/** The port to which the last rule on the path sends the packet, on an address of the node that is not known. */
function redirectedTo({verdict, condition, rewrittenTo, path}: PacketOutcome): string | undefined {
  if (verdict !== 'undecided' || condition !== undefined || rewrittenTo !== undefined) return undefined;
  return / -j REDIRECT .*--to-ports (\d+)$/.exec(path.at(-1)?.text ?? '')?.[1];
}

/** A list of some virtual servers has that of the packet, and kube-ipvs0 lacks its address: nothing gives the packet to IPVS. */
function isPartUnbound({servers, isUnbound}: ShownText): boolean {
  return isUnbound && typeof servers === 'object' && servers.isServed === true;
}

/** Rules that the text does not show decide what happens, unless one that it shows is enough by itself. */
function ofPart(outcome: PacketOutcome, missing: readonly string[], text: ShownText, chains: readonly UncalledChain[]): PacketOutcome {
  const refusing = chains.find(
    ({path, verdict}) => (verdict === 'drop' || verdict === 'reject') && isRefusal(path) && !path.some(marksForRefusal),
  );
  if (refusing?.verdict === 'drop' || refusing?.verdict === 'reject')
    return {...outcome, verdict: refusing.verdict, destination: null, path: refusing.path, reason: whyRefused(refusing)};
  const led = outcome.verdict === 'undecided' ? outcome.reason : undefined;
  const calls = chains.map(one => `where ${one.place} is called is not shown; if it is called, the packet is ${effectText(one)}`);
  const isUnmatched = calls.length + outcome.path.length === 0 && led === undefined;
  const shown = `this text does not show ${someOf(missing, {max: 6})}${isUnmatched ? ', and no rule that it shows matches the packet' : ''}`;
  const takers = text.takers();
  const rivals = rivalsOf(takers);
  const reason = [aboutKubeProxy(text), led, rivals?.reason, ...calls.slice(0, 3), shown].filter(part => part !== undefined).join('; ');
  const made = undecidedAt({...outcome, path: [...outcome.path, ...(chains[0]?.path ?? [])]}, reason);
  if (servesNothing(text.iptables)) return {...made, condition: 'KUBE-SERVICES is empty and serves no Service'};
  const base = baseOf(text.packet);
  if (outcome.destination === null && isUnhooked(text.iptables, base))
    return {...made, condition: `not translated: ${base} does not lead to KUBE-SERVICES`};
  const [called] = chains;
  if (called !== undefined && led === undefined) {
    const more = called.conditions === '' ? '' : ', and on the conditions below';
    return {...made, condition: `${called.does.join(' or ')} if ${called.place} is called${more}`};
  }
  const unbound = `not served unless another interface has ${text.packet.destination.text}: kube-ipvs0 lacks it`;
  if (isPartUnbound(text)) return {...made, condition: unbound};
  if (typeof text.servers === 'object' && text.servers.condition !== undefined) return {...made, condition: text.servers.condition};
  if (rivals !== undefined) return {...made, condition: rivals.condition};
  const {doubt} = outcome;
  // Who the packet comes from afterwards does not decide where it goes.
  const isDecisive = doubt !== undefined && doubt.line > 0 && !/ -j (?:MASQUERADE|SNAT)\b/.test(doubt.text);
  if (led !== undefined && isDecisive && made.rewrittenTo === undefined)
    return {...made, condition: `line ${doubt.line} decides, whose match cannot be told`};
  const [only] = takers;
  if (made.rewrittenTo === undefined) return only?.isSentOn === true ? {...made, condition: only.effect} : made;
  if (text.isUnbound) return {...made, condition: unbound};
  return {...made, condition: `sent to ${made.rewrittenTo} unless rules that are not shown decide otherwise`};
}

function undecidedAt(outcome: PacketOutcome, reason: string): PacketOutcome {
  const rewrittenTo = outcome.destination ?? outcome.rewrittenTo;
  const answer: PacketOutcome = {...outcome, verdict: 'undecided', destination: null, reason};
  return rewrittenTo === undefined ? answer : {...answer, rewrittenTo};
}

/** The text shows all rules on the path. */
function ofWhole(outcome: PacketOutcome, text: ShownText): PacketOutcome {
  const kubeProxy = servesNothing(text.iptables) ? undefined : aboutKubeProxy(text);
  if (outcome.verdict === 'undecided' && text.isLocal === null) return ifElsewhere(outcome, text, kubeProxy);
  if (kubeProxy === undefined || outcome.verdict !== 'accept') return outcome;
  if (outcome.destination !== null) return {...outcome, reason: kubeProxy};
  return {...outcome, verdict: 'undecided', reason: `${kubeProxy}; the rules that it shows accept the packet`};
}

/** What stops a packet to another address than those of the node: mostly that of a Service or a pod is asked for. */
function ifElsewhere(outcome: PacketOutcome, {elsewhere, packet}: ShownText, kubeProxy: string | undefined): PacketOutcome {
  const [only, ...others] = elsewhere();
  if (only === undefined || others.length > 0 || (only.verdict !== 'drop' && only.verdict !== 'reject')) return outcome;
  const done = `${only.verdict === 'drop' ? 'dropped' : 'refused'} ${stoppedBy(only).by}`;
  const condition = `${packet.destination.text} is no address of the node (--local-address)`;
  const reason = [kubeProxy, `${done}, if ${condition}`, outcome.reason].filter(part => part !== undefined).join('; ');
  return {...outcome, path: only.path, reason, condition: `${done} if ${condition}`};
}

/** A rule or policy stops the packet, unless a rule that is not shown does something else before. */
function ofStopped(
  outcome: PacketOutcome & {readonly verdict: 'drop' | 'reject'},
  gaps: readonly RuleText[],
  text: ShownText,
): PacketOutcome {
  if (isRefusal(outcome.path)) return ofRefusal(outcome, gaps, text);
  const {iptables, nft, missing, assumed, packet, server} = text;
  if (server !== undefined && outcome.path.at(-1)?.table === 'ipvs') return {...outcome, reason: outcome.reason ?? whyUnbalanced(server)};
  const {by, table} = stoppedBy(outcome);
  const unread = missing === null || nft === null || iptables !== null ? [] : [missing.text];
  // What one table accepts, another still drops: kube-proxy's can only send the packet elsewhere.
  const isBehind = missing?.isOfKubeProxy === true && isOfAnotherTable(table);
  const own = gaps.filter(gap => gap.table === table);
  const ofNat = gaps.filter(gap => gap.table === 'nat' && table !== 'nat');
  const before = [...namesOf(own, text), ...(isBehind ? [] : unread)];
  const nat = [...namesOf(ofNat, text), ...(isBehind ? unread : [])];
  // Packets to the node itself pass INPUT only if nothing sends them on to a pod.
  const toPod = nat.length > 0 && text.isLocal === true && packet.origin === 'arriving' ? text.elsewhere() : [];
  const changes =
    nat.length > 0 && (toPod.some(passes(table)) || (iptables === null ? asksDestination(nft, table) : dependsOnNat(iptables)));
  const taken =
    assumed === null ? [] : [`${packet.destination.text} is taken as ${assumed ? 'an' : 'no'} address of the node (--local-address)`];
  if (before.length === 0 && !changes) {
    const also = toPod.length === 0 ? '' : ` (to a pod it is stopped as well, ${someOf(toPod.map(other => stoppedBy(other).by))})`;
    const condition =
      nat.length === 0 ? [] : [`this text does not show ${someOf(nat)}, where a rule could mark the packet or send it elsewhere${also}`];
    return {...outcome, reason: [outcome.reason ?? by, ...condition, ...taken].filter(part => part !== '').join('; ')};
  }
  const others = [
    ...(before.length === 0 ? [] : [whoDecides(before)]),
    ...(changes ? [`${someOf(nat)}, which this text does not show, changes its destination`] : []),
  ];
  const done = outcome.verdict === 'drop' ? 'dropped' : 'refused';
  const deciding = [...before, ...(changes ? nat : [])].map(name => name.replace(/^all of /, 'other rules of '));
  return {
    ...undecidedAt(
      outcome,
      [`${done}${outcome.reason === undefined ? ` ${by}` : `: ${outcome.reason}`}, unless ${others.join(', or ')}`, ...taken].join('; '),
    ),
    condition: `${done} unless ${someOf(deciding, {max: 2})} ${deciding.length > 1 ? 'decide' : 'decides'} otherwise`,
    stopped: {verdict: outcome.verdict, unless: before.length === 0 ? null : whoDecides(before)},
  };
}

function whoDecides(chains: readonly string[]): string {
  return `${someOf(chains)}, which this text does not show, accepts or refuses it before`;
}

/** Whether a packet is not stopped for certain by the rules of a table. */
function passes(table: string | undefined): (outcome: PacketOutcome) => boolean {
  return ({verdict, path}) => verdict === 'accept' || verdict === 'undecided' || path.some(rule => isGap(rule) && rule.table === table);
}

/** kube-proxy's rule for a Service port without endpoints; a chain of the Service that is not shown may send the packet to one before. */
function ofRefusal(outcome: PacketOutcome, gaps: readonly RuleText[], {iptables}: ShownText): PacketOutcome {
  const isUnseen = ({table, chain}: RuleText): boolean => iptables?.chain(table, chain) === undefined;
  const before = gaps.find(gap => gap.table === 'nat' && parseChainName(gap.chain) !== null && isUnseen(gap));
  const why = whyRefused(outcome);
  if (before === undefined) return {...outcome, reason: outcome.reason ?? why};
  const sends = `nat/${before.chain}, which this text does not show, sends it to an endpoint`;
  const done = outcome.verdict === 'drop' ? 'dropped' : 'refused';
  const made = undecidedAt(outcome, `${done}, since ${why}, unless ${sends}`);
  return {...made, condition: `${done} unless nat/${before.chain} sends it to an endpoint`};
}

function whyUnbalanced({protocol, address, port, realServers}: VirtualServer): string {
  const server = `${protocol} ${joinHostPort(address, port)}`;
  if (realServers.length === 0) return `the virtual server ${server} has no real server`;
  const all = someOf(realServers.map(({hostPort}) => hostPort));
  return `every real server of ${server} has the weight 0 and takes no new connection (${all})`;
}

/** The rule or the policy that stops a packet, in words. */
function stoppedBy({policy, path}: PacketOutcome): {readonly by: string; readonly table: string | undefined} {
  if (policy !== undefined) return {by: `by the policy of ${policy}`, table: policy.split('/', 1)[0]};
  return {by: byLastRule(path), table: path.at(-1)?.table};
}

/** In nftables mode kube-proxy refuses packets to a Service port without endpoints, and drops them where none is on this node. */
function whyRefused({path, verdict}: {readonly path: readonly RuleText[]; readonly verdict: string}): string {
  const isByMap = path.some(({text}) => text.includes('vmap @no-endpoint-'));
  return (isByMap && verdict === 'drop') || path.some(({text}) => text.includes('has no local endpoints'))
    ? 'kube-proxy writes this for a Local traffic policy without an endpoint on this node'
    : 'kube-proxy writes this for a Service port without endpoints';
}

/** What kube-proxy writes for a Service port without endpoints: nothing sends its packets elsewhere. */
function isRefusal(path: readonly RuleText[]): boolean {
  const last = path.at(-1);
  if (last !== undefined && /^KUBE-(?:EXTERNAL-)?SERVICES$/.test(last.chain) && /has no (?:local )?endpoints/.test(last.text)) return true;
  return path.some(rule => rule.text.includes('vmap @no-endpoint-') || marksForRefusal(rule));
}

/** Within a chain of a Service of old versions: which packets get there is said where the chain is called. */
function marksForRefusal({text}: RuleText): boolean {
  return / has no (?:local )?endpoints" -j KUBE-MARK-DROP$/.test(text);
}

function baseOf({origin}: Packet): 'PREROUTING' | 'OUTPUT' {
  return origin === 'node' ? 'OUTPUT' : 'PREROUTING';
}

/** What the text shows of kube-proxy, where that is nothing. */
function aboutKubeProxy({iptables, nft, server, servers, packet}: ShownText): string | undefined {
  if (server !== undefined) return undefined;
  if (isUnhooked(iptables, baseOf(packet))) return `table nat is shown whole, and its ${baseOf(packet)} does not lead to KUBE-SERVICES`;
  if (nft !== null && [...nft.tables.values()].some(({name, chains}) => name === 'kube-proxy' || chains.has('KUBE-SERVICES')))
    return undefined;
  const tables = [...(iptables?.tables.values() ?? [])];
  if (servesNothing(iptables)) return 'table nat is shown whole, and its KUBE-SERVICES is empty: it serves no Service';
  if (tables.some(({name, complete, chains}) => name === 'nat' && complete && holdsKubeProxy(chains) && !leadsToServices(chains)))
    return 'table nat is shown whole, and has no rule of a Service: those of kube-proxy may be in the other backend of iptables';
  if (tables.some(({chains}) => holdsKubeProxy(chains))) return undefined;
  if (nft !== null && tables.length === 0) return 'this text shows no table of kube-proxy';
  if (tables.some(({name, complete}) => name === 'nat' && complete)) return 'table nat is shown whole, and kube-proxy has no rule in it';
  if (typeof servers === 'object') return servers.reason;
  const asked = `${packet.protocol.toUpperCase()} ${joinHostPort(packet.destination.text, packet.port)}`;
  return servers === 'all' ? `none of the virtual servers that this text shows is ${asked}` : 'this text shows no rule of kube-proxy';
}

function namesOf(gaps: readonly RuleText[], {iptables}: ShownText): readonly string[] {
  const names = gaps.map(({table, chain}) => {
    if (iptables?.hasTable(table) === true)
      return isBaseChain(chain) && iptables.chain(table, chain) !== undefined ? `all of ${table}/${chain}` : `${table}/${chain}`;
    return table === 'filter' ? `${table}/${chain}` : `table ${table}`;
  });
  return [...new Set(names)];
}

/** Whether rules match what table nat changes: the destination, the state of address translation. */
function dependsOnNat(shown: Ruleset): boolean {
  const chains = [...(shown.tables.get('filter')?.chains.values() ?? [])].filter(({name}) => name !== 'INPUT' && name !== 'OUTPUT');
  return chains.some(chain => /(?: |^)(?:-d|-o|--dports?|--match-set|--dst-type|--ctorig\w+) |DNAT/m.test(chain.text()));
}

function isOfAnotherTable(table: string | undefined): boolean {
  return table !== undefined && !table.endsWith(' kube-proxy');
}

/** Whether rules of a table of nftables match what address translation changes. */
function asksDestination(nft: NftRuleset | null, id: string | undefined): boolean {
  const table = nft?.tables.get(id ?? '');
  const chains = [...(table?.chains.values() ?? [])].filter(({base}) => base?.hook !== 'input' && base?.hook !== 'output');
  return chains.some(chain => /\b(?:daddr|dport|th|oif|oifname|oifgroup|fib|rt|ct|mark)\b/.test(chain.text().replace(/"[^"]*"/g, '""')));
}

/** Null if nftables are complete. */
function missingOf({iptables, nft}: PacketRules): Missing | null {
  if (nft === null) return null;
  if (nft.strays.some(({text}) => /^(?:\.{3,}|…+)$/.test(text))) return {text: 'rules that were left out', isOfKubeProxy: false};
  const own = [...nft.tables.values()].filter(({name}) => name === 'kube-proxy');
  if (own.length === 0 && iptables === null) return missingOfIptables(nft);
  for (const table of own) {
    const missing = missingFromTable(table);
    if (missing !== null) return {text: `${missing} of table ${table.id}`, isOfKubeProxy: true};
  }
  return null;
}

/** Of the rules of iptables mode, as `nft` prints what iptables-nft wrote: base chains, and chains that are jumped to. */
function missingOfIptables({tables}: NftRuleset): Missing | null {
  const held = [...tables.values()].find(({chains}) => chains.has('KUBE-SERVICES'));
  if (held === undefined) return {text: 'the table of kube-proxy', isOfKubeProxy: true};
  const family = held.id.split(' ', 1)[0] ?? '';
  const missing = Object.entries(hooksOfIptables).flatMap(([name, hooks]) => {
    const table = tables.get(`${family} ${name}`);
    if (table === undefined) return [`table ${family} ${name}`];
    const targets = textsOf(table).flatMap(({text}) => [...text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)].map(([, target = '']) => target));
    return [...new Set([...hooks, ...targets])]
      .filter(chain => !table.chains.has(chain))
      .map(chain => `chain ${chain} of table ${table.id}`);
  });
  return missing.length === 0 ? null : {text: someOf(missing, {max: 4}), isOfKubeProxy: false};
}

const hooksOfIptables = {nat: ['PREROUTING', 'POSTROUTING', 'OUTPUT'], filter: ['FORWARD', 'INPUT', 'OUTPUT']};

/** In every version of kube-proxy's nftables mode. */
const chainsOfProxy =
  'filter-input filter-forward filter-output nat-prerouting nat-output nat-postrouting services masquerading firewall-check'.split(' ');

function missingFromTable({chains, sets}: NftTable): string | null {
  const chain = chainsOfProxy.find(name => !chains.has(name));
  if (chain !== undefined) return `chain ${chain}`;
  let checksFirewall = false;
  for (const {name, text} of textsOf({chains, sets})) {
    if (/^(?:\.{3,}|…+)$/m.test(text)) return `some rules of chain ${name}`;
    for (const [, target = ''] of text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)) {
      if (!chains.has(target)) return `chain ${target}`;
      checksFirewall ||= target === 'firewall-check';
    }
    for (const [, set = ''] of text.matchAll(/@([\w./-]+)/g)) if (!sets.has(set)) return `set or map ${set}`;
  }
  return checksFirewall ? null : 'the base chain that jumps to firewall-check';
}

function textsOf({chains, sets}: Pick<NftTable, 'chains' | 'sets'>): readonly {readonly name: string; readonly text: string}[] {
  return [
    ...[...chains.values()].map(chain => ({name: chain.name, text: chain.text().replace(/"[^"]*"/g, '""')})),
    ...[...sets.values()].map(set => ({name: set.name, text: [...set.elements.values()].map(({value}) => value ?? '').join('\n')})),
  ];
}

function leadsToServices(chains: ChainsByName): boolean {
  return chains.has('KUBE-SERVICES') || chains.has('KUBE-PORTALS-CONTAINER');
}
