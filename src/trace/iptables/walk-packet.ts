import type {Chain, ChainSource, Rule, RuleText} from '../../model/ruleset.ts';
import {realServerRule, sendTo, serverRule, sharesOf} from '../balance.ts';
import {type Branch, type ChainResult, startBranch} from '../branch.ts';
import type {Outcome} from '../outcome.ts';
import type {Environment, Packet} from '../packet.ts';
import {type HookedChain, type HookName, inOrder, routePacket} from '../route-packet.ts';
import {summarizeBranches} from '../summarize-branches.ts';
import {type WalkContext, walkChain} from './walk-chain.ts';
import {limitsFor, noteWalk} from '../walk-limits.ts';

/**
 * Walks the first packet of a connection through a node's rules like the kernel: raw, mangle, nat and filter in the order of the hooks that
 * it passes. The probabilities of the outcomes add up to 1.
 */
export function walkPacket(rules: ChainSource, packet: Packet, environment: Environment): readonly Outcome[] {
  const context: WalkContext = {rules, environment, ...limitsFor(rules)};
  const chains = inOrder(iptablesChains<Rule>(context));
  const ends = routePacket({chains, environment, balance: balanceByIpvs<Rule>(environment)}, startBranch(packet));
  noteWalk(rules, context);
  return summarizeBranches(ends);
}

/** The base chains of iptables that there are, as parts of a path that may hold rules of other kinds (`R`). */
export function iptablesChains<R extends RuleText>(
  context: WalkContext,
  ageOf: (table: string) => number = () => 0,
): readonly HookedChain<R | Rule>[] {
  return hooks.flatMap(({table, hook, name, priority}) => {
    const chain = context.rules.chain(table, name);
    if (chain === undefined) return [];
    return [{hook, priority, isNat: table === 'nat', age: ageOf(table), walk: branch => passBaseChain<R>(context, chain, branch)}];
  });
}

interface TableHook {
  readonly table: string;
  readonly hook: HookName;
  /** The base chain: the hook in capitals. */
  readonly name: string;
  readonly priority: number;
}

/** The hooks and priorities of the tables of iptables. */
const hooks: readonly TableHook[] = [
  ...places('raw', -300, ['prerouting', 'output']),
  ...places('mangle', -150, ['prerouting', 'input', 'forward', 'output', 'postrouting']),
  ...places('nat', -100, ['prerouting', 'output']),
  ...places('filter', 0, ['input', 'forward', 'output']),
  ...places('security', 50, ['input', 'forward', 'output']),
  ...places('nat', 100, ['postrouting']),
];

function places(table: string, priority: number, names: readonly HookName[]): readonly TableHook[] {
  return names.map(hook => ({table, hook, name: hook.toUpperCase(), priority}));
}

function passBaseChain<R extends RuleText>(context: WalkContext, chain: Chain, branch: Branch<R | Rule>): readonly ChainResult<R | Rule>[] {
  // RETURN from a base chain ends in its policy.
  const verdict = chain.policy === 'DROP' ? 'drop' : 'accept';
  return walkChain<R>(context, chain.table, chain, branch).map(result =>
    result.verdict === 'return' ? {...result, verdict, policy: `${chain.table}/${chain.name}`} : result,
  );
}

/** What IPVS does to a packet, on a path with rules of other kinds too (`R`); null if no virtual server matches. */
export function balanceByIpvs<R extends RuleText>(
  environment: Environment,
): (end: ChainResult<R | Rule>) => readonly ChainResult<R | Rule>[] | null {
  return end => {
    const server = environment.virtualServer?.(end.packet);
    if (server === undefined) return null;
    const picks = sharesOf(server);
    const path = {rule: serverRule(server), before: end.path};
    if (picks.length === 0) return [{...end, path, verdict: 'reject'}];
    return picks.map(({real, share}) =>
      sendTo<R | Rule>(real, {...end, probability: end.probability * share, path: {rule: realServerRule(server, real), before: path}}),
    );
  };
}
