import {usesLocalEndpoints} from '../../expect/cluster/categorize-endpoints.ts';
import {nodeObject} from '../../expect/api-index.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {usesTerminatingEndpoints} from '../../expect/cluster/proxy-versions.ts';
import type {Check, ClusterContext} from '../check.ts';
import {unusualEntries} from './port-entries.ts';
import {nameOf, ofPort} from '../service-observation.ts';
import {patchService} from '../commands/service-commands.ts';

export const localPolicyNowhereLocal: Check<'ST108'> = {
  code: 'ST108',
  name: 'local-policy-nowhere-local',
  severity: 'warning',
  summary: 'A Local traffic policy, and no usable endpoint is local to any node of the cluster',
  remedy: "Give hand-made endpoints a nodeName, or set the traffic policy to Cluster: with Local, every node drops this Service's traffic.",
  // Silent for a Service without usable endpoints, which is ST101.
  *cluster(context) {
    for (const entry of unusualEntries(context)) {
      const reason = whyNowhereLocal(entry, context);
      if (reason === null) continue;
      const {port} = entry;
      const policy = port.externalPolicyLocal ? 'externalTrafficPolicy' : 'internalTrafficPolicy';
      yield {
        ...ofPort(port),
        message: `${port.servicePortName}: ${policy} is Local, and ${reason}: every node drops this traffic`,
        ...patchService(nameOf(port.object), {spec: {[policy]: 'Cluster'}}),
      };
    }
  },
};

/** Why no node has a local endpoint of a Service port with a Local policy; null if one has, or the policy is not Local. */
export function whyNowhereLocal({port, set}: PortEntry, {api, proxy: {version, gates}}: ClusterContext): string | null {
  if (!usesLocalEndpoints(port)) return null;
  const usable = set.endpoints.filter(
    ({ready, serving, terminating}) => ready || (serving && terminating && usesTerminatingEndpoints(version, gates)),
  );
  if (
    usable.length === 0 ||
    usable.some(({nodeName}) => nodeName !== null && (api.nodes === null || nodeObject(api, nodeName) !== undefined))
  )
    return null;
  return usable.every(({nodeName}) => nodeName === null)
    ? 'none of its endpoints names a node'
    : 'none of its endpoints is on a node of this cluster';
}
