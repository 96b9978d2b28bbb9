import {createHash} from 'node:crypto';
import {type Cluster, type ClusterNode, type Endpoint, FAMILIES, type Family, type Service} from './model.ts';
import {writeText} from './text-file.ts';

/** As many endpoints as the controller puts into one slice. */
const SLICE_SIZE = 100;
const CREATED = '2026-01-01T00:00:00Z';

type JsonObject = Record<string, unknown>;

export function writeServices(path: string, cluster: Cluster): void {
  writeText(path, list(cluster.services.map(serviceObject)));
}

export function writeEndpointSlices(path: string, cluster: Cluster): void {
  writeText(path, list(slices(cluster)));
}

export function writeNodes(path: string, cluster: Cluster): void {
  writeText(path, list(cluster.fleet.map(nodeObject)));
}

/** As `kubectl get -o json` prints it: four spaces, keys by name, one list of everything. */
function* list(items: Iterable<JsonObject>): Generator<string> {
  yield '{\n    "apiVersion": "v1",\n    "items": [';
  let previous: string | undefined;
  for (const item of items) {
    if (previous !== undefined) {
      yield `${previous},`;
    }
    previous = indented(item);
  }
  if (previous !== undefined) {
    yield previous;
  }
  yield '    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}';
}

function indented(item: JsonObject): string {
  return `        ${JSON.stringify(item, null, 4).replaceAll('\n', '\n        ')}`;
}

/** Names and numbers an API server would make up, from the name of what they belong to. */
function madeUp(seed: string): {uid: string; resourceVersion: string; suffix: string} {
  const hex = createHash('sha256').update(seed).digest('hex');
  return {
    uid: `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18, 30)}`,
    resourceVersion: String(1_000_000 + (Number.parseInt(hex.slice(30, 38), 16) % 9_000_000)),
    suffix: hex.slice(38, 43),
  };
}

function serviceObject(service: Service): JsonObject {
  const {name, namespace, uid} = service;
  const selector = service.name === 'kubernetes' ? {} : {selector: {app: name}};
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      creationTimestamp: CREATED,
      labels: {app: name},
      name,
      namespace,
      resourceVersion: madeUp(uid).resourceVersion,
      uid,
    },
    spec:
      service.type === 'ExternalName'
        ? {externalName: `${name}.example.com`, sessionAffinity: 'None', type: 'ExternalName'}
        : byName({...serviceSpec(service), ...selector}),
    status: {
      loadBalancer: service.ingress.length === 0 ? {} : {ingress: service.ingress},
    },
  };
}

function serviceSpec(service: Service): JsonObject {
  const {affinitySeconds, clusterIPs, externalIPs, families, sourceRanges, type} = service;
  const fromOutside = type !== 'ClusterIP' || externalIPs.length > 0;
  return {
    ...(type === 'LoadBalancer' ? {allocateLoadBalancerNodePorts: service.ports.some(({nodePort}) => nodePort !== 0)} : {}),
    clusterIP: clusterIPs[0],
    clusterIPs,
    ...(externalIPs.length > 0 ? {externalIPs} : {}),
    ...(fromOutside ? {externalTrafficPolicy: service.externalLocal ? 'Local' : 'Cluster'} : {}),
    ...(service.healthCheckNodePort === 0 ? {} : {healthCheckNodePort: service.healthCheckNodePort}),
    internalTrafficPolicy: service.internalLocal ? 'Local' : 'Cluster',
    ipFamilies: families,
    ipFamilyPolicy: families.length === 2 ? 'RequireDualStack' : 'SingleStack',
    ...(sourceRanges.length > 0 ? {loadBalancerSourceRanges: sourceRanges} : {}),
    ports: service.ports.map(({name, nodePort, port, protocol, targetPort}) => ({
      ...(name === '' ? {} : {name}),
      ...(nodePort === 0 ? {} : {nodePort}),
      port,
      protocol,
      targetPort,
    })),
    sessionAffinity: affinitySeconds === 0 ? 'None' : 'ClientIP',
    ...(affinitySeconds === 0 ? {} : {sessionAffinityConfig: {clientIP: {timeoutSeconds: affinitySeconds}}}),
    type,
  };
}

