import {join} from 'node:path';
import {kustomize, type Overlay} from '../../tools/chart.ts';
import type {AppliedObject} from './apply-server.ts';

/** The folder of the manifests. */
export const deployFolder = join(import.meta.dirname, '../../deploy');

export type {Overlay} from '../../tools/chart.ts';

/** What people put together of the folders of deploy/. */
export const overlays: Readonly<Record<string, Overlay>> = {
  cronjob: {resources: ['cronjob']},
  'cronjob with OpenReports': {resources: ['cronjob'], components: ['openreports']},
  'cronjob with PolicyReports': {resources: ['cronjob'], components: ['policyreport']},
  "cronjob that may read kube-proxy's pages": {resources: ['cronjob'], components: ['nodes-proxy']},
  agents: {resources: ['agents']},
  'agents that read Cilium too': {resources: ['agents'], components: ['cilium']},
  'agents with a job that collects their results': {resources: ['agents'], components: ['gather']},
  'agents with a job that writes OpenReports': {resources: ['agents'], components: ['gather', 'openreports']},
  'agents with a job that writes PolicyReports': {resources: ['agents'], components: ['gather', 'policyreport']},
  'agents with monitoring': {resources: ['agents'], components: ['prometheus-operator', 'grafana']},
  'agents with everything': {resources: ['agents'], components: ['gather', 'openreports', 'prometheus-operator', 'grafana']},
};

const known = new Map<Overlay, Promise<readonly AppliedObject[]>>();

/** What `kubectl kustomize` makes of it. */
export function built(overlay: Overlay): Promise<readonly AppliedObject[]> {
  const objects = known.get(overlay) ?? Promise.resolve(kustomize(overlay));
  known.set(overlay, objects);
  return objects;
}

/** Throws where there is none of that name. */
export function overlayNamed(name: string): Overlay {
  const overlay = overlays[name];
  if (overlay === undefined) throw new Error(`there is no overlay ${name}`);
  return overlay;
}
