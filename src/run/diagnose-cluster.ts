import {AgentTokens} from '../collect/agents/agent-tokens.ts';
import {isItems} from '../collect/kube/send-request.ts';
import type {ClusterScope} from '../collect/cluster/cluster-reader.ts';
import type {ProxyPodsReading} from '../collect/cluster/read-agent-pods.ts';
import {ApiError, type KubeApi} from '../collect/kube/kube-api.ts';
import {manyChains, type RequestedEntries} from '../collect/node/read-chains.ts';
import type {DiagnoseOptions} from '../diagnosis/diagnose-node.ts';
import {Diagnosis} from '../diagnosis/diagnosis.ts';
import {endpointSet, sliceOwner} from '../expect/cluster/endpoint-sets.ts';
import {servicePorts} from '../expect/cluster/cluster-view.ts';
import {chainName, endpointChainName} from '../expect/iptables/chain-names.ts';
import {canonicalAddress, type Family} from '../model/address.ts';
import type {EndpointSliceObject, NodeObject, ServiceObject} from '../model/api-objects.ts';
import type {Finding} from '../model/finding.ts';
import {newestProxy} from '../model/proxy-config.ts';
import type {Report} from '../model/report.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {Problem} from '../model/snapshot.ts';
import {addressesOf} from './scope/select-services.ts';
import {namespacedName} from '../model/text.ts';
import {Interrupted} from './clock.ts';
import {unlessAborted} from '../collect/unless-aborted.ts';
import type {ClusterRun} from './cluster-run.ts';
import {FollowedServices} from './follow-services.ts';
import {AgentEvaluator, agentSource} from './nodes/agent-evaluator.ts';
import {DumpEvaluator, type EvaluationRun, openAhead} from './nodes/dump-evaluator.ts';
import type {NodeEvaluator} from './nodes/evaluated-nodes.ts';
import {clearLeftovers} from './nodes/node-intake.ts';
import {type NodesOfCluster, nodeSource, readProxyPodsFor, withCiliumSettings, type NodeSource} from './nodes/node-source.ts';
import {evaluationOptions} from './options/evaluation-options.ts';
import {recheck, retract} from './recheck.ts';
import {podsOnNodes, podsWithoutEndpoints, readAllAgain, readAsBefore, askedInput, askedScope, readAsked} from './scope/requested-scope.ts';
import {WaitUntilClean} from './wait/wait-until-clean.ts';
import {uniqueBy} from '../model/lists.ts';

/**
 * The pipeline for a cluster: reads the API, then the nodes while it follows the Services, and diagnoses each node as it arrives. If the
 * signal is aborted while nodes are read, the report contains those that were read. Throws a CLIError, a KubeconfigError or an ApiError,
 * and an Interrupted before there is anything to report.
 */
export async function diagnoseCluster(run: ClusterRun): Promise<Report> {
  const {wait} = run;
  if (wait === undefined || wait.milliseconds === 0) return diagnoseUntil(run);
  // The time that --wait gives is also that of its own reads; without any there is one check.
  const end = new AbortController();
  const seconds = wait.milliseconds / 1000;
  const isOver = () => end.abort(new WaitIsOver(`no answer within the ${seconds} s of --wait`, {status: null}));
  const timer = setTimeout(isOver, wait.milliseconds);
  try {
    return await diagnoseUntil({...run, signal: AbortSignal.any([run.signal, end.signal])});
  } finally {
    clearTimeout(timer);
  }
}

class WaitIsOver extends ApiError {}

