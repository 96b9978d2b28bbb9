import {baseRuleSource} from '../analyze/ipvs/base-rule-source.ts';
import {expectedSets} from '../analyze/ipvs/ipvs-sides.ts';
import {allOf} from '../analyze/iptables/read-dumps.ts';
import {expectRuleset} from '../expect/iptables/expect-ruleset.ts';
import {expectIpvs} from '../expect/ipvs/expected-ipvs.ts';
import {expectTable} from '../expect/nftables/expect-table.ts';
import {tableId} from '../expect/nftables/expected-table.ts';
import {droppedRanges} from '../expect/nftables/service-ranges.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {Family} from '../model/family.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {ChainSource} from '../model/ruleset.ts';
import type {NftTableSource} from '../model/nft-ruleset.ts';
import type {NodeSetup} from './node-setup.ts';
import {otherTables, RulesAfter} from './third-party-rules.ts';
import type {WalkedSide} from './walk-side.ts';

interface ExpectedSideInput {
  readonly setup: NodeSetup;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly family: Family;
  /** The third-party rules of the node; without them there are only kube-proxy's rules. */
  readonly besideOthers: boolean;
}

/** The rules that kube-proxy with these settings would write, in place of its current ones. */
export function expectedSide(input: ExpectedSideInput): WalkedSide {
  const {setup, family, besideOthers} = input;
  const written = writtenOnce(input);
  const {iptables, nft, ...side} = written;
  if (!besideOthers) return {...side, iptables: iptables === null ? [] : [iptables], nft};
  const actual = allOf(setup.dumps, family);
  const [first, ...rest] = actual;
  const own =
    first === undefined
      ? iptables === null
        ? []
        : [iptables]
      : [new RulesAfter(first, iptables), ...rest.map(one => new RulesAfter(one, null))];
  return {...side, iptables: own, nft: [...ofFamily(otherTables(setup.nft(), actual), family), ...nft]};
}

type WrittenSide = Omit<WalkedSide, 'iptables'> & {readonly iptables: ChainSource | null};

const made = new WeakMap<ProxyConfig, Map<Family, {readonly view: ClusterView; readonly written: WrittenSide}>>();

/** Settings are those of one node, and several parts of a preview ask for its rules. */
function writtenOnce(input: ExpectedSideInput): WrittenSide {
  const {config, family, view} = input;
  const byFamily = made.get(config) ?? new Map<Family, {readonly view: ClusterView; readonly written: WrittenSide}>();
  made.set(config, byFamily);
  const known = byFamily.get(family);
  if (known?.view === view) return known.written;
  const written = writtenRules(input);
  byFamily.set(family, {view, written});
  return written;
}

function writtenRules({setup, view, config, family}: ExpectedSideInput): WrittenSide {
  const facts = setup.hostFacts();
  const none = {iptables: null, nft: [], local: facts, options: {sets: setup.sets()}};
  switch (config.mode.value) {
    case 'nftables': {
      const table = setup.nft()?.tables.get(tableId(family)) ?? null;
      const expected = expectTable({
        view,
        config,
        facts,
        family,
        table,
        serviceRanges: droppedRanges({api: setup.api, config, family, table}),
      });
      return {...none, expected, context: expected.context, ports: expected.ports, nft: [expected]};
    }
    case 'ipvs': {
      const expected = expectIpvs({view, config, facts, family, bound: []});
      const servers = [...expected.servers.values()].flatMap(claims => claims.slice(-1).map(({server}) => server));
      return {
        ...{expected, context: expected.context, ports: expected.ports, iptables: baseRuleSource(expected), nft: []},
        local: withBound(facts, [...expected.bound.keys()]),
        options: {sets: new Map([...setup.sets(), ...expectedSets(expected)]), servers},
      };
    }
    default: {
      const ruleset = setup.config.mode.value === 'iptables' ? (setup.dumps.current.get(family) ?? null) : null;
      const expected = expectRuleset({view, config, facts, family, ruleset});
      return {...none, expected, context: expected.context, ports: expected.ports, iptables: expected};
    }
  }
}

/** The current rules of the node. */
export function actualSide(setup: NodeSetup, view: ClusterView, family: Family): WalkedSide {
  const {config} = setup;
  const {context, ports, expected} = expectedSide({setup, view, config, family, besideOthers: false});
  const iptables = allOf(setup.dumps, family);
  const own = setup.nft()?.tables.get(tableId(family));
  const isIpvs = config.mode.value === 'ipvs';
  return {
    ...{context, ports, expected, iptables},
    nft: [...ofFamily(otherTables(setup.nft(), iptables), family), ...(own === undefined ? [] : [own])],
    local: isIpvs ? withBound(setup.hostFacts(), setup.bound()) : setup.facts,
    options: {sets: setup.sets(), ...(isIpvs ? {servers: setup.ipvs().servers ?? []} : {})},
  };
}

function ofFamily(tables: readonly NftTableSource[], family: Family): readonly NftTableSource[] {
  return tables.filter(table => table.family === 'inet' || table.family === (family === 'IPv4' ? 'ip' : 'ip6'));
}

function withBound(facts: NodeFacts, bound: readonly string[]): NodeFacts {
  return {...facts, addresses: [...new Set([...facts.addresses, ...bound])]};
}
