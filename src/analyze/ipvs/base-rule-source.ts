import {heldIn} from '../../model/once.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {setName, type SetRole, setTypes} from '../../expect/ipvs/ipvs-sets.ts';
import type {Chain, ChainSource, Ruleset} from '../../model/ruleset.ts';
import {textChain} from '../../parse/iptables/dump-chain.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import type {Side} from '../../trace/side.ts';
import {replaced} from '../iptables/chain-texts.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {boundOf, type IpvsDifferences, type IpvsState} from './ipvs-state.ts';

/** The iptables rules that kube-proxy writes around IPVS, as a walk needs them. */
export function baseRuleSource({baseRules, ports, outFilter, context: {family}}: ExpectedIpvs): ChainSource {
  const out = ports.flatMap(owner => [...outFilter(owner)]);
  const texts = new Map([...baseRules, ...(out.length === 0 ? [] : [[outFilterChain, out] as const])]);
  // Up to 1.23 a rule of the kubelet drops marked packets. A walk treats packets marked for dropping as dropped.
  if (baseRules.has('nat/KUBE-FIREWALL')) texts.set('nat/KUBE-MARK-DROP', ['-j DROP']);
  const chains = new Map<string, Chain>();
  return {
    family,
    hasTable: table => table === 'nat' || table === 'filter',
    chain: (table, name) => {
      const key = `${table}/${name}`;
      const rules = texts.get(key);
      if (rules === undefined) return undefined;
      const like = {table, name, policy: name.startsWith('KUBE-') ? null : 'ACCEPT', complete: true};
      return heldIn(chains, key, () =>
        textChain(
          like,
          rules.map(text => `-A ${name} ${text}`),
        ),
      );
    },
  };
}

export const outFilterChain = 'filter/KUBE-IPVS-OUT-FILTER';

/** A source in which some chains are taken from another. */
export function withChainsOf(source: ChainSource, other: ChainSource, keys: ReadonlySet<string>): ChainSource {
  return replaced(source, (table, name) => (keys.has(`${table}/${name}`) ? other : source).chain(table, name));
}

export interface IpvsSides {
  readonly expected: Side;
  /** The actual state inside the expected base rules, which are evaluated separately. */
  readonly actual: Side;
  /** The actual state with the actual base rules. */
  readonly whole: Side;
}

interface SidesInput {
  readonly expected: ExpectedIpvs;
  readonly differences: IpvsDifferences;
  readonly state: IpvsState;
  readonly ruleset: Ruleset | null;
  /** kube-ipvs0 is reported as missing: its effect is not reported again for each Service. */
  readonly deviceGone: boolean;
}

/** What was not read is assumed to be as expected. */
export function sidesOf({expected, differences, state, ruleset, deviceGone}: SidesInput): IpvsSides {
  const {facts, family} = expected.context;
  const wanted = {sets: expectedSets(expected), servers: [...differences.resolved.values()].map(({server}) => server)};
  const local = (bound: Iterable<string>): typeof facts => ({...facts, addresses: [...facts.addresses, ...bound]});
  const sets = state.sets === null ? wanted.sets : new Map([...emptySets(expected), ...state.sets]);
  const servers = state.servers?.filter(server => server.family === family) ?? wanted.servers;
  const bound = deviceGone ? expected.bound.keys() : boundOf(expected, state);
  const baseRules = baseRuleSource(expected);
  const environment = environmentOf(local(bound), {sets, servers});
  const outFilter = new Set(ruleset?.hasTable('filter') ? [outFilterChain] : []);
  return {
    expected: {iptables: [baseRules], nft: null, environment: environmentOf(local(expected.bound.keys()), wanted)},
    actual: {iptables: [ruleset === null ? baseRules : withChainsOf(baseRules, ruleset, outFilter)], nft: null, environment},
    whole: {iptables: [ruleset ?? baseRules], nft: null, environment},
  };
}

/** The sets of IPVS mode with their expected members. */
export function expectedSets({members, context: {family}}: ExpectedIpvs): ReadonlyMap<string, IpSet> {
  return new Map([...members].map(([role, wanted]) => [setName(role, family), setOf(role, setName(role, family), [...wanted.keys()])]));
}

function emptySets({members, context: {family}}: ExpectedIpvs): ReadonlyMap<string, IpSet> {
  return new Map([...members.keys()].map(role => [setName(role, family), setOf(role, setName(role, family), [])]));
}

function setOf(role: SetRole, name: string, members: readonly string[]): IpSet {
  const type = setTypes[role];
  const elements = members.map(member => member.split(','));
  return {name, type, elements, parts: (type.split(':')[1] ?? '').split(','), exceptions: [], lines: elements.map(() => 0)};
}
