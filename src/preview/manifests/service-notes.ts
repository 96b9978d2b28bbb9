import {notServed} from '../../expect/cluster/service-ports.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** Services that somebody asked for by name, after the planned objects are applied. */
interface AskedServices {
  readonly api: ApiObjects;
  readonly asked: readonly ServiceObject[];
  readonly version: KubeProxyVersion;
}

/** Why asked Services have no rules, or rules that refuse connections. Empty for all others. */
export function serviceNotes({api, asked, version}: AskedServices): readonly string[] {
  const names = new Set(asked.map(({metadata}) => namespacedName(metadata)));
  const services = (api.services ?? []).filter(({metadata}) => names.has(namespacedName(metadata)));
  const owners = new Set(
    (api.endpointSlices ?? []).flatMap(slice => ((slice.endpoints ?? []).length > 0 ? (sliceService(slice) ?? []) : [])),
  );
  return services.flatMap(service => {
    const name = namespacedName(service.metadata);
    const why = notServed(service, version);
    if (why !== null) return [`${name} has no rules of kube-proxy: ${why.reason}`];
    if (api.endpointSlices === null || owners.has(name)) return [];
    return [`${name} has no endpoints: connections to it are refused (add its EndpointSlice with -f, or --endpoint IP[:PORT][@NODE])`];
  });
}
