import type {NftSet} from '../model/nft-ruleset.ts';
import type {Chain} from '../model/ruleset.ts';
import {type Branch, type Call, type ChainResult, enterChain, passRules, truncated, undecided, type WalkLimits} from './branch.ts';
import type {Environment, HookName, NodeRule, Packet} from './walked-packet.ts';
import type {LoweredRule} from './rule-language.ts';
import {runRule} from './run-rule.ts';

/** A chain of iptables or nftables, as the walker needs it. */
export interface WalkedChain extends Pick<Chain, 'table' | 'name' | 'ruleCount' | 'complete'> {
  /** The rules that may match a packet, in order. */
  rules(packet: Packet, environment: Environment): readonly LoweredRule[];
  /** By which field of the packet a rule was found among them, if that decides this condition of it. */
  decided?(rule: NodeRule): 'saddr' | 'daddr' | undefined;
}

/** The chains of a table that rules can call, and its sets. */
export interface WalkedTable {
  chain(name: string): WalkedChain | undefined;
  set(name: string): NftSet | undefined;
  /** False if the dump is truncated before all chains were declared. */
  readonly isDeclared: boolean;
}

/** A packet's walk through the chains of one hook. */
export interface ChainWalk {
  readonly table: WalkedTable;
  /** The hook of the base chain; null if it is not known from which one a chain is called. */
  readonly hook: HookName | null;
  readonly priority: number;
  readonly environment: Environment;
  readonly limits: WalkLimits;
}

/** Walks a packet through a base chain and the chains that it calls. It ends with a verdict of a rule, or with the policy. */
export function walkBaseChain(walk: ChainWalk, chain: WalkedChain, policy: 'accept' | 'drop', start: Branch): readonly ChainResult[] {
  // A return from a base chain ends in its policy.
  return walkChain(walk, chain, start).map(result =>
    result.verdict === 'return' ? {...result, verdict: policy, policy: `${chain.table}/${chain.name}`} : result,
  );
}

/** Walks a packet through a chain and those that it calls; `return` at its end. */
export function walkChain(walk: ChainWalk, chain: WalkedChain, start: Branch, above: Call | null = null): readonly ChainResult[] {
  const {table, limits, environment, hook, priority} = walk;
  const entered = enterChain(limits, chain, above);
  if (typeof entered === 'string') return [undecided(start, entered)];
  const call = (name: string, branch: Branch): readonly ChainResult[] | null => {
    const called = table.chain(name);
    if (called !== undefined) return walkChain(walk, called, branch, entered);
    return table.isDeclared ? null : [truncated(branch, `before chain ${name}`)];
  };
  const at = {hook, priority, environment, place: {table: chain.table, chain: chain.name}, set: table.set, call};
  const {done, live} = passRules(limits, chain.rules(start.packet, environment), start, (rule, branch: Branch, out) =>
    runRule({...at, rule, decided: chain.decided?.(rule.source)}, branch, out),
  );
  for (const branch of live)
    done.push(chain.complete ? {...branch, verdict: 'return'} : truncated(branch, `before the end of chain ${chain.name}`));
  return done;
}
