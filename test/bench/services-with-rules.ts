import type {Cluster, Family, Service} from './model.ts';

/** The Services that kube-proxy writes rules for in one family. */
export function servicesWithRules({services}: Cluster, family: Family): readonly Service[] {
  return services.filter(
    ({clusterIPs, families, type}) => type !== 'ExternalName' && clusterIPs[0] !== 'None' && families.includes(family),
  );
}
