import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {Chain, ChainSource} from '../../model/ruleset.ts';
import {listChain} from '../iptables/listed-chains.ts';
import {parseRule} from '../../parse/iptables/rule.ts';

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
      const known = chains.get(key) ?? textChain(table, name, rules);
      chains.set(key, known);
      return known;
    },
  };
}

export const outFilterChain = 'filter/KUBE-IPVS-OUT-FILTER';

function textChain(table: string, name: string, texts: readonly string[]): Chain {
  const rules = texts.map(text => parseRule(`-A ${name} ${text}`, {table, chain: name, line: 0}));
  return listChain({table, name, policy: name.startsWith('KUBE-') ? null : 'ACCEPT', complete: true}, rules);
}

/** A source in which some chains are taken from another. */
export function withChainsOf(source: ChainSource, other: ChainSource, keys: ReadonlySet<string>): ChainSource {
  return {...source, chain: (table, name) => (keys.has(`${table}/${name}`) ? other : source).chain(table, name)};
}
