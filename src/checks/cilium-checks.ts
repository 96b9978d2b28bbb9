import type {Symptom} from '../analyze/symptoms/symptom.ts';
import {ciliumPod, ciliumVersion} from '../expect/cilium/cilium-node.ts';
import type {Observation} from '../model/finding.ts';
import {commandLine} from '../model/text.ts';
import type {Check, NodeCheckContext} from './check-types.ts';
import {catalogRow, check} from './catalog.ts';
import {podsOfNode, run} from './commands/commands.ts';
import {symptomObservations} from './symptom-observations.ts';

/** What is found on nodes of Cilium alone. */
export const ciliumChecks: readonly Check[] = ['ST801', 'ST802', 'ST803', 'ST804', 'ST805', 'ST806', 'ST807'].map(code =>
  check(code, {
    node: context => {
      const {name, severity} = catalogRow(code);
      const symptoms = context.symptoms.filter(({kind}) => kind === name);
      return symptomObservations(symptoms).map(({observation}) => ({
        ...observation,
        ...(severity === 'info' || name === 'service-refused' ? {} : logAndRestartAgent(context)),
      }));
    },
  }),
);

const logThenRestart =
  'Read the log of the cilium-agent on this node for why it did not follow. Then restart it (delete its pod): it reads all Services again and corrects the map; connections go on meanwhile.';

/** What to do about a Service that the agent has otherwise than the API. */
export function agentAction(context: NodeCheckContext, {kind}: Symptom): Pick<Observation, 'remedy' | 'command'> {
  const version = ciliumVersion(context.node);
  const losesDeletions =
    kind === 'stale-endpoint' && version?.major === 1 && (version.minor === 18 || (version.minor === 19 && version.patch <= 2));
  const upgrade = losesDeletions
    ? ' Cilium 1.18 to 1.19.2 can lose deletions when its connection to the API server is interrupted (cilium/cilium#48050): upgrade to a later patch.'
    : '';
  return {remedy: `${logThenRestart}${upgrade}`, ...logAndRestartAgent(context)};
}

function logAndRestartAgent({api, node}: NodeCheckContext): Pick<Observation, 'command'> {
  const pod = ciliumPod(api, node.name);
  if (pod === undefined) return run(podsOfNode({api, node}, commandLine`-l k8s-app=cilium`));
  const {namespace = 'default', name} = pod.metadata;
  return run(
    commandLine`kubectl -n ${namespace} logs ${`pod/${name}`} -c cilium-agent --tail=300`,
    commandLine`kubectl -n ${namespace} delete ${`pod/${name}`}`,
  );
}
