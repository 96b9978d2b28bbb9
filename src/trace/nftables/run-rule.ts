import {parseAddress} from '../../model/address.ts';
import type {NftExpression, NftRule, NftStatement, NftTableSource, NftVerdict} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {parseNftVerdict} from '../../parse/nftables/nft-statements.ts';
import {type Branch, type ChainResult, type ChainVerdict, type Outlets, suppose, undecided} from '../branch.ts';
import {portsToDraw, rewriteTo, translateSource} from '../iptables/walk-chain.ts';
import type {Environment, HookName, Packet} from '../packet.ts';
import {isBeforeTracking} from './packet-value.ts';
import {choose, elementsOf, type Evaluation, matchLikelihood, numberOf} from './evaluate.ts';

/** The place at which a rule runs. */
interface RuleRun<R extends RuleText> {
  readonly rule: NftRule;
  readonly table: NftTableSource;
  readonly hook: HookName;
  readonly priority: number;
  readonly environment: Environment;
  /** Walks a chain that the rule calls; `return` at its end. */
  call(chain: string, branch: Branch<R | NftRule>): readonly ChainResult<R | NftRule>[];
}

/** Runs a rule on a packet: its statements from left to right, until one does not match. */
export function runRule<R extends RuleText>(run: RuleRun<R>, branch: Branch<R | NftRule>, out: Outlets<R | NftRule>): void {
  runFrom(run, 0, branch, out);
}

function runFrom<R extends RuleText>(ruleRun: RuleRun<R>, start: number, from: Branch<R | NftRule>, out: Outlets<R | NftRule>): void {
  const statements = ruleRun.rule.statements();
  const run =
    ruleRun.environment.sender?.countsEndpoints === false && isOfEndpointItself(ruleRun.rule)
      ? {...ruleRun, environment: {...ruleRun.environment, sender: undefined}}
      : ruleRun;
  if (start === 0 && failsFirst(run, statements, from)) {
    out.next.push(from);
    return;
  }
  let branch = from;
  for (let at = start; at < statements.length; at++) {
    const statement = statements[at];
    if (statement === undefined) break;
    const rest = (next: Branch<R | NftRule>, outlets: Outlets<R | NftRule>): void => runFrom(run, at + 1, next, outlets);
    const result = runStatement(run, statement, {branch, isLast: isLast(statements, at), rest, out});
    run.environment.sender?.decideAlone();
    if (result === null) return;
    branch = result;
  }
  out.next.push(branch);
}

/**
 * Whether one of the conditions at the beginning of a rule fails, where senders are told apart: a rule that fails by another condition says
 * nothing about them.
 */
function failsFirst<R extends RuleText>(run: RuleRun<R>, statements: readonly NftStatement[], branch: Branch<R | NftRule>): boolean {
  const {sender} = run.environment;
  if (sender === undefined) return false;
  let failed: readonly [from: number, to: number] | null = null;
  for (const statement of statements) {
    if (statement.kind === 'passive') continue;
    if (statement.kind !== 'match') break;
    const from = sender.count;
    const likelihood = matchLikelihood(statement, evaluation(run, branch));
    const isAboutSender = sender.keep();
    if (likelihood !== 0) continue;
    if (isAboutSender) failed ??= [from, sender.count];
    else {
      sender.forget();
      return true;
    }
  }
  if (failed === null) sender.forget();
  else sender.decide(...failed);
  return failed !== null;
}

/** As in iptables: kube-proxy masquerades the connections of an endpoint to itself, and endpoints are senders of their own kind. */
function isOfEndpointItself({chain, body}: NftRule): boolean {
  return chain.startsWith('endpoint-') && body.endsWith(' jump mark-for-masquerade');
}

/** Counters and log statements at the end of a rule do not matter. */
function isLast(statements: readonly NftStatement[], at: number): boolean {
  return statements.slice(at + 1).every(({kind}) => kind === 'passive');
}

interface StatementRun<R extends RuleText> {
  readonly branch: Branch<R | NftRule>;
  readonly isLast: boolean;
  /** The statements after this one. */
  rest(branch: Branch<R | NftRule>, out: Outlets<R | NftRule>): void;
  readonly out: Outlets<R | NftRule>;
}

/** The branch that continues with the next statement; null if there is none. */
function runStatement<R extends RuleText>(run: RuleRun<R>, statement: NftStatement, at: StatementRun<R>): Branch<R | NftRule> | null {
  const {branch, out} = at;
  switch (statement.kind) {
    case 'passive':
      return branch;
    case 'match':
      return runMatch(run, statement, at);
    case 'unknown':
      return runUnknown(run, statement.text, at);
    case 'assign':
      return assign(run, statement, at);
    case 'set':
      return taken(run, branch);
    case 'notrack':
      // Later it is too late.
      return isBeforeTracking(run) ? {...taken(run, branch), packet: {...branch.packet, untracked: true}} : branch;
    case 'reject':
      return end(out, taken(run, branch), 'reject');
    case 'nat':
      return translate(run, statement, at);
    case 'verdict':
      return follow(run, statement.verdict, taken(run, branch), out);
    case 'vmap':
      return runVerdictMap(run, statement, at);
  }
}

