import {once} from '../../expect/api-index.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {podOf} from '../../model/endpoint.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import type {Check} from '../check.ts';
import {showPods} from '../commands/service-commands.ts';
import {ofPort} from '../service-observation.ts';
import {askedEntries} from './port-entries.ts';

export const targetPortNotDeclared: Check<'ST112'> = {
  code: 'ST112',
  name: 'target-port-not-declared',
  severity: 'info',
  summary: 'The pods of a Service declare one port, and it is not the targetPort',
  remedy:
    'Compare targetPort with the port that the program in the container listens on. Declaring ports is optional: if it listens on targetPort, nothing is wrong.',
  *cluster(context) {
    const {pods} = context.api;
    if (pods === null || pods.length === 0) return;
    for (const entry of askedEntries(context)) {
      const declared = onlyDeclaredPort(entry, pods);
      if (declared === null) continue;
      const {port, set} = entry;
      yield {
        ...ofPort(port),
        ...showPods(port.namespace, port.object.spec?.selector ?? {}),
        message: `${port.servicePortName}: packets go to port ${set.endpoints[0]?.port}/${port.protocol} of its pods, whose containers declare ${declared} and no other port of this protocol: if nothing listens there, connections are refused`,
      };
    }
  },
};

/**
 * The only port of the protocol that each of the pods declares, if it is not the target port. Null if a pod is not known, or declares none or
 * several: then its list says too little.
 */
function onlyDeclaredPort({port, set: {endpoints}}: PortEntry, pods: readonly PodObject[]): string | null {
  const declared = new Set<string>();
  for (const endpoint of endpoints) {
    const ports = portsByPod(pods)
      .get(podOf(endpoint) ?? '')
      ?.filter(one => one.endsWith(`/${port.protocol}`));
    const [only, ...others] = new Set(ports);
    if (only === undefined || others.length > 0 || only === `${endpoint.port}/${port.protocol}`) return null;
    declared.add(only);
  }
  const [only, ...others] = declared;
  return only === undefined || others.length > 0 ? null : only;
}

/** `8080/TCP`, of all containers of a pod, by the pod's `namespace/name`. */
const portsByPod = once(
  (pods: readonly PodObject[]) =>
    new Map(
      pods.map(({metadata, spec}) => {
        const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
        const ports = containers.flatMap(container => container.ports ?? []);
        return [namespacedName(metadata), ports.map(({containerPort, protocol}) => `${containerPort}/${protocol ?? 'TCP'}`)];
      }),
    ),
);
