import {isObject} from '../../parse/attempt.ts';
import type {Problem} from '../../model/snapshot.ts';

const strings: Shape = {list: 'string'};
const names: Shape = {map: 'string'};

const metadata: Shape = {
  fields: {
    ...fieldsOf('string', 'name namespace creationTimestamp deletionTimestamp resourceVersion'),
    labels: names,
    annotations: names,
    managedFields: {list: {fields: {time: 'string'}}},
  },
};

const slicePorts: Shape = {list: {fields: {name: 'string', port: 'number', protocol: 'string'}}};
const targetRef: Shape = {fields: {kind: 'string', name: 'string', namespace: 'string'}};
const hinted: Shape = {list: {fields: {name: 'string'}}};

/** The fields that are read of each kind of API object: see `model/api-objects.ts`. */
export const serviceShape: Shape = {
  fields: {
    metadata,
    spec: {
      fields: {
        ...fieldsOf('string', 'type clusterIP externalTrafficPolicy internalTrafficPolicy sessionAffinity'),
        clusterIPs: strings,
        ipFamilies: strings,
        ports: {list: {fields: {name: 'string', protocol: 'string', port: 'number', nodePort: 'number'}}},
        externalIPs: strings,
        loadBalancerSourceRanges: strings,
        healthCheckNodePort: 'number',
        selector: names,
        publishNotReadyAddresses: 'boolean',
        topologyKeys: strings,
        allocateLoadBalancerNodePorts: 'boolean',
        sessionAffinityConfig: {fields: {clientIP: {fields: {timeoutSeconds: 'number'}}}},
      },
    },
    status: {fields: {loadBalancer: {fields: {ingress: {list: {fields: {ip: 'string', hostname: 'string', ipMode: 'string'}}}}}}},
  },
};

export const endpointSliceShape: Shape = {
  fields: {
    metadata,
    addressType: 'string',
    endpoints: {
      list: {
        fields: {
          addresses: strings,
          conditions: {fields: {ready: 'boolean', serving: 'boolean', terminating: 'boolean'}},
          topology: names,
          deprecatedTopology: names,
          nodeName: 'string',
          targetRef,
          zone: 'string',
          hints: {fields: {forZones: hinted, forNodes: hinted}},
        },
      },
    },
    ports: slicePorts,
  },
};

export const endpointsShape: Shape = {
  fields: {
    metadata,
    subsets: {list: {fields: {addresses: {list: {fields: {ip: 'string', nodeName: 'string', targetRef}}}, ports: slicePorts}}},
  },
};

export const nodeShape: Shape = {
  fields: {
    metadata,
    spec: {fields: {podCIDR: 'string', podCIDRs: strings}},
    status: {
      fields: {
        addresses: {list: {fields: {type: 'string', address: 'string'}}},
        nodeInfo: {fields: {kubeProxyVersion: 'string', kubeletVersion: 'string', operatingSystem: 'string', kernelVersion: 'string'}},
      },
    },
  },
};

export const podShape: Shape = {
  fields: {
    metadata,
    spec: {
      fields: {
        nodeName: 'string',
        hostNetwork: 'boolean',
        volumes: {list: {fields: {name: 'string', configMap: {fields: {name: 'string'}}}}},
        containers: {
          list: {
            fields: {
              ...{name: 'string', image: 'string', command: strings, args: strings},
              ports: {list: {fields: {containerPort: 'number', hostPort: 'number', hostIP: 'string', protocol: 'string'}}},
            },
          },
        },
      },
    },
    status: {
      fields: {
        phase: 'string',
        podIP: 'string',
        podIPs: {list: {fields: {ip: 'string'}}},
        conditions: {list: {fields: {type: 'string', status: 'string', lastTransitionTime: 'string'}}},
      },
    },
  },
};

export const configMapShape: Shape = {fields: {metadata, data: names}};

export const serviceCIDRShape: Shape = {fields: {metadata, spec: {fields: {cidrs: strings}}}};

const labelSelector: Shape = {
  fields: {matchLabels: names, matchExpressions: {list: {fields: {key: 'string', operator: 'string', values: strings}}}},
};

export const networkPolicyShape: Shape = {
  fields: {
    metadata,
    spec: {
      fields: {
        podSelector: labelSelector,
        policyTypes: strings,
        ingress: {
          list: {
            fields: {
              from: {list: {fields: {ipBlock: {fields: {cidr: 'string', except: strings}}}}},
              ports: {list: {fields: {protocol: 'string', endPort: 'number'}}},
            },
          },
        },
      },
    },
  },
};

interface UsableItems<T> {
  readonly items: readonly T[];
  /** Unusable items, unchanged. */
  readonly leftOut: readonly unknown[];
  readonly problems: readonly Problem[];
}

/**
 * The items of a list that have a name and the shape; the others are left out and reported. `origin` is the name of the list in messages.
 */
export function usableItems<T>(origin: string, list: readonly unknown[], shape: Shape): UsableItems<T> {
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
export type Shape =
  | 'string'
  | 'number'
  | 'boolean'
  | {readonly list: Shape}
  | {readonly map: Shape}
  | {readonly fields: Readonly<Record<string, Shape>>};

/** Fields with plain values of one type, by their names in a text. */
export function fieldsOf(type: 'string' | 'number' | 'boolean', names: string): Readonly<Record<string, Shape>> {
  return Object.fromEntries(names.split(' ').map(name => [name, type]));
}

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
  if ('fields' in shape) return testOfFields(shape.fields);
  const hasShape = testOf('list' in shape ? shape.list : shape.map);
  const areAll = (list: readonly unknown[]): boolean => {
    for (const entry of list) if (!hasShape(entry)) return false;
    return true;
  };
  if ('list' in shape) return value => Array.isArray(value) && areAll(value);
  return value => isObject(value) && areAll(Object.values(value));
}

function testOfFields(fields: Readonly<Record<string, Shape>>): Test {
  const all = Object.entries(fields).map(([name, shape]) => ({name, hasShape: testOf(shape)}));
  return object => {
    if (!isObject(object)) return false;
    for (const {name, hasShape} of all) {
      const value = object[name];
      if (value === null) delete object[name];
      else if (value !== undefined && !hasShape(value)) return false;
    }
    return true;
  };
}

function firstFault(value: unknown, shape: Shape, path: string): string | null {
  if (typeof shape === 'string') return typeof value === shape ? null : `${path} is not a ${shape}`;
  if ('list' in shape)
    return Array.isArray(value) ? faultIn(value.entries(), shape.list, index => `${path}[${index}]`) : `${path} is not a list`;
  if (!isObject(value)) return `${path} is not an object`;
  if ('map' in shape) return faultIn(Object.entries(value), shape.map, key => `${path}.${key}`);
  return faultOfFields(value, shape.fields, path);
}

function faultIn<Key>(entries: Iterable<[Key, unknown]>, item: Shape, pathOf: (key: Key) => string): string | null {
  for (const [key, entry] of entries) {
    const fault = firstFault(entry, item, pathOf(key));
    if (fault !== null) return fault;
  }
  return null;
}

function faultOfFields(object: Record<string, unknown>, fields: Readonly<Record<string, Shape>>, path: string): string | null {
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
