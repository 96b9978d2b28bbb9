import {usesLocalEndpoints} from '../expect/cluster/categorize-endpoints.ts';
import {usesTerminatingEndpoints} from '../expect/iptables/versions.ts';
import type {Check} from './check.ts';
import {askedEntries} from './port-entries.ts';
import {ofPort} from './service-observation.ts';

export const localPolicyNowhereLocal: Check<'ST108'> = {
  code: 'ST108',
  name: 'local-policy-nowhere-local',
  severity: 'warning',
  summary: 'A Local traffic policy, and no usable endpoint is local to any node of the cluster',
  remedy: "Give hand-made endpoints a nodeName, or set the traffic policy to Cluster: with Local, every node drops this Service's traffic.",
  // Silent for a Service without usable endpoints, which is ST101.
  *cluster(context) {
    const nodes = context.api.nodes === null ? null : new Set(context.api.nodes.map(({metadata}) => metadata.name));
    const {version, gates} = context.proxy;
    for (const {port, set} of askedEntries(context)) {
      if (!usesLocalEndpoints(port)) continue;
      const usable = set.endpoints.filter(
        ({ready, serving, terminating}) => ready || (serving && terminating && usesTerminatingEndpoints(version, gates)),
      );
      if (usable.length === 0 || usable.some(({nodeName}) => nodeName !== null && (nodes?.has(nodeName) ?? true))) continue;
      const policy = port.externalPolicyLocal ? 'externalTrafficPolicy' : 'internalTrafficPolicy';
      const reason = usable.every(({nodeName}) => nodeName === null)
        ? 'none of its endpoints names a node'
        : 'none of its endpoints is on a node of this cluster';
      yield {...ofPort(port), message: `${port.servicePortName}: ${policy} is Local, and ${reason}: every node drops this traffic`};
    }
  },
};
