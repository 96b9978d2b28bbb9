import {compareNftTable, type NftExpectation} from '../../compare/compare-nft-table.ts';
import {expectTable} from '../../expect/nftables/expect-table.ts';
import {type ExpectedTable, proxyTableId} from '../../expect/nftables/expected-table.ts';
import {bypassDetector, inferNftConfig, seenDetector} from '../../expect/nftables/infer-nft-config.ts';
import type {NftPort} from '../../expect/nftables/nft-names.ts';
import {nodePortDestinations, type Hypothesis} from '../../expect/node-context.ts';
import {possibleVersions, aboutMinor} from '../../expect/patch-releases.ts';
import {families} from '../../model/address.ts';
import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import {nftRule} from '../../parse/nftables/nft-rule.ts';
import {bestVersion, type NodeInput} from '../proxy-mode.ts';
import type {HypothesisTests} from '../infer-hypothesis.ts';
import {otherDetectorThan} from '../symptoms/node-symptoms.ts';
import {kubeProxyTables} from './nft-rules.ts';

/** Versions whose tables look alike and that treat some Services in different ways. */
const lookalikes: readonly (readonly number[])[] = [[37, 36], [35, 34], [33], [32, 31, 30], [29]];

/**
 * If kube-proxy's version is only guessed, or its patch is not known: the version that the table shows, and of similar ones the one that
 * matches best.
 */
export function resolveNftVersion(input: NodeInput, ruleset: NftRuleset): ProxyConfig {
  const {config} = input;
  const {value} = config.version;
  const candidates = value.guessed === undefined ? possibleVersions(value, 'nftables') : alikeVersions(value, ruleset);
  if (candidates.length < 2 && value.guessed === undefined) return config;
  return bestVersion(config, candidates, candidate => countDifferences({...input, config: candidate}, ruleset)).config;
}

/** The versions that a guess may stand for. */
function alikeVersions(value: KubeProxyVersion, ruleset: NftRuleset): readonly KubeProxyVersion[] {
  const seen = inferNftConfig(kubeProxyTables(ruleset)).version;
  if (seen === undefined) return [];
  const alike = lookalikes.find(minors => minors.includes(seen.minor)) ?? [seen.minor];
  const minors = new Set([...(alike.includes(value.minor) ? [value.minor] : []), ...alike]);
  return [...minors].flatMap(minor => possibleVersions(minor === value.minor ? value : aboutMinor(minor), 'nftables'));
}

function countDifferences(input: NodeInput, ruleset: NftRuleset): number {
  return families.reduce((sum, family) => {
    const table = ruleset.tables.get(proxyTableId(family));
    if (table === undefined) return sum;
    const {differences} = compareNftTable(asNftExpectation(expectTable({...input, family, table})), table);
    return sum + differences.filter(({rule}) => rule.chain !== 'cluster-ips-check').length;
  }, 0);
}

/** An ExpectedTable in the form in which tables are compared: grouped by Service port. */
export function asNftExpectation(expected: ExpectedTable): NftExpectation<NftPort> {
  return {
    table: expected.id,
    owners: expected.ports,
    objectsOf: item => expected.objectsOf(item),
    baseRules: expected.baseRules,
    baseSets: expected.baseSets,
    baseElements: (nodePortDestinations(expected.context) ?? []).map(key => ({set: 'nodeport-ips', key, value: null, comment: null})),
  };
}

/** Builds the expectation under a hypothesis. */
export type ExpectNft = (hypothesis: Hypothesis) => ExpectedTable;

/** How the node's table shows whether one hypothesis explains many differences. */
export function nftHypotheses(actual: NftTable): HypothesisTests<ExpectedTable, NftPort> {
  return {
    textOf: objectsText,
    fits: (expected, item) => fits(expected, item, actual),
    otherDetector: expected => otherDetector(expected, actual),
  };
}

function objectsText(expected: ExpectedTable, item: NftPort): string {
  const {chains, elements} = expected.objectsOf(item);
  return JSON.stringify([[...chains], elements]);
}

/** Whether the node's objects of a Service port are the expected ones. */
function fits(expected: ExpectedTable, item: NftPort, actual: NftTable): boolean {
  const {chains, elements} = expected.objectsOf(item);
  for (const [name, rules] of chains) {
    const found = actual.chain(name);
    if (found === undefined || (!found.holds(rules) && bodies(found.rules()) !== bodiesOf(rules))) return false;
  }
  return elements.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value === value);
}

function bodies(rules: readonly {readonly body: string}[]): string {
  return rules.map(({body}) => body).join('\n');
}

function bodiesOf(texts: readonly string[]): string {
  return bodies(texts.map(text => nftRule({table: '', chain: '', line: 0, text})));
}

/** The node identifies pods differently than configured; null if it does not, or too few Services show it. */
function otherDetector({context, ports}: ExpectedTable, actual: NftTable) {
  // Rules that a truncated dump does not show may be on the node.
  if (!actual.complete || ports.length < 3) return null;
  const seen = seenDetector(actual);
  const bypass = bypassDetector(actual);
  // If other rules detect pods as configured, only this rule is wrong.
  const isOneRule = seen !== 'all' && bypass !== null && otherDetectorThan(context, bypass) === null;
  return seen === null || isOneRule ? null : otherDetectorThan(context, seen);
}
