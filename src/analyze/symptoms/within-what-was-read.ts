import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import type {Symptom} from './symptom.ts';

/**
 * The symptoms that hold even if not all Services were read: rules of a Service that was not read are not stale. Unattributed rules are
 * only reported if they affect the Services that were read.
 */
export function withinWhatWasRead(
  symptoms: readonly Symptom[],
  {services, namespaces}: Pick<ApiObjects, 'services' | 'namespaces'>,
): readonly Symptom[] {
  if (namespaces === undefined) return symptoms;
  const whole = new Set(namespaces);
  const read = new Set((services ?? []).map(({metadata}) => namespacedName(metadata)));
  return symptoms.filter(({kind, port, service, severity}) => {
    if (port !== null) return true;
    if (kind === 'orphan-chain') return false;
    if (service !== undefined) return whole.has(service.namespace) || read.has(namespacedName(service));
    if (kind === 'stale-service') return false;
    return kind !== 'unexpected-rule' || (severity ?? 'info') !== 'info';
  });
}
