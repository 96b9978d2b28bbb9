import {readServicePods} from '../collect/cluster/read-service-pods.ts';
import {collectNodes} from '../collect/collect-nodes.ts';
import type {NodeInfo} from '../collect/transport.ts';
import type {DiagnoseOptions} from '../diagnose.ts';
import {Diagnosis} from '../diagnosis/diagnosis.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Report} from '../model/report.ts';
import type {ApiObjects, Problem} from '../model/snapshot.ts';
import {askedScope} from './asked-scope.ts';
import type {NodeChoice} from './choose-nodes.ts';
import {clearLeftovers} from './clear-leftovers.ts';
import type {ParsedConnectionFlags} from './connection-flags.ts';
import type {ScopeFlags} from './diagnose-options.ts';
import {Interrupted, unlessInterrupted} from './interruption.ts';
import {judgingOptions, type ParsedJudgingFlags} from './judging-options.ts';
import {takeNode} from './node-intake.ts';
import {type ProgressLine, progressText} from './node-progress.ts';
import {isWindows, type NodeSource, nodeSource} from './node-source.ts';
import type {OpenCluster} from './open-cluster.ts';
import {readAsked} from './read-asked.ts';
import type {ParsedTransportFlags} from './transport-flags.ts';

export type ClusterFlags = ScopeFlags & ParsedConnectionFlags & ParsedTransportFlags & NodeChoice & ParsedJudgingFlags;

export interface ClusterRun {
  readonly flags: ClusterFlags;
  /** The Services that were named. */
  readonly names: readonly string[];
  readonly cluster: OpenCluster;
  readonly options: Pick<DiagnoseOptions, 'toolVersion' | 'known' | 'trace'>;
  readonly signal: AbortSignal;
  readonly progress: ProgressLine;
}

/**
 * The pipeline for a cluster: reads the API, then the nodes, and judges each node when it is there. When the signal is aborted
 * while nodes are read, the report tells of those that were. Throws a CLIError, a KubeconfigError or an ApiError, and an
 * Interrupted before there is anything to report.
 */
export async function diagnoseCluster(run: ClusterRun): Promise<Report> {
  const {flags, cluster, signal, progress} = run;
  const {api} = cluster;
  const input = {
    names: run.names,
    namespace: cluster.namespace,
    allNamespaces: flags['all-namespaces'] ?? false,
    selector: flags.selector,
  };
  progress.say('reading the API');
  const asked = await unlessInterrupted(readAsked(api, askedScope(input), input), signal);
  const source = await unlessInterrupted(nodeSource(flags, {api, objects: asked.api.nodes}), signal);
  const services = (asked.api.services ?? []).filter(asked.selection.selects);
  const {pods, podsOf} = await unlessInterrupted(readServicePods(api, withoutEndpoints(services, asked.api)), signal);
  const objects = {...asked.api, pods: [...(source.pods ?? []), ...pods], podsOf};
  const diagnosis = new Diagnosis(objects, {...asked.selection, ...judgingOptions(flags), ...run.options, ...sampleOf(source)});
  const problems = [...asked.problems, ...source.problems, ...(await judgeNodes(source, diagnosis, run))];
  return diagnosis.report(problems);
}

function sampleOf({sample}: NodeSource): Pick<DiagnoseOptions, 'sample'> {
  return sample === undefined ? {} : {sample};
}

/** Only of these the pods say more than the slices. */
function withoutEndpoints(services: readonly ServiceObject[], {endpointSlices, endpoints}: ApiObjects): readonly ServiceObject[] {
  const withSome = new Set([
    ...(endpointSlices ?? [])
      .filter(slice => (slice.endpoints ?? []).length > 0)
      .map(({metadata}) => `${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}`),
    ...(endpoints ?? []).filter(({subsets}) => (subsets ?? []).length > 0).map(({metadata}) => `${metadata.namespace}/${metadata.name}`),
  ]);
  return services.filter(({metadata}) => !withSome.has(`${metadata.namespace}/${metadata.name}`));
}

async function judgeNodes(source: NodeSource, diagnosis: Diagnosis, run: ClusterRun): Promise<readonly Problem[]> {
  const {signal, progress} = run;
  const problems: Problem[] = [];
  const waiting = new Map(source.nodes.map(node => [node.name, node]));
  for (const node of windowsNodes(source, diagnosis)) {
    diagnosis.add({name: node.name, files: [], read: () => null});
    waiting.delete(node.name);
  }
  try {
    problems.push(...(await clearLeftovers(source.transport, run)));
    const onProgress = (counts: Parameters<typeof progressText>[0]) => progress.say(progressText(counts));
    const {transport, concurrency, timeoutMs} = source;
    for await (const node of collectNodes([...waiting.values()], transport, {signal, concurrency, timeoutMs, onProgress})) {
      problems.push(...takeNode(node, diagnosis));
      waiting.delete(node.name);
    }
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    for (const name of waiting.keys()) diagnosis.addUnread({name, reason: error.message, remedy: 'Let it run to its end.'});
  }
  return problems;
}

/** Named in the report, and not asked for rules that they cannot have. */
function windowsNodes({nodes}: NodeSource, {api}: Diagnosis): readonly NodeInfo[] {
  const windows = new Set((api.nodes ?? []).filter(isWindows).map(({metadata}) => metadata.name));
  return nodes.filter(({name}) => windows.has(name));
}
