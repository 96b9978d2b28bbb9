import {nodeObject, podsOnNode} from '../expect/api-index.ts';
import {k3sRunsKubeProxy} from '../expect/k3s-proxy-fields.ts';
import {runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import type {PodObject} from '../model/api-objects.ts';
import {commandLine} from '../model/text/command-line.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';
import type {Check} from './check.ts';
import {run} from './commands/service-commands.ts';

export const twoProxies: Check<'ST516'> = {
  code: 'ST516',
  name: 'two-proxies',
  severity: 'warning',
  summary: 'Two programs serve Services on the node at once',
  remedy:
    'Keep one of them, and remove the DaemonSet, the static pod or the setting of the other. Then remove what it has left: ST502 names it.',
  *node({api, node: {name}}) {
    const running = podsOnNode(api, name).filter(isRunning);
    // While a DaemonSet is updated, the old pod and the new one may both run.
    const kubeProxies = new Map(running.filter(({metadata}) => runsKubeProxy(metadata)).map(pod => [controllerOf(pod), pod]));
    const others = running.filter(servesByKubeRouter);
    const object = nodeObject(api, name);
    // RKE2 starts it as a static pod, which is one of the pods above.
    const isK3s = object?.metadata.annotations?.['k3s.io/node-args'] !== undefined;
    const ofK3s = isK3s && k3sRunsKubeProxy(object, api) === true ? ['the kube-proxy in k3s'] : [];
    const proxies = [...ofK3s, ...[...kubeProxies.values(), ...others].map(({metadata}) => `pod ${namespacedName(metadata)}`)];
    if (proxies.length < 2) return;
    yield {
      node: name,
      message: `${proxies.join(' and ')} both write rules for Services: each rewrites or removes what the other has written, and which one a packet meets depends on the order of their rules`,
      ...run(commandLine`kubectl get pods -A -o wide --field-selector ${`spec.nodeName=${name}`}`),
    };
  },
};

function isRunning({metadata, status}: PodObject): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase === 'Running';
}

/** Pods without a controller, such as static ones, are each their own. */
function controllerOf({metadata: {ownerReferences, namespace, name}}: PodObject): string {
  const owner = (ownerReferences ?? []).find(({controller, kind}) => controller === true && kind !== 'Node');
  return owner === undefined ? `${namespace}/${name}` : `${owner.kind} ${namespace}/${owner.name}`;
}

/** It serves Services unless it is told not to. */
function servesByKubeRouter({metadata, spec}: PodObject): boolean {
  const container = spec?.containers?.find(({name}) => name === 'kube-router');
  if (container === undefined || !metadata.name.startsWith('kube-router')) return false;
  const words = [...(container.command ?? []), ...(container.args ?? [])];
  return words.length > 0 && !words.some(word => /^--run-service-proxy=(?:false|0|f)$/i.test(word));
}
