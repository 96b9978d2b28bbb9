import {parseAddress, joinHostPort} from '../../model/address.ts';
import {once, onceAsked} from '../../model/once.ts';
import type {Chain, ChainSource, Rule} from '../../model/ruleset.ts';
import type {RealServer, VirtualServer} from '../../model/virtual-server.ts';
import {type Branch, type ChainResult, startBranch, type WalkLimits} from '../branch.ts';
import type {Environment, HookName, Packet} from '../walked-packet.ts';
import type {HookedChain} from '../route-packet.ts';
import {type ChainWalk, walkBaseChain, walkChain, type WalkedChain} from '../walk-chain.ts';
import {candidateRules, searchedField} from './chain-index.ts';
import {lowerRule} from './lower-iptables-rule.ts';

export interface WalkContext {
  readonly rules: ChainSource;
  readonly environment: Environment;
  readonly limits: WalkLimits;
}

/** The base chains of iptables that there are, as parts of a path that may hold rules of other kinds (`NodeRule`). */
export function iptablesChains(
  context: WalkContext,
  // Without a list of tables that has them too, those of iptables are taken as older than those of nftables.
  ageOf: (table: string) => number = () => Infinity,
): readonly HookedChain[] {
  const walked = walkedChains(context.rules);
  return hooks.flatMap(({table, hook, name, priority}) => {
    const chain = context.rules.chain(table, name);
    if (chain === undefined) return [];
    const walk = {...chainWalk(context, table, walked), hook, priority};
    const policy = chain.policy === 'DROP' ? 'drop' : 'accept';
    const pass = (branch: Branch): readonly ChainResult[] => walkBaseChain(walk, walked(chain), policy, branch);
    return [{hook, priority, isNat: table === 'nat', age: ageOf(table), walk: pass}];
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

function chainWalk({rules, environment, limits}: WalkContext, table: string, walked: (chain: Chain) => WalkedChain): ChainWalk {
  return {
    table: {
      chain: name => {
        const chain = rules.chain(table, name);
        return chain === undefined || chain.policy !== null ? undefined : walked(chain);
      },
      set: () => undefined,
      isDeclared: true,
    },
    hook: null,
    priority: 0,
    environment,
    limits,
  };
}

/** A chain is the same one each time that a walk enters it, by which endless walks are known; its rules are lowered once. */
const walkedChains = once((rules: ChainSource) =>
  once((chain: Chain): WalkedChain => {
    const {table, name, ruleCount, complete} = chain;
    const all = onceAsked(() => chain.rules().map(lowerRule));
    return {
      table,
      name,
      ruleCount,
      complete,
      rules: (packet, environment) => candidateRules({rules}, chain, packet, environment)?.map(lowerRule) ?? all(),
      decided: searchedField,
    };
  }),
);

/** Walks a packet through one chain by itself, whichever hook calls it. */
export function walkIptablesChain(context: WalkContext, chain: Chain, packet: Packet): readonly ChainResult[] {
  const walked = walkedChains(context.rules);
  return walkChain(chainWalk(context, chain.table, walked), walked(chain), startBranch(packet));
}

/** What IPVS does to a packet, on a path with rules of other kinds too (`NodeRule`); null if no virtual server matches. */
export function balanceByIpvs(environment: Environment): (end: ChainResult) => readonly ChainResult[] | null {
  return end => {
    const server = environment.virtualServer?.(end.packet);
    if (server === undefined) return null;
    const picks = sharesOf(server);
    const path = {rule: serverRule(server), before: end.path};
    const refused: ChainResult = {...end, path, verdict: 'reject'};
    if (picks.length === 0) return [refused];
    const lost = refusedShare(server);
    const left = end.probability * (1 - lost);
    return [
      ...picks.map(({real, share}) =>
        sendTo(real, {...end, probability: left * share, path: {rule: realServerRule(server, real), before: path}}),
      ),
      ...(lost === 0 ? [] : [{...refused, probability: end.probability * lost, reason: noOther(server)}]),
    ];
  };
}

/** How a virtual server distributes new connections of many clients in the long run. Empty if no real server accepts connections. */
export function sharesOf({scheduler, realServers}: VirtualServer): readonly {readonly real: RealServer; readonly share: number}[] {
  const usable = realServers.filter(({weight}) => weight > 0);
  const chosen = failover.has(scheduler) ? heaviest(usable) : usable;
  const weightOf = ({weight}: RealServer): number => (blindToWeight.has(scheduler) || failover.has(scheduler) ? 1 : weight);
  const total = chosen.reduce((sum, real) => sum + weightOf(real), 0);
  return chosen.map(real => ({real, share: weightOf(real) / total}));
}

/**
 * The share of clients whose real server, by the hash of their address, is one with the weight 0. It keeps its part of the table, and
 * without the flag for it no other one is taken. Source: `ip_vs_mh_get`, `ip_vs_sh_get` and `ip_vs_dh_schedule` of the kernel.
 */
function refusedShare({scheduler, flags, realServers}: VirtualServer): number {
  if (!byHash.has(scheduler) || flags.includes(`${scheduler}-fallback`)) return 0;
  const usable = realServers.reduce((sum, {weight}) => sum + (scheduler === 'dh' ? Math.min(weight, 1) : weight), 0);
  const empty = realServers.filter(({weight}) => weight === 0).length;
  return empty === 0 ? 0 : empty / (usable + empty);
}

const byHash: ReadonlySet<string> = new Set(['mh', 'sh', 'dh']);

function noOther({scheduler}: VirtualServer): string {
  return `the scheduler ${scheduler} gives the clients of a server with the weight 0 no other one, until it is removed`;
}

/** Schedulers for which only a weight of 0 matters. */
export const blindToWeight: ReadonlySet<string> = new Set(['rr', 'lc', 'dh']);

/** Schedulers that use only the real server with the highest weight, until it is full. */
const failover: ReadonlySet<string> = new Set(['fo', 'ovf']);

function heaviest(usable: readonly RealServer[]): readonly RealServer[] {
  return usable.toSorted((a, b) => b.weight - a.weight).slice(0, 1);
}

/**
 * Sends the packet of a branch to a real server. With another forwarding method than masquerading it keeps the virtual address, and a pod
 * drops it.
 */
function sendTo(real: RealServer, end: ChainResult): ChainResult {
  const destination = parseAddress(real.address);
  if (destination === null) return {...end, verdict: 'undecided', reason: `${real.hostPort} is no address`};
  if (real.forwarding !== 'masquerade') return {...end, verdict: 'drop'};
  const virtual = {destination: end.packet.destination, port: end.packet.port};
  return {...end, packet: {...end.packet, destination, port: real.port, rewritten: true, virtual}};
}

/** A virtual server as a step on the path of a packet. */
export function serverRule({address, port, line, text}: VirtualServer): Rule {
  return {table: 'ipvs', chain: joinHostPort(address, port), line, text, options: [], matches: [], target: null};
}

export function realServerRule(server: VirtualServer, {line, text}: RealServer): Rule {
  return {...serverRule(server), line, text};
}
