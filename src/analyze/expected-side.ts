import {expectRuleset} from '../expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import {type ExpectedIpvs, expectIpvs} from '../expect/ipvs/expected-ipvs.ts';
import {expectTable} from '../expect/nftables/expect-table.ts';
import type {ExpectedTable} from '../expect/nftables/expected-table.ts';
import type {PortsInput} from '../expect/cluster/served-port.ts';
import type {NodeContext} from '../expect/node-context.ts';
import type {ServedPort} from '../model/endpoint.ts';
import type {NftTable} from '../model/nft-ruleset.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {Ruleset} from '../model/ruleset.ts';
import type {IpSet} from '../parse/ipvs/ipset-save.ts';
import type {Side} from '../trace/side.ts';
import {baseRuleSource, expectedSets} from './ipvs/base-rule-source.ts';
import {environmentOf} from './outcomes/environment.ts';

/** What kube-proxy writes with some settings, in whatever mode, so that packets can be walked through it. */
export interface WrittenSide extends Side {
  readonly context: NodeContext;
  readonly ports: readonly ServedPort[];
  readonly expected: ExpectedTable | ExpectedRuleset | ExpectedIpvs;
  /** With all addresses that count as local. */
  readonly local: NodeFacts;
}

interface WrittenInput extends PortsInput {
  /** Of the node itself: without kube-ipvs0. */
  readonly facts: NodeFacts;
  /** The node's ipsets. */
  readonly sets?: ReadonlyMap<string, IpSet>;
  /** What the node holds now, for what it alone shows. */
  readonly table?: NftTable | null;
  readonly ruleset?: Ruleset | null;
  readonly serviceRanges?: readonly string[] | undefined;
}

/** The rules that kube-proxy writes in the mode of its settings. */
export function writtenSide(input: WrittenInput): WrittenSide {
  const {view, config, family, facts, sets = new Map<string, IpSet>(), table = null, ruleset = null, serviceRanges} = input;
  const given = {view, config, facts, family};
  const none = {iptables: [], nft: {tableSources: []}, local: facts, environment: environmentOf(facts, {sets})};
  switch (config.mode.value) {
    case 'nftables': {
      const expected = expectTable({...given, table, serviceRanges});
      return {...none, expected, context: expected.context, ports: expected.ports, nft: {tableSources: [expected]}};
    }
    case 'ipvs': {
      const expected = expectIpvs({...given, bound: []});
      const servers = [...expected.servers.values()].flatMap(claims => claims.slice(-1).map(({server}) => server));
      const local = withBound(facts, [...expected.bound.keys()]);
      const environment = environmentOf(local, {sets: new Map([...sets, ...expectedSets(expected)]), servers});
      const {context, ports} = expected;
      return {...none, expected, context, ports, local, environment, iptables: [baseRuleSource(expected)]};
    }
    default: {
      const expected = expectRuleset({...given, ruleset});
      return {...none, expected, context: expected.context, ports: expected.ports, iptables: [expected]};
    }
  }
}

export function withBound(facts: NodeFacts, bound: readonly string[]): NodeFacts {
  return {...facts, addresses: [...new Set([...facts.addresses, ...bound])]};
}
