/** The kinds of objects in a bundle, by the file that holds them. */
export const apiFiles = {
  services: {file: 'api/services.json', apiVersion: 'v1', kind: 'Service'},
  endpointSlices: {file: 'api/endpointslices.json', apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice'},
  endpoints: {file: 'api/endpoints.json', apiVersion: 'v1', kind: 'Endpoints'},
  nodes: {file: 'api/nodes.json', apiVersion: 'v1', kind: 'Node'},
  pods: {file: 'api/pods.json', apiVersion: 'v1', kind: 'Pod'},
  configMaps: {file: 'api/configmaps.json', apiVersion: 'v1', kind: 'ConfigMap'},
  serviceCIDRs: {file: 'api/servicecidrs.json', apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR'},
} as const;

/**
 * A list as `kubectl get … -A -o json` prints it, without what only the API server and `kubectl apply` need: `managedFields` and the last
 * applied configuration. Written object by object: a list can be longer than the longest possible string.
 */
export function apiListText(items: readonly object[], {apiVersion, kind}: {readonly apiVersion: string; readonly kind: string}): Buffer {
  const parts = [Buffer.from('{\n    "apiVersion": "v1",\n    "items": [')];
  for (const [index, item] of items.entries()) {
    const text = JSON.stringify({apiVersion, kind, ...withoutBallast(item)}, null, 4);
    parts.push(Buffer.from(`${index === 0 ? '' : ','}\n        ${text.replaceAll('\n', '\n        ')}`));
  }
  parts.push(
    Buffer.from(
      `${items.length === 0 ? '' : '\n    '}],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n`,
    ),
  );
  return Buffer.concat(parts);
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

function withoutBallast(item: object): object {
  const {metadata} = item as {readonly metadata?: Readonly<Record<string, unknown>>};
  if (metadata === undefined) return item;
  const {managedFields: _, annotations, ...rest} = metadata;
  if (typeof annotations !== 'object' || annotations === null) return {...item, metadata: rest};
  const {[lastApplied]: __, ...others} = annotations as Readonly<Record<string, unknown>>;
  return {...item, metadata: {...(Object.keys(others).length === 0 ? {} : {annotations: others}), ...rest}};
}
