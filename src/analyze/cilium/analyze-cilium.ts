import {ciliumAgentTable, ciliumConfigMap, newestApi} from '../../model/proxy-config.ts';
import {
  ciliumPod,
  ciliumSetting,
  type CiliumState,
  ciliumVersion,
  isKnownCilium,
  leavesKubeProxy,
  oldestCilium,
  readCilium,
} from '../../expect/cilium/cilium-node.ts';
import {type CiliumNode, isAmong, typeOf, unspecified} from '../../expect/cilium/promised-frontends.ts';
import {nodeObject} from '../../expect/api-index.ts';
import {serviceKey} from '../../expect/cluster/cluster-view.ts';
import {families, type Family, canonicalAddress, familyOf} from '../../model/address.ts';
import {onceAsked} from '../../model/once.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import {type AgentFrontend, frontendKey} from '../../parse/cilium/agent-table.ts';
import type {NodeAnalysis, NodeInput} from '../proxy-mode.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {ciliumSymptom, type ComparedPort, comparedPort, isGlobal, kindApart, serviceSymptoms, staleFrontends} from './agent-differences.ts';
import {keysInMap, type MapCase, mapSymptoms, settingSymptoms} from './map-differences.ts';
import {traceCiliumPort} from './trace-cilium.ts';
import {nameOf} from '../../model/finding.ts';
import {isLoopback, portsOfPod} from '../../expect/node-context.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';

/** The analysis of a node with tables of Cilium, and of the kube-proxy beside it, if there is one. */
export function withCilium(
  input: NodeInput,
  {kubeProxy, runsToo, hasRules}: {readonly kubeProxy: NodeAnalysis | null; readonly runsToo: boolean; readonly hasRules: boolean},
): NodeAnalysis {
  const beside = kubeProxy?.status.kind === 'not-served' ? null : kubeProxy;
  const {node, api, config, nft} = input;
  const proxy = {mode: {value: 'cilium', source: ciliumAgentTable}, version: {value: newestApi.version, source: ciliumAgentTable}};
  const own: NodeAnalysis = {
    rulesets: new Map(),
    backends: [],
    nft,
    families: [],
    unread: [],
    symptoms: [],
    traces: [],
    config: {...config, ...proxy},
    counts: {rules: 0, chains: 0},
    status: {kind: 'checked'},
  };
  const base = beside ?? own;
  const version = ciliumVersion(node);
  if (version !== null && !isKnownCilium(version)) {
    const reason = `Cilium ${version.text} serves its Services, and svc-trace checks Cilium from ${oldestCilium} on`;
    if (beside === null) return {...own, status: {kind: 'not-served', reason}};
    return {
      ...beside,
      symptoms: [...beside.symptoms, ciliumSymptom('not-compared', 'IPv4', {detail: `not compared on ${node.name}: ${reason}`})],
    };
  }
  const tables = unseenObjects(api) ?? compareTables(input);
  if (typeof tables === 'string') return {...base, status: {kind: 'unread', reason: beside === null ? tables : `of its Cilium: ${tables}`}};
  const unread = [...base.unread, ...tables.unread];
  const withoutRules = beside === null && leavesKubeProxy(node);
  const reasons = [
    ...unread.map(({family, reason}) => `${family}: ${reason}`),
    ...(withoutRules || (runsToo && !hasRules) ? whyWithoutRules(node) : []),
  ];
  return {
    ...base,
    unread,
    cilium: tables.version,
    symptoms: [...base.symptoms, ...tables.symptoms, ...(withoutRules ? [withoutKubeProxy(input, {runsToo, hasRules})] : [])],
    traces: [...tables.traces, ...base.traces],
    families: families.filter(family => [...base.families, ...tables.families].includes(family)),
    counts: {rules: base.counts.rules + tables.frontends, chains: base.counts.chains},
    status: reasons.length === 0 || base.status.kind !== 'checked' ? base.status : {kind: 'unread', reason: reasons.join('; ')},
  };
}

/** Why the rules of the kube-proxy beside Cilium could not be read; nothing where nobody asked for them. */
function whyWithoutRules({missing = []}: NodeInput['node']): readonly string[] {
  const reasons = missing.flatMap(({file, reason}) => (file === 'iptables-save' ? reason : []));
  return reasons.length === 0 ? [] : [`rules of kube-proxy: ${reasons.join('; ')}`];
}

