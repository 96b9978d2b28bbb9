import type {AppliedObject} from './apply-server.ts';

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly {readonly name: string}[];
  readonly volumeMounts?: readonly {readonly name: string; readonly mountPath: string}[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly resources: Readonly<Record<'requests' | 'limits', Readonly<Record<string, string>>>>;
}

export interface PodSpec {
  readonly hostNetwork?: boolean;
  readonly serviceAccountName: string;
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes?: readonly object[];
  readonly securityContext: Readonly<Record<string, unknown>>;
}

/** The pods of DaemonSets and CronJobs. */
export function podsOf(objects: readonly AppliedObject[]): readonly PodSpec[] {
  return objects.flatMap(object => {
    const {spec} = object as unknown as {readonly spec: Readonly<Record<string, unknown>>};
    if (object.kind === 'DaemonSet') return [(spec as {template: {spec: PodSpec}}).template.spec];
    return object.kind === 'CronJob' ? [(spec as {jobTemplate: {spec: {template: {spec: PodSpec}}}}).jobTemplate.spec.template.spec] : [];
  });
}

/** Those that prepare first. */
export function containersOf({containers, initContainers = []}: PodSpec): readonly Container[] {
  return [...initContainers, ...containers];
}
