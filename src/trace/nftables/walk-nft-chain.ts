import type {NftChain, NftRule, NftTableSource} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {type Branch, type ChainResult, undecided} from '../branch.ts';
import type {Environment} from '../packet.ts';
import type {HookName} from '../route-packet.ts';
import {type Call, enterChain, passRules, type WalkLimits} from '../walk-limits.ts';
import {runRule} from './run-rule.ts';

interface NftWalk {
  readonly limits: WalkLimits;
  readonly environment: Environment;
  readonly table: NftTableSource;
  readonly hook: HookName;
  readonly priority: number;
}

/** Walks a packet through one base chain and the chains that it calls. The chain ends with its policy. */
export function walkBaseChain<R extends RuleText>(
  walk: NftWalk,
  chain: NftChain,
  start: Branch<R | NftRule>,
): readonly ChainResult<R | NftRule>[] {
  const policy = chain.base?.policy ?? 'accept';
  return walkNftChain<R>(walk, chain, start, null).map(result =>
    result.verdict === 'return' ? {...result, verdict: policy, policy: `${chain.table}/${chain.name}`} : result,
  );
}

function walkNftChain<R extends RuleText>(
  walk: NftWalk,
  chain: NftChain,
  start: Branch<R | NftRule>,
  above: Call | null,
): readonly ChainResult<R | NftRule>[] {
  const {limits, environment, table, hook, priority} = walk;
  const entered = enterChain(limits, chain, above);
  if (typeof entered === 'string') return [undecided(start, entered)];
  const call = (name: string, branch: Branch<R | NftRule>): readonly ChainResult<R | NftRule>[] =>
    callChain<R>(walk, name, branch, entered);
  const {done, live} = passRules(limits, chain.rules(), start, (rule, branch, out) =>
    runRule<R>({rule, table, hook, priority, environment, call}, branch, out),
  );
  for (const branch of live)
    done.push(
      chain.complete ? {...branch, verdict: 'return'} : undecided(branch, `the dump was truncated before the end of chain ${chain.name}`),
    );
  return done;
}

/**
 * In the kernel a called chain always exists. If it is missing here, the packet returns; the comparison of rules reports the broken jump.
 */
function callChain<R extends RuleText>(
  walk: NftWalk,
  name: string,
  branch: Branch<R | NftRule>,
  above: Call,
): readonly ChainResult<R | NftRule>[] {
  const chain = walk.table.chain(name);
  if (chain !== undefined) return walkNftChain<R>(walk, chain, branch, above);
  return [walk.table.declared ? {...branch, verdict: 'return'} : undecided(branch, `the dump was truncated before chain ${name}`)];
}
