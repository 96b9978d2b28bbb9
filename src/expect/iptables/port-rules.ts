import type {Endpoint} from '../../model/endpoint.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ClusterView} from '../cluster/cluster-view.ts';
import {hasExternalChains} from '../cluster/proxy-versions.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {type PortOnNode, writeServiceRules} from './service-rules.ts';
import {writeServiceRulesBefore124} from './service-rules-before-124.ts';

/** A rule of a chain that many Services share, without its `-A CHAIN`. */
interface SharedRule {
  readonly table: string;
  readonly chain: string;
  readonly text: string;
}

/** The rules of one Service port: those in shared chains, and the text of each chain of its own in table nat. */
export interface PortRules {
  readonly shared: readonly SharedRule[];
  readonly own: ReadonlyMap<string, string>;
}

/**
 * A function that renders the rules of Service ports on one node. Most are the same on every node: from the second node of a run on, they
 * are kept, and the next node with the same settings gets them without rendering. The same object means the same rules: what was found
 * with it on one node may be compared with the next.
 */
export function portRules(view: ClusterView, context: NodeContext): (item: PortOnNode) => PortRules {
  const kept = keptOf(view, context);
  const node = context.facts.name;
  return item => {
    if (kept === null || !isKept(item)) return render(item, context);
    const known = kept.get(item.port);
    if (known !== undefined && isSame(known.item, item)) {
      known.node = node;
      return known.rules;
    }
    const rules = render(item, context);
    // The first endpoints of a node are those that it should have. Others are an assumption about it, and do not replace them.
    if (known?.node !== node) kept.set(item.port, {item, rules, node});
    return rules;
  };
}

interface KeptRules {
  readonly item: PortOnNode;
  readonly rules: PortRules;
  /** The last node that they were for. */
  node: string;
}

type Kept = Map<ServicePort, KeptRules>;

/** Of the last settings of each family only: if pods are recognized by the node's own CIDR, no two nodes have the same. */
interface KeptOfView {
  readonly firstNode: string;
  readonly byFamily: Map<string, {readonly settings: string; readonly rules: Kept}>;
}

const keptByView = new WeakMap<ClusterView, KeptOfView>();

/** Null for the first node, which may be the only one. */
function keptOf(view: ClusterView, context: NodeContext): Kept | null {
  const ofView = keptByView.get(view) ?? {firstNode: context.facts.name, byFamily: new Map()};
  keptByView.set(view, ofView);
  if (ofView.firstNode === context.facts.name) return null;
  const settings = settingsOf(context);
  const known = ofView.byFamily.get(context.family);
  if (known?.settings === settings) return known.rules;
  const rules: Kept = new Map();
  ofView.byFamily.set(context.family, {settings, rules});
  return rules;
}

/** All that the rules of Service ports depend on, but for the node's own address: see `isKept`. */
export function settingsOf(context: NodeContext): string {
  const {facts: _, nodeIP: __, nodePortCIDRs: ___, ...settings} = context;
  return JSON.stringify({...settings, hasNodePorts: nodePortDestinations(context)?.length !== 0});
}

/** The node's address may be among the sources that a Service allows. The texts of many endpoints would take much memory. */
export function isKept({port, endpoints}: Pick<PortOnNode, 'port' | 'endpoints'>): boolean {
  return port.sourceRanges.length === 0 && endpoints.reachable.length <= maxKeptEndpoints;
}

const maxKeptEndpoints = 64;

function isSame(a: PortOnNode, b: PortOnNode): boolean {
  return (
    a.large === b.large &&
    a.endpoints.hasAny === b.endpoints.hasAny &&
    isSameList(a.endpoints.cluster, b.endpoints.cluster) &&
    isSameList(a.endpoints.local, b.endpoints.local) &&
    isSameList(a.endpoints.reachable, b.endpoints.reachable)
  );
}

export function isSameList(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a === b || (a.length === b.length && a.every((endpoint, index) => endpoint === b[index]));
}

function render(item: PortOnNode, context: NodeContext): PortRules {
  const shared: SharedRule[] = [];
  const own = new Map<string, string>();
  let current = '';
  let start = '';
  let text = '';
  const flush = (): void => {
    if (text !== '') own.set(current, own.has(current) ? `${own.get(current)}\n${text}` : text);
  };
  const write = (table: string, chain: string, rule: string): void => {
    if (chain === current) {
      text += `\n${start}${rule}`;
    } else if (sharedChains.has(chain)) {
      shared.push({table, chain, text: rule});
    } else {
      flush();
      current = chain;
      start = `-A ${chain} `;
      text = start + rule;
    }
  };
  if (hasExternalChains(context.version)) writeServiceRules(item, context, write);
  else writeServiceRulesBefore124(item, context, write);
  flush();
  return {shared, own};
}

const sharedChains = new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-EXTERNAL-SERVICES', 'KUBE-PROXY-FIREWALL']);
