import {serviceRanges} from '../../expect/cluster/service-range.ts';
import {expectTable} from '../../expect/nftables/expect-table.ts';
import {type ExpectedTable, proxyTableId} from '../../expect/nftables/expected-table.ts';
import {type NftPort, parseNftName} from '../../expect/nftables/nft-names.ts';
import {dropsUnallocated, oldestNftMinor} from '../../expect/nftables/nft-versions.ts';
import {families, type Family} from '../../model/address.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import {type Ruleset, type RuleText, ruleTextOf} from '../../model/ruleset.ts';
import type {PortTrace, TraceStep} from '../../model/service-trace.ts';
import {analyzeFamily} from '../analyze-family.ts';
import {environmentOf, outcomeOn, tableWalkOf} from '../outcomes/environment.ts';
import {
  allOf,
  askedFamilies,
  truncationReason,
  type FamilyResult,
  joinFamilies,
  type ModeAnalysis,
  type NodeInput,
  type ProxyMode,
  unreadFamily,
  whyDoubtful,
} from '../proxy-mode.ts';
import {traceServedPort} from '../trace-served-port.ts';
import {withoutTable, nftFamily} from './nft-layout.ts';
import {unwalkedChains} from './leftover-nft-chains.ts';
import {pickingChain, targetsOf} from './nft-case.ts';
import {kubeProxyTables, whyNftMisprinted} from './nft-rules.ts';
import {type ExpectNft, resolveNftVersion} from './resolve-nft-version.ts';

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
    if (ruleset.repeated !== undefined) return {whyUnread: whyRepeated(ruleset.repeated)};
    return {analyze: () => analyzeFamilies({...input, config: resolveNftVersion(input, ruleset)}, ruleset)};
  },
};

function whyRepeated({table, set}: NonNullable<NftRuleset['repeated']>): string {
  return `its nft.json is several dumps: table ${table} has the set ${set} twice. Which one is true is not known`;
}

function whyEmpty({node, config}: NodeInput): string {
  if (node.files.includes('nft.json')) return `its nft.json is empty: the command failed, or everything was flushed. ${crashes}`;
  const failure = node.missing?.find(({file}) => file === 'nft.json')?.reason;
  const why = failure === undefined ? '' : `: ${failure}${crash.test(failure) ? `. ${crashes}` : ''}`;
  return `its mode is nftables (${config.mode.source}), and it has no nft.json${why}`;
}

/** A signal ended the program: by itself, or as a shell tells it. */
const crash = /exit code 1(?:3[2-9])\b|did not end by itself|segmentation|core dumped|aborted/i;
const crashes =
  'nft 0.9.8 crashes on the rules of kube-proxy, and 1.0.2 to 1.0.9 on those that nft 1.1.6 wrote: read the node with the nft of its kube-proxy (--transport exec), or with 1.1.3 or later';

function analyzeFamilies(input: NodeInput, ruleset: NftRuleset): ModeAnalysis {
  const results = askedFamilies(families, input.node).flatMap(family => resultOf(family, input, ruleset) ?? []);
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
  const actual = ruleset.tables.get(proxyTableId(family)) ?? null;
  const expect: ExpectNft = hypothesis => expectTable({...input, family, table: actual}, hypothesis);
  if (ruleset.misprint !== undefined) {
    const reason = whyNftMisprinted(ruleset.misprint, ruleset.toolVersion);
    return expect({}).ports.length > 0 ? unreadFamily(family, reason) : null;
  }
  if (actual === null && ruleset.truncation !== null)
    return expect({}).ports.length > 0 ? unreadFamily(family, `the dump ${truncationReason(ruleset.truncation)}`) : null;
  const iptables = allOf(input.dumps, family);
  const {symptoms, expected, differing} =
    actual === null
      ? withoutTable(expect({}))
      : analyzeFamily(input, family, nftFamily({expect, ruleset, actual, serviceRanges: rangesOf(input, family)}));
  const doubt = symptoms.length === 0 ? null : whyDoubtful(input.config, truncationWithin(ruleset));
  if (doubt !== null) return {...unreadFamily(family, doubt), differing};
  const reason = whyPartly(ruleset, iptables);
  const wanted = expected.ports.filter(({port}) => input.traces(port, symptoms));
  const traces = wanted.map(item => traceNftPort(item, expected, ruleset));
  return {family, reasons: reason === null ? [] : [reason], evaluated: reason === null, symptoms, traces, differing};
}

/** Null for versions that do not drop such packets. */
function rangesOf({api, config: {version, featureGates}}: NodeInput, family: Family): readonly string[] | null {
  return dropsUnallocated(version.value, featureGates.value) ? serviceRanges(api, family) : null;
}

/** Where kube-proxy's own tables are truncated; null if they are complete, or there are none. */
function truncationWithin(ruleset: NftRuleset): NftRuleset['truncation'] {
  const own = kubeProxyTables(ruleset);
  return own.length === families.length && own.every(({complete}) => complete) ? null : ruleset.truncation;
}

/** The part before the end of a truncated dump is evaluated; rules after it may drop or intercept packets of either family. */
function whyPartly({truncation}: NftRuleset, iptables: readonly Ruleset[]): string | null {
  if (truncation !== null) return `the dump ${truncationReason(truncation)}`;
  const beside = iptables.find(ruleset => ruleset.truncation !== null)?.truncation ?? null;
  return beside === null ? null : `the dump of iptables ${truncationReason(beside)}`;
}

/** The path of a packet from the map that holds its address through the chains of the Service, down to the rule that rewrites it. */
function traceNftPort(item: NftPort, expected: ExpectedTable, ruleset: NftRuleset): PortTrace {
  const environment = environmentOf(expected.context.facts);
  return traceServedPort({
    item,
    context: expected.context,
    walk: packet => ({
      should: tableWalkOf(expected)(packet, environment),
      does: outcomeOn({iptables: [], nft: ruleset, environment}, packet),
    }),
    stepsOf,
    pickOf: path => path.findLast(({chain}) => chain === pickingChain(path)) ?? null,
    rewriteOf: path => path.findLast(({text}) => / dnat /.test(` ${text}`)) ?? null,
  });
}

/** A map leads to the chain of the next rule; which of its elements did so is seen by that. */
function stepsOf(path: readonly RuleText[]): readonly TraceStep[] {
  return path.flatMap((rule, at) => {
    const {text} = rule;
    const next = path[at + 1]?.chain ?? '';
    const to = / vmap @service-/.test(` ${text}`) ? next : (targetsOf(rule)[0] ?? '');
    const role = parseNftName(to)?.role;
    const leads = role === 'external' || role === 'service' || role === 'local';
    return leads ? [{...ruleTextOf(rule), to}] : [];
  });
}
