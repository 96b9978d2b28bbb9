import type {NodeObject} from '../model/api-objects.ts';
import {type KubeProxyVersion, newestKnownMinor, type Setting, seenInRules} from '../model/proxy-config.ts';
import type {ApiObjects, NodeDump, Problem} from '../model/snapshot.ts';
import {kubeProxyContainer, kubeProxyPod} from './kube-proxy-pod.ts';

interface VersionInput {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly object: NodeObject | undefined;
  /** The version that the user gives. */
  readonly given: string | undefined;
  /** The version that the node's rules show. */
  readonly infer: () => {readonly version?: KubeProxyVersion};
}

/** The version of a node's kube-proxy with its source. An invalid version is reported, and the next source is tried. */
export function kubeProxyVersion({node, api, object, given, infer}: VersionInput, problems: Problem[]): Setting<KubeProxyVersion> {
  const info = object?.status?.nodeInfo;
  const sources: readonly VersionSource[] = [
    {name: 'flag', text: given},
    {name: 'kube-proxy-version', text: node.read('kube-proxy-version')?.toString('utf8')},
    ...imageSource(api, node.name),
    ...(isK3s(info?.kubeletVersion) ? [{name: 'k3s in the Node status: kube-proxy is a part of it', text: info?.kubeletVersion}] : []),
    // The kubelet writes its own version here, if anything: it does not know kube-proxy's. The field is deprecated since 1.29.
    {name: 'Node status', text: info?.kubeProxyVersion, weak: true},
    {name: 'kubelet version in the Node status', text: info?.kubeletVersion, weak: true},
  ];
  for (const {name, text, weak} of sources) {
    if (text === undefined || text.trim() === '') continue;
    const value = parseVersion(text);
    // kube-proxy may be older than the kubelet.
    if (value !== null && weak) return {value: {...value, guessed: true}, source: name};
    if (value !== null) return {value, source: sourceOf(name, value)};
    if (!weak) problems.push({node: node.name, message: `${name}: "${text.trim().split('\n', 1)[0] ?? ''}" is no version of kube-proxy`});
  }
  const {version: inferred} = infer();
  if (inferred !== undefined) return {value: inferred, source: seenInRules};
  return {
    value: {text: 'unknown', minor: newestKnownMinor, patch: 0, guessed: true},
    source: 'not found: checked against the newest known rules',
  };
}

interface VersionSource {
  readonly name: string;
  readonly text: string | undefined;
  /** It may be wrong by some versions; an invalid one is not reported. */
  readonly weak?: boolean;
}

function sourceOf(name: string, {minor}: KubeProxyVersion): string {
  return minor > newestKnownMinor ? `${name}; newer than the newest known rules, checked against those of 1.${newestKnownMinor}` : name;
}

/** The image of kube-proxy's container. An image with another name (OpenShift's, a mirror's) counts only if its tag is a version. */
function imageSource(api: ApiObjects, node: string): readonly VersionSource[] {
  const image = kubeProxyContainer(kubeProxyPod(api, node))?.image;
  const tag = image === undefined ? undefined : tagOf(image);
  if (image === undefined || tag === undefined) return [];
  if (!image.includes('kube-proxy') && !holdsAllOfKubernetes(image)) return [];
  return [{name: "image of kube-proxy's pod", text: tag}];
}

/** Images of all components, tagged with the version of Kubernetes: RKE2's, and the old hyperkube. */
function holdsAllOfKubernetes(image: string): boolean {
  return /\/(?:hardened-kubernetes|hyperkube)(?:-[a-z0-9]+)?[:@]/.test(`/${image}`);
}

/** The tag of `registry:5000/kube-proxy:v1.36.2@sha256:…`; undefined if there is none. */
function tagOf(image: string): string | undefined {
  return /^[^@]*:([^/:@]+)(?:@|$)/.exec(image)?.[1];
}

function isK3s(kubeletVersion: string | undefined): boolean {
  return kubeletVersion?.includes('+k3s') ?? false;
}

/** Reads `v1.36.2`, `Kubernetes v1.30.5-gke.100` and the like; null if the text contains no version. */
export function parseVersion(text: string): KubeProxyVersion | null {
  const found = /(?<![\d.])v?1\.(\d+)(?:\.(\d+))?[^\s]*/.exec(text);
  if (found === null) return null;
  return {text: found[0].startsWith('v') ? found[0] : `v${found[0]}`, minor: Number(found[1]), patch: Number(found[2] ?? 0)};
}
