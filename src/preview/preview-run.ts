import {heldIn} from '../model/once.ts';
import {isExcerpt} from '../analyze/iptables/excerpt.ts';
import {whyNoRules} from '../analyze/iptables/node-rulesets.ts';
import {servedInAnyFamily} from '../expect/cluster/served-port.ts';
import {hasCiliumTables} from '../expect/cilium/cilium-node.ts';
import {compareText, someOf} from '../model/text.ts';
import {ClusterView} from '../expect/cluster/cluster-view.ts';
import {oldestNftMinor} from '../expect/nftables/nft-versions.ts';
import {pushTo} from '../model/lists.ts';
import {
  type Advice,
  isStandIn,
  type Preview,
  type PreviewChange,
  type PreviewedPort,
  type PreviewNode,
  type PreviewPlan,
  type PreviewSettings,
  type PreviewSide,
  type Requirement,
} from '../model/preview-result.ts';
import {defaultOfKubeProxy, type ProxyConfig} from '../model/proxy-config.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {portKey} from './alike-ports.ts';
import type {ServedPort} from '../model/endpoint.ts';
import {adviceOf} from './advice/advice.ts';
import type {NodeAdvice} from './advice/advice-case.ts';
import {isSameConfig, nodeSetup, type NodeSetup, type PlannedChange, plannedConfig, plannedSettings} from './sides.ts';
import {type KnownWalks, previewNode} from './preview-node.ts';
import {maxPreviewClasses} from './proof.ts';
import {requirementsOf} from './requirements.ts';
import {writableModes} from './rules/write-expected-rules.ts';

export interface PreviewRunInput {
  readonly api: ApiObjects;
  readonly plan: PlannedChange;
  /** The API objects after the change; the current ones if no objects are planned. */
  readonly apiAfter: ApiObjects;
  readonly selects: (port: ServicePort) => boolean;
  /** See `Preview.scope`. */
  readonly scope: readonly string[];
  readonly services: number;
  readonly expectedOnly: boolean;
  /** Whether each outcome of a change says by which rules; by default not. */
  readonly paths?: boolean;
  readonly notes: readonly string[];
}

/** A preview in progress: nodes are added one by one, and the dumps of each are dropped. */
export class PreviewRun {
  readonly #input: PreviewRunInput;
  readonly #view: ClusterView;
  readonly #viewAfter: ClusterView;
  /** Of the nodes so far, for those after them. */
  readonly #walked: KnownWalks = new Map();
  readonly #nodes: PreviewNode[] = [];
  readonly #requirements: Requirement[] = [];
  readonly #changes: PreviewChange[] = [];
  readonly #ports = new Map<string, Omit<PreviewedPort, 'status' | 'reason'> & {readonly gap: string | null}>();
  readonly #effort = {left: maxPreviewClasses};
  /** By node. */
  readonly #advice = new Map<string, NodeAdvice[]>();
  /** Nodes whose proxy mode nothing tells. */
  readonly #guessed: string[] = [];
  /** Nodes by their settings on both sides. */
  readonly #settings = new Map<string, string[]>();
  readonly #before = new Set<string>();
  readonly #after = new Set<string>();
  /** Shown only if no node was checked. */
  readonly #unread = {before: new Set<string>(), after: new Set<string>()};

  constructor(input: PreviewRunInput) {
    this.#input = input;
    this.#view = new ClusterView(input.api);
    this.#viewAfter = input.apiAfter === input.api ? this.#view : new ClusterView(input.apiAfter);
  }

  /** A node that could not be read. */
  addUnread(name: string, reason: string): void {
    this.#nodes.push({name, basis: 'unread', reason});
  }

  add(node: NodeDump): void {
    this.#add(node, this.#input.expectedOnly);
  }

  /** A node whose rules may not be read: both sides are computed. */
  addExpected(node: NodeDump, reason: string): void {
    this.#add(node, true, reason);
  }

