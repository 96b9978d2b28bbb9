import {writtenAt} from '../expect/api-index.ts';
import {readAt} from './kube-proxy.ts';
import {largest} from '../model/lists.ts';
import {proxyVersion} from '../expect/cluster/service-ports.ts';
import {type PortEntry, serviceKey} from '../expect/cluster/cluster-view.ts';
import type {NodeCheckContext} from './check.ts';
import {check} from './catalog.ts';
import {ofPort} from '../model/finding.ts';
import {commandLine} from '../model/text.ts';
import {run} from './commands/commands.ts';
import {gracePeriod} from '../model/state-history.ts';

export const changedWhileLooking = check('ST904', {
  *node(context) {
    const now = readAt(context);
    // If the Services were followed, the states that the node may have are known, and no warning is needed.
    if (now === null || context.isFollowed) return;
    const reported = new Set<string>();
    const ports = context.symptoms.flatMap(({port}) => port ?? []);
    for (const port of ports) {
      if (reported.has(serviceKey(port))) continue;
      reported.add(serviceKey(port));
      const age = Math.round((now - lastChange({port}, context)) / 1000);
      if (age >= gracePeriod || age < -gracePeriod) continue;
      const message = `${serviceKey(port)} changed ${Math.max(age, 0)} s before ${context.node.name} was read: kube-proxy may not have followed yet`;
      yield {...ofPort(port), message, ...run(commandLine`kubectl svc-trace check ${serviceKey(port)} --node ${context.node.name}`)};
    }
  },
});

function lastChange({port}: Pick<PortEntry, 'port'>, {view, config}: NodeCheckContext): number {
  const slices = view.slicesOf(serviceKey(port), proxyVersion(config));
  return largest([port.object, ...slices].map(({metadata}) => writtenAt(metadata)));
}
