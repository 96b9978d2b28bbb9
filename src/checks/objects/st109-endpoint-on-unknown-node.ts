import {someOf} from '../../model/text/some-of.ts';
import type {Check} from '../check.ts';
import {unusualEntries} from './port-entries.ts';
import {nameOf, ofPort} from '../service-observation.ts';
import {whyNowhereLocal} from './st108-local-policy-nowhere-local.ts';
import {showSlices} from '../commands/service-commands.ts';

export const endpointOnUnknownNode: Check<'ST109'> = {
  code: 'ST109',
  name: 'endpoint-on-unknown-node',
  severity: 'warning',
  summary: "An endpoint's nodeName is no Node of the cluster: it is local nowhere",
  remedy: 'Correct nodeName in the EndpointSlice, or find out why the Node was deleted while its pods are still endpoints.',
  // Silent under a Local traffic policy, for which ST108 reports it.
  *cluster(context) {
    if (context.api.nodes === null) return;
    const nodes = new Set(context.api.nodes.map(({metadata}) => metadata.name));
    for (const entry of unusualEntries(context)) {
      const {port, set} = entry;
      if (whyNowhereLocal(entry, context) !== null) continue;
      const lost = set.endpoints.filter(({nodeName}) => nodeName !== null && !nodes.has(nodeName));
      if (lost.length === 0) continue;
      const names = someOf([...new Set(lost.map(({nodeName}) => nodeName ?? ''))]);
      yield {
        ...ofPort(port),
        ...showSlices(nameOf(port.object), 'yaml'),
        message: `${port.servicePortName}: ${lost.length} of ${set.endpoints.length} endpoints name a node that the cluster does not have (${names}): they are local to no node`,
      };
    }
  },
};
