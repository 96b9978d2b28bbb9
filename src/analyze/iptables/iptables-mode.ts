import {parseChainName} from '../../expect/iptables/chain-names.ts';
import {expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Family} from '../../model/address.ts';
import {oldestKnownMinor} from '../../model/proxy-config.ts';
import {type Ruleset, ruleTextOf} from '../../model/ruleset.ts';
import {hasExternalEntry, type ServicePort} from '../../model/service-port.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {failureIn, kubeProxyLog} from '../../model/node/kube-proxy-failures.ts';
import {fileText, type NodeDump} from '../../model/snapshot.ts';
import type {NodeRule} from '../../trace/walked-packet.ts';
import {analyzeFamily} from '../analyze-family.ts';
import {environmentOf, walkOf} from '../outcomes/environment.ts';
import {
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
import {withinWhatWasRead} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {traceServedPort} from '../trace-served-port.ts';
import {iptablesFamily} from './iptables-layout.ts';
import {completeExcerpt, describeRules, describeUnknownChains, isExcerpt} from './excerpt.ts';
import {type Expect, resolveVersion, servedFamilies} from './resolve-version.ts';
import {misprintsOf} from './misprints.ts';
import {countRules, holdsServices, whyDistrusted, whyNoRules, whyNoTables} from './node-rulesets.ts';

/** kube-proxy's default on Linux: a chain for each Service port and each endpoint. */
export const iptablesMode: ProxyMode = {
  name: 'iptables',
  prepare(input) {
    const {config, dumps, node, api} = input;
    const {version} = config;
    if (version.value.minor < oldestKnownMinor)
      return {whyUnread: `kube-proxy ${version.value.text} is older than 1.${oldestKnownMinor}, the oldest whose rules are known`};
    if (dumps.current.size === 0) return {whyUnread: whyEmpty(node)};
    // Rules that cannot be read show no version. Without Services, versions cannot be told apart.
    if (misprintsOf(dumps.current).size > 0) return {analyze: () => analyzeFamilies(input)};
    const resolved = api.services === null ? {config, misfit: null} : resolveVersion(input, dumps.current);
    if (resolved.misfit !== null) return {whyUnread: resolved.misfit};
    return {analyze: () => analyzeFamilies({...input, config: resolved.config})};
  },
};

function analyzeFamilies(input: NodeInput): ModeAnalysis {
  const results = askedFamilies(servedFamilies(input, input.dumps.current), input.node).flatMap(family => resultOf(family, input) ?? []);
  return {...joinFamilies(results), config: input.config, counts: countRules(input.dumps)};
}

/** Null for a family that has no dump and no Services. */
function resultOf(family: Family, input: NodeInput): FamilyResult | null {
  const ruleset = input.dumps.current.get(family) ?? null;
  const expect: Expect = hypothesis => expectRuleset({...input, family, ruleset}, hypothesis);
  // A truncated dump and an excerpt are evaluated as far as they go.
  const reason = ruleset !== null && (ruleset.truncation !== null || isExcerpt(ruleset)) ? null : whyNoTables(family, ruleset);
  if (ruleset === null) return expect({}).ports.length > 0 ? unreadFamily(family, whyNoRules(input.node, family)) : null;
  // A kube-proxy whose log says why it writes no rules has written none: the table is not missing from the dump alone.
  if (reason !== null && failureIn(fileText(input.node, kubeProxyLog)) === null) return unreadFamily(family, reason);
  const distrusted = whyDistrusted(input.dumps, family);
  if (distrusted !== null) return unreadFamily(family, distrusted);
  const excerpt = isExcerpt(ruleset);
  const actual = excerpt ? completeExcerpt(ruleset, expect({})) : ruleset;
  const {symptoms, expected, differing} = analyzeFamily(input, family, iptablesFamily(expect, actual));
  // Where one Service was read, the rules of all others are no reason to doubt the dump, nor to search it for invalid rules.
  const found = withinWhatWasRead(symptoms, input.api);
  const truncation = [...input.dumps.current.values()].find(other => other.truncation !== null)?.truncation ?? null;
  const doubt = found.length === 0 ? null : whyDoubtful(input.config, truncation);
  if (doubt !== null) return {...unreadFamily(family, doubt), differing};
  const partly = excerpt
    ? whyPartly(ruleset, expected)
    : ruleset.truncation === null
      ? null
      : `the dump ${truncationReason(ruleset.truncation)}`;
  const wanted = expected.ports.filter(({port}) => input.traces(port, found));
  return {
    family,
    differing,
    evaluated: partly === null,
    reasons: partly === null ? [] : [partly],
    symptoms: excerpt ? found.filter(isSeen) : found,
    traces: tracePorts(wanted, {expected, actual, beside: otherBackend(input, ruleset)}),
  };
}

/** A jump to the chain, or a rule without effect, may be missing from the excerpt and not from the node. */
function isSeen({kind, severity}: Symptom): boolean {
  return kind !== 'orphan-chain' && !(kind === 'missing-rule' && severity === 'info');
}

function whyPartly(ruleset: Ruleset, expected: ExpectedRuleset): string {
  const unknownChains = describeUnknownChains(ruleset, expected);
  return `the dump is an excerpt, ${describeRules(ruleset)}: only the rules that it shows were checked, and all others were assumed to be as expected${unknownChains}`;
}

function whyEmpty(node: NodeDump): string {
  const files = node.files.filter(file => file.endsWith('-save') && !file.startsWith('ip'));
  if (node.files.includes('iptables-save')) return whyNoRules(node, 'IPv4');
  return files.length > 0 ? `it has no iptables-save, only ${files.join(', ')}` : 'it has no iptables-save';
}

interface TraceInput {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** The rules of the backend that kube-proxy does not use, if both hold Services. */
  readonly beside: Ruleset | undefined;
}

function otherBackend({dumps}: Pick<NodeInput, 'dumps'>, {family, backend}: Ruleset): Ruleset | undefined {
  const pair = dumps.both.find(both => both.family === family && holdsServices(both.nft) && holdsServices(both.legacy));
  return backend === 'legacy' ? pair?.nft : pair?.legacy;
}

/** The path of a packet through the node's actual chains, down to the one that rewrites it. */
function tracePorts(ports: readonly PortOnNode[], {expected, actual, beside}: TraceInput): readonly PortTrace[] {
  const environment = environmentOf(expected.context.facts);
  const walk = walkOf(expectedOf(ports, expected));
  const trace = (item: PortOnNode): PortTrace =>
    traceServedPort({
      item,
      context: expected.context,
      walk: packet => ({should: walk(packet, environment), does: walkOf(actual)(packet, environment)}),
      beside:
        beside === undefined ? undefined : packet => ({backend: beside.backend ?? 'legacy', outcome: walkOf(beside)(packet, environment)}),
      stepsOf: path => path.filter(isPath).map(rule => ({...ruleTextOf(rule), to: rule.target?.name ?? ''})),
      pickOf: path => path.findLast(({target}) => parseChainName(target?.name ?? '')?.role === 'SEP') ?? null,
      rewriteOf: path => path.findLast(({target}) => target?.name === 'DNAT') ?? null,
    });
  return ports.map(trace);
}

/** Without Service ports that no packet to these reaches: the rules of all take longer to write than these to walk. */
function expectedOf(ports: readonly PortOnNode[], expected: ExpectedRuleset): ExpectedRuleset {
  if (ports.length === 0 || 2 * ports.length > expected.ports.length) return expected;
  const numbers = new Set(ports.flatMap(({port}) => [port.port, port.nodePort]).filter(number => number !== 0));
  const addresses = new Set(
    ports.flatMap(({port: {clusterIP, loadBalancerVIPs, externalIPs}}) => [clusterIP, ...loadBalancerVIPs, ...externalIPs]),
  );
  // An external IP may be an address of the node, where node ports answer too.
  const isNear = (port: ServicePort): boolean =>
    numbers.has(port.nodePort) || (numbers.has(port.port) && (hasExternalEntry(port) || addresses.has(port.clusterIP)));
  return expected.withPorts(expected.ports.filter(({port}) => isNear(port)));
}

/** The jumps that lead to the chain that picks an endpoint. */
function isPath({table, target}: NodeRule): boolean {
  const role = parseChainName(target?.name ?? '')?.role;
  return table === 'nat' && (target?.name === 'KUBE-NODEPORTS' || (role !== undefined && role !== 'SEP'));
}
