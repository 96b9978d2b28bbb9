import {podsOnNode} from '../expect/api-index.ts';
import {kubeProxyPod, runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import type {SymptomKind} from '../analyze/symptoms/symptom.ts';
import type {PodObject} from '../model/api-objects.ts';
import type {NodeCheckContext} from './check.ts';
import {kubeProxyTrouble} from './kube-proxy-trouble.ts';

/**
 * Why the kube-proxy of a node may not run. Used only if its rules show that it does not apply changes: by themselves these signs are
 * common while kube-proxy is replaced, or if it does not listen on its default ports.
 */
export function* kubeProxyHealthReasons(context: NodeCheckContext): Iterable<string> {
  if (!context.symptoms.some(({kind}) => notFollowing.has(kind))) return;
  yield* podReasons(context);
  yield* silenceReasons(context);
}

const notFollowing: ReadonlySet<SymptomKind> = new Set([
  'service-not-programmed',
  'missing-endpoint',
  'stale-endpoint',
  'stale-service',
  'missing-entry',
  'missing-reject',
  'unexpected-reject',
  'no-service-rules',
]);

function* podReasons({api, node}: NodeCheckContext): Iterable<string> {
  const pod = kubeProxyPod(api, node.name);
  if (pod === undefined) {
    const others = (api.pods ?? []).filter(({metadata, spec}) => runsKubeProxy(metadata) && spec?.nodeName !== undefined);
    if (others.length > 0 && !podsOnNode(api, node.name).some(({metadata}) => runsKubeProxy(metadata)))
      yield `no pod of kube-proxy is on this node, while there are ${others.length} on others`;
    return;
  }
  const {namespace, name} = pod.metadata;
  if (isDown(pod) && kubeProxyTrouble({api, node}).container === null)
    yield `its pod ${namespace}/${name} is not ready (${pod.status?.phase ?? 'phase unknown'})`;
}

function isDown({status}: PodObject): boolean {
  const ready = (status?.conditions ?? []).find(({type}) => type === 'Ready');
  return ready?.status === 'False' || (status?.phase !== undefined && status.phase !== 'Running');
}

/** Messages of curl, wget and the API server for a connection without an answer. */
function* silenceReasons({node}: NodeCheckContext): Iterable<string> {
  const reasonFor = (file: string) => node.missing?.find(missing => missing.file === file)?.reason ?? '';
  const health = reasonFor('healthz.json');
  // The API server usually cannot reach its metrics, and a firewall may cause a timeout.
  if (/through the API server/.test(health)) {
    if (/refused/i.test(health)) yield 'nothing listens at its health port 10256';
    return;
  }
  const reasons = [health, reasonFor('metrics')];
  if (reasons.every(reason => /refused|Failed to connect|can't connect/i.test(reason)))
    yield 'nothing listens at its ports 10256 and 10249';
  else if (reasons.every(reason => /timed? ?out/i.test(reason))) yield 'it does not answer at its ports 10256 and 10249';
}