function byName(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function* slices(cluster: Cluster): Generator<JsonObject> {
  for (const service of cluster.services) {
    if (service.type === 'ExternalName') {
      continue;
    }
    for (const family of FAMILIES.filter(candidate => service.families.includes(candidate))) {
      const endpoints = service.endpoints[family];
      // A Service without endpoints still has one slice, an empty one.
      for (let start = 0; start === 0 || start < endpoints.length; start += SLICE_SIZE) {
        yield sliceObject(service, family, endpoints.slice(start, start + SLICE_SIZE), start);
      }
    }
  }
}

function sliceObject(service: Service, family: Family, endpoints: readonly Endpoint[], start: number): JsonObject {
  const {resourceVersion, suffix, uid} = madeUp(`${service.uid} ${family} ${start}`);
  const byController = service.name !== 'kubernetes';
  const headless = service.clusterIPs[0] === 'None';
  return {
    addressType: family,
    apiVersion: 'discovery.k8s.io/v1',
    // An API server prints an empty list of either kind as null.
    endpoints: endpoints.length === 0 ? null : endpoints.map(endpoint => endpointObject(service, endpoint)),
    kind: 'EndpointSlice',
    metadata: {
      ...(byController ? {annotations: {'endpoints.kubernetes.io/last-change-trigger-time': CREATED}} : {}),
      creationTimestamp: CREATED,
      ...(byController ? {generateName: `${service.name}-`} : {}),
      generation: 1,
      labels: {
        ...(byController
          ? {
              app: service.name,
              'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
            }
          : {}),
        'kubernetes.io/service-name': service.name,
        ...(headless ? {'service.kubernetes.io/headless': ''} : {}),
      },
      name: byController ? `${service.name}-${suffix}` : service.name,
      namespace: service.namespace,
      ...(byController ? {ownerReferences: [owner(service)]} : {}),
      resourceVersion,
      uid,
    },
    ports:
      endpoints.length === 0
        ? null
        : service.ports.map(({name, protocol, targetPort}) => ({
            name,
            port: targetPort,
            protocol,
          })),
  };
}

function owner({name, uid}: Service): JsonObject {
  return {
    apiVersion: 'v1',
    blockOwnerDeletion: true,
    controller: true,
    kind: 'Service',
    name,
    uid,
  };
}

function endpointObject(service: Service, endpoint: Endpoint): JsonObject {
  const {address, pod, ready, serving, terminating} = endpoint;
  if (pod === undefined) {
    return {addresses: [address], conditions: {ready}};
  }
  return {
    addresses: [address],
    conditions: {ready, serving, terminating},
    nodeName: pod.node.name,
    targetRef: {kind: 'Pod', name: pod.name, namespace: service.namespace, uid: pod.uid},
    zone: pod.node.zone,
  };
}

function nodeObject(node: ClusterNode): JsonObject {
  const {resourceVersion, uid} = madeUp(node.name);
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      creationTimestamp: CREATED,
      labels: {
        'kubernetes.io/hostname': node.name,
        'kubernetes.io/os': 'linux',
        'topology.kubernetes.io/zone': node.zone,
      },
      name: node.name,
      resourceVersion,
      uid,
    },
    spec: {podCIDR: node.podCIDR.IPv4, podCIDRs: [node.podCIDR.IPv4, node.podCIDR.IPv6]},
    status: {
      addresses: [
        {address: node.address.IPv4, type: 'InternalIP'},
        {address: node.address.IPv6, type: 'InternalIP'},
        {address: node.name, type: 'Hostname'},
      ],
      conditions: [
        {
          lastHeartbeatTime: CREATED,
          lastTransitionTime: CREATED,
          message: 'kubelet is posting ready status',
          reason: 'KubeletReady',
          status: 'True',
          type: 'Ready',
        },
      ],
      nodeInfo: {
        architecture: 'amd64',
        kubeProxyVersion: '',
        kubeletVersion: 'v1.36.2',
        operatingSystem: 'linux',
      },
    },
  };
}