function runMatch<R extends RuleText>(
  run: RuleRun<R>,
  statement: NftStatement & {readonly kind: 'match'},
  at: StatementRun<R>,
): Branch<R | NftRule> | null {
  const {branch, out} = at;
  const likelihood = matchLikelihood(statement, evaluation(run, branch));
  if (likelihood === 1) return branch;
  if (likelihood === null) return supposeRest(run, at);
  if (likelihood < 1) out.next.push({...branch, probability: branch.probability * (1 - likelihood)});
  return likelihood === 0 ? null : {...branch, probability: branch.probability * likelihood};
}

function supposeRest<R extends RuleText>({rule}: RuleRun<R>, {branch, rest, out}: StatementRun<R>): null {
  suppose({rule, branch, follow: rest}, out);
  return null;
}

/** Conditions that are not modeled. */
const isCondition = /^(?:limit|quota|socket|osf|rt|meta|ct|ip6?|tcp option|sctp chunk|xt match) /;

/** An unknown statement counts as a condition if another statement follows it; at the end of a rule it may do anything. */
function runUnknown<R extends RuleText>(run: RuleRun<R>, text: string, at: StatementRun<R>): null {
  const {branch, out} = at;
  if (text.startsWith('tproxy ')) {
    const captured = taken(run, branch);
    return end(out, {...captured, packet: {...captured.packet, captured: true}}, 'accept');
  }
  if (!at.isLast || isCondition.test(text)) return supposeRest(run, at);
  suppose(
    {
      rule: run.rule,
      branch,
      follow: (supposed, hypothetical) => hypothetical.done.push(undecided(taken(run, supposed), `${text} is not known`)),
    },
    out,
  );
  return null;
}

function evaluation<R extends RuleText>({table, hook, priority, environment}: RuleRun<R>, {packet}: Branch<R | NftRule>): Evaluation {
  return {table, hook, priority, environment, packet};
}

/** Adds the rule to those that the packet matched. */
function taken<R extends RuleText>({rule}: RuleRun<R>, branch: Branch<R | NftRule>): Branch<R | NftRule> {
  return branch.path?.rule === rule ? branch : {...branch, path: {rule, before: branch.path}};
}

function end<R extends RuleText>(out: Outlets<R | NftRule>, branch: Branch<R | NftRule>, verdict: ChainVerdict): null {
  out.done.push({...branch, verdict});
  return null;
}

/** `meta mark set …`. Other fields do not matter here, except addresses and ports. */
function assign<R extends RuleText>(
  run: RuleRun<R>,
  {target, value}: NftStatement & {readonly kind: 'assign'},
  {branch, out}: StatementRun<R>,
): Branch<R | NftRule> | null {
  // nft adds the condition that the packet has such a header.
  if (target.startsWith(branch.packet.family === 'IPv4' ? 'ip6 ' : 'ip ')) {
    out.next.push(branch);
    return null;
  }
  const marked = taken(run, branch);
  const field = target === 'meta mark' ? 'mark' : target === 'ct mark' ? 'connectionMark' : null;
  if (/^ct (?:original |reply )?zone$/.test(target)) {
    const zone = numberOf(value, evaluation(run, branch));
    const {original, reply} = branch.packet.zone ?? {original: 0, reply: 0};
    if (zone !== null && isBeforeTracking(run))
      return {
        ...marked,
        packet: {
          ...branch.packet,
          zone: {original: target.includes('reply') ? original : zone, reply: target.includes('original') ? reply : zone},
        },
      };
  }
  if (target === 'ip ttl' || target === 'ip6 hoplimit') {
    const hops = numberOf(value, evaluation(run, branch));
    if (hops !== null) return {...marked, packet: {...branch.packet, hops}};
  }
  if (field === null) {
    if (!/ [sd](?:addr|port)$/.test(target)) return marked;
    out.done.push(undecided(marked, `${target} is set without connection tracking`));
    return null;
  }
  const number = numberOf(value, evaluation(run, branch));
  if (number !== null) return {...marked, packet: {...branch.packet, [field]: number}};
  out.done.push(undecided(marked, `the value of ${target} is unknown`));
  return null;
}

function follow<R extends RuleText>(
  run: RuleRun<R>,
  verdict: NftVerdict,
  branch: Branch<R | NftRule>,
  out: Outlets<R | NftRule>,
): Branch<R | NftRule> | null {
  switch (verdict.kind) {
    case 'accept':
    case 'drop':
    case 'return':
      return end(out, branch, verdict.kind);
    case 'continue':
      return branch;
    case 'unknown':
      out.done.push(undecided(branch, `${verdict.text} is not known`));
      return null;
    case 'jump':
    case 'goto':
      // A packet that reaches the end of a chain that was entered by goto returns to where this chain was called.
      for (const result of run.call(verdict.chain, branch))
        if (result.verdict === 'return' && verdict.kind === 'jump') out.next.push(result);
        else out.done.push(result);
      return null;
  }
}

