import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {Chain, Rule, Ruleset} from '../../model/ruleset.ts';
import type {EntryTrace, TraceStep} from '../../model/service-trace.ts';
import {notInText, type ShownPath, type ShownPick, stepOf} from './shown-port.ts';

/** Follows the jumps from a chain of a Service port to the chain that picks an endpoint, and from there to the endpoints. */
export function pathFrom(ruleset: Ruleset, first: string, start: readonly TraceStep[]): ShownPath {
  const steps = [...start];
  let masquerade = false;
  for (let name = first; ; ) {
    const chain = ruleset.chain('nat', name);
    if (chain === undefined) return {steps, picks: [], masquerade, end: notInText(`chain ${name}`)};
    const rules = chain.rules();
    if (rules.some(isPick)) return {steps, masquerade, ...picksOf(ruleset, chain)};
    masquerade ||= rules.some(rule => rule.target?.name === 'KUBE-MARK-MASQ' && isForAll(rule));
    const jump = rules.findLast(rule => leadsOn(rule) && isForAll(rule)) ?? rules.find(leadsOn);
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

const passing = new Set(['comment', 'tcp', 'udp', 'sctp', 'interfaces-not-listed']);

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

export function probabilityOf({matches}: Rule): number {
  const option = matches.find(({name}) => name === 'statistic')?.options.find(({flag}) => flag === '--probability');
  return option === undefined ? 1 : Number(option.values[0]);
}

/** The endpoint of an endpoint chain; up to 1.30 the comment of the jump shows it, too. */
function endpointOf(ruleset: Ruleset, jump: Rule): Pick<ShownPick, 'hostPort' | 'rewrite'> {
  const name = jump.target?.name ?? '';
  const rewrite =
    ruleset
      .chain('nat', name)
      ?.rules()
      .find(({target}) => target?.name === 'DNAT') ?? null;
  const to = rewrite?.target?.options.find(({flag}) => flag === '--to-destination')?.values[0];
  const said = / -> (\S+)"/.exec(jump.text)?.[1];
  return {hostPort: to ?? said ?? `${name}, which is not in this text`, rewrite};
}

function endOf(chain: Chain): EntryTrace['end'] {
  const drop = chain.rules().find(({target}) => target?.name === 'KUBE-MARK-DROP' || target?.name === 'DROP');
  if (drop !== undefined) return {verdict: 'dropped', rule: drop};
  return chain.complete ? {verdict: 'passed', rule: null} : notInText(`what chain ${chain.name} leads to`);
}
