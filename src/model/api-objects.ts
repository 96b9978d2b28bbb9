import type {
  DiscoveryV1EndpointPort,
  V1ConfigMap,
  V1Endpoint,
  V1EndpointAddress,
  V1EndpointConditions,
  V1Endpoints,
  V1EndpointSlice,
  V1EndpointSubset,
  V1Node,
  V1ObjectMeta,
  V1Pod,
  V1Service,
  V1NetworkPolicy,
  V1ServiceCIDR,
  V1ServicePort,
  V1ServiceSpec,
} from '@kubernetes/client-node';

/**
 * A type of client-node in its JSON form. client-node describes objects after its serializer; in JSON a date is text, and an empty list may
 * be null. All fields are optional: objects come from files and from clusters of any version.
 */
type Json<T> = unknown extends T
  ? unknown
  : T extends Date
    ? string
    : T extends readonly (infer Item)[]
      ? readonly Json<Item>[] | null
      : T extends object
        ? string extends keyof T
          ? Readonly<Record<string, Json<T[keyof T]>>>
          : {readonly [Name in keyof T]?: Json<NonNullable<T[Name]>>}
        : T;

/** Some programs write null instead of leaving a field out. */
type Nullable<T> = {readonly [Name in keyof T]: T[Name] | null};

/** Only the name is always set: an object without one is not used. */
export type ObjectMeta = Omit<Json<V1ObjectMeta>, 'name'> & {readonly name: string};

type ApiObject<T, Replaced = unknown> = Omit<Json<T>, 'metadata' | keyof Replaced> & {readonly metadata: ObjectMeta} & Replaced;

export type ServiceObject = ApiObject<V1Service, {readonly spec?: ServiceSpec}>;
/** `topologyKeys` was alpha from 1.17 to 1.21. */
export type ServiceSpec = Json<V1ServiceSpec> & {readonly topologyKeys?: readonly string[]};
export type ServicePortSpec = Json<V1ServicePort>;

export type EndpointSliceObject = ApiObject<
  V1EndpointSlice,
  {readonly endpoints?: readonly SliceEndpoint[] | null; readonly ports?: readonly SlicePort[] | null}
>;
export type SlicePort = Json<Omit<DiscoveryV1EndpointPort, 'name' | 'port'>> &
  Nullable<Json<Pick<DiscoveryV1EndpointPort, 'name' | 'port'>>>;
export type SliceEndpoint = Omit<Json<V1Endpoint>, 'conditions' | 'nodeName'> & {
  readonly conditions?: Nullable<Json<V1EndpointConditions>>;
  readonly nodeName?: string | null;
  /** Of `discovery.k8s.io/v1beta1`, which names the node as `kubernetes.io/hostname`. */
  readonly topology?: Readonly<Record<string, string>>;
};

/** The older Endpoints object, which kube-proxy up to 1.21 reads if configured to. */
export type EndpointsObject = ApiObject<V1Endpoints, {readonly subsets?: readonly EndpointSubset[] | null}>;
type EndpointSubset = Omit<Json<V1EndpointSubset>, 'addresses' | 'ports'> & {
  readonly addresses?: readonly EndpointAddress[] | null;
  readonly ports?: readonly SlicePort[] | null;
};
export type EndpointAddress = Omit<Json<V1EndpointAddress>, 'nodeName'> & {readonly nodeName?: string | null};

export type NodeObject = ApiObject<V1Node>;
export type PodObject = ApiObject<V1Pod>;
export type ConfigMapObject = ApiObject<V1ConfigMap>;
/** A network that cluster IPs are allocated from: `networking.k8s.io/v1`, from 1.33. */
export type ServiceCIDRObject = ApiObject<V1ServiceCIDR>;
export type NetworkPolicyObject = ApiObject<
  V1NetworkPolicy,
  {
    readonly spec?: {
      readonly podSelector?: {
        readonly matchLabels?: Readonly<Record<string, string>> | null;
        readonly matchExpressions?:
          | readonly {readonly key: string; readonly operator: string; readonly values?: readonly string[] | null}[]
          | null;
      };
      readonly policyTypes?: readonly string[] | null;
      readonly ingress?:
        | readonly {
            readonly from?: readonly {readonly ipBlock?: {readonly cidr: string}}[] | null;
            readonly ports?: readonly {readonly protocol?: string; readonly port?: unknown; readonly endPort?: number}[] | null;
          }[]
        | null;
    };
  }
>;

export const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';

export const headlessLabel = 'service.kubernetes.io/headless';

/** The labels of a Service's pods, as kubectl writes a selector; empty without one. */
export function selectorText({spec}: ServiceObject): string {
  return Object.entries(spec?.selector ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** By its status, whether or not it is about to end. */
export function isReadyPod({status}: PodObject): boolean {
  return status?.conditions?.some(({type, status: value}) => type === 'Ready' && value === 'True') === true;
}
