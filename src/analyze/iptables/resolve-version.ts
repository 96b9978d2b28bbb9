import {compareRulesets, type RulesetExpectation} from '../../compare/compare-rulesets.ts';
import {type ExpectInput, expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {usesLocalChains, usualDetector} from '../../expect/iptables/infer-config.ts';
import {neighborsOf, servesBothFamilies} from '../../expect/iptables/iptables-versions.ts';
import {possibleVersions, aboutMinor} from '../../expect/patch-releases.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {families, type Family, parseAddress} from '../../model/address.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset, Chain, Rule} from '../../model/ruleset.ts';
import {bestVersion} from '../proxy-mode.ts';
import {isExcerpt} from './excerpt.ts';
import {keptWith} from '../../model/once.ts';
import {masqueradingChains} from '../../expect/iptables/chain-names.ts';
import type {Hypothesis} from '../../expect/node-context.ts';
import {comparableRule} from '../../parse/iptables/comparable-rule.ts';
import {parseRule} from '../../parse/iptables/rule.ts';
import type {HypothesisTests} from '../infer-hypothesis.ts';
import {otherDetectorThan} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/** Versions from 1.27 on whose rules look alike and that treat some Services in different ways: the first of each kind. */
const lookalikes: readonly number[] = [36, 35, 34, 33, 31, 30, 29, 28, 27];

/** Versions before 1.24, each with rules of its own. */
const old: readonly number[] = [23, 22, 21, 20, 19, 18, 17, 16, 14, 13, 11, 5];

interface ResolvedVersion {
  readonly config: ProxyConfig;
  /** Why the rules fit no known version; null if they fit one. */
  readonly misfit: string | null;
}

type Input = Omit<ExpectInput, 'family' | 'ruleset'>;

/**
 * Where kube-proxy's version is only guessed, its patch is not known, or its rules are only known from its neighbors: the version that
 * the node's rules fit best, the first of those that fit alike.
 */
export function resolveVersion(input: Input, rulesets: ReadonlyMap<Family, Ruleset>): ResolvedVersion {
  const {value} = input.config.version;
  const neighbors = neighborsOf(value);
  if (!value.guessed && neighbors !== null) return resolveToNeighbor(input, rulesets, neighbors);
  const candidates = value.guessed ? alikeVersions(value, rulesets) : possibleVersions(value, 'iptables');
  if (candidates.length === 1) return {config: input.config, misfit: null};
  return {config: bestFit(input, rulesets, candidates).config, misfit: null};
}

/** The versions that a guess may stand for. */
function alikeVersions(value: KubeProxyVersion, rulesets: ReadonlyMap<Family, Ruleset>): readonly KubeProxyVersion[] {
  const own = possibleVersions(value, 'iptables');
  if (value.minor >= 24 && value.minor < 27) return own;
  const isOld = value.minor < 24 || usesLocalChains([...rulesets.values()]);
  const isPart = [...rulesets.values()].some(isExcerpt) && !usesLocalChains([...rulesets.values()]);
  const all = isPart ? [...lookalikes, ...old] : isOld ? old : lookalikes;
  const others = all.filter(minor => minor !== value.minor);
  return [...own, ...others.flatMap(minor => possibleVersions(aboutMinor(minor), 'iptables'))];
}

function bestFit(
  input: Input,
  rulesets: ReadonlyMap<Family, Ruleset>,
  candidates: readonly KubeProxyVersion[],
): ReturnType<typeof bestVersion> {
  return bestVersion(input.config, candidates, config => countDifferences({...input, config}, rulesets));
}

function resolveToNeighbor(
  input: Input,
  rulesets: ReadonlyMap<Family, Ruleset>,
  {bounds, certain}: {readonly bounds: readonly number[]; readonly certain: boolean},
): ResolvedVersion {
  const {value} = input.config.version;
  const candidates = bounds.map(minor => (minor === value.minor ? value : {...value, minor, patch: null}));
  const {config, differences} = bestFit(input, rulesets, candidates);
  if (certain || differences === 0) return {config, misfit: null};
  const names = bounds.map(minor => `1.${minor}`).join(' and ');
  const misfit = `the rules of kube-proxy ${value.text} are not known, and those of ${names} do not fit; check with one of them by --kube-proxy-version`;
  return {config: input.config, misfit};
}

function countDifferences(input: Input, rulesets: ReadonlyMap<Family, Ruleset>): number {
  let differences = 0;
  for (const family of servedFamilies(input, rulesets)) {
    const ruleset = rulesets.get(family);
    if (ruleset === undefined) continue;
    const expected = expectRuleset({...input, family, ruleset});
    const found = compareRulesets(asExpectation(expected), ruleset).differences;
    // What an excerpt does not hold may be on the node.
    differences += isExcerpt(ruleset) ? found.filter(({kind}) => kind !== 'missing').length : found.length;
  }
  return differences;
}

/** The families that a node's kube-proxy writes rules for: up to 1.20 one, unless a gate says otherwise. */
export function servedFamilies(
  {config, facts}: {readonly config: ProxyConfig; readonly facts: NodeFacts},
  rulesets: ReadonlyMap<Family, Ruleset>,
): readonly Family[] {
  if (servesBothFamilies(config.version.value, config.featureGates.value)) return families;
  // The gate may be set in a source that was not read, so a family in which kube-proxy wrote rules is served.
  const written = families.filter(family => rulesets.get(family)?.chain('nat', 'KUBE-SERVICES') !== undefined);
  return written.length > 0 ? written : [ownFamily(config, facts)];
}