/** Cilium leaves part of the work to a kube-proxy: to one that was not read, or to none. */
function withoutKubeProxy(
  {node, api, view}: NodeInput,
  {runsToo, hasRules}: {readonly runsToo: boolean; readonly hasRules: boolean},
): Symptom {
  const leaves = `Cilium leaves node ports and addresses of load balancers to kube-proxy`;
  const isToldTo = ciliumSetting(api, 'kube-proxy-replacement') === true;
  const hasOther =
    runsToo ||
    api.pods === null ||
    node.files.includes('ipvsadm-save') ||
    node.files.some(file => /^nft(?:-ruleset)?\.json$/.test(file) && node.read(file)?.includes('kube-proxy') === true);
  if (hasOther || !(hasRules || isToldTo))
    return ciliumSymptom('not-compared', 'IPv4', {detail: `not compared on ${node.name}: ${leaves}, whose rules were not read`});
  const ports = families.flatMap(family => view.entries(family, newestApi).map(({port}) => port));
  return ciliumSymptom('missing-entry', 'IPv4', {
    detail: `${leaves} on ${node.name}, and none was found there: nothing serves them, nor cluster IPs for the node itself${isToldTo ? `. The agent does not run with the kube-proxy-replacement of ${ciliumConfigMap}` : ''}`,
    variant: 'left-to-nobody',
    severity: isToldTo ? 'error' : 'warning',
    affects: ports.filter(
      ({nodePort, loadBalancerVIPs, externalIPs}) => nodePort !== 0 || loadBalancerVIPs.length + externalIPs.length > 0,
    ),
    remedy: isToldTo
      ? 'Restart the cilium-agent on this node (delete its pod): it reads its settings when it starts. If it still says False then, look for a CiliumNodeConfig or an argument that overrides them.'
      : `Set kube-proxy-replacement to "true" in ConfigMap ${ciliumConfigMap} and restart the agents, or run kube-proxy.`,
  });
}

/** The analysis of a node of kube-proxy whose Cilium was not read. */
export function besideUnreadCilium(analysis: NodeAnalysis, {api, node}: NodeInput): NodeAnalysis {
  if (analysis.status.kind !== 'checked' || ciliumPod(api, node.name) === undefined) return analysis;
  const detail = `not compared on ${node.name}: the tables of its Cilium, which serves cluster IPs to pods, were not read; agents of svc-trace never read them`;
  return {...analysis, symptoms: [...analysis.symptoms, ciliumSymptom('not-compared', 'IPv4', {detail})]};
}

/** Objects that were not read may exist: no frontend may be reported because of them. */
function unseenObjects({services, endpointSlices}: ApiObjects): string | null {
  const unseen = services === null ? 'the Services' : endpointSlices === null ? 'the EndpointSlices' : null;
  return unseen === null ? null : `${unseen} were not read, and without them it is unknown what the agent should have`;
}

/**
 * Compares the agent's table of a node with the API, and the kernel's map with the agent's table; or says why it cannot. `frontends`: how
 * many rows of the agent's table were compared.
 */
function compareTables(input: NodeInput) {
  const state = readCilium(input.node, input.api);
  if (typeof state === 'string') return state;
  const {proxyName, replacesKubeProxy} = state.settings;
  if (proxyName === null && families.some(family => input.view.entries(family, newestApi).length > 0))
    return 'which Services its Cilium serves is not known: ConfigMap cilium-config (k8s-service-proxy-name) was not read, and no Service that the agent serves shows it';
  if (proxyName !== null && proxyName !== '')
    return `its Cilium serves only Services with the label service.kubernetes.io/service-proxy-name=${proxyName}`;
  if (replacesKubeProxy === null) return 'whether its Cilium replaces kube-proxy is not known: it has no status.json of the agent';
  const results = families.map(family => comparedFamily(family, input, state));
  const found = results.flatMap(({symptoms}) => symptoms);
  const refused = new Set(
    found.flatMap(({kind, service}) => (kind === 'service-refused' && service !== undefined ? namespacedName(service) : [])),
  );
  return {
    version: state.version.text,
    families: results.filter(({isUsed}) => isUsed).map(({family}) => family),
    unread: results.flatMap(({family, reason}) => (reason === null ? [] : [{family, reason}])),
    symptoms: [
      // What is refused for an address of one family is missing in the other for that reason.
      ...found.filter(({kind, port}) => kind !== 'service-not-programmed' || port === null || !refused.has(serviceKey(port))),
      ...nodeSymptoms(input, state),
    ],
    traces: results.flatMap(({traces}) => traces),
    frontends: state.frontends.length,
  };
}

