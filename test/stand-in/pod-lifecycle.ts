import {randomBytes, randomUUID} from 'node:crypto';
import type {ObjectStore, StoredObject} from './object-store.ts';
import type {ResourceRequest} from './resources.ts';
import {typed} from './object-store.ts';
import {type Answer, failure, notFound} from './status.ts';

/** How pods live here: all delays in milliseconds. */
export interface PodOptions {
  /** From Pending to Running. */
  readonly startDelay: number;
  /** From a request to delete it until it is gone; one that is given no grace period is gone at once. */
  readonly stopDelay: number;
  /** The status in place of Running, such as of an image that cannot be pulled; null for Running. */
  readonly statusOf: (pod: StoredObject) => object | null;
}

/** Takes a pod as the API server does and has it started as a kubelet does. */
export function createPod(store: ObjectStore, request: ResourceRequest, body: object, options: PodOptions): Answer {
  const pod = structuredClone(body) as StoredObject;
  if (pod.metadata === undefined) return failure(400, 'the object has no metadata');
  const {generateName} = pod.metadata;
  if (!pod.metadata.name && generateName) pod.metadata.name = generateName + randomBytes(3).toString('hex').slice(0, 5);
  if (!pod.metadata.name) return failure(422, 'Pod "" is invalid: metadata.name: Required value: name or generateName is required');
  const {name} = pod.metadata;
  if (store.find('pods', request.namespace, name) !== undefined) {
    return failure(409, `pods "${name}" already exists`, {details: {name, kind: 'pods'}});
  }
  const known = Object.assign(pod, {
    metadata: {
      ...pod.metadata,
      ...{namespace: request.namespace, generation: 1, uid: randomUUID(), creationTimestamp: now()},
      labels: {...pod.metadata.labels, ...zoneLabel(store, pod)},
    },
    spec: withDefaults(pod['spec'] as PodSpec),
    status: {phase: 'Pending', qosClass: 'BestEffort'},
  });
  store.put('pods', known);
  const answer = {status: 201, body: structuredClone(typed(request, known))};
  setTimeout(() => startPod(store, known, options), options.startDelay).unref();
  return answer;
}

interface PodSpec {
  readonly nodeName?: string;
  readonly containers?: readonly {readonly name: string; readonly image: string}[];
}

/** The admission plugin PodTopologyLabels copies it from the node. */
function zoneLabel(store: ObjectStore, pod: StoredObject): Record<string, string> {
  const key = 'topology.kubernetes.io/zone';
  const zone = nodeOf(store, pod)?.metadata.labels?.[key];
  return zone === undefined ? {} : {[key]: zone};
}

function nodeOf(store: ObjectStore, pod: StoredObject): StoredObject | undefined {
  return store.find('nodes', '', (pod['spec'] as PodSpec | undefined)?.nodeName ?? '');
}

/** What the API server fills in. */
function withDefaults(spec: PodSpec = {}): object {
  return {
    ...{restartPolicy: 'Always', terminationGracePeriodSeconds: 30, dnsPolicy: 'ClusterFirst', securityContext: {}},
    ...{schedulerName: 'default-scheduler', priority: 0, enableServiceLinks: true, preemptionPolicy: 'PreemptLowerPriority'},
    ...spec,
    containers: (spec.containers ?? []).map(container => ({
      ...{resources: {}, terminationMessagePath: '/dev/termination-log', terminationMessagePolicy: 'File', imagePullPolicy: 'IfNotPresent'},
      ...container,
    })),
  };
}

function startPod(store: ObjectStore, pod: StoredObject, {statusOf}: PodOptions): void {
  const {namespace = '', name, uid} = pod.metadata;
  if (store.find('pods', namespace, name)?.metadata.uid !== uid) return;
  pod['status'] = statusOf(pod) ?? runningStatus(store, pod);
  store.put('pods', pod);
}

function runningStatus(store: ObjectStore, pod: StoredObject): object {
  const {containers = []} = pod['spec'] as PodSpec;
  const {addresses = []} = (nodeOf(store, pod)?.['status'] ?? {}) as {addresses?: readonly {type: string; address: string}[]};
  const ip = addresses.find(({type}) => type === 'InternalIP')?.address ?? '';
  const condition = (type: string) => ({type, observedGeneration: 1, status: 'True', lastProbeTime: null, lastTransitionTime: now()});
  return {
    observedGeneration: 1,
    phase: 'Running',
    conditions: ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(condition),
    ...{hostIP: ip, hostIPs: [{ip}], podIP: ip, podIPs: [{ip}], startTime: now()},
    containerStatuses: containers.map(({name, image}) => ({
      ...{name, state: {running: {startedAt: now()}}, lastState: {}, ready: true, restartCount: 0, image},
      imageID: 'sha256:93da02991dc2ec5fbcb31ad3eeb3b59c6378cd6819995177ad79d667c08c3ac6',
      containerID: 'containerd://4dec2171314ed0485b114bffbecbfb647c9257138aee2b8ce311fbf0868b5918',
      ...{started: true, resources: {}, user: {linux: {uid: 0, gid: 0, supplementalGroups: [0]}}},
    })),
    qosClass: 'BestEffort',
    resources: {},
  };
}

/** The pod is still to be seen, with a deletionTimestamp, until its containers have stopped; not where no grace is given. */
export function deletePod(store: ObjectStore, request: ResourceRequest, query: URLSearchParams, {stopDelay}: PodOptions): Answer {
  const {namespace, name} = request;
  const pod = store.find('pods', namespace, name);
  if (pod === undefined) return notFound(request);
  const grace = Number(query.get('gracePeriodSeconds') ?? 30);
  Object.assign(pod.metadata, {generation: 2, deletionTimestamp: now(), deletionGracePeriodSeconds: grace});
  store.put('pods', pod);
  const gone = () => {
    if (store.find('pods', namespace, name)?.metadata.uid === pod.metadata.uid) store.remove('pods', namespace, name);
  };
  if (grace === 0) gone();
  else setTimeout(gone, stopDelay).unref();
  return {status: 200, body: structuredClone(typed(request, pod))};
}

/** As the API server writes the time: no milliseconds. */
function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, 'Z');
}
