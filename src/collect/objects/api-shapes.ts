import type {Shape} from './usable-items.ts';

const strings: Shape = {list: 'string'};
const names: Shape = {map: 'string'};

const metadata: Shape = {
  fields: {
    name: 'string',
    namespace: 'string',
    labels: names,
    annotations: names,
    creationTimestamp: 'string',
    deletionTimestamp: 'string',
    resourceVersion: 'string',
    managedFields: {list: {fields: {time: 'string'}}},
  },
};

const slicePorts: Shape = {list: {fields: {name: 'string', port: 'number', protocol: 'string'}}};
const targetRef: Shape = {fields: {kind: 'string', name: 'string', namespace: 'string'}};
const hinted: Shape = {list: {fields: {name: 'string'}}};

/** The fields that are read of each kind of API object: see `model/api-objects.ts`. */
export const serviceShape: Shape = {
  fields: {
    metadata,
    spec: {
      fields: {
        type: 'string',
        clusterIP: 'string',
        clusterIPs: strings,
        ipFamilies: strings,
        ports: {list: {fields: {name: 'string', protocol: 'string', port: 'number', nodePort: 'number'}}},
        externalIPs: strings,
        loadBalancerSourceRanges: strings,
        externalTrafficPolicy: 'string',
        internalTrafficPolicy: 'string',
        sessionAffinity: 'string',
        healthCheckNodePort: 'number',
        selector: names,
        publishNotReadyAddresses: 'boolean',
        topologyKeys: strings,
        allocateLoadBalancerNodePorts: 'boolean',
        sessionAffinityConfig: {fields: {clientIP: {fields: {timeoutSeconds: 'number'}}}},
      },
    },
    status: {fields: {loadBalancer: {fields: {ingress: {list: {fields: {ip: 'string', hostname: 'string', ipMode: 'string'}}}}}}},
  },
};

export const endpointSliceShape: Shape = {
  fields: {
    metadata,
    addressType: 'string',
    endpoints: {
      list: {
        fields: {
          addresses: strings,
          conditions: {fields: {ready: 'boolean', serving: 'boolean', terminating: 'boolean'}},
          topology: names,
          deprecatedTopology: names,
          nodeName: 'string',
          targetRef,
          zone: 'string',
          hints: {fields: {forZones: hinted, forNodes: hinted}},
        },
      },
    },
    ports: slicePorts,
  },
};

export const endpointsShape: Shape = {
  fields: {
    metadata,
    subsets: {list: {fields: {addresses: {list: {fields: {ip: 'string', nodeName: 'string', targetRef}}}, ports: slicePorts}}},
  },
};

export const nodeShape: Shape = {
  fields: {
    metadata,
    spec: {fields: {podCIDR: 'string', podCIDRs: strings}},
    status: {
      fields: {
        addresses: {list: {fields: {type: 'string', address: 'string'}}},
        nodeInfo: {fields: {kubeProxyVersion: 'string', kubeletVersion: 'string', operatingSystem: 'string', kernelVersion: 'string'}},
      },
    },
  },
};

export const podShape: Shape = {
  fields: {
    metadata,
    spec: {
      fields: {
        nodeName: 'string',
        hostNetwork: 'boolean',
        volumes: {list: {fields: {name: 'string', configMap: {fields: {name: 'string'}}}}},
        containers: {
          list: {
            fields: {
              ...{name: 'string', image: 'string', command: strings, args: strings},
              ports: {list: {fields: {containerPort: 'number', hostPort: 'number', hostIP: 'string', protocol: 'string'}}},
            },
          },
        },
      },
    },
    status: {
      fields: {
        phase: 'string',
        podIP: 'string',
        podIPs: {list: {fields: {ip: 'string'}}},
        conditions: {list: {fields: {type: 'string', status: 'string', lastTransitionTime: 'string'}}},
      },
    },
  },
};

export const configMapShape: Shape = {fields: {metadata, data: names}};

export const serviceCIDRShape: Shape = {fields: {metadata, spec: {fields: {cidrs: strings}}}};

const labelSelector: Shape = {
  fields: {matchLabels: names, matchExpressions: {list: {fields: {key: 'string', operator: 'string', values: strings}}}},
};

export const networkPolicyShape: Shape = {
  fields: {
    metadata,
    spec: {
      fields: {
        podSelector: labelSelector,
        policyTypes: strings,
        ingress: {list: {fields: {from: {list: {fields: {ipBlock: {fields: {cidr: 'string', except: strings}}}}}}}},
      },
    },
  },
};