function comparedFamily(family: Family, input: NodeInput, state: CiliumState) {
  const {view, api, node, facts} = input;
  const entries = view.entries(family, newestApi).filter(({port}) => api.unsure?.has(serviceKey(port)) !== true);
  const frontends = state.frontends.filter(({address}) => address.includes(':') === (family === 'IPv6'));
  const isOn = state.settings.families[family];
  const base = {family, isUsed: entries.length > 0 || frontends.length > 0, symptoms: [], traces: []};
  if (isOn === false) return {...base, isUsed: false, reason: null};
  if (isOn === null && frontends.length === 0)
    return {
      ...base,
      isUsed: false,
      reason:
        entries.length === 0
          ? null
          : 'the agent has no Service of this family, and whether it should was not read (ConfigMap cilium-config)',
    };
  const addresses = [...new Set([...facts.hostIPs, ...(state.nodePortAddresses ?? [])])];
  const keepsBalancers = state.settings.replacesKubeProxy === false && frontends.some(({type}) => type === typeOf.loadBalancerIP);
  const read = {addresses, state, keepsBalancers};
  const cilium: CiliumNode = {name: node.name, object: nodeObject(api, node.name), ...read, view, proxy: newestApi};
  const table = new Map(frontends.map(frontend => [frontend.key, frontend]));
  const ports = entries.map(entry => comparedPort(entry, cilium, table));
  const served = onceAsked(() => new Set(state.frontends.map(serviceKey)));
  const symptoms = [
    ...[...Map.groupBy(ports, ({port}) => port.object).values()].flatMap(own => serviceSymptoms(own, table, served)),
    ...staleFrontends(frontends, {family, api, node: cilium, ports}),
    // Pods of some Services alone do not show that there are no others.
    ...(api.pods === null || api.podsOf !== undefined ? [] : hostPortSymptoms({family, node: node.name, pods: api.pods, state, frontends})),
    ...tableSymptoms({family, state, frontends, own: new Set(addresses)}, ports, table),
  ];
  return {
    ...base,
    reason: state.nodePortAddresses === null && frontends.some(({type}) => type === 'NodePort') ? noNodeAddresses : null,
    symptoms,
    traces: ports.filter(({port}) => input.traces(port, symptoms)).map(port => traceCiliumPort(port, table)),
  };
}

/** What the map has otherwise than the agent, and than the API where the agent's table does not show it. */
function tableSymptoms(
  given: Omit<MapCase, 'ports' | 'keys'>,
  ports: readonly ComparedPort[],
  table: ReadonlyMap<string, AgentFrontend>,
): readonly Symptom[] {
  const keys = new Map(given.frontends.map(frontend => [frontend.key, keysInMap(frontend, given.state, table)]));
  const owned = (): ReadonlyMap<string, ServicePort> =>
    new Map(ports.flatMap(({port, found}) => found.map(({own}): [string, ServicePort] => [own.key, port])));
  return [
    ...mapSymptoms({...given, keys, ports: owned}),
    ...ports.flatMap(({port, found}) => {
      const inMap = found.flatMap(({own}) => keys.get(own.key) ?? []);
      return settingSymptoms(port, inMap, given.state);
    }),
  ];
}

const noNodeAddresses =
  'the addresses at which node ports are served were not read (cilium-dbg shell -- db/show node-addresses): node ports were compared at no address of the node';

/** What is said of the node as a whole. */
function nodeSymptoms({api, node}: NodeInput, state: CiliumState): readonly Symptom[] {
  const apart = whatIsApart(state, new Set((api.services ?? []).filter(isGlobal).map(({metadata}) => namespacedName(metadata))));
  const {apiTrouble, trouble} = state;
  const gist = 'the Cilium agent has no connection to the API server and follows no change';
  const lost = apiTrouble === null ? `says that it fails: ${trouble}` : `has no connection to the API server: ${apiTrouble}`;
  const told = {detail: `the agent on ${node.name} ${lost}`, gist: apiTrouble === null ? undefined : gist};
  const detail = `not compared with the API on ${node.name}: ${apart.join('; ')}`;
  return [
    ...(apiTrouble === null && trouble === null ? [] : [ciliumSymptom('agent-lost-api', 'IPv4', told)]),
    ...(apart.length === 0 ? [] : [ciliumSymptom('not-compared', 'IPv4', {detail})]),
  ];
}

/** Frontends that the objects that were read do not decide. */
function whatIsApart({frontends, map}: CiliumState, global: ReadonlySet<string>): readonly string[] {
  const kindOf = (frontend: AgentFrontend): string | null => {
    if (frontend.type === 'HostPort') return null;
    if (global.size > 0 && global.has(serviceKey(frontend))) return 'the endpoints of a Service of several clusters';
    const entry = map.get(frontend.key);
    return kindApart(frontend) ?? (entry?.flags.includes('l7-load-balancer') === true ? 'behind a proxy of the node' : null);
  };
  const groups = Map.groupBy(frontends, frontend => kindOf(frontend));
  return [...groups].flatMap(([kind, all]) => (kind === null ? [] : [`${someOf(all.map(({key}) => key))} (${kind})`]));
}