async function diagnoseUntil(run: ClusterRun): Promise<Report> {
  const {flags, cluster, signal, progress, clock} = run;
  const {api} = cluster;
  const input = askedInput(run);
  progress.say('reading the API');
  const readAt = clock.now();
  const scope = askedScope(input);
  const objectsRead = readAsked(api, scope, {...input, configMaps: !flags.agents});
  const chainsRead = mayReadInParts(run, scope) ? chainsOfPort(api, signal) : Promise.resolve(null);
  const podsRead = flags.agents ? undefined : readProxyPodsFor(flags, api);
  const ahead = podsRead === undefined ? undefined : openAhead(run, {proxyPods: podsRead, chains: chainsRead});
  const [asked, chains, proxyPods] = await unlessAborted(Promise.all([objectsRead, chainsRead, podsRead]), signal);
  const access = await unlessAborted(chooseEvaluator(run, asked.api.nodes, proxyPods), signal);
  const services = (asked.api.services ?? []).filter(asked.selection.selects);
  const {pods, podsOf} = await unlessAborted(podsWithoutEndpoints(api, services, asked.api), signal);
  const objects = {...withCiliumSettings(asked.api, access), pods: [...(access.pods ?? []), ...pods], podsOf};
  const diagnosis = new Diagnosis(objects, {...asked.selection, ...evaluationOptions(flags), ...run.options, ...sampleOf(access)});
  const leftovers = await access.clear();
  const followed = flags.agents ? null : new FollowedServices({api, scope, objects, versions: asked.versions, clock});
  const nodes = access.evaluatorOf(diagnosis, {
    states: followed === null ? undefined : () => followed.history.states,
    ahead,
    byName: asked.selection.byName === true,
    requested: chains === null ? undefined : requestedEntries(services, asked.api.endpointSlices ?? [], chains),
    // --wait: nodes must have every change that was made before the run.
    notBefore: run.wait === undefined ? undefined : flags.agents ? readAt : clock.now(),
  });
  const problems = [...asked.problems, ...access.problems, ...leftovers];
  const report = (more: readonly Problem[]): Report =>
    diagnosis.report(uniqueBy([...problems, ...nodes.evaluated.problems, ...(followed?.problems ?? []), ...more], JSON.stringify));
  const readAgain = () => {
    progress.say('reading the API again');
    // Agents always compare with all Services.
    return (flags.agents ? readAsBefore : readAllAgain)({api, scope, before: diagnosis.api, signal});
  };
  const confirm = async (gracePeriodMs?: number): Promise<readonly Finding[]> => {
    // An agent follows the Services itself and verifies its findings.
    if (followed === null) return [];
    return recheck({
      diagnosis,
      readAgain,
      signal,
      clock,
      history: followed.history,
      nodeReadAt: nodes.evaluated.readAt,
      periods: nodes.evaluated.periods,
      gracePeriodMs,
      take: now => followed.take(now),
      recall: since => followed.recall(since),
      evaluateAgain: names => nodes.evaluateAgain(names),
      readNodes: names => nodes.evaluate(names),
      say: text => progress.say(text),
    });
  };
  const wait =
    run.wait === undefined
      ? null
      : new WaitUntilClean({
          run,
          diagnosis,
          nodes,
          scope,
          input,
          confirm,
          problems,
          report,
          limit: run.wait,
          startedAt: readAt,
          followed: now => followed?.take(now),
        });
  try {
    await nodes.evaluate(access.names);
    if (wait !== null) {
      await wait.run();
      return wait.report();
    }
    retract(await confirm(), diagnosis);
    const faulty = access.names.filter(name => diagnosis.findingsOn(name).some(({severity}) => severity === 'error'));
    for (const [node, own] of await unlessAborted(podsOnNodes(api, faulty), signal)) diagnosis.addPods(node, own);
  } catch (error) {
    if (!(error instanceof Interrupted || error instanceof WaitIsOver)) throw error;
    nodes.giveUp(error.message);
  } finally {
    followed?.close();
  }
  return wait?.report() ?? report([]);
}

/** A run that waits reads nodes until they are in sync: it needs all that may keep them from it. */
function mayReadInParts({flags, wait}: ClusterRun, scope: ClusterScope): boolean {
  return scope.kind === 'services' && flags.full === false && !flags.agents && !flags.counters && wait === undefined;
}

function sampleOf({sample}: NodeAccess): Pick<DiagnoseOptions, 'sample'> {
  return sample === undefined ? {} : {sample};
}

interface FollowedStates extends Pick<EvaluationRun, 'states' | 'notBefore' | 'requested' | 'ahead'> {
  /** See `DumpEvaluator`. */
  readonly byName: boolean;
}

/** The chosen nodes, and how to evaluate them. */
interface NodeAccess extends Pick<NodeSource, 'pods' | 'configMaps' | 'sample' | 'problems'> {
  readonly names: readonly string[];
  evaluatorOf(diagnosis: Diagnosis, followed: FollowedStates): NodeEvaluator;
  /** Removes what a killed run left on the cluster. */
  clear(): Promise<readonly Problem[]>;
}

/** `objects` are the Nodes; null if they may not be listed. `proxyPods` are read if left out, unless agents answer. Throws a CLIError (exit 2) for a node that does not exist. */
function chooseEvaluator(
  run: ClusterRun,
  objects: readonly NodeObject[] | null,
  proxyPods: ProxyPodsReading | undefined,
): Promise<NodeAccess> {
  return run.flags.agents ? byAgents(run, objects) : byReading(run, {objects, proxyPods});
}

