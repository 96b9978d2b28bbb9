import type {DiagnoseOptions} from '../diagnosis/diagnosis-options.ts';
import {Diagnosis} from '../diagnosis/diagnosis.ts';
import type {Report} from '../model/report.ts';
import type {Problem} from '../model/snapshot.ts';
import type {ClusterScope} from '../collect/cluster/cluster-scope.ts';
import type {ClusterRun} from './cluster-run.ts';
import {chainsOfPort, requestedEntries} from './scope/requested-entries.ts';
import {askedInput, askedScope} from './scope/requested-scope.ts';
import {Interrupted, unlessInterrupted} from './interruption.ts';
import {evaluationOptions} from './options/evaluation-options.ts';
import {readAsked} from './read-requested.ts';
import {FollowedServices} from './follow-services.ts';
import type {Finding} from '../model/finding.ts';
import {readAllAgain, readAsBefore} from './reread.ts';
import {recheck, retract} from './recheck.ts';
import {podsWithoutEndpoints} from './service-pods.ts';
import {WaitUntilClean} from './wait/wait-until-clean.ts';
import {type NodeAccess, chooseEvaluator} from './nodes/choose-evaluator.ts';
import {readProxyPodsFor} from './nodes/node-source.ts';
import {openAhead} from './nodes/open-ahead.ts';

/**
 * The pipeline for a cluster: reads the API, then the nodes while it follows the Services, and diagnoses each node as it arrives. If the
 * signal is aborted while nodes are read, the report contains those that were read. Throws a CLIError, a KubeconfigError or an ApiError,
 * and an Interrupted before there is anything to report.
 */
export async function diagnoseCluster(run: ClusterRun): Promise<Report> {
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
  const [asked, chains, proxyPods] = await unlessInterrupted(Promise.all([objectsRead, chainsRead, podsRead]), signal);
  const access = await unlessInterrupted(chooseEvaluator(run, asked.api.nodes, proxyPods), signal);
  const services = (asked.api.services ?? []).filter(asked.selection.selects);
  const {pods, podsOf} = await unlessInterrupted(podsWithoutEndpoints(api, services, asked.api), signal);
  const objects = {...asked.api, pods: [...(access.pods ?? []), ...pods], podsOf};
  const diagnosis = new Diagnosis(objects, {...asked.selection, ...evaluationOptions(flags), ...run.options, ...sampleOf(access)});
  const leftovers = await access.clear();
  const followed = flags.agents ? null : new FollowedServices({api, scope, objects, versions: asked.versions, clock});
  const nodes = access.evaluatorOf(diagnosis, {
    ...(followed === null ? {} : {states: () => followed.history.states}),
    ...(ahead === undefined ? {} : {ahead}),
    ...(chains === null ? {} : {requested: requestedEntries(services, asked.api.endpointSlices ?? [], chains)}),
    // --wait: nodes must have every change that was made before the run.
    ...(run.wait === undefined ? {} : {notBefore: flags.agents ? readAt : clock.now()}),
  });
  const problems = [...asked.problems, ...access.problems, ...leftovers];
  const report = (more: readonly Problem[]): Report =>
    diagnosis.report(distinct([...problems, ...nodes.evaluated.problems, ...(followed?.problems ?? []), ...more]));
  const readAgain = () => {
    progress.say('reading the API again');
    // Agents always compare with all Services.
    return (flags.agents ? readAsBefore : readAllAgain)({api, scope, before: diagnosis.api, signal});
  };
  const confirm = async (gracePeriodMs?: number): Promise<readonly Finding[]> => {
    // An agent follows the Services itself and verifies its findings.
    if (followed === null) return [];
    return recheck({
      ...{diagnosis, readAgain, signal, clock, history: followed.history, nodeReadAt: nodes.evaluated.readAt},
      ...(gracePeriodMs === undefined ? {} : {gracePeriodMs}),
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
          ...{run, diagnosis, nodes, scope, input, confirm, problems, report},
          ...{limit: run.wait, startedAt: readAt, followed: now => followed?.take(now)},
        });
  try {
    await nodes.evaluate(access.names);
    if (wait === null) retract(await confirm(), diagnosis);
    else await wait.run();
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
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

function distinct(problems: readonly Problem[]): readonly Problem[] {
  return [...new Map(problems.map(problem => [JSON.stringify(problem), problem])).values()];
}

function sampleOf({sample}: NodeAccess): Pick<DiagnoseOptions, 'sample'> {
  return sample === undefined ? {} : {sample};
}
