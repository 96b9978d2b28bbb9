import {type PathRow, pathTree} from '../model/path-tree.ts';
import {configMapPlaces} from '../model/proxy-config.ts';
import {runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {asFields, readJson} from '../parse/attempt.ts';
import {isKnownText, knownVersion, wordSet} from './known-words.ts';
import {ciliumAnnotations, ciliumSettings} from './redact-cilium.ts';
import {redactArguments, redactConfigText} from './redact-config.ts';
import {type Replacements, treat, type Treatment} from './replacements.ts';
import type {NameKind} from './names.ts';

const portName: Treatment = (value, {names}) => (typeof value === 'string' ? names.port(value) : typeof value === 'number' ? value : null);
const version: Treatment = value => (typeof value === 'string' ? knownVersion(value) : null);

/** An object of the API, whose name is of a kind. */
function object(kind: NameKind, ...rows: readonly PathRow<Treatment>[]): Treatment {
  return pathTree<Treatment>(
    ['kept', 'apiVersion kind metadata.{resourceVersion generation creationTimestamp deletionTimestamp}'],
    [kind, 'metadata.name'],
    ['namespace', 'metadata.namespace'],
    ['uid', 'metadata.uid'],
    [labels, 'metadata.labels'],
    [annotations, 'metadata.annotations'],
    ...rows,
  );
}

const targetRef = pathTree<Treatment>(['kept', 'kind'], ['pod', 'name'], ['namespace', 'namespace'], ['uid', 'uid']);
const condition = pathTree<Treatment>(['kept', 'type status reason lastHeartbeatTime lastTransitionTime lastProbeTime']);

/** The lists of objects in a bundle. */
export type ObjectList = Exclude<keyof ApiObjects, 'lacksNodes' | 'namespaces' | 'podsOf' | 'unsure'>;

/** The fields that are kept of each kind of API object, and their treatment. All others are left out. */
export const objectTreatments: Readonly<Record<ObjectList, Treatment>> = {
  services: object(
    'service',
    [
      'kept',
      `spec.{
        type ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts externalTrafficPolicy internalTrafficPolicy trafficDistribution
        healthCheckNodePort sessionAffinity sessionAffinityConfig publishNotReadyAddresses ports[].{protocol port nodePort}
      }
      status.loadBalancer.ingress[].ipMode`,
    ],
    ['address', 'spec.{clusterIP clusterIPs[] externalIPs[] loadBalancerIP loadBalancerSourceRanges[]} status.loadBalancer.ingress[].ip'],
    ['word', 'spec.{loadBalancerClass externalName} status.loadBalancer.ingress[].hostname'],
    [portName, 'spec.ports[].{name targetPort}'],
    [labels, 'spec.selector'],
    [labelKey, 'spec.topologyKeys[]'],
  ),
  endpointSlices: object(
    'word',
    ['kept', 'addressType ports[].{port protocol} endpoints[].conditions'],
    [portName, 'ports[].name'],
    ['address', 'endpoints[].addresses[]'],
    ['word', 'endpoints[].{hostname zone hints.forZones[].name}'],
    ['node', 'endpoints[].{nodeName hints.forNodes[].name}'],
    [targetRef, 'endpoints[].targetRef'],
    [labels, 'endpoints[].topology'],
  ),
  endpoints: object(
    'service',
    ['kept', 'subsets[].ports[].{port protocol}'],
    [portName, 'subsets[].ports[].name'],
    ['address', 'subsets[].{addresses[].ip notReadyAddresses[].ip}'],
    ['word', 'subsets[].{addresses[].hostname notReadyAddresses[].hostname}'],
    ['node', 'subsets[].{addresses[].nodeName notReadyAddresses[].nodeName}'],
    [targetRef, 'subsets[].{addresses[].targetRef notReadyAddresses[].targetRef}'],
  ),
  nodes: object(
    'node',
    ['kept', 'spec.unschedulable status.{addresses[].type nodeInfo.{operatingSystem architecture}}'],
    ['address', 'spec.{podCIDR podCIDRs[]} status.addresses[].address'],
    [version, 'status.nodeInfo.{kubeProxyVersion kubeletVersion kernelVersion containerRuntimeVersion}'],
    [condition, 'status.conditions[]'],
  ),
  pods: podTreatment,
  configMaps: object('word', [configData, 'data']),
  serviceCIDRs: object('word', ['address', 'spec.cidrs[]']),
  networkPolicies: object(
    'word',
    ['kept', 'spec.{policyTypes podSelector.matchExpressions[].operator ingress[].ports[].{protocol endPort}}'],
    [labels, 'spec.podSelector.matchLabels'],
    [labelKey, 'spec.podSelector.matchExpressions[].key'],
    ['word', 'spec.podSelector.matchExpressions[].values[]'],
    ['address', 'spec.ingress[].from[].ipBlock.{cidr except[]}'],
    [portName, 'spec.ingress[].ports[].port'],
  ),
};

/** Of containers the replaced name and the ports are kept; of those in kube-proxy's pods the image and the command line. */
function podTreatment(pod: unknown, replacements: Replacements): unknown {
  const {metadata: about} = asFields(pod);
  const {name, namespace, labels: given} = asFields(about);
  const isKubeProxy = runsKubeProxy({
    name: String(name),
    namespace: String(namespace),
    labels: asFields(given) as Readonly<Record<string, string>>,
  });
  return treat(pod, isKubeProxy ? kubeProxyPod : otherPod, replacements);
}

const [kubeProxyPod, otherPod] = [
  podWith([kubeProxyContainer, 'spec.containers[]']),
  podWith(
    ['word', 'spec.containers[].name'],
    ['kept', 'spec.containers[].ports[].{containerPort hostPort protocol}'],
    ['address', 'spec.containers[].ports[].hostIP'],
  ),
];

function podWith(...ofContainers: readonly PathRow<Treatment>[]): Treatment {
  return object(
    'pod',
    ['kept', 'spec.hostNetwork status.{phase startTime}'],
    ['node', 'spec.nodeName'],
    ['word', 'spec.volumes[].configMap.name'],
    ['address', 'status.{hostIP podIP podIPs[].ip}'],
    [condition, 'status.conditions[]'],
    ...ofContainers,
  );
}

/** Labels whose keys are those of Kubernetes, or are generic, keep their keys; their values are replaced like names. */
function labels(value: unknown, replacements: Replacements): unknown {
  const {names} = replacements;
  const entries = Object.entries(asFields(value)).map(([key, text]) => [
    labelKey(key, replacements),
    key === 'endpointslice.kubernetes.io/managed-by' && String(text).endsWith('.k8s.io') ? text : names.replace(String(text)),
  ]);
  return Object.fromEntries(entries);
}

function labelKey(key: unknown, {names}: Replacements): string {
  const text = String(key);
  return text === '*' || commonKeys.has(text) ? text : names.replace(text);
}

/** A key under kubernetes.io can still contain a word of the cluster's own, as in `node-restriction.kubernetes.io/team`. */
const commonKeys: ReadonlySet<string> = wordSet(`
  app name component tier version k8s-app
  app.kubernetes.io/name app.kubernetes.io/instance app.kubernetes.io/version app.kubernetes.io/component app.kubernetes.io/part-of
  app.kubernetes.io/managed-by
  kubernetes.io/service-name kubernetes.io/os kubernetes.io/arch kubernetes.io/hostname kubernetes.io/metadata.name
  beta.kubernetes.io/os beta.kubernetes.io/arch
  service.kubernetes.io/headless service.kubernetes.io/service-proxy-name service.cilium.io/node
  endpointslice.kubernetes.io/managed-by endpointslice.kubernetes.io/skip-mirror
  topology.kubernetes.io/zone topology.kubernetes.io/region failure-domain.beta.kubernetes.io/zone
  failure-domain.beta.kubernetes.io/region node.kubernetes.io/exclude-from-external-load-balancers node.kubernetes.io/instance-type
  `);

const keptAnnotations = new Set([
  'endpoints.kubernetes.io/last-change-trigger-time',
  'service.kubernetes.io/topology-mode',
  'service.kubernetes.io/topology-aware-hints',
]);

/** The command line of k3s or RKE2, as a list. */
const nodeArgs = new Set(['k3s.io/node-args', 'rke2.io/node-args']);

function annotations(value: unknown, replacements: Replacements): unknown {
  return Object.fromEntries(
    Object.entries(asFields(value)).flatMap(([key, text]): readonly (readonly [string, unknown])[] => {
      if (keptAnnotations.has(key)) return typeof text === 'string' && isKnownText(text) ? [[key, text]] : [];
      // Words that are no code of a finding mean nothing.
      if (key === 'svc-trace.dev/skip') return [[key, (String(text).match(/\bST\d{3}\b/gi) ?? []).join(',')]];
      if (key.startsWith(healthCheck)) return [[healthCheck, 'true']];
      if (key === 'service.cilium.io/node-selector') return [[key, nodeSelector(String(text), replacements)]];
      const ofCilium = Object.hasOwn(ciliumAnnotations, key) ? ciliumAnnotations[key] : undefined;
      if (ofCilium !== undefined) return [[key, treat(String(text), ofCilium, replacements)]];
      const words = nodeArgs.has(key) ? readJson(String(text)) : undefined;
      return Array.isArray(words) ? [[key, JSON.stringify(redactArguments(words, replacements))]] : [];
    }),
  );
}

const healthCheck = 'service.cilium.io/health-check';

/** `pool in (blue, green),!old`: the first word of each part is the key of a label, the others are values. */
function nodeSelector(selector: string, replacements: Replacements): string {
  const parts = selector.split(/,(?![^(]*\))/).map(part => {
    const [, not = '', key = '', rest = ''] = /^(\s*!?\s*)([^\s=!<>()]+)(.*)$/s.exec(part) ?? [];
    const values = rest.replace(/[^\s=!<>(),]+/g, text => (/^(?:in|notin)$/.test(text) ? text : replacements.names.replace(text)));
    return `${not}${labelKey(key, replacements)}${values}`;
  });
  return parts.join(',');
}

function kubeProxyContainer(value: unknown, replacements: Replacements): unknown {
  const {name, image, command, args} = asFields(value);
  return {
    ...(typeof name === 'string' ? {name: name.includes('kube-proxy') ? 'kube-proxy' : replacements.names.replace(name)} : {}),
    ...(typeof image === 'string' ? {image: redactImage(image)} : {}),
    ...(Array.isArray(command) ? {command: redactArguments(command, replacements)} : {}),
    ...(Array.isArray(args) ? {args: redactArguments(args, replacements)} : {}),
  };
}

/** Without the registry. The image name and its tag are kept: they show the version. */
function redactImage(image: string): string {
  const tag = /^[^@]*:(v?\d[^/:@]*)(?:@|$)/.exec(image)?.[1];
  return `registry.example/${/kube-proxy|hardened-kubernetes|hyperkube/.exec(image)?.[0] ?? 'image'}${tag === undefined ? '' : `:${knownVersion(tag)}`}`;
}

const configKeys: ReadonlySet<string> = new Set(configMapPlaces.map(({key}) => key));

/** Only the configuration of kube-proxy, and settings of Cilium, are kept. */
function configData(value: unknown, replacements: Replacements): unknown {
  return Object.fromEntries(
    Object.entries(asFields(value)).flatMap(([key, text]): readonly (readonly [string, unknown])[] => {
      const ofCilium = Object.hasOwn(ciliumSettings, key) ? ciliumSettings[key] : undefined;
      if (ofCilium !== undefined) return [[key, treat(text, ofCilium, replacements)]];
      return configKeys.has(key) && typeof text === 'string' ? [[key, redactConfigText(text, replacements)]] : [];
    }),
  );
}
