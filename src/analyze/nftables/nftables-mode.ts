import {expectTable} from '../../expect/nftables/expect-table.ts';
import {tableId} from '../../expect/nftables/expected-table.ts';
import {dropsUnallocated, oldestNftMinor} from '../../expect/nftables/nft-versions.ts';
import {serviceRanges} from '../../expect/nftables/service-ranges.ts';
import {families, type Family} from '../../model/family.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {cutReason, whyDoubtful} from '../truncated-settings.ts';
import {knowsZone, nodeRules} from '../node-input.ts';
import {type FamilyResult, joinFamilies, unreadFamily} from '../join-families.ts';
import type {ModeAnalysis, NodeInput, ProxyMode} from '../proxy-mode.ts';
import type {ExpectNft} from './infer-nft-settings.ts';
import {allOf} from '../iptables/read-dumps.ts';
import {analyzeNftFamily} from './analyze-nft-family.ts';
import {kubeProxyTables} from './read-nft.ts';
import {resolveNftVersion} from './resolve-nft-version.ts';
import {unwalkedChains} from './unwalked-chains.ts';
import {traceNftPort} from './service-port/trace-nft-port.ts';

/** A table of its own for each family, with maps from addresses to chains. */
export const nftablesMode: ProxyMode = {
  name: 'nftables',
  prepare(input) {
    const {version} = input.config;
    if (version.value.minor < oldestNftMinor && version.value.guessed === undefined)
      return {whyUnread: `kube-proxy ${version.value.text} has no nftables mode: 1.${oldestNftMinor} is the first that has`};
    const ruleset = input.nft();
    if (ruleset === null) return {whyUnread: whyEmpty(input)};
    if (ruleset.tables.size === 0 && ruleset.strays.length > 0) return {whyUnread: 'its nft.json is not what "nft -j list ruleset" prints'};
    return {analyze: () => analyzeFamilies({...input, config: resolveNftVersion(input, ruleset)}, ruleset)};
  },
};

function whyEmpty({node, config}: NodeInput): string {
  return node.files.includes('nft.json')
    ? 'its nft.json is empty: the command failed, or everything was flushed'
    : `its mode is nftables (${config.mode.source}), and it has no nft.json`;
}

function analyzeFamilies(input: NodeInput, ruleset: NftRuleset): ModeAnalysis {
  const results = families.flatMap(family => resultOf(family, input, ruleset) ?? []);
  const joined = joinFamilies(results);
  const first = joined.families[0] ?? joined.unread[0]?.family;
  return {
    ...joined,
    symptoms: [...joined.symptoms, ...(first === undefined ? [] : unwalkedChains(ruleset, first))],
    config: input.config,
    counts: {rules: ruleset.ruleCount, chains: ruleset.chainCount},
  };
}

/** Null for a family without Services whose table may follow after the end of a truncated dump. */
function resultOf(family: Family, input: NodeInput, ruleset: NftRuleset): FamilyResult | null {
  const actual = ruleset.tables.get(tableId(family)) ?? null;
  const expect: ExpectNft = hypothesis => expectTable({...input, family, table: actual}, hypothesis);
  if (actual === null && ruleset.cut !== null)
    return expect({}).ports.length > 0 ? unreadFamily(family, `the dump ${cutReason(ruleset.cut)}`) : null;
  const iptables = allOf(input.dumps, family);
  const {symptoms, expected, byPort} = analyzeNftFamily({
    ...{expect, ruleset, actual, rules: nodeRules(input, family)},
    ...{
      serviceRanges: rangesOf(input, family),
      knowsZone: knowsZone(input),
      eachService: input.eachService ?? false,
      isPartial: input.api.namespaces !== undefined,
    },
  });
  const differing = [...byPort].map(([item, own]) => [item, own.map(() => 'table')] as const);
  const doubt = symptoms.length === 0 ? null : whyDoubtful(input.config, cutWithin(ruleset));
  if (doubt !== null) return {...unreadFamily(family, doubt), differing};
  const reason = whyPartly(ruleset, iptables);
  const wanted = expected.ports.filter(({port}) => input.traces(port, symptoms));
  const traces = wanted.map(item => traceNftPort({item, expected, ruleset}));
  return {family, reasons: reason === null ? [] : [reason], evaluated: reason === null, symptoms, traces, differing};
}

/** Null for versions that do not drop such packets. */
function rangesOf({api, config: {version, featureGates}}: NodeInput, family: Family): readonly string[] | null {
  return dropsUnallocated(version.value, featureGates.value) ? serviceRanges(api, family) : null;
}

/** Where kube-proxy's own tables are truncated; null if they are complete, or there are none. */
function cutWithin(ruleset: NftRuleset): NftRuleset['cut'] {
  const own = kubeProxyTables(ruleset);
  return own.length === families.length && own.every(({complete}) => complete) ? null : ruleset.cut;
}

/** The part before the end of a truncated dump is evaluated; rules after it may drop or intercept packets of either family. */
function whyPartly({cut}: NftRuleset, iptables: readonly Ruleset[]): string | null {
  if (cut !== null) return `the dump ${cutReason(cut)}`;
  const beside = iptables.find(ruleset => ruleset.cut !== null)?.cut ?? null;
  return beside === null ? null : `the dump of iptables ${cutReason(beside)}`;
}
