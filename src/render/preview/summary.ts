import {namespacedName} from '../../model/text/namespaced-name.ts';
import type {Preview, PreviewEffect} from '../../model/preview.ts';

/** The counts of a preview. Every affected Service is counted once: as lost, else as gained, else as other, else as healed. */
export interface PreviewSummary {
  readonly verdict: 'same' | 'changes' | 'incomplete';
  readonly services: number;
  readonly affectedServices: number;
  readonly lost: number;
  /** Of `lost`: those that lose packets to their cluster IP. */
  readonly lostClusterIPs: number;
  readonly gained: number;
  readonly other: number;
  /** Only faults of today's rules are healed, as any restart of kube-proxy does. Not among `affectedServices`. */
  readonly healed: number;
  readonly nodesChecked: number;
  readonly nodesUnread: number;
}

export function summarizePreview({changes, advice, nodes, services, requirements}: Preview): PreviewSummary {
  const effects = new Map<string, Set<PreviewEffect>>();
  const clusterIPs = new Set<string>();
  const healed = new Set<string>();
  for (const {service, effect, entry, cause} of changes) {
    const name = namespacedName(service);
    if (cause.id === 'healed') healed.add(name);
    else effects.set(name, (effects.get(name) ?? new Set()).add(effect));
    if (cause.id !== 'healed' && effect === 'lost' && entry.kind === 'clusterIP') clusterIPs.add(name);
  }
  const all = [...effects.values()];
  const lost = all.filter(set => set.has('lost')).length;
  const gained = all.filter(set => set.has('gained') && !set.has('lost')).length;
  const nodesUnread = nodes.filter(({basis}) => basis === 'unread').length;
  const isChanged =
    changes.length > 0 || advice.some(({topic}) => topic === 'change') || requirements.some(({status}) => status === 'unmet');
  return {
    verdict: isChanged ? 'changes' : nodesUnread > 0 || nodes.length === 0 ? 'incomplete' : 'same',
    ...{services, affectedServices: all.length, lost, lostClusterIPs: clusterIPs.size, gained, other: all.length - lost - gained},
    healed: [...healed].filter(name => !effects.has(name)).length,
    ...{nodesChecked: nodes.length - nodesUnread, nodesUnread},
  };
}
