import type {ServiceObject} from '../model/api-objects.ts';
import type {ServiceChange} from '../model/findings/bundle-diff.ts';
import {diffFields, type ComparedFields} from './diff-fields.ts';
import {pairUp} from './diff-keyed.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';

/** Services that are new, removed, or changed in a field that kube-proxy uses. */
export function diffServices(before: readonly ServiceObject[], after: readonly ServiceObject[]): readonly ServiceChange[] {
  return pairUp(before, after, keyOf).flatMap((pair): readonly ServiceChange[] => {
    const {metadata} = pair.after ?? pair.before ?? {metadata: {name: ''}};
    const service = {namespace: metadata.namespace ?? 'default', name: metadata.name};
    if (pair.before === undefined || pair.after === undefined)
      return [{kind: pair.before === undefined ? 'came' : 'went', service, fields: []}];
    const fields = diffFields(fieldsOf(pair.before), fieldsOf(pair.after));
    return fields.length === 0 ? [] : [{kind: 'changed', service, fields}];
  });
}

function keyOf({metadata}: ServiceObject): string {
  return namespacedName(metadata);
}

function fieldsOf({metadata, spec = {}, status}: ServiceObject): ComparedFields {
  const ports = (spec.ports ?? []).map(({name, protocol = 'TCP', port, nodePort, targetPort}) => [
    `port ${name || port}/${protocol}`,
    `${port}${targetPort === undefined ? '' : ` → ${targetPort}`}${nodePort ? `, node port ${nodePort}` : ''}`,
  ]);
  const {sessionAffinity, sessionAffinityConfig} = spec;
  const timeout = sessionAffinityConfig?.clientIP?.timeoutSeconds;
  return {
    type: spec.type,
    'cluster IP': list(spec.clusterIPs ?? [spec.clusterIP ?? '']),
    'external IPs': list(spec.externalIPs),
    'load-balancer IPs': list(
      status?.loadBalancer?.ingress?.map(({ip, hostname, ipMode}) => `${ip ?? hostname}${ipMode === 'Proxy' ? ' (Proxy)' : ''}`),
    ),
    loadBalancerSourceRanges: list(spec.loadBalancerSourceRanges),
    externalTrafficPolicy: spec.externalTrafficPolicy,
    internalTrafficPolicy: spec.internalTrafficPolicy,
    sessionAffinity: sessionAffinity === 'ClientIP' ? `ClientIP${timeout === undefined ? '' : ` for ${timeout} s`}` : sessionAffinity,
    healthCheckNodePort: spec.healthCheckNodePort?.toString(),
    selector: list(Object.entries(spec.selector ?? {}).map(([key, value]) => `${key}=${value}`)),
    'service-proxy-name': metadata.labels?.['service.kubernetes.io/service-proxy-name'],
    ...Object.fromEntries(ports),
  };
}

function list(values: readonly string[] | null | undefined): string | undefined {
  return !values?.length ? undefined : values.toSorted().join(', ');
}
