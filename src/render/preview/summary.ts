import {namespacedName} from '../../model/text/namespaced-name.ts';
import type {Preview, PreviewEffect} from '../../model/preview.ts';

/** The counts of a preview. Every affected Service is counted once: as lost, else as gained, else as other. */
export interface PreviewSummary {
  readonly verdict: 'same' | 'changes' | 'incomplete';
  readonly services: number;
  readonly affectedServices: number;
  readonly lost: number;
  readonly gained: number;
  readonly other: number;
  readonly nodesChecked: number;
  readonly nodesUnread: number;
}

export function summarizePreview({changes, advice, nodes, services, requirements}: Preview): PreviewSummary {
  const effects = new Map<string, Set<PreviewEffect>>();
  for (const {service, effect} of changes) {
    const name = namespacedName(service);
    effects.set(name, (effects.get(name) ?? new Set()).add(effect));
  }
  const all = [...effects.values()];
  const lost = all.filter(set => set.has('lost')).length;
  const gained = all.filter(set => set.has('gained') && !set.has('lost')).length;
  const nodesUnread = nodes.filter(({basis}) => basis === 'unread').length;
  const isChanged = all.length > 0 || advice.some(({topic}) => topic === 'change') || requirements.some(({status}) => status === 'unmet');
  return {
    verdict: isChanged ? 'changes' : nodesUnread > 0 || nodes.length === 0 ? 'incomplete' : 'same',
    ...{services, affectedServices: all.length, lost, gained, other: all.length - lost - gained},
    ...{nodesChecked: nodes.length - nodesUnread, nodesUnread},
  };
}
