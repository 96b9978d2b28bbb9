import type {CiliumState} from '../../expect/cilium/cilium-node.ts';
import {canonicalAddress, type Family, familyOf} from '../../model/address.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text.ts';
import {type AgentFrontend, frontendKey} from '../../parse/cilium/agent-table.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import type {Symptom} from '../symptoms/symptom.ts';

interface HostPortCase {
  readonly family: Family;
  readonly node: string;
  readonly pods: readonly PodObject[];
  readonly state: CiliumState;
  readonly frontends: readonly AgentFrontend[];
}

/** Host ports of the agent's table that are no longer a pod's, and those of pods that it does not have. */
export function hostPortSymptoms({family, node, pods, state, frontends}: HostPortCase): readonly Symptom[] {
  const {replacesKubeProxy, hasHostPorts} = state.settings;
  if (replacesKubeProxy !== true || !hasHostPorts) return [];
  const base = {family, port: null, expected: [], actual: [], by: 'cilium' as const};
  const byName = new Map(pods.map(pod => [namespacedName(pod.metadata), pod]));
  const stale = frontends.flatMap((frontend): readonly Symptom[] => {
    const why = frontend.type === 'HostPort' ? whyStale(frontend, {byName, node}) : null;
    const [name = ''] = frontend.service.split(':', 1);
    const service = {namespace: frontend.namespace, name};
    const detail = `the agent still serves host port ${frontend.key}: ${why}`;
    return why === null ? [] : [{...base, kind: 'stale-service', service, detail}];
  });
  const keys = new Set(frontends.map(({key}) => key));
  const missing = pods.flatMap(pod =>
    hostPortsOf(pod, node, family).flatMap((key): readonly Symptom[] => {
      if (keys.has(key)) return [];
      const service = {namespace: pod.metadata.namespace ?? 'default', name: pod.metadata.name};
      return [
        {
          ...base,
          kind: 'missing-entry',
          service,
          detail: `the agent does not have host port ${key} of pod ${namespacedName(pod.metadata)}`,
        },
      ];
    }),
  );
  return [...stale, ...missing];
}

/** The name of a host port has the pod and its UID: a pod of the same name may be another one. Null if it is the pod's. */
function whyStale(
  {namespace, service, backends}: AgentFrontend,
  {byName, node}: {readonly byName: ReadonlyMap<string, PodObject>; readonly node: string},
): string | null {
  const [, name = '', uid] = /^([^:]+):host-port:\d+:(.+)$/.exec(service) ?? [];
  if (uid === undefined) return null;
  const pod = byName.get(`${namespace}/${name}`);
  if (pod === undefined) return `the API has no pod ${namespace}/${name} (any more)`;
  if (pod.spec?.nodeName !== node) return `pod ${namespace}/${name} is on ${pod.spec?.nodeName ?? 'no node'}`;
  if (pod.metadata.uid !== undefined && pod.metadata.uid !== uid)
    return `pod ${namespace}/${name} was created again since then, and the entry is that of its predecessor`;
  const own = new Set(addressesOf(pod));
  const other = backends.find(({hostPort}) => !own.has(splitHostPort(hostPort).address));
  return other === undefined || own.size === 0
    ? null
    : `it leads to ${other.hostPort}, which is not an address of pod ${namespace}/${name}`;
}

function addressesOf({status}: PodObject): readonly string[] {
  return (status?.podIPs ?? []).flatMap(({ip}) => canonicalAddress(ip ?? '') ?? []);
}

/** The keys of the host ports that a pod certainly has: not in the range of node ports, nor of a pod in the host network, which listens itself. */
function hostPortsOf(pod: PodObject, node: string, family: Family): readonly string[] {
  const {spec, status, metadata} = pod;
  const isRunning = spec?.nodeName === node && status?.phase === 'Running' && metadata.deletionTimestamp === undefined;
  if (!isRunning || spec.hostNetwork === true || !addressesOf(pod).some(address => familyOf(address) === family)) return [];
  return (spec.containers ?? []).flatMap(({ports}) =>
    (ports ?? []).flatMap(({hostPort = 0, hostIP, protocol = 'TCP'}) => {
      if (hostPort === 0 || (hostPort >= 30_000 && hostPort <= 32_767) || (hostIP !== undefined && hostIP !== '')) return [];
      return [frontendKey(family === 'IPv6' ? '::' : '0.0.0.0', {port: hostPort, protocol, isInternal: false})];
    }),
  );
}
