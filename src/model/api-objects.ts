/**
 * The API objects as a list from the API server or `kubectl get -o json` holds them, with the fields that are read here.
 * All fields are optional: objects come from files and from clusters of any version.
 */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly resourceVersion?: string;
  /** Who changed which fields; a change of the object is one of these at least. */
  readonly managedFields?: readonly {readonly time?: string}[];
}

export interface ServiceObject {
  readonly metadata: ObjectMeta;
  readonly spec?: ServiceSpec;
  readonly status?: {readonly loadBalancer?: {readonly ingress?: readonly LoadBalancerIngress[]}};
}

export interface ServiceSpec {
  readonly type?: string;
  readonly clusterIP?: string;
  readonly clusterIPs?: readonly string[];
  readonly ipFamilies?: readonly string[];
  readonly ports?: readonly ServicePortSpec[];
  readonly externalIPs?: readonly string[];
  readonly loadBalancerSourceRanges?: readonly string[];
  readonly externalTrafficPolicy?: string;
  readonly internalTrafficPolicy?: string;
  readonly sessionAffinity?: string;
  readonly sessionAffinityConfig?: {readonly clientIP?: {readonly timeoutSeconds?: number}};
  readonly healthCheckNodePort?: number;
  readonly selector?: Readonly<Record<string, string>>;
  readonly publishNotReadyAddresses?: boolean;
  /** Alpha from 1.17 to 1.21. */
  readonly topologyKeys?: readonly string[];
}

export interface ServicePortSpec {
  readonly name?: string;
  readonly protocol?: string;
  readonly port?: number;
  readonly nodePort?: number;
  readonly targetPort?: number | string;
}

export interface LoadBalancerIngress {
  readonly ip?: string;
  readonly hostname?: string;
  readonly ipMode?: string;
}

export interface EndpointSliceObject {
  readonly metadata: ObjectMeta;
  readonly addressType?: string;
  readonly endpoints?: readonly SliceEndpoint[] | null;
  readonly ports?: readonly SlicePort[] | null;
}

export interface SliceEndpoint {
  readonly addresses?: readonly string[];
  readonly conditions?: {readonly ready?: boolean | null; readonly serving?: boolean | null; readonly terminating?: boolean | null};
  readonly nodeName?: string | null;
  readonly targetRef?: {readonly kind?: string; readonly name?: string; readonly namespace?: string};
  readonly zone?: string;
  /** Of `discovery.k8s.io/v1beta1`, which names the node as `kubernetes.io/hostname`. */
  readonly topology?: Readonly<Record<string, string>>;
  /** What is left of it in `discovery.k8s.io/v1`. */
  readonly deprecatedTopology?: Readonly<Record<string, string>>;
  readonly hints?: {readonly forZones?: readonly {readonly name?: string}[]; readonly forNodes?: readonly {readonly name?: string}[]};
}

export interface SlicePort {
  readonly name?: string | null;
  readonly port?: number | null;
  readonly protocol?: string;
}

/** The older Endpoints object, which kube-proxy reads up to 1.21 when it is told to. */
export interface EndpointsObject {
  readonly metadata: ObjectMeta;
  readonly subsets?: readonly EndpointSubset[] | null;
}

export interface EndpointSubset {
  readonly addresses?: readonly EndpointAddress[] | null;
  readonly ports?: readonly SlicePort[] | null;
}

export interface EndpointAddress {
  readonly ip?: string;
  readonly nodeName?: string | null;
  readonly targetRef?: {readonly kind?: string; readonly name?: string; readonly namespace?: string};
}

export interface NodeObject {
  readonly metadata: ObjectMeta;
  readonly spec?: {readonly podCIDR?: string; readonly podCIDRs?: readonly string[]};
  readonly status?: {
    readonly addresses?: readonly {readonly type?: string; readonly address?: string}[];
    readonly nodeInfo?: {
      readonly kubeProxyVersion?: string;
      readonly kubeletVersion?: string;
      readonly operatingSystem?: string;
      readonly kernelVersion?: string;
    };
  };
}

export interface PodObject {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly nodeName?: string;
    readonly hostNetwork?: boolean;
    readonly volumes?: readonly {readonly name?: string; readonly configMap?: {readonly name?: string}}[];
    readonly containers?: readonly {
      readonly name?: string;
      readonly image?: string;
      readonly command?: readonly string[];
      readonly args?: readonly string[];
      readonly ports?: readonly {readonly containerPort?: number}[];
    }[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly podIPs?: readonly {readonly ip?: string}[];
    readonly podIP?: string;
    readonly conditions?: readonly {readonly type?: string; readonly status?: string}[];
  };
}

export interface ConfigMapObject {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}
