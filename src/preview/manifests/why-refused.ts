import {canonicalAddress} from '../../model/address.ts';
import type {ServiceObject, ServiceSpec} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {addressesOf, type ExistingServices, hasNodePorts, needsHealthCheck, nodePortsOf} from './allocate.ts';

/**
 * Why the API server would refuse a Service beside those that it has; null if it would not. Follows `ValidateServiceUpdate`, and the
 * allocators, which give each address and node port to one Service.
 */
export function whyRefused(service: ServiceObject, {before, others}: ExistingServices): string | null {
  if (service.spec?.type === 'ExternalName') return null;
  const old = before?.spec?.type === 'ExternalName' ? undefined : before;
  return (
    (old === undefined ? null : (changedAddress(service, old) ?? changedFamily(service, old) ?? changedHealthCheck(service, old))) ??
    forOtherType(service.spec ?? {}, old?.spec) ??
    takenAddress(service, others) ??
    takenPort(service, others)
  );
}

/** `validateUpgradeDowngradeClusterIPs`: a second address can come and go, the first stays. */
function changedAddress(service: ServiceObject, old: ServiceObject): string | null {
  const [was, is] = [addressesOf(old), addressesOf(service)];
  const at = is.findIndex((text, index) => was[index] !== undefined && canonical(text) !== canonical(was[index]));
  if (at >= 0) return `spec.clusterIPs[${at}] is ${was[at]} and cannot change to ${is[at]}`;
  const all = service.spec?.clusterIPs ?? [];
  if (all.length === 1 && was.length > 1 && service.spec?.ipFamilyPolicy !== 'SingleStack')
    return `spec.ipFamilyPolicy must be SingleStack to give up the cluster IP ${was[1]}`;
  return null;
}

/** `validateUpgradeDowngradeIPFamilies`. */
function changedFamily(service: ServiceObject, old: ServiceObject): string | null {
  if ([service, old].some(one => addressesOf(one).includes('None'))) return null;
  const [was = [], is = []] = [old.spec?.ipFamilies ?? [], service.spec?.ipFamilies ?? []];
  const at = is.findIndex((family, index) => was[index] !== undefined && family !== was[index]);
  return at < 0 ? null : `spec.ipFamilies[${at}] is ${was[at]} and cannot change to ${is[at]}`;
}

/** `validateServiceExternalTrafficFieldsUpdate`. */
function changedHealthCheck({spec = {}}: ServiceObject, {spec: old = {}}: ServiceObject): string | null {
  const [was = 0, is = 0] = [old.healthCheckNodePort ?? 0, spec.healthCheckNodePort ?? 0];
  if (!needsHealthCheck(spec) || !needsHealthCheck(old) || is === 0 || was === 0 || is === was) return null;
  return `spec.healthCheckNodePort is ${was} and cannot change to ${is}`;
}

/** Fields of another type are dropped if the Service had that type and they are as they were: `dropTypeDependentFields`. */
function forOtherType(spec: ServiceSpec, old: ServiceSpec | undefined): string | null {
  const {type = 'ClusterIP', externalTrafficPolicy, healthCheckNodePort = 0, externalIPs = []} = spec;
  const kept = new Set(hasNodePorts(old ?? {}) ? old?.ports?.map(({nodePort}) => nodePort) : []);
  const at = (spec.ports ?? []).findIndex(({nodePort = 0}) => nodePort !== 0 && !kept.has(nodePort));
  if (!hasNodePorts(spec) && at >= 0) return `spec.ports[${at}].nodePort cannot be set if type is ${type}`;
  const isExternal = hasNodePorts(spec) || (externalIPs ?? []).length > 0;
  if (!isExternal && externalTrafficPolicy !== undefined && externalTrafficPolicy !== old?.externalTrafficPolicy)
    return `spec.externalTrafficPolicy cannot be set if type is ${type} and there are no externalIPs`;
  if (!needsHealthCheck(spec) && healthCheckNodePort !== 0 && healthCheckNodePort !== old?.healthCheckNodePort)
    return 'spec.healthCheckNodePort needs type LoadBalancer and externalTrafficPolicy Local';
  return null;
}

function takenAddress(service: ServiceObject, others: readonly ServiceObject[]): string | null {
  for (const text of addressesOf(service)) {
    if (text === 'None') continue;
    const owner = others.find(other => addressesOf(other).some(one => canonical(one) === canonical(text)));
    if (owner !== undefined) return `the cluster IP ${text} belongs to ${namespacedName(owner.metadata)}`;
  }
  return null;
}

/** The allocator does not distinguish protocols. */
function takenPort(service: ServiceObject, others: readonly ServiceObject[]): string | null {
  if (!hasNodePorts(service.spec ?? {})) return null;
  for (const port of nodePortsOf(service)) {
    const owner = others.find(other => nodePortsOf(other).includes(port));
    if (owner !== undefined) return `the node port ${port} belongs to ${namespacedName(owner.metadata)}`;
  }
  return null;
}

function canonical(text: string | undefined): string {
  return canonicalAddress(text ?? '') ?? text ?? '';
}