/** The family of kube-proxy's bindAddress; that of the node's first address where it binds to all. */
function ownFamily(config: ProxyConfig, facts: NodeFacts): Family {
  const bind = parseAddress(config.bindAddress.value);
  if (bind !== null && bind.value !== 0n) return bind.family;
  return facts.hostIPs[0]?.includes(':') ? 'IPv6' : 'IPv4';
}

/** An ExpectedRuleset in the form in which rulesets are compared: grouped by Service port. */
export function asExpectation(expected: ExpectedRuleset): RulesetExpectation<PortOnNode> {
  return {
    owners: expected.ports,
    rulesOf: item => expected.rulesOf(item),
    baseRules: () => expected.baseRules(),
    open: hookedChains,
    unordered: serviceChains,
  };
}

/** The chains that kube-proxy writes jumps into, among the rules of others. */
export const hookedChains: ReadonlySet<string> = new Set([
  'filter/INPUT',
  'filter/FORWARD',
  'filter/OUTPUT',
  'nat/PREROUTING',
  'nat/OUTPUT',
  'nat/POSTROUTING',
]);

/** The chains that Services share, in the order of the tables. */
export const serviceChains: ReadonlySet<string> = new Set([
  'nat/KUBE-SERVICES',
  'nat/KUBE-NODEPORTS',
  'filter/KUBE-SERVICES',
  'filter/KUBE-EXTERNAL-SERVICES',
  'filter/KUBE-NODEPORTS',
  'filter/KUBE-PROXY-FIREWALL',
]);

/** Builds the expectation under a hypothesis. */
export type Expect = (hypothesis: Hypothesis) => ExpectedRuleset;

/** How the node's iptables show whether one hypothesis explains many differences. */
export function iptablesHypotheses(actual: Ruleset): HypothesisTests<ExpectedRuleset, PortOnNode> {
  return {
    textOf: rulesText,
    fits: (expected, item) => fits(expected, item, actual),
    otherDetector: expected => otherDetector(expected, actual),
  };
}

function rulesText(expected: ExpectedRuleset, item: PortOnNode): string {
  const {own, shared} = expected.rulesOf(item);
  return [...[...own].sort().flat(), ...shared.map(({table, chain, text}) => `${table}/${chain} ${text}`)].join('\n');
}

/** Whether the node's rules of a Service port are the expected ones. */
function fits(expected: ExpectedRuleset, item: PortOnNode, actual: Ruleset): boolean {
  const rules = expected.rulesOf(item);
  for (const [name, text] of rules.own) {
    const chain = actual.chain('nat', name);
    if (chain === undefined || (chain.text() !== text && !sameRules(text, name, chain.rules()))) return false;
  }
  return rules.shared.every(({table, chain, text}) => sharedLines(actual, table, chain).has(`-A ${chain} ${text}`));
}

/** The lines of a chain that many Service ports share. */
function sharedLines(actual: Ruleset, table: string, chain: string): ReadonlySet<string> {
  return keptWith(actual, `lines of ${table}/${chain}`, () => {
    const text = actual.chain(table, chain)?.text() ?? '';
    return new Set(text.split('\n').map(line => line.trimEnd()));
  });
}

function sameRules(text: string, chain: string, actual: readonly Rule[]): boolean {
  const lines = text.split('\n');
  return (
    lines.length === actual.length &&
    lines.every((line, index) => {
      const rule = actual[index];
      return rule !== undefined && comparableRule(parseRule(line, {table: 'nat', chain, line: 0})) === comparableRule(rule);
    })
  );
}

/** The node identifies pods differently than configured; null if it does not, or too few Services show it. */
function otherDetector(expected: ExpectedRuleset, actual: Ruleset): {readonly hypothesis: Hypothesis; readonly symptom: Symptom} | null {
  // Rules that a truncated dump does not show may be on the node.
  if (actual.tables.get('nat')?.complete !== true) return null;
  if (!holdsThree(tellingPorts(expected)) && !holdsThree(tellingChains(actual))) return null;
  return otherDetectorThan(expected.context, usualDetector(actual) ?? {kind: 'none'});
}

/** Stops at the third: to go through all takes long on a large node. */
function holdsThree(items: Iterable<unknown>): boolean {
  let count = 0;
  for (const _ of items) if (++count === 3) return true;
  return false;
}

/** Service ports that are masqueraded at their cluster IPs by rules that identify pods. */
function* tellingPorts(expected: ExpectedRuleset): Iterable<PortOnNode> {
  for (const item of expected.ports) {
    const {own, shared} = expected.rulesOf(item);
    if ([...own.values()].some(tells) || shared.some(({text}) => tells(text))) yield item;
  }
}

/** Chains that hold such rules. */
function* tellingChains(actual: Ruleset): Iterable<Chain> {
  for (const chain of masqueradingChains(actual)) if (tells(chain.text())) yield chain;
}

function tells(text: string): boolean {
  return / cluster IP".* -j KUBE-MARK-MASQ$/m.test(text);
}
