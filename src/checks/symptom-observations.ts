import type {Symptom} from '../analyze/symptoms/symptom.ts';
import {serviceKey} from '../expect/cluster/cluster-view.ts';
import {type AffectedService, type Observation, ofPort} from '../model/finding.ts';
import {pushTo} from '../model/lists.ts';
import type {ServicePort} from '../model/service-port.ts';

/** What a check reports of symptoms of one kind on a node, each with its symptom. */
export function symptomObservations(symptoms: readonly Symptom[]) {
  return mergeWholeServices(symptoms).map(symptom => ({symptom, observation: observationOf(symptom)}));
}

function observationOf({kind, cause, detail, port, entries: _, by, refuses: __, chains: ___, affects, ...rest}: Symptom): Observation {
  // The whole detail where it names no more than the setting, or one Service port.
  const isGist = kind === 'session-affinity-mismatch' || cause === 'scheduler' || (kind === 'postrouting-broken' && port !== null);
  return {
    ...(port === null ? {} : ofPort(port)),
    ...rest,
    message: port === null ? detail : `${port.servicePortName}: ${detail}`,
    ...(isGist ? {gist: detail} : {}),
    program: by === undefined ? undefined : ('the Cilium agent' as const),
    affects: affects === undefined ? undefined : affectedServices(affects),
  };
}

export function affectedServices(ports: readonly ServicePort[]): readonly AffectedService[] {
  const services = Map.groupBy(ports, serviceKey);
  return [...services.values()].flatMap(own => {
    const [first] = own;
    if (first === undefined) return [];
    const names = own.map(({portName, port}) => (portName === '' ? `${port}` : portName));
    return {namespace: first.namespace, name: first.service, ports: [...new Set(names)]};
  });
}

/** A Service that is missing with all its ports is one finding, not one for each port. */
function mergeWholeServices(symptoms: readonly Symptom[]): readonly Symptom[] {
  if (!symptoms.some(isOfWholePort)) return symptoms;
  const groups = new Map<string, Symptom[]>();
  for (const symptom of symptoms) {
    const key = isOfWholePort(symptom) && symptom.port !== null ? `${symptom.family} ${serviceKey(symptom.port)}` : `${groups.size}`;
    pushTo(groups, key, symptom);
  }
  return [...groups.values()].flatMap(merge);
}

function isOfWholePort({kind, port}: Symptom): boolean {
  return kind === 'service-not-programmed' && port !== null;
}

function merge(group: readonly Symptom[]): readonly Symptom[] {
  const [first] = group;
  if (first?.port === null || first === undefined || group.length < 2) return group;
  const ports = group.map(({port}) => port?.portName ?? '').join(', ');
  return [
    {
      ...first,
      port: null,
      service: {namespace: first.port.namespace, name: first.port.service},
      detail: `${serviceKey(first.port)} (ports ${ports}): ${first.detail}`,
      expected: group.flatMap(({expected}) => expected).slice(0, 8),
    },
  ];
}
