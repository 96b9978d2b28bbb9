import {append} from '../../model/lists.ts';
import {expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {Family} from '../../model/family.ts';
import {oldestKnownMinor} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {Differing} from '../differing.ts';
import {cutReason, whyDoubtful} from '../truncated-settings.ts';
import {ipsetsOf, knowsZone} from '../node-input.ts';
import type {ModeAnalysis, NodeInput, ProxyMode, UnreadFamily} from '../proxy-mode.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import type {Expect} from './family-case.ts';
import {completeExcerpt, describeRules, describeUnknownChains, isExcerpt} from './excerpt.ts';
import {invalidRules} from './invalid-rules.ts';
import {analyzeFamily} from './analyze-family.ts';
import {countRules} from './read-dumps.ts';
import {servedFamilies} from './served-families.ts';
import {resolveVersion} from './resolve-version.ts';
import {tracePort} from './service-port/trace-port.ts';
import {whyNoTables} from './what-was-read.ts';

/** kube-proxy's default on Linux: a chain for each Service port and each endpoint. */
export const iptablesMode: ProxyMode = {
  name: 'iptables',
  prepare(input) {
    const {config, dumps, node, api} = input;
    const {version} = config;
    if (version.value.minor < oldestKnownMinor)
      return {whyUnread: `kube-proxy ${version.value.text} is older than 1.${oldestKnownMinor}, the oldest whose rules are known`};
    if (dumps.current.size === 0) return {whyUnread: whyEmpty(node)};
    // Without Services, versions cannot be told apart.
    const resolved = api.services === null ? {config, misfit: null} : resolveVersion(input, dumps.current);
    if (resolved.misfit !== null) return {whyUnread: resolved.misfit};
    return {analyze: () => analyzeFamilies({...input, config: resolved.config})};
  },
};

function analyzeFamilies(input: NodeInput): ModeAnalysis {
  const {dumps} = input;
  const evaluated: Family[] = [];
  const unread: UnreadFamily[] = [];
  const symptoms: Symptom[] = [];
  const traces: PortTrace[] = [];
  const differing = new Differing();
  const sets = ipsetsOf(input.node);
  const cut = [...dumps.current.values()].find(ruleset => ruleset.cut !== null)?.cut ?? null;
  for (const family of servedFamilies(input, dumps.current)) {
    const ruleset = dumps.current.get(family) ?? null;
    const expect: Expect = hypothesis => expectRuleset({...input, family, ruleset}, hypothesis);
    const reason = whyUnreadable(family, ruleset);
    if (reason !== null || ruleset === null) {
      if (ruleset !== null || expect({}).ports.length > 0) unread.push({family, reason: reason ?? 'there is no dump of it'});
      continue;
    }
    const excerpt = isExcerpt(ruleset);
    const actual = excerpt ? completeExcerpt(ruleset, expect({})) : ruleset;
    const {
      symptoms: found,
      expected,
      byPort,
    } = analyzeFamily({
      expect,
      actual,
      sets,
      knowsZone: knowsZone(input),
      eachService: input.eachService ?? false,
    });
    for (const [{port}, own] of byPort)
      differing.add(
        port,
        own.map(({table}) => table),
      );
    const doubt = found.length === 0 ? null : whyDoubtful(input.config, cut);
    if (doubt !== null) {
      unread.push({family, reason: doubt});
      continue;
    }
    append(
      traces,
      expected.ports.filter(({port}) => input.traces(port, found)).map(item => tracePort({item, expected, actual})),
    );
    if (found.length > 0 && invalidRules(ruleset).length > 0)
      unread.push({family, reason: 'the dump was made by an iptables older than the one that wrote the rules'});
    else append(symptoms, excerpt ? found.filter(isSeen) : found);
    if (excerpt) unread.push({family, reason: partly(ruleset, expected)});
    else if (ruleset.cut === null) evaluated.push(family);
    else unread.push({family, reason: `the dump ${cutReason(ruleset.cut)}`});
  }
  return {families: evaluated, unread, symptoms, traces, differing: differing.services, config: input.config, counts: countRules(dumps)};
}

/** A jump to the chain, or a rule without effect, may be missing from the excerpt and not from the node. */
function isSeen({kind, severity}: Symptom): boolean {
  return kind !== 'orphan-chain' && !(kind === 'missing-rule' && severity === 'info');
}

function partly(ruleset: Ruleset, expected: ExpectedRuleset): string {
  const unknownChains = describeUnknownChains(ruleset, expected);
  return `the dump is an excerpt, ${describeRules(ruleset)}: only the rules that it shows were checked, and all others were assumed to be as expected${unknownChains}`;
}

/** A truncated dump and an excerpt are evaluated as far as they go. */
function whyUnreadable(family: Family, ruleset: Ruleset | null): string | null {
  return ruleset !== null && (ruleset.cut !== null || isExcerpt(ruleset)) ? null : whyNoTables(family, ruleset);
}

function whyEmpty(node: NodeDump): string {
  const files = node.files.filter(file => file.endsWith('-save') && !file.startsWith('ip'));
  if (node.files.includes('iptables-save')) return 'its iptables-save is empty: the command failed, or everything was flushed';
  return files.length > 0 ? `it has no iptables-save, only ${files.join(', ')}` : 'it has no iptables-save';
}
