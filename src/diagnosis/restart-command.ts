import {kubeProxyPod} from '../expect/kube-proxy-pod.ts';
import type {Finding} from '../model/finding.ts';
import type {ApiObjects} from '../model/snapshot.ts';

/**
 * The finding with the command that restarts kube-proxy on its node, if that is the remedy and the pod of kube-proxy is known. A mirror
 * pod is left out: deleting it does not restart a static pod.
 */
export function withRestartCommand(finding: Finding, api: ApiObjects): Finding {
  const {node, remedy, command} = finding;
  if (node === undefined || command !== undefined || !remedy.startsWith('Restart kube-proxy')) return finding;
  const pod = kubeProxyPod(api, node);
  if (pod === undefined || pod.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined) return finding;
  return {...finding, command: `kubectl -n ${pod.metadata.namespace} delete pod ${pod.metadata.name}`};
}
