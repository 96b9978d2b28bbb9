import type {PodObject} from '../api-objects.ts';

/** The agent's table of Services. Without it nothing of Cilium is compared; it is missing, with the reason, where an agent could not be read. */
export const ciliumAgentTable = 'service-list.json';

/** The settings of all agents, in their namespace. */
export const ciliumConfigMap = 'cilium-config';

export function isCiliumAgent({metadata}: PodObject): boolean {
  return metadata.labels?.['k8s-app'] === 'cilium';
}
