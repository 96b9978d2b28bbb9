import type {Endpoint} from '../../model/endpoint.ts';
import type {Check} from '../check.ts';
import {unusualEntries} from './port-entries.ts';
import {nameOf, ofPort} from '../service-observation.ts';
import {showSlices} from '../commands/service-commands.ts';

export const duplicateEndpoint: Check<'ST103'> = {
  code: 'ST103',
  name: 'duplicate-endpoint',
  severity: 'warning',
  summary: 'The same address and port stand in several slices with conditions that disagree',
  remedy:
    'Find out which of the EndpointSlices is out of date, and who owns it (label endpointslice.kubernetes.io/managed-by). kube-proxy keeps one of the entries; which one is not always defined.',
  *cluster(context) {
    for (const {port, set} of unusualEntries(context)) {
      for (const [key, all] of set.ambiguous) {
        const message = `${port.servicePortName}: endpoint ${key} is given ${all.length} times with different content, and kube-proxy uses one of them: ${all.map(describe).join('; ')}`;
        yield {...ofPort(port), endpoint: all[0]?.hostPort ?? key, message, ...showSlices(nameOf(port.object), 'labels')};
      }
    }
  },
};

function describe({slice, ready, terminating, nodeName, hostPort}: Endpoint): string {
  return `slice ${slice}: ${hostPort} ${ready ? 'ready' : 'not ready'}${terminating ? ', terminating' : ''} on ${nodeName ?? 'no node'}`;
}
