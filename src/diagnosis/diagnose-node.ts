import type {NodeCheckContext} from '../checks/check.ts';
import {checks} from '../checks/index.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../expect/cluster/service-ports.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import {readNodeFacts} from '../expect/node-facts.ts';
import {resolveProxyConfig} from '../expect/proxy-config.ts';
import {readDumps} from '../analyze/iptables/read-dumps.ts';
import {readNft} from '../analyze/nftables/read-nft.ts';
import {seenConfig} from '../analyze/seen-config.ts';
import {analyzeNode} from '../analyze/analyze-node.ts';
import {narrowNode} from '../analyze/narrow-node.ts';
import type {NarrowTo} from '../analyze/narrow-to.ts';
import type {NodeInput} from '../analyze/proxy-mode.ts';
import type {ServiceDifferences} from '../analyze/differing.ts';
import {onceAsked} from '../analyze/once-asked.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Family} from '../model/family.ts';
import type {Finding} from '../model/finding.ts';
import type {NodeReport} from '../model/report.ts';
import type {NodeLag} from '../model/state-history.ts';
import type {PortTrace} from '../model/service-trace.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {countEndpoints} from './count-endpoints.ts';
import {countTraces} from './count-traces.ts';
import type {DiagnoseOptions} from './diagnosis-options.ts';
import {nodeReport} from './node-report.ts';
import {problemFinding} from './problem-finding.ts';
import {toFinding} from './to-finding.ts';
import {tracedPorts} from './traced-ports.ts';
import {withUnservedFamilies} from './unserved-families.ts';
import {withinWhatWasRead} from '../analyze/symptoms/within-what-was-read.ts';

/** What is kept of a node after its dumps are dropped. */
export interface NodeResult {
  readonly report: NodeReport;
  readonly findings: readonly Finding[];
  /** Null if nothing is known of the node's kube-proxy. */
  readonly proxy: ProxyVersion | null;
  readonly traces: readonly PortTrace[];
  /**
   * Services, `namespace/name`, of which something was found that kube-proxy explains if it wrote between two parts of the dumps: each
   * part fits a state of the Service, but not all the same.
   */
  readonly perhapsTorn?: readonly string[];
}

export interface NodeSurroundings {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  /** The requested Services. */
  readonly services: readonly ServiceObject[];
  readonly options: DiagnoseOptions;
}

/** The input of one of several analyses of the same dumps. */
export interface StateToTest {
  readonly view: ClusterView;
  /** Report each Service by itself, without findings that stand for many. */
  readonly eachService?: boolean;
  /** How far the node lags behind the API, once that is known. */
  readonly lag?: NodeLag;
}

export interface TestedState {
  readonly result: NodeResult;
  /** Chains of Services that no rule reaches. */
  readonly unreached: readonly {readonly family: Family; readonly chain: string}[];
  /** See `ModeAnalysis`. */
  readonly differing: ReadonlyMap<string, ServiceDifferences>;
  /** See `ModeAnalysis`. */
  readonly isReadPiecemeal: boolean;
}

/** Every stage for one node: parse its dumps, compare them with the expected rules, and analyze the differences. */
export function diagnoseNode(node: NodeDump, surroundings: NodeSurroundings): NodeResult {
  return prepareNode(node, surroundings).evaluate({view: surroundings.view}).result;
}

