import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import type {NftCase, NftPortDifference} from './nft-case.ts';
import {targetsOf} from './nft-outcome.ts';
import {leadsIn} from './service-port/nft-semantics.ts';
import {pushTo} from '../../model/lists.ts';

/** Service ports that the API does not have and the node still answers for: one symptom each, with all their elements. */
export function staleNftServices(given: NftCase, elements: readonly NftPortDifference[]): readonly Symptom[] {
  const groups = new Map<string, NftPortDifference[]>();
  for (const element of elements) {
    const name = nameOf(element);
    pushTo(groups, name, element);
  }
  return [...groups].map(([name, group]) => (name === '' ? unexpectedElements(given, group) : staleService(given, name, group)));
}

function nameOf({rule, comment}: NftPortDifference): string {
  const named = targetsOf(rule).map(chain => parseNftName(chain)?.servicePortName);
  return named.find(name => name !== undefined) ?? comment ?? '';
}

function staleService({expected, actual}: NftCase, name: string, elements: readonly NftPortDifference[]): Symptom {
  const served = elements.some(
    element => leadsIn(element.name) && targetsOf(element.rule).some(chain => (actual.chain(chain)?.ruleCount ?? 0) > 0),
  );
  const service = serviceOf(name);
  const live = service !== null && expected.ports.some(({port}) => port.namespace === service.namespace && port.service === service.name);
  const state = live ? 'no such port of the Service is in the API (any more)' : 'the API has no such Service (any more)';
  const detail = served ? `still answers for ${name}: ${state}` : `still refuses packets for ${name}: ${state}`;
  return {
    kind: 'stale-service',
    severity: served ? 'error' : 'info',
    family: expected.context.family,
    port: null,
    ...(service === null ? {} : {service}),
    detail,
    expected: [],
    actual: elements.map(({rule}) => rule).slice(0, 6),
  };
}

function serviceOf(name: string): ServiceName | null {
  const found = /^([^/]+)\/([^:]+)/.exec(name);
  return found === null ? null : {namespace: found[1] ?? '', name: found[2] ?? ''};
}

/** Unattributed elements, at addresses of no Service. */
function unexpectedElements({expected}: NftCase, elements: readonly NftPortDifference[]): Symptom {
  const takes = elements.some(({name}) => leadsIn(name));
  const count = elements.length === 1 ? 'an element' : `${elements.length} elements`;
  const detail = `${count} of ${elements[0]?.name} that kube-proxy would not have written: ${takes ? 'they intercept packets to addresses of no Service' : 'no packet of a Service matches them'}`;
  return {
    kind: 'unexpected-rule',
    severity: takes ? 'warning' : 'info',
    family: expected.context.family,
    port: null,
    detail,
    expected: [],
    actual: elements.map(({rule}) => rule).slice(0, 6),
  };
}
