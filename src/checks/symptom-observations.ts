import type {Symptom} from '../analyze/symptoms/symptom.ts';
import {serviceKey} from '../expect/cluster/cluster-view.ts';
import type {AffectedService, Observation} from '../model/finding.ts';
import {pushTo} from '../model/lists.ts';
import type {ServicePort} from '../model/service-port.ts';

/** What a check reports of symptoms of one kind on a node, each with its symptom. */
export function symptomObservations(
  symptoms: readonly Symptom[],
): readonly {readonly symptom: Symptom; readonly observation: Observation}[] {
  return mergeWholeServices(symptoms).map(symptom => ({symptom, observation: observationOf(symptom)}));
}

function observationOf(symptom: Symptom): Observation {
  const {kind, cause, detail, port, family, severity, entry, endpoint, expected, actual, variant, remedy, affects, senders, share, by} =
    symptom;
  const service = symptom.service ?? (port === null ? undefined : {namespace: port.namespace, name: port.service});
  // The whole detail where it names no more than the setting, or one Service port.
  const isGist = kind === 'session-affinity-mismatch' || cause === 'scheduler' || (kind === 'postrouting-broken' && port !== null);
  const gist = isGist ? detail : symptom.gist;
  const subject = symptom.port === null ? '' : `${symptom.port.servicePortName}: `;
  return {
    family,
    expected,
    actual,
    message: `${subject}${detail}`,
    ...(variant === undefined ? {} : {variant}),
    ...(gist === undefined ? {} : {gist}),
    ...(by === undefined ? {} : {program: 'the Cilium agent' as const}),
    ...(service === undefined ? {} : {service}),
    ...(port === null ? {} : {port: {name: port.portName, protocol: port.protocol, port: port.port}}),
    ...(severity === undefined ? {} : {severity}),
    ...(remedy === undefined ? {} : {remedy}),
    ...(entry === undefined ? {} : {entry}),
    ...(endpoint === undefined ? {} : {endpoint}),
    ...(affects === undefined ? {} : {affects: affectedServices(affects)}),
    ...(senders === undefined ? {} : {senders}),
    ...(share === undefined ? {} : {share}),
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