/** The verdict for the key, or the next rule. */
function runVerdictMap<R extends RuleText>(run: RuleRun<R>, {key, map}: NftStatement & {readonly kind: 'vmap'}, at: StatementRun<R>): null {
  const {branch, out} = at;
  const found = choose(key, map, evaluation(run, branch));
  if (found === null) {
    const verdicts = [...new Set(elementsOf(map, run.table).map(({value}) => value ?? ''))];
    const tryAll = (supposed: Branch<R | NftRule>, hypothetical: Outlets<R | NftRule>): void => {
      if (verdicts.length === 0) hypothetical.done.push(undecided(taken(run, supposed), 'what the map holds is not known'));
      for (const verdict of verdicts) give(run, verdict, {...at, branch: supposed, out: hypothetical});
    };
    suppose({rule: run.rule, branch, follow: tryAll}, out);
    return null;
  }
  for (const {value, share} of found.choices) give(run, value, {...at, branch: {...branch, probability: branch.probability * share}, out});
  if (found.rest > 0) out.next.push({...branch, probability: branch.probability * found.rest});
  return null;
}

function give<R extends RuleText>(run: RuleRun<R>, verdict: string, {branch, out, rest}: StatementRun<R>): void {
  const next = follow(run, parseNftVerdict(verdict), taken(run, branch), out);
  if (next !== null) rest(next, out);
}

type NatStatement = NftStatement & {readonly kind: 'nat'};

/** A translated packet leaves its base chain. */
function translate<R extends RuleText>(run: RuleRun<R>, statement: NatStatement, at: StatementRun<R>): null {
  const {out} = at;
  const family = statement.to?.kind === 'value' ? parseAddress(statement.to.text)?.family : undefined;
  // `dnat ip to` in a table of inet leaves packets of the other family as they are.
  if (family !== undefined && family !== at.branch.packet.family) {
    out.next.push(at.branch);
    return null;
  }
  const branch = taken(run, at.branch);
  if (statement.action === 'masquerade' || statement.action === 'snat') {
    const ports = portsToDraw(statement.port?.kind === 'value' ? statement.port.text : '', statement.isRandom);
    const address = statement.to === null ? null : addressText(statement.to);
    const packet = statement.action === 'snat' ? translateSource(branch.packet, address ?? '') : {...branch.packet, masquerade: true};
    return end(out, {...branch, packet: {...packet, ...ports}}, 'accept');
  }
  const targets = targetsOf(run, statement, branch);
  if (targets === null) {
    out.done.push(undecided(branch, `the destination of ${run.rule.body} is unknown`));
    return null;
  }
  for (const {packet, share} of targets.choices) end(out, {...branch, packet, probability: branch.probability * share}, 'accept');
  // A map without the key: the rule does not match.
  if (targets.rest > 0) out.next.push({...at.branch, probability: branch.probability * targets.rest});
  return null;
}

interface Targets {
  readonly choices: readonly {readonly packet: Packet; readonly share: number}[];
  readonly rest: number;
}

function targetsOf<R extends RuleText>(run: RuleRun<R>, {action, to, port}: NatStatement, branch: Branch<R | NftRule>): Targets | null {
  const {packet} = branch;
  const portText = port?.kind === 'value' ? port.text : port === null ? '' : null;
  if (portText === null) return null;
  if (action === 'redirect' || to === null) return single(rewritten(packet, redirectAddress(run, packet), portText));
  if (to.kind !== 'map') return single(rewritten(packet, addressText(to), portText));
  const found = choose(to.key, to.map, evaluation(run, branch));
  if (found === null) return null;
  const choices = found.choices.map(({value, share}) => {
    const [address = '', mappedPort = portText] = value.split(' . ');
    return {packet: rewritten(packet, address, mappedPort), share};
  });
  return choices.every(isTold) ? {choices, rest: found.rest} : null;
}

function isTold(choice: {readonly packet: Packet | null; readonly share: number}): choice is {packet: Packet; share: number} {
  return choice.packet !== null;
}

function single(packet: Packet | null): Targets | null {
  return packet === null ? null : {choices: [{packet, share: 1}], rest: 0};
}

function addressText(to: NftExpression): string | null {
  return to.kind === 'value' ? to.text : null;
}

function redirectAddress<R extends RuleText>({environment}: RuleRun<R>, packet: Packet): string | null {
  const loopback = packet.family === 'IPv4' ? '127.0.0.1' : '::1';
  return packet.origin === 'node' ? loopback : (environment.redirectAddress(packet)?.text ?? null);
}

/** Null for a range of several addresses or ports. */
function rewritten(packet: Packet, address: string | null, port: string): Packet | null {
  const destination = address === null ? null : parseAddress(address);
  const toPort = port === '' ? packet.port : Number(port);
  return destination === null || !Number.isInteger(toPort) ? null : rewriteTo(packet, destination, toPort);
}
