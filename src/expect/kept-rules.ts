import {heldIn, once} from '../model/once.ts';
import type {CategorizedEndpoints, Endpoint} from '../model/endpoint.ts';
import type {Family} from '../model/address.ts';
import type {ServicePort} from '../model/service-port.ts';
import {type NodeContext, nodePortDestinations} from './node-context.ts';

/** By Service port, what was rendered for the nodes so far. */
type Kept<Rules> = Map<ServicePort, Rules>;

/** Of the last settings of each family only: if pods are recognized by the node's own CIDR, no two nodes have the same. */
interface KeptOfView<Rules> {
  readonly firstNode: string;
  readonly byFamily: Map<Family, {readonly settings: string; readonly rules: Kept<Rules>}>;
}

/**
 * A function that returns where to keep the rendered rules of Service ports, for the next nodes with the same settings: those of this node
 * may be used with the same endpoints (`isSameEndpoints`). `view` is the ClusterView. It returns null for the first node, which may be the only one.
 */
export function keptBySettings<Rules>(): (view: object, context: NodeContext) => Kept<Rules> | null {
  const byView = new WeakMap<object, KeptOfView<Rules>>();
  return (view, context) => {
    const ofView = heldIn(byView, view, () => ({firstNode: context.facts.name, byFamily: new Map()}));
    if (ofView.firstNode === context.facts.name) return null;
    const settings = settingsOf(context);
    const known = ofView.byFamily.get(context.family);
    if (known?.settings === settings) return known.rules;
    const rules: Kept<Rules> = new Map();
    ofView.byFamily.set(context.family, {settings, rules});
    return rules;
  };
}

/** All that the rules of Service ports depend on, but for the node's own address, which the sources that a Service allows may hold. */
export const settingsOf = once((context: NodeContext): string => {
  const {facts: _, nodeIP: __, nodePortCIDRs: ___, ...settings} = context;
  return JSON.stringify({...settings, hasNodePorts: nodePortDestinations(context)?.length !== 0});
});

/** The texts of many endpoints would take much memory. */
export function hasFewEndpoints({endpoints}: {readonly endpoints: CategorizedEndpoints}): boolean {
  return endpoints.reachable.length <= maxKeptEndpoints;
}

const maxKeptEndpoints = 64;

export function isSameEndpoints(a: CategorizedEndpoints, b: CategorizedEndpoints): boolean {
  if (a === b) return true;
  return a.hasAny === b.hasAny && isSameList(a.cluster, b.cluster) && isSameList(a.local, b.local) && isSameList(a.reachable, b.reachable);
}

function isSameList(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a === b || (a.length === b.length && a.every((endpoint, index) => endpoint === b[index]));
}
