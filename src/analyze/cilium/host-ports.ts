import {nameOf} from '../../model/finding.ts';
import type {CiliumState} from '../../expect/cilium/cilium-node.ts';
import {isAmong, unspecified} from '../../expect/cilium/promised-frontends.ts';
import {isLoopback} from '../../expect/node-context.ts';
import {canonicalAddress, type Family, familyOf} from '../../model/address.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text.ts';
import {type AgentFrontend, frontendKey} from '../../parse/cilium/agent-table.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {portsOfPod} from '../../expect/own-pods.ts';

interface HostPortCase {
  readonly family: Family;
  readonly node: string;
  readonly pods: readonly PodObject[];
  readonly state: CiliumState;
  readonly frontends: readonly AgentFrontend[];
}

/** Host ports of the agent's table that are no longer a pod's, and those of pods that it does not have. */
export function hostPortSymptoms(given: HostPortCase): readonly Symptom[] {
  const {family, node, pods, state, frontends} = given;
  const {replacesKubeProxy, hasHostPorts} = state.settings;
  if (replacesKubeProxy !== true || !hasHostPorts) return [];
  const base = {family, port: null, expected: [], actual: [], by: 'cilium' as const};
  const byName = new Map(pods.map(pod => [namespacedName(pod.metadata), pod]));
  const stale = frontends.flatMap((frontend): readonly Symptom[] => {
    const why = frontend.type === 'HostPort' ? whyStale(frontend, {byName, node}) : null;
    const [name = ''] = frontend.service.split(':', 1);
    const service = {namespace: frontend.namespace, name};
    const detail = `the agent still serves host port ${frontend.key}: ${why}`;
    return why === null
      ? []
      : [
          {
            ...base,
            kind: 'stale-service',
            service,
            detail,
            gist: `the Cilium agent still serves host port ${frontend.key}, which is not this pod's`,
          },
        ];
  });
  const keys = new Set(frontends.map(({key}) => key));
  const missing = pods.flatMap(pod =>
    hostPortsOf(pod, given).flatMap((key): readonly Symptom[] => {
      if (keys.has(key)) return [];
      const service = nameOf(pod);
      return [
        {
          ...base,
          kind: 'missing-entry',
          service,
          gist: `host port ${key} is not programmed by the Cilium agent`,
          detail: `the agent does not have host port ${key} of pod ${namespacedName(pod.metadata)}`,
        },
      ];
    }),
  );
  return [...stale, ...missing];
}

/** The name of a host port has the pod and its UID: a pod of the same name may be another one. Null if it is the pod's. */
function whyStale(
  {namespace, service, address, port, backends}: AgentFrontend,
  {byName, node}: {readonly byName: ReadonlyMap<string, PodObject>; readonly node: string},
): string | null {
  const [, name = '', uid] = /^([^:]+):host-port:\d+:(.+)$/.exec(service) ?? [];
  if (uid === undefined) return null;
  const pod = byName.get(`${namespace}/${name}`);
  if (pod === undefined) return `the API has no pod ${namespace}/${name} (any more)`;
  if (pod.spec?.nodeName !== node) return `pod ${namespace}/${name} is on ${pod.spec?.nodeName ?? 'no node'}`;
  if (pod.metadata.uid !== undefined && pod.metadata.uid !== uid)
    return `pod ${namespace}/${name} was created again since then, and the entry is that of its predecessor`;
  const addresses = addressesOf(pod);
  if (addresses.length === 0) return null;
  // Ports of init containers may not have been read.
  const known = portsOfPod(pod).filter(({hostPort}) => hostPort === port);
  const other = backends.find(({hostPort}) => {
    const at = splitHostPort(hostPort);
    return !addresses.includes(at.address) || (known.length > 0 && !known.some(({containerPort}) => `${containerPort}` === at.port));
  });
  if (other !== undefined) return `it leads to ${other.hostPort}, which is not an address of pod ${namespace}/${name}`;
  const lacksPod = backends.length === 0 && addresses.some(one => familyOf(one) === familyOf(address));
  return lacksPod ? `it leads nowhere, and not to pod ${namespace}/${name}` : null;
}

function addressesOf({status}: PodObject): readonly string[] {
  return (status?.podIPs ?? []).flatMap(({ip}) => canonicalAddress(ip ?? '') ?? []);
}

/**
 * The keys of the host ports that a pod certainly has: not in the range of node ports, nor of a pod in the host network, which listens
 * itself. Whether one on a loopback address is served depends on the kernel.
 */
function hostPortsOf(pod: PodObject, {node, family, state}: HostPortCase): readonly string[] {
  const {spec, status, metadata} = pod;
  const isRunning = spec?.nodeName === node && status?.phase === 'Running' && metadata.deletionTimestamp === undefined;
  if (!isRunning || spec.hostNetwork === true || !addressesOf(pod).some(address => familyOf(address) === family)) return [];
  return portsOfPod(pod).flatMap(({hostPort = 0, hostIP, protocol = 'TCP'}) => {
    const address = canonicalAddress(hostIP || unspecified[family]);
    if (hostPort === 0 || isAmong(state.settings.nodePorts, hostPort) || address === null || familyOf(address) !== family) return [];
    if (isLoopback(address) || hostIP === unspecified[family]) return [];
    return [frontendKey(address, {port: hostPort, protocol, isInternal: false})];
  });
}
