import type {Family} from '../../model/address.ts';
import {once, onceAsked} from '../../model/once.ts';
import type {NftChain, NftSource, NftTableSource} from '../../model/nft-ruleset.ts';
import {type Branch, type ChainResult, limitsFor, startBranch, truncated, undecided, type WalkLimits} from '../branch.ts';
import {askInterface, type Environment, type HookName, hookNames, isInterfaceLike, type Packet} from '../walked-packet.ts';
import type {HookedChain} from '../route-packet.ts';
import {walkBaseChain, walkChain, type WalkedChain, type WalkedTable} from '../walk-chain.ts';
import {lowerNftRule} from './lower-nft-rule.ts';

/** The tables that packets of a family pass. */
export function tablesOf({tableSources}: NftSource, family: Family): readonly NftTableSource[] {
  const own = family === 'IPv4' ? 'ip' : 'ip6';
  return tableSources.filter(table => [own, 'inet', 'netdev'].includes(table.family) && !('dormant' in table && table.dormant === true));
}

/** A packet that passes a truncated dump is undecided: base chains after its end are unknown. */
export function undecideTruncated(ends: readonly ChainResult[], tables: readonly NftTableSource[]): readonly ChainResult[] {
  const partial = tables.find(({declared}) => !declared);
  if (partial === undefined) return ends;
  const where = `in table ${partial.id}, and there may be more base chains in it`;
  return ends.map(end => (end.verdict === 'accept' ? truncated(end, where) : end));
}

interface NftPath {
  readonly tables: readonly NftTableSource[];
  readonly environment: Environment;
  readonly limits: WalkLimits;
  /** Whether a base chain is walked as one of iptables. */
  readonly isShown?: (table: NftTableSource, chain: NftChain) => boolean;
}

/** All base chains, as parts of a path with rules of other kinds (`R`). A list has tables and chains in the order of their creation. */
export function nftChains({tables, environment, limits, isShown = () => false}: NftPath): readonly HookedChain[] {
  const chains = tables.flatMap((table, index) =>
    table.baseChains.filter(chain => !isShown(table, chain)).flatMap(chain => baseChain(table, chain, tables.length - index)),
  );
  return chains.toReversed().map(({table, chain, hook, priority, isNat, age}) => ({
    hook,
    isNat,
    age,
    natOrder: priority,
    priority: isNat ? natPriority(hook) : priority,
    walk: branch =>
      atInterface(chain, environment, branch, () =>
        unlessDormant(
          table,
          walkBaseChain(
            {table: walkedTable(table), hook, priority, environment, limits},
            walkedChain(chain),
            chain.base?.policy ?? 'accept',
            branch,
          ),
        ),
      ),
  }));
}

function baseChain(table: NftTableSource, chain: NftChain, age: number) {
  const {base} = chain;
  if (base === null || !isHook(base.hook)) return [];
  return [{table, chain, age, hook: base.hook, priority: base.priority, isNat: base.type === 'nat'}];
}

function isHook(text: string): text is HookName {
  return hookNames.some(name => name === text);
}

function unlessDormant(table: NftTableSource, results: readonly ChainResult[]): readonly ChainResult[] {
  if (!('dormant' in table) || table.dormant !== null) return results;
  const reason = `whether table ${table.id} is switched off (flags dormant) is not shown by this version of nft, and it does not accept the packet`;
  return results.map(result => (result.verdict === 'accept' ? result : undecided(result, reason)));
}

/** Packets of other interfaces pass a chain of `ingress` or `egress`. */
function atInterface(
  {table, name, base}: NftChain,
  environment: Environment,
  branch: Branch,
  walk: () => readonly ChainResult[],
): readonly ChainResult[] {
  if (base?.hook !== 'ingress' && base?.hook !== 'egress') return walk();
  const {packet} = branch;
  const side = base.hook === 'ingress' ? 'source' : 'destination';
  const at = side === 'source' ? packet.inInterface : packet.outInterface;
  // nft up to 1.0.6 does not show them in JSON.
  const {devices = null} = base;
  for (const device of devices ?? []) askInterface(device, side, packet, environment, {table, chain: name});
  environment.sender?.commitAdded();
  const isThere = devices?.some(device => at !== null && isInterfaceLike(device, at)) ?? false;
  const canBe = (device: string): boolean =>
    at === null ? environment.canBeInterface(device, packet[side]) !== false : environment.isPortOf?.(device, at) === true;
  if (!isThere && devices?.some(canBe) === false) return [{...branch, verdict: 'accept'}];
  const results = walk();
  if (isThere) return results;
  const where = devices?.join(' or ') ?? `the interface of chain ${name} (the dump does not show it)`;
  const reason = `whether the packet passes ${where} is not known, and chain ${name} of table ${table} does not accept it there`;
  return results.map(result => {
    const {verdict, policy, supposed} = result;
    if (verdict === 'accept' || supposed !== null) return result;
    return {...undecided(result, reason), ...(verdict === 'drop' && policy !== undefined ? {policy} : {})};
  });
}

/** The kernel runs all NAT chains at this priority; their own priority only orders them. */
function natPriority(hook: HookName): number {
  return hook === 'prerouting' || hook === 'output' ? -100 : 100;
}

function walkedTable(table: NftTableSource): WalkedTable {
  return {
    chain: name => {
      const chain = table.chain(name);
      return chain === undefined ? undefined : walkedChain(chain);
    },
    set: name => table.set(name),
    isDeclared: table.declared,
  };
}

/** A chain is the same one each time that a walk enters it, by which endless walks are known; its rules are lowered once. */
const walkedChain = once((chain: NftChain): WalkedChain => {
  const {table, name, ruleCount, complete} = chain;
  const all = onceAsked(() => chain.rules().map(lowerNftRule));
  return {table, name, ruleCount, complete, rules: all};
});

/** Walks a packet through one chain by itself, whichever hook calls it. */
export function walkNftChain(
  table: NftTableSource,
  chain: NftChain,
  {packet, environment}: {readonly packet: Packet; readonly environment: Environment},
): readonly ChainResult[] {
  const walk = {table: walkedTable(table), hook: null, priority: 0, environment, limits: limitsFor(table)};
  return walkChain(walk, walkedChain(chain), startBranch(packet));
}
