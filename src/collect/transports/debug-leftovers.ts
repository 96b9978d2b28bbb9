import process from 'node:process';
import type {PodObject} from '../../model/api-objects.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import {managedBy, ownerAnnotation, podPath, podsPath, processAnnotation, thisOwner} from './debug-pod.ts';

/**
 * Deletes debug pods that a killed run left, and resolves to their names: pods that have ended, pods older than ten minutes and than their
 * intended lifetime, and pods of this user and machine whose process no longer exists. Pods of running processes stay. Rejects with an
 * ApiError. `now` is in milliseconds.
 */
export async function removeLeftovers(api: KubeApi, namespace: string, now = Date.now()): Promise<readonly string[]> {
  const {items} = await api.list<DebugPodObject>(podsPath(namespace), {labelSelector: `${managedBy.key}=${managedBy.value}`});
  const left = items
    .filter(pod => isOurs(pod) && (hasEnded(pod) || isTooOld(pod, now) || isOfDeadProcess(pod)))
    .map(({metadata}) => metadata.name);
  for (const name of left) await api.delete(podPath({namespace, name}), {gracePeriodSeconds: '0'});
  return left;
}

interface DebugPodObject extends PodObject {
  readonly spec?: PodObject['spec'] & {readonly activeDeadlineSeconds?: number};
}

/** Another tool of this name could use the same label. */
function isOurs({metadata}: DebugPodObject): boolean {
  return metadata.labels?.[managedBy.key] === managedBy.value && metadata.annotations?.[ownerAnnotation] !== undefined;
}

function hasEnded({status}: DebugPodObject): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

function isTooOld({metadata, spec}: DebugPodObject, now: number): boolean {
  const age = now - Date.parse(metadata.creationTimestamp ?? '');
  return age > Math.max(600, spec?.activeDeadlineSeconds ?? 0) * 1000;
}

function isOfDeadProcess({metadata}: DebugPodObject): boolean {
  if (metadata.annotations?.[ownerAnnotation] !== thisOwner()) return false;
  const id = Number(metadata.annotations?.[processAnnotation]);
  return Number.isInteger(id) && id > 0 && !isAlive(id);
}

function isAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}
