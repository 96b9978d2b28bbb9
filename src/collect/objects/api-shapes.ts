import {type PathRow, pathTree, type PathTree} from '../../model/path-tree.ts';
import {isObject} from '../../parse/attempt.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';

function objectShape(...rows: readonly PathRow<Shape>[]): Shape {
  return pathTree<Shape>(
    ['string', 'metadata.{name namespace creationTimestamp deletionTimestamp resourceVersion labels.* annotations.* managedFields[].time}'],
    ...rows,
  );
}

/** The lists of API objects, each with the fields that are read of its objects: see `model/api-objects.ts`. */
export const shapes = {
  services: objectShape(
    ['string', 'spec.{type clusterIP clusterIPs[] ipFamilies[] ports[].{name protocol} externalIPs[] loadBalancerSourceRanges[]}'],
    ['string', 'spec.{externalTrafficPolicy internalTrafficPolicy sessionAffinity selector.* topologyKeys[]}'],
    ['string', 'status.loadBalancer.ingress[].{ip hostname ipMode}'],
    ['number', 'spec.{ports[].{port nodePort} healthCheckNodePort sessionAffinityConfig.clientIP.timeoutSeconds}'],
    ['boolean', 'spec.{publishNotReadyAddresses allocateLoadBalancerNodePorts}'],
  ),
  endpointSlices: objectShape(
    ['string', 'addressType ports[].{name protocol} endpoints[].{addresses[] topology.* deprecatedTopology.* nodeName zone}'],
    ['string', 'endpoints[].{targetRef.{kind name namespace} hints.{forZones[].name forNodes[].name}}'],
    ['number', 'ports[].port'],
    ['boolean', 'endpoints[].conditions.{ready serving terminating}'],
  ),
  endpoints: objectShape(
    ['string', 'subsets[].{addresses[].{ip nodeName targetRef.{kind name namespace}} ports[].{name protocol}}'],
    ['number', 'subsets[].ports[].port'],
  ),
  nodes: objectShape(
    ['string', 'spec.{podCIDR podCIDRs[]} status.addresses[].{type address}'],
    ['string', 'status.nodeInfo.{kubeProxyVersion kubeletVersion operatingSystem kernelVersion}'],
  ),
  pods: objectShape(
    ['string', 'spec.{nodeName volumes[].{name configMap.name} containers[].{name image command[] args[] ports[].{hostIP protocol}}}'],
    ['string', 'status.{phase podIP podIPs[].ip conditions[].{type status lastTransitionTime}}'],
    ['number', 'spec.containers[].ports[].{containerPort hostPort}'],
    ['boolean', 'spec.hostNetwork'],
  ),
  configMaps: objectShape(['string', 'data.*']),
  serviceCIDRs: objectShape(['string', 'spec.cidrs[]']),
  networkPolicies: objectShape(
    ['string', 'spec.{policyTypes[] podSelector.{matchLabels.* matchExpressions[].{key operator values[]}}}'],
    ['string', 'spec.ingress[].{from[].ipBlock.{cidr except[]} ports[].protocol}'],
    ['number', 'spec.ingress[].ports[].endPort'],
  ),
} satisfies Partial<Readonly<Record<keyof ApiObjects, Shape>>>;

export type ListName = keyof typeof shapes;
export type ObjectOf<Name extends ListName> = NonNullable<ApiObjects[Name]>[number];

/**
 * The items of a list that have a name and the shape; the others are left out and reported. `origin` is the name of the list in messages.
 * `leftOut`: unusable items, unchanged.
 */
export function usableItems<T>(origin: string, list: readonly unknown[], shape: Shape) {
  const problems: Problem[] = [];
  const leftOut: unknown[] = [];
  const items = list.filter((item, index): item is T => {
    const wrong = whyUnusable(item, shape);
    if (wrong !== null) {
      problems.push({message: `${origin}: item ${index} is left out: ${wrong}`});
      leftOut.push(item);
    }
    return wrong === null;
  });
  return {items, leftOut, problems};
}