  #add(node: NodeDump, expectedOnly: boolean, reason?: string): void {
    const {api, plan, selects, paths = false} = this.#input;
    const viewAfter = this.#viewAfter;
    const setup = nodeSetup({node, api, view: this.#view, overrides: {}});
    const configAfter = plannedConfig(setup, plan);
    const basis = basisOf(setup, configAfter, expectedOnly);
    const lack = basis.basis === 'actual' && !setup.facts.allAddresses ? `its addresses were not read: ${onlyOfNodeObject}` : reason;
    this.#nodes.push(lack === undefined ? basis : {reason: lack, ...basis});
    const isUnread = basis.basis === 'unread';
    (isUnread ? this.#unread.before : this.#before).add(JSON.stringify(sideOf(setup.config)));
    (isUnread ? this.#unread.after : this.#after).add(JSON.stringify(sideOf(configAfter)));
    // A mode that a version does not have is told even where nothing can be compared.
    if (isUnread && !isWithoutMode(configAfter)) return;
    const requirements = requirementsOf({setup, configAfter, viewAfter});
    for (const requirement of requirements) this.#requirements.push(requirement);
    if (isUnread) return;
    const {name} = node;
    pushTo(this.#settings, JSON.stringify([plannedSettings(setup.config), plannedSettings(configAfter)]), name);
    if (basis.basis === 'expected' && setup.config.mode.source === defaultOfKubeProxy) this.#guessed.push(node.name);
    for (const said of adviceOf({setup, configAfter})) this.#advise(said, node.name);
    if (isSameConfig(setup.config, configAfter) && viewAfter === setup.view) return;
    const found = previewNode({setup, viewAfter, configAfter, expectedOnly, selects, paths, walked: this.#walked, effort: this.#effort});
    const standIn = requirements.find(isStandIn)?.detail ?? null;
    for (const {item, gap} of found.ports) this.#addPort(item, standIn ?? gap);
    for (const {change, isUnusedPort} of found.changes) {
      const {cause, effect} = change;
      if (isUnusedPort)
        this.#advise({topic: 'change', ...cause, effect, reason: `${cause.reason}: ${answerText(change)}`, ofCluster: true}, node.name);
      else this.#changes.push(change);
    }
  }

  #addPort(item: ServedPort, gap: string | null): void {
    const key = portKey(item);
    const {namespace, service: name, portName, protocol, port} = item.port;
    const known = this.#ports.get(key) ?? {service: {namespace, name}, port: {name: portName, protocol, port}, gap};
    this.#ports.set(key, {...known, gap: known.gap ?? gap});
  }

  #previewedPorts(): readonly PreviewedPort[] {
    const keyOfChange = ({service, port}: PreviewChange): string => `${service.namespace}/${service.name}:${port.protocol}:${port.port}`;
    const changed = new Set(this.#changes.map(keyOfChange));
    return [...this.#ports]
      .toSorted(([a], [b]) => compareText(a, b))
      .map(([key, {gap, ...port}]) => ({
        ...port,
        status: changed.has(key) ? 'differs' : gap === null ? 'same' : 'not-proved',
        reason: gap ?? undefined,
      }));
  }

  result(): Preview {
    const {services, scope, notes: given} = this.#input;
    const guessed = this.#guessed.length === 0 ? null : someOf(this.#guessed.toSorted(), {noun: 'node'});
    const ofMode = `the proxy mode of today is not known on ${guessed}: iptables, kube-proxy's default, is taken`;
    const notes = guessed === null ? given : [...given, ofMode];
    return {
      services,
      scope,
      notes,
      settings: [...this.#settings].map(([text, nodes]) => settingsOf(text, nodes)),
      before: joined(this.#before.size > 0 ? this.#before : this.#unread.before),
      after: joined(this.#after.size > 0 ? this.#after : this.#unread.after),
      nodes: this.#nodes.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      requirements: this.#requirements.toSorted(byNode),
      ports: this.#previewedPorts(),
      changes: this.#changes.toSorted(byNode),
      advice: mergedAdvice(this.#advice),
    };
  }

  #advise(said: NodeAdvice, node: string): void {
    pushTo(this.#advice, node, said);
  }
}

function byNode(a: {readonly node: string}, b: {readonly node: string}): number {
  return a.node < b.node ? -1 : a.node > b.node ? 1 : 0;
}

/** What is said of several nodes is said once, in whatever order the nodes were read. */
function mergedAdvice(advice: ReadonlyMap<string, readonly NodeAdvice[]>): readonly Advice[] {
  const merged = new Map<string, {readonly said: NodeAdvice; readonly nodes: string[]}>();
  for (const [node, all] of [...advice].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    for (const said of all) {
      const known = heldIn(merged, `${said.topic} ${said.reason}`, () => ({said, nodes: []}));
      if (!known.nodes.includes(node)) known.nodes.push(node);
    }
  return [...merged.values()].map(({said: {ofCluster, ...said}, nodes}) => ({...said, nodes: ofCluster === true ? [] : nodes}));
}

function answerText({effect}: PreviewChange): string {
  if (effect === 'refused') return 'such connections time out today and will be refused';
  if (effect === 'unanswered') return 'such connections are refused today and will time out';
  return effect;
}

function settingsOf(text: string, nodes: readonly string[]): PreviewPlan['settings'][number] {
  const [before = {}, after = {}] = JSON.parse(text) as PreviewSettings[];
  return {nodes: nodes.toSorted(), before, after};
}

function isWithoutMode({mode, version}: ProxyConfig): boolean {
  return mode.value === 'nftables' && version.value.minor < oldestNftMinor;
}

export const servedByCilium = 'Cilium serves its Services, and a preview is about rules of kube-proxy; --expected-only computes both sides';

/** Whether a node can be previewed. */
export function basisOf({node, config, dumps, nft, ipvs, api, view}: NodeSetup, after: ProxyConfig, expectedOnly: boolean): PreviewNode {
  const {name} = node;
  const unread = (reason: string): PreviewNode => ({name, basis: 'unread', reason});
  const unsupported = [config, after].find(({mode}) => !writableModes.includes(mode.value));
  if (unsupported !== undefined) return unread(`the rules of ${unsupported.mode.value} mode are not known`);
  if (api.services === null) return unread('the Services were not read');
  if (api.endpointSlices === null && api.endpoints === null) return unread('the EndpointSlices were not read');
  if (isWithoutMode(after)) return unread(`kube-proxy ${after.version.value.text} has no nftables mode`);
  if (expectedOnly) return {name, basis: 'expected'};
  const mode = config.mode.value;
  const isRead =
    mode === 'nftables' ? nft() !== null : mode === 'ipvs' ? ipvs().servers !== null && dumps.current.size > 0 : dumps.current.size > 0;
  if (isRead && [...dumps.current.values()].some(dump => dump.truncation !== null || isExcerpt(dump)))
    return unread('its dump shows a part of its rules; --expected-only computes both sides');
  const unreadFamily = mode === 'nftables' ? undefined : servedInAnyFamily({view, config}).find(({family}) => !dumps.current.has(family));
  if (isRead && unreadFamily !== undefined) return unread(`${whyNoRules(node, unreadFamily.family)}; --expected-only computes both sides`);
  if (isRead) return {name, basis: 'actual'};
  return unread(hasCiliumTables(node) ? servedByCilium : `the rules of ${mode} mode were not read; --expected-only computes both sides`);
}

function sideOf({mode, version}: ProxyConfig): PreviewSide {
  return {proxyMode: mode.value, kubeProxyVersion: version.value.text};
}

export const onlyOfNodeObject = 'node ports at others than those of its Node object are not compared';

/** Nodes may differ: then all their values are named. */
function joined(sides: ReadonlySet<string>): PreviewSide {
  const all = [...sides].map(text => JSON.parse(text) as PreviewSide);
  const distinct = (values: readonly string[]): string => [...new Set(values)].sort().join(', ');
  return {
    proxyMode: distinct(all.map(({proxyMode}) => proxyMode)),
    kubeProxyVersion: distinct(all.map(({kubeProxyVersion}) => kubeProxyVersion)),
  };
}