interface HostPortCase {
  readonly family: Family;
  readonly node: string;
  readonly pods: readonly PodObject[];
  readonly state: CiliumState;
  readonly frontends: readonly AgentFrontend[];
}

/** Host ports of the agent's table that are no longer a pod's, and those of pods that it does not have. */
function hostPortSymptoms(given: HostPortCase): readonly Symptom[] {
  const {family, node, pods, state, frontends} = given;
  const {replacesKubeProxy, hasHostPorts} = state.settings;
  if (replacesKubeProxy !== true || !hasHostPorts) return [];
  const byName = new Map(pods.map(pod => [namespacedName(pod.metadata), pod]));
  const stale = frontends.flatMap((frontend): readonly Symptom[] => {
    const why = frontend.type === 'HostPort' ? whyStale(frontend, {byName, node}) : null;
    const [name = ''] = frontend.service.split(':', 1);
    const service = {namespace: frontend.namespace, name};
    const detail = `the agent still serves host port ${frontend.key}: ${why}`;
    if (why === null) return [];
    const gist = `the Cilium agent still serves host port ${frontend.key}, which is not this pod's`;
    return [ciliumSymptom('stale-service', family, {service, detail, gist})];
  });
  const keys = new Set(frontends.map(({key}) => key));
  const missing = pods.flatMap(pod =>
    hostPortsOf(pod, given).flatMap((key): readonly Symptom[] => {
      if (keys.has(key)) return [];
      const service = nameOf(pod);
      const detail = `the agent does not have host port ${key} of pod ${namespacedName(pod.metadata)}`;
      const gist = `host port ${key} is not programmed by the Cilium agent`;
      return [ciliumSymptom('missing-entry', family, {service, gist, detail})];
    }),
  );
  return [...stale, ...missing];
}

/** The name of a host port has the pod and its UID: a pod of the same name may be another one. Null if it is the pod's. */
function whyStale(
  {namespace, service, address, port, backends}: AgentFrontend,
  {byName, node}: {readonly byName: ReadonlyMap<string, PodObject>; readonly node: string},
): string | null {
  const [, name = '', uid] = /^([^:]+):host-port:\d+:(.+)$/.exec(service) ?? [];
  if (uid === undefined) return null;
  const pod = byName.get(`${namespace}/${name}`);
  if (pod === undefined) return `the API has no pod ${namespace}/${name} (any more)`;
  if (pod.spec?.nodeName !== node) return `pod ${namespace}/${name} is on ${pod.spec?.nodeName ?? 'no node'}`;
  if (pod.metadata.uid !== undefined && pod.metadata.uid !== uid)
    return `pod ${namespace}/${name} was created again since then, and the entry is that of its predecessor`;
  const addresses = addressesOf(pod);
  if (addresses.length === 0) return null;
  // Ports of init containers may not have been read.
  const known = portsOfPod(pod).filter(({hostPort}) => hostPort === port);
  const other = backends.find(({hostPort}) => {
    const at = splitHostPort(hostPort);
    return !addresses.includes(at.address) || (known.length > 0 && !known.some(({containerPort}) => `${containerPort}` === at.port));
  });
  if (other !== undefined) return `it leads to ${other.hostPort}, which is not an address of pod ${namespace}/${name}`;
  const lacksPod = backends.length === 0 && addresses.some(one => familyOf(one) === familyOf(address));
  return lacksPod ? `it leads nowhere, and not to pod ${namespace}/${name}` : null;
}

function addressesOf({status}: PodObject): readonly string[] {
  return (status?.podIPs ?? []).flatMap(({ip}) => canonicalAddress(ip ?? '') ?? []);
}

/**
 * The keys of the host ports that a pod certainly has: not in the range of node ports, nor of a pod in the host network, which listens
 * itself. Whether one on a loopback address is served depends on the kernel.
 */
function hostPortsOf(pod: PodObject, {node, family, state}: HostPortCase): readonly string[] {
  const {spec, status, metadata} = pod;
  const isRunning = spec?.nodeName === node && status?.phase === 'Running' && metadata.deletionTimestamp === undefined;
  if (!isRunning || spec.hostNetwork === true || !addressesOf(pod).some(address => familyOf(address) === family)) return [];
  return portsOfPod(pod).flatMap(({hostPort = 0, hostIP, protocol = 'TCP'}) => {
    const address = canonicalAddress(hostIP || unspecified[family]);
    if (hostPort === 0 || isAmong(state.settings.nodePorts, hostPort) || address === null || familyOf(address) !== family) return [];
    if (isLoopback(address) || hostIP === unspecified[family]) return [];
    return [frontendKey(address, {port: hostPort, protocol, isInternal: false})];
  });
}
