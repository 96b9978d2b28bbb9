import type {ClusterView} from '../cluster/cluster-view.ts';
import {hasExternalChains} from '../cluster/proxy-versions.ts';
import {hasFewEndpoints, isSameEndpoints, keptBySettings} from '../kept-rules.ts';
import type {NodeContext} from '../node-context.ts';
import {ownAddressesInRanges, type PortOnNode, writeServiceRules} from './service-rules.ts';
import {writeServiceRulesBefore124} from './service-rules-before-124.ts';

/** A rule of a chain that many Services share, without its `-A CHAIN`. */
interface SharedRule {
  readonly table: string;
  readonly chain: string;
  readonly text: string;
  /** All of it, where the rules are kept: looking up the very same string on each node takes less than making it. */
  readonly line?: string;
}

/** The rules of one Service port: those in shared chains, and the text of each chain of its own in table nat. */
export interface PortRules {
  readonly shared: readonly SharedRule[];
  readonly own: ReadonlyMap<string, string>;
  /** The next node may get the very same object. */
  readonly isKept?: true;
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
    if (kept === null || !hasFewEndpoints(item)) return render(item, context);
    const known = kept.get(item.port);
    const allowed = ownAddressesInRanges(item.port, context);
    if (
      known !== undefined &&
      known.item.large === item.large &&
      known.allowed.length === allowed.length &&
      isSameEndpoints(known.item.endpoints, item.endpoints)
    ) {
      known.node = node;
      return known.rules;
    }
    // The first endpoints of a node are those that it should have. Others are an assumption about it, and do not replace them.
    if (known?.node === node) return render(item, context);
    const {shared, own} = render(item, context);
    const rules = {shared: shared.map(withLine), own, isKept: true as const};
    kept.set(item.port, {item, rules, node, allowed});
    return rules;
  };
}

interface KeptRules {
  readonly item: PortOnNode;
  readonly rules: PortRules;
  /** All of the node's own addresses that source ranges of the Service allow, or none: they are those of the load balancer. */
  readonly allowed: readonly string[];
  /** The last node that they were for. */
  node: string;
}

const keptOf = keptBySettings<KeptRules>();

function withLine(rule: SharedRule): SharedRule {
  return {...rule, line: `-A ${rule.chain} ${rule.text}`};
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
