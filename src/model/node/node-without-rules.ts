import type {NodeObject} from '../api-objects.ts';

/** Why a node cannot have rules of kube-proxy, by its Node object; null if it may have them. */
export function whyNoRules({metadata, status}: NodeObject): string | null {
  const labels = metadata.labels ?? {};
  if ((labels['kubernetes.io/os'] ?? status?.nodeInfo?.operatingSystem) === 'windows')
    return 'a Windows node: its Services are not served by iptables';
  if (labels['eks.amazonaws.com/compute-type'] === 'fargate')
    return 'a Fargate node: it runs one pod, and no kube-proxy that could be read';
  if (labels['type'] === 'virtual-kubelet') return 'a virtual node (virtual-kubelet): there is no machine behind it';
  return null;
}
