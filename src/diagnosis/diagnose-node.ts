import type {NodeContext} from '../checks/check.ts';
import {checks} from '../checks/index.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../expect/cluster/service-ports.ts';
import {addressesProblem, nodeFacts} from '../expect/node-facts.ts';
import {resolveProxyConfig} from '../expect/proxy-config.ts';
import {readDumps} from '../analyze/iptables/read-dumps.ts';
import {readNft} from '../analyze/nftables/read-nft.ts';
import {seenConfig} from '../analyze/seen-config.ts';
import {analyzeNode} from '../analyze/analyze-node.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Finding} from '../model/finding.ts';
import type {NodeReport} from '../model/report.ts';
import type {PortTrace} from '../model/service-trace.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {countTraces} from './count-traces.ts';
import type {DiagnoseOptions} from './diagnosis-options.ts';
import {nodeReport} from './node-report.ts';
import {problemFinding} from './problem-finding.ts';
import {toFinding} from './to-finding.ts';
import {tracedPorts} from './traced-ports.ts';
import {withinWhatWasRead} from './retract-unread.ts';

/** What is kept of a node when its dumps are dropped. */
export interface NodeResult {
  readonly report: NodeReport;
  readonly findings: readonly Finding[];
  /** Null when nothing is known of the node's kube-proxy. */
  readonly proxy: ProxyVersion | null;
  readonly traces: readonly PortTrace[];
}

export interface NodeSurroundings {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  /** Those that were asked for. */
  readonly services: readonly ServiceObject[];
  readonly options: DiagnoseOptions;
}

/** Every stage that a node goes through: its dumps are parsed, held against what is expected, and what differs is judged. */
export function diagnoseNode(node: NodeDump, {api, view, services, options}: NodeSurroundings): NodeResult {
  const dumps = readDumps(node);
  const nft = onceAsked(() => readNft(node));
  const seen = onceAsked(() => seenConfig(dumps.current, nft));
  const {config, problems} = resolveProxyConfig(node, api, options.overrides ?? {}, seen);
  const facts = nodeFacts(node, api);
  const evaluated = analyzeNode({node, api, view, config, facts, dumps, nft, traces: tracedPorts(services, options.trace ?? false)});
  const analysis = {...evaluated, symptoms: withinWhatWasRead(evaluated.symptoms, api)};
  const context: NodeContext = {node, facts, api, view, ...analysis};
  const findings = checks.flatMap(check =>
    check.node === undefined ? [] : [...check.node(context)].map(observation => toFinding(check, observation)),
  );
  const unreadable = addressesProblem(node);
  const said = [...problems, ...(unreadable === null ? [] : [unreadable])].map(({message}) =>
    problemFinding({node: node.name, message, remedy: 'Correct or remove the file; the settings were taken from elsewhere.'}),
  );
  return {
    report: nodeReport(node.name, analysis),
    findings: [...findings, ...said].map(detached),
    proxy: {version: analysis.config.version.value, gates: config.featureGates.value},
    traces: analysis.traces.length === 0 ? [] : structuredClone(countTraces(analysis.traces, node)),
  };
}

/** A dump is not read before somebody asks, and then once. */
function onceAsked<T>(make: () => T): () => T {
  let made: {readonly value: T} | null = null;
  return () => {
    made ??= {value: make()};
    return made.value;
  };
}

/** The text of a rule is a part of a dump, and would keep the whole of it in memory. */
function detached(finding: Finding): Finding {
  return (finding.actual?.length ?? 0) === 0 ? finding : structuredClone(finding);
}
