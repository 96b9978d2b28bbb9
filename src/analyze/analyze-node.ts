import {nodeObject} from '../expect/api-index.ts';
import {k3sRunsKubeProxy} from '../expect/k3s-proxy-fields.ts';
import {kubeProxyPod} from '../expect/kube-proxy-pod.ts';
import type {Family} from '../model/family.ts';
import {whyNoRules} from '../model/node/node-without-rules.ts';
import type {Ruleset} from '../model/ruleset.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {countRules, type Dumps} from './iptables/read-dumps.ts';
import {describeRules} from './iptables/excerpt.ts';
import {rulesAloneSymptoms} from './iptables/rules-alone.ts';
import type {ModeAnalysis, NodeInput, UnreadFamily} from './proxy-mode.ts';
import {proxyModes} from './proxy-modes.ts';

export interface NodeAnalysis extends ModeAnalysis {
  readonly status: AnalyzedStatus;
  /** The node's iptables, in whatever mode kube-proxy runs. */
  readonly rulesets: ReadonlyMap<Family, Ruleset>;
  readonly backends: Dumps['both'];
  readonly nft: NodeInput['nft'];
}

type AnalyzedStatus =
  | {readonly kind: 'checked'}
  | {readonly kind: 'unread' | 'unsupported' | 'not-served'; readonly reason: string; readonly remedy?: string};

/** Evaluates all families of one node, in the mode that its kube-proxy runs in. */
export function analyzeNode(given: NodeInput): NodeAnalysis {
  const {dumps, config} = given;
  const held = {rulesets: dumps.current, backends: dumps.both, nft: given.nft};
  const base = {...held, families: [], unread: [], symptoms: [], traces: [], config, counts: countRules(dumps)};
  const other = servedByOther(given, dumps.current);
  if (other !== null) return {...base, status: {kind: 'not-served', reason: other}};
  const mode = proxyModes.find(({name}) => name === config.mode.value);
  if (mode === undefined)
    return {...base, status: {kind: 'unread', reason: `kube-proxy runs in ${config.mode.value} mode, which is not supported yet`}};
  const unseen = unseenObjects(given.api, dumps);
  const prepared = mode.prepare(given);
  const ready = 'whyUnread' in prepared || unseen === null ? prepared : {whyUnread: unseen};
  if ('whyUnread' in ready) {
    const {whyUnread: reason} = ready;
    if (given.api.services !== null) return {...base, status: {kind: 'unread', reason}};
    return {...base, symptoms: rulesAloneSymptoms(dumps), status: {kind: 'unread', reason, remedy: whatToGive(given)}};
  }
  const analysis = ready.analyze();
  return {...held, ...analysis, status: statusOf(analysis.unread)};
}

function statusOf(unread: readonly UnreadFamily[]): AnalyzedStatus {
  if (unread.length === 0) return {kind: 'checked'};
  return {kind: 'unread', reason: unread.map(({family, reason}) => `${family}: ${reason}`).join('; ')};
}

/** Objects that were not read may exist: no rule may be reported as stale or missing because of them. */
function unseenObjects({services, endpointSlices, endpoints}: ApiObjects, {current}: Dumps): string | null {
  const unseen = services === null ? 'the Services' : endpointSlices === null && endpoints === null ? 'the EndpointSlices' : null;
  if (unseen === null) return null;
  const held = services === null ? [...current.values()].map(describeRules).join(', ') : '';
  return `${unseen} were not read, and without them the expected rules are unknown${held === '' ? '' : `: ${held}`}`;
}

/** What rules without API objects can answer, and what to add for other questions. */
function whatToGive({node}: NodeInput): string {
  const dump = ['iptables-save', 'ip6tables-save', 'nft.json', 'ipvsadm-save'].find(file => node.files.includes(file)) ?? 'iptables-save';
  return `See what these rules do: svc-trace trace --from FILE lists the Services that they serve, svc-trace trace NAME --from FILE draws one, and svc-trace packet --from FILE --source IP --destination IP --port PORT --local-address IP follows one packet. To compare the rules with the cluster put the API objects beside them: a directory with api/services.json, api/endpointslices.json (or api/endpoints.json) and nodes/NAME/${dump}.`;
}

/** Why no rules of kube-proxy are expected on a node; null if kube-proxy serves it. */
function servedByOther({node, api, config}: NodeInput, rulesets: ReadonlyMap<Family, Ruleset>): string | null {
  const object = nodeObject(api, node.name);
  const never = object === undefined ? null : whyNoRules(object);
  if (never !== null) return never;
  const inK3s = k3sRunsKubeProxy(object, api);
  if (saysItself({node, config}) || inK3s === true || kubeProxyPod(api, node.name) !== undefined) return null;
  const nat = rulesets.get('IPv4')?.tables.get('nat');
  const chains = [...(nat?.chains.keys() ?? [])];
  if (chains.some(name => name.startsWith('KUBE-SVC-') || name === 'KUBE-SERVICES')) return null;
  if (chains.some(name => name.startsWith('CILIUM_')))
    return 'the node has rules of Cilium and none of kube-proxy: Cilium serves its Services';
  if (chains.some(name => name.startsWith('OVN-KUBE-')))
    return 'the node has rules of OVN-Kubernetes and none of kube-proxy: OVN-Kubernetes serves its Services';
  return inK3s === false
    ? 'the node has no rules of kube-proxy, which is disabled (--disable-kube-proxy): another program serves its Services'
    : null;
}

/** A kube-proxy that runs on the node answered. */
function saysItself({node, config}: Pick<NodeInput, 'node' | 'config'>): boolean {
  return config.mode.source === 'proxy-mode' || node.files.includes('kube-proxy-version');
}