async function byReading(run: ClusterRun, {objects, proxyPods}: Omit<NodesOfCluster, 'api'>): Promise<NodeAccess> {
  const {flags, cluster, signal, progress, clock} = run;
  const {api} = cluster;
  const source = await nodeSource(flags, {api, objects, proxyPods});
  const find = (now: readonly NodeObject[] | null) => nodeSource(flags, {api, objects: now ?? objects, anyFailure: true});
  return {
    ...source,
    names: source.nodes.map(({name}) => name),
    evaluatorOf: (diagnosis, followed) =>
      new DumpEvaluator(source, diagnosis, {...followed, signal, progress, clock, find, counters: flags.counters === true}),
    clear: () => clearLeftovers(source.transport, run),
  };
}

async function byAgents(run: ClusterRun, objects: readonly NodeObject[] | null): Promise<NodeAccess> {
  const {flags, cluster, signal, progress, clock} = run;
  const {api} = cluster;
  const source = await agentSource(flags, {api, objects});
  const find = (now: readonly NodeObject[] | null) => agentSource(flags, {api, objects: now ?? objects, anyFailure: true});
  const tokens = new AgentTokens({api, namespace: source.place.namespace, file: flags['agents-token-file'], now: () => clock.now()});
  // With --wait, nodes are checked again anyway.
  const isPatient = run.wait === undefined;
  return {
    ...source,
    evaluatorOf: (diagnosis, {notBefore}) =>
      new AgentEvaluator(source, {api, tokens, diagnosis, signal, progress, clock, find, isPatient, notBefore}),
    clear: async () => [],
  };
}

/**
 * The addresses and node ports at which clients reach these Services, and their names. `chainsOfPort` is of the whole cluster.
 * @internal
 */
export function requestedEntries(
  services: readonly ServiceObject[],
  slices: readonly EndpointSliceObject[],
  chainsOfPort: number,
): RequestedEntries {
  const nodePorts = services.flatMap(({spec}) => (spec?.ports ?? []).flatMap(({nodePort}) => nodePort ?? []));
  return {
    names: new Set(services.map(({metadata}) => namespacedName(metadata))),
    addresses: new Set(services.flatMap(addressesOf).flatMap(address => canonicalAddress(address) ?? [])),
    nodePorts: new Set(nodePorts),
    chainsOfPort,
    likelyChains: likelyChains(services, slices),
  };
}

/**
 * How many chains a Service port of a big cluster has on average, estimated from some EndpointSlices; null where the nodes have so few
 * chains that all are read at once, and where the slices of all namespaces may not be listed.
 */
async function chainsOfPort(api: KubeApi, signal: AbortSignal): Promise<number | null> {
  try {
    const {items, metadata} = await api.get<SlicePage>('/apis/discovery.k8s.io/v1/endpointslices', {limit: '20'}, {signal, once: true});
    const sample = isItems(items) ? (items ?? []) : [];
    const endpoints = sample.reduce<number>((sum, slice) => sum + ((slice as Slice | null)?.endpoints?.length ?? 0), 0);
    const chains = 1 + Math.max(usualEndpoints, endpoints / Math.max(1, sample.length));
    return (sample.length + (metadata?.remainingItemCount ?? 0)) * chains >= manyChains ? chains : null;
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) return null;
    throw error;
  }
}

interface SlicePage {
  readonly items?: unknown;
  readonly metadata?: {readonly remainingItemCount?: number};
}

interface Slice {
  readonly endpoints?: readonly unknown[] | null;
}

/** Assumed at least: slices are listed by their names, and the first namespaces may be those with small Services. */
const usualEndpoints = 5;

/**
 * The chains that kube-proxy most probably has for these Services and their endpoints, before its version and settings are known. A name too
 * many costs one command, and one that is not here a round trip.
 */
function likelyChains(
  services: readonly ServiceObject[],
  slices: readonly EndpointSliceObject[],
): Readonly<Record<Family, readonly string[]>> {
  const ofFamily = (family: Family): readonly string[] =>
    services.flatMap(service => {
      const own = slices.filter(slice => sliceOwner(slice, newestProxy.version) === namespacedName(service.metadata));
      return servicePorts(service, family, newestProxy).flatMap(port => chainsOf(port, own));
    });
  return {IPv4: ofFamily('IPv4'), IPv6: ofFamily('IPv6')};
}

function chainsOf(port: ServicePort, slices: readonly EndpointSliceObject[]): readonly string[] {
  const ready = endpointSet(port, slices, newestProxy.version).endpoints.filter(endpoint => endpoint.ready);
  // With a Local policy or topology hints it depends on the node which endpoints it uses.
  if (ready.length === 0 || port.internalPolicyLocal) return [];
  const own = chainName('SVC', port.hash);
  if (ready.some(({zoneHints, nodeHints}) => zoneHints !== null || nodeHints !== null)) return [own];
  return [own, ...ready.map(({hostPort}) => endpointChainName(port.servicePortName, port.protocol, hostPort))];
}
