import type {NftChain, NftRule, NftTableSource} from '../../model/nft-ruleset.ts';
import {type Branch, type ChainResult, undecided} from '../branch.ts';
import type {Environment} from '../packet.ts';
import type {HookName} from '../route-packet.ts';
import {type Call, enterChain, passRules, type WalkLimits} from '../walk-limits.ts';
import {runRule} from './run-rule.ts';

export interface NftWalk {
  readonly limits: WalkLimits;
  readonly environment: Environment;
  readonly table: NftTableSource;
  readonly hook: HookName;
}

/** Walks a packet through one base chain and the chains that it calls; at its end stands its policy. */
export function walkBaseChain(walk: NftWalk, chain: NftChain, start: Branch<NftRule>): readonly ChainResult<NftRule>[] {
  const policy = chain.base?.policy ?? 'accept';
  return walkNftChain(walk, chain, start, null).map(result =>
    result.verdict === 'return' ? {...result, verdict: policy, policy: `${chain.table}/${chain.name}`} : result,
  );
}

function walkNftChain(walk: NftWalk, chain: NftChain, start: Branch<NftRule>, above: Call | null): readonly ChainResult<NftRule>[] {
  const {limits, environment, table, hook} = walk;
  const entered = enterChain(limits, chain, above);
  if (typeof entered === 'string') return [undecided(start, entered)];
  const call = (name: string, branch: Branch<NftRule>): readonly ChainResult<NftRule>[] => callChain(walk, name, branch, entered);
  const {done, live} = passRules(limits, chain.rules(), start, (rule, branch, out) =>
    runRule({rule, table, hook, environment, call}, branch, out),
  );
  for (const branch of live)
    done.push(
      chain.complete ? {...branch, verdict: 'return'} : undecided(branch, `the dump was cut before the end of chain ${chain.name}`),
    );
  return done;
}

/** In a kernel a chain that is called is there. Where it is not, the packet comes back, and the broken jump is found by its structure. */
function callChain(walk: NftWalk, name: string, branch: Branch<NftRule>, above: Call): readonly ChainResult<NftRule>[] {
  const chain = walk.table.chain(name);
  if (chain !== undefined) return walkNftChain(walk, chain, branch, above);
  return [walk.table.declared ? {...branch, verdict: 'return'} : undecided(branch, `the dump was cut before chain ${name}`)];
}