/** Parses the dumps of a node once, and returns a function that analyzes them against any state of the Services. */
export function prepareNode(node: NodeDump, {api, view: latest, services, options}: NodeSurroundings): PreparedNode {
  const dumps = readDumps(node);
  const nft = onceAsked(() => readNft(node));
  const seen = onceAsked(() => seenConfig(dumps.current, nft));
  const {config, problems} = resolveProxyConfig(node, api, options.overrides ?? {}, seen);
  const {facts, problem: unreadable} = readNodeFacts(node, api);
  const traces = tracedPorts(services, options.trace ?? false);
  const told = [...problems, ...(unreadable === null ? [] : [unreadable])].map(({message}) =>
    problemFinding({node: node.name, message, remedy: 'Correct or remove the file; the settings were taken from elsewhere.'}),
  );
  const evaluator =
    (parsed: ParsedDumps): EvaluateState =>
    ({view, lag, eachService = false}) => {
      const {node, api} = parsed;
      const evaluated = analyzeNode({...parsed, view, config, facts, traces, eachService});
      const analysis = {...evaluated, symptoms: withinWhatWasRead(evaluated.symptoms, api)};
      const isFollowed = view !== latest;
      const context: NodeCheckContext = {node, facts, api, view, ...analysis, isFollowed, ...(lag === undefined ? {} : {lag})};
      const findings = checks.flatMap(check =>
        check.node === undefined ? [] : [...check.node(context)].map(observation => toFinding(check, observation)),
      );
      const traced = withUnservedFamilies(analysis.traces, services, analysis.unread);
      const proxy = {version: analysis.config.version.value, gates: config.featureGates.value};
      const counted = countEndpoints(view, proxy);
      const result = {
        report: {...nodeReport(node, analysis), ...(lag === undefined ? {} : {lag})},
        findings: [...changeToldOnce(findings), ...told].map(counted).map(detached),
        proxy,
        traces: traced.length === 0 ? [] : structuredClone(countTraces(traced, node, parsed.dumps.uncounted)),
      };
      const unreached = analysis.symptoms.flatMap(({family, chains = []}) => chains.map(chain => ({family, chain})));
      const {differing = new Map<string, ServiceDifferences>(), isReadPiecemeal = false} = analysis;
      return {result, unreached, differing, isReadPiecemeal};
    };
  return {
    evaluate: evaluator({node, api, dumps, nft}),
    narrowTo: to => {
      const narrowed = narrowNode(node, config.mode.value, {to, api});
      if (narrowed === null) return null;
      const isOwn = ({metadata}: ServiceObject): boolean => to.services.has(namespacedName(metadata));
      return evaluator({
        node: narrowed,
        api: {...api, services: (api.services ?? []).filter(isOwn)},
        dumps: readDumps(narrowed),
        nft: onceAsked(() => readNft(narrowed)),
      });
    },
  };
}

/** The dumps of a node, or the part of them about some Services, with the objects to compare them with. */
type ParsedDumps = Pick<NodeInput, 'node' | 'api' | 'dumps' | 'nft'>;

type EvaluateState = (state: StateToTest) => TestedState;

interface PreparedNode {
  readonly evaluate: EvaluateState;
  /** The same by the rules of some Services alone, which is less work; null where the dumps cannot be narrowed. */
  readonly narrowTo: (to: NarrowTo) => EvaluateState | null;
}

/** What is found of a Service that changed just before says that itself: ST904 beside it would say so again. */
function changeToldOnce(findings: readonly Finding[]): readonly Finding[] {
  const changed = new Map(
    findings.flatMap(({code, service, message}) => (code === 'ST904' && service !== undefined ? [[namespacedName(service), message]] : [])),
  );
  if (changed.size === 0) return findings;
  const changeOf = ({code, severity, service}: Finding): string | undefined =>
    severity === 'info' || service === undefined || !/^ST2|^ST508$/.test(code) ? undefined : changed.get(namespacedName(service));
  const told = new Set(findings.flatMap(finding => changeOf(finding) ?? []));
  return findings.flatMap(finding => {
    if (finding.code === 'ST904' && told.has(finding.message)) return [];
    const change = changeOf(finding);
    return change === undefined ? [finding] : [{...finding, message: `${finding.message}; ${change}`}];
  });
}

/** The text of a rule is a slice of its chain's or of the dump, and would keep all of it in memory. Chains of one Service port are short. */
function detached(finding: Finding): Finding {
  return (finding.actual ?? []).every(({chain}) => parseChainName(chain) !== null) ? finding : structuredClone(finding);
}
