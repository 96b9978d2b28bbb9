import type {CiliumKind, Symptom} from '../analyze/symptoms/symptom.ts';
import {ciliumPod, ciliumVersion} from '../expect/cilium/cilium-node.ts';
import type {Observation, Severity} from '../model/finding.ts';
import {commandLine} from '../model/text.ts';
import type {Check, NodeCheckContext} from './check.ts';
import {podsOfNode, run} from './commands/commands.ts';
import {symptomObservations} from './symptom-observations.ts';

const logThenRestart =
  'Read the log of the cilium-agent on this node for why it did not follow. Then restart it (delete its pod): it reads all Services again and corrects the map; connections go on meanwhile.';

const table = [
  {
    code: 'ST801',
    name: 'map-differs',
    severity: 'error',
    summary: "The kernel's map does not have what Cilium's agent has in its table",
    remedy:
      'Read the log of the cilium-agent on this node for failed updates of the map, and compare its size with bpf-lb-map-max. Then restart it (delete its pod): it writes the map again.',
  },
  {
    code: 'ST802',
    name: 'agent-lost-api',
    severity: 'warning',
    summary: "Cilium's agent has no connection to the API server, and follows no change, or says that it fails",
    remedy: 'Read the log of the cilium-agent on this node for why it does not reach the API server, or what fails, and mend that.',
  },
  {
    code: 'ST803',
    name: 'wildcard-on-node-address',
    severity: 'error',
    summary: 'An entry in the map drops what is sent to an address of the node itself',
    remedy:
      'Upgrade Cilium to a patch of 1.19 that writes no such entries, or take the address of the node out of the Service that has it as a load-balancer IP.',
  },
  {
    code: 'ST804',
    name: 'slot-without-backend',
    severity: 'error',
    summary: "A slot of the kernel's map leads to no backend: its connections are dropped",
    remedy:
      'Restart the cilium-agent on this node (delete its pod): it writes the map again. Then check its log for failed updates of the map.',
  },
  {
    code: 'ST805',
    name: 'service-refused',
    severity: 'error',
    summary: "Cilium's agent refuses a whole Service, because one of its addresses belongs to another",
    remedy:
      'Give one of the two Services another address, or another port. If the API no longer has the other one, restart the cilium-agent on this node (delete its pod).',
  },
  {
    code: 'ST806',
    name: 'out-of-rotation',
    severity: 'info',
    summary: 'Health checks of Cilium took endpoints out of rotation',
    remedy: 'Find out why the health checks of these endpoints fail from this node.',
  },
  {
    code: 'ST807',
    name: 'not-compared',
    severity: 'info',
    summary: "Frontends of Cilium that the API's Services do not decide: local redirects, proxies, other clusters, older versions",
    remedy: 'No action is needed: cilium-dbg service list, in the pod of the agent, shows them.',
  },
] as const satisfies readonly {
  readonly code: string;
  readonly name: CiliumKind;
  readonly severity: Severity;
  readonly summary: string;
  readonly remedy: string;
}[];

/** What is found on nodes of Cilium alone. */
export const ciliumChecks: readonly Check<(typeof table)[number]['code']>[] = table.map(check => ({
  ...check,
  node: context => {
    const symptoms = context.symptoms.filter(({kind}) => kind === check.name);
    return symptomObservations(symptoms).map(({observation}) => ({
      ...observation,
      ...(check.severity === 'info' || check.name === 'service-refused' ? {} : logAndRestartAgent(context)),
    }));
  },
}));

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
