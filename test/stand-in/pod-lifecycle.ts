import {randomBytes} from 'node:crypto';
import type {ObjectStore, StoredObject} from './object-store.ts';
import type {ResourceRequest} from './resources.ts';
import {typed} from './object-store.ts';
import {type Answer, failure, notFound} from './status.ts';

/** How pods live here: all delays in milliseconds. */
export interface PodOptions {
  /** From Pending to Running. */
  readonly startDelay: number;
  /** From a request to delete it until it is gone. */
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
  pod.metadata.namespace = request.namespace;
  if (store.find('pods', request.namespace, pod.metadata.name) !== undefined) {
    return failure(409, `pods "${pod.metadata.name}" already exists`, {details: {name: pod.metadata.name, kind: 'pods'}});
  }
  pod.metadata.creationTimestamp = now();
  pod['status'] = {phase: 'Pending', qosClass: 'BestEffort'};
  store.put('pods', pod);
  const answer = {status: 201, body: structuredClone(typed(request, pod))};
  setTimeout(() => startPod(store, pod, options), options.startDelay).unref();
  return answer;
}

function startPod(store: ObjectStore, pod: StoredObject, {statusOf}: PodOptions): void {
  const {namespace = '', name, uid} = pod.metadata;
  if (store.find('pods', namespace, name)?.metadata.uid !== uid) return;
  pod['status'] = statusOf(pod) ?? runningStatus(pod);
  store.put('pods', pod);
}

function runningStatus(pod: StoredObject): object {
  const {containers = []} = (pod['spec'] ?? {}) as {containers?: readonly {name: string; image: string}[]};
  const condition = (type: string) => ({type, status: 'True', lastProbeTime: null, lastTransitionTime: now()});
  return {
    phase: 'Running',
    conditions: ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(condition),
    hostIP: '172.18.0.11',
    podIP: '172.18.0.11',
    podIPs: [{ip: '172.18.0.11'}],
    startTime: now(),
    containerStatuses: containers.map(({name, image}) => ({
      name,
      image,
      state: {running: {startedAt: now()}},
      lastState: {},
      ready: true,
      restartCount: 0,
      started: true,
    })),
    qosClass: 'BestEffort',
  };
}

/** The pod is still to be seen, with a deletionTimestamp, until its containers have stopped. */
export function deletePod(store: ObjectStore, request: ResourceRequest, query: URLSearchParams, {stopDelay}: PodOptions): Answer {
  const {namespace, name} = request;
  const pod = store.find('pods', namespace, name);
  if (pod === undefined) return notFound(request);
  pod.metadata.deletionTimestamp = now();
  pod.metadata.deletionGracePeriodSeconds = Number(query.get('gracePeriodSeconds') ?? 30);
  store.put('pods', pod);
  setTimeout(() => {
    if (store.find('pods', namespace, name)?.metadata.uid === pod.metadata.uid) store.remove('pods', namespace, name);
  }, stopDelay).unref();
  return {status: 200, body: structuredClone(typed(request, pod))};
}

/** As the API server writes the time: no milliseconds. */
function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, 'Z');
}