/** Checks the assumption of the rest of the program: that the fields it reads have the right types. */
export function whyUnusable(item: unknown, shape: Shape): string | null {
  if (typeof item !== 'object' || item === null) return 'it is not an object';
  const {metadata} = item as {readonly metadata?: unknown};
  if (typeof metadata !== 'object' || metadata === null) return 'it has no metadata';
  if (typeof (metadata as {readonly name?: unknown}).name !== 'string') return 'it has no metadata.name';
  const wrong = whyMalformed(item, shape, '');
  return wrong === null ? null : `its ${wrong}`;
}

/**
 * The type that the program expects of a part of an API object: a plain value, a list, a map, or an object with fields. Other fields are
 * not read, and may contain anything.
 */
export type Shape = 'string' | 'number' | 'boolean' | PathTree<Shape>;

/**
 * Describes the first value with another shape, such as `spec.ports[0].port is not a number`; null if there is none. Removes fields that are
 * null: the program treats them like missing ones.
 */
export function whyMalformed(value: unknown, shape: Shape, path: string): string | null {
  // Nearly every object has its shape, and a large cluster has millions of fields: a path is only built for an invalid one.
  return testOf(shape)(value) ? null : firstFault(value, shape, path);
}

type Test = (value: unknown) => boolean;

/** The test of a shape is made once: for so many fields, looking through the shape for each takes twice as long. */
const tests = new WeakMap<Shape & object, Test>();

function testOf(shape: Shape): Test {
  if (typeof shape === 'string') return value => typeof value === shape;
  const known = tests.get(shape) ?? makeTest(shape);
  tests.set(shape, known);
  return known;
}

function makeTest(shape: Shape & object): Test {
  const {'[]': ofItems, '*': ofValues} = shape;
  const inner = ofItems ?? ofValues;
  if (inner === undefined) return testOfFields(shape);
  const hasShape = testOf(inner);
  const areAll = (list: readonly unknown[]): boolean => {
    for (const entry of list) if (!hasShape(entry)) return false;
    return true;
  };
  if (ofItems !== undefined) return value => Array.isArray(value) && areAll(value);
  return value => isObject(value) && areAll(Object.values(value));
}

function testOfFields(fields: PathTree<Shape>): Test {
  // A field of a plain type needs no call.
  const all = Object.entries(fields).map(([name, shape]) => ({
    name,
    type: typeof shape === 'string' ? shape : null,
    hasShape: testOf(shape),
  }));
  return object => {
    if (!isObject(object)) return false;
    for (const {name, type, hasShape} of all) {
      const value = object[name];
      if (value === undefined || typeof value === type) continue;
      if (value === null) delete object[name];
      else if (type !== null || !hasShape(value)) return false;
    }
    return true;
  };
}

function firstFault(value: unknown, shape: Shape, path: string): string | null {
  if (typeof shape === 'string') return typeof value === shape ? null : `${path} is not a ${shape}`;
  const {'[]': ofItems, '*': ofValues} = shape;
  if (ofItems !== undefined)
    return Array.isArray(value) ? faultIn(value.entries(), ofItems, index => `${path}[${index}]`) : `${path} is not a list`;
  if (!isObject(value)) return `${path} is not an object`;
  if (ofValues !== undefined) return faultIn(Object.entries(value), ofValues, key => `${path}.${key}`);
  return faultOfFields(value, shape, path);
}

function faultIn<Key>(entries: Iterable<[Key, unknown]>, item: Shape, pathOf: (key: Key) => string): string | null {
  for (const [key, entry] of entries) {
    const fault = firstFault(entry, item, pathOf(key));
    if (fault !== null) return fault;
  }
  return null;
}

function faultOfFields(object: Record<string, unknown>, fields: PathTree<Shape>, path: string): string | null {
  for (const [name, shape] of Object.entries(fields)) {
    const value = object[name];
    const fault = value === undefined || value === null ? null : firstFault(value, shape, path === '' ? name : `${path}.${name}`);
    if (fault !== null) return fault;
  }
  return null;
}

/**
 * Call it when something large was read and is no longer needed. The executables run on Bun, whose garbage collector frees large buffers
 * and strings late: without this they would stay in memory until the end. Node.js needs no call.
 */
export function dropGarbage(): void {
  const {Bun} = globalThis as {readonly Bun?: {gc(force: boolean): void}};
  Bun?.gc(true);
}
