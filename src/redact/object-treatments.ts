import type {ApiObjects} from '../model/snapshot.ts';
import {redactArguments, redactConfigText} from './redact-config.ts';
import type {Replacements} from './replacements.ts';
import {type Treatment, treat} from './treatment.ts';

const metadata = (name: Treatment): Treatment => ({
  fields: {
    name,
    ...{namespace: 'namespace', uid: 'uid', labels, annotations, resourceVersion: 'kept', generation: 'kept'},
    ...{creationTimestamp: 'kept', deletionTimestamp: 'kept'},
  },
});

const slicePort: Treatment = {fields: {name: 'kept', port: 'kept', protocol: 'kept', appProtocol: 'kept'}};
const targetRef: Treatment = {fields: {kind: 'kept', name: 'pod', namespace: 'namespace', uid: 'uid'}};
const endpointAddress: Treatment = {fields: {ip: 'address', hostname: 'word', nodeName: 'node', targetRef}};
const conditions: Treatment = {
  list: {
    fields: {type: 'kept', status: 'kept', reason: 'kept', lastHeartbeatTime: 'kept', lastTransitionTime: 'kept', lastProbeTime: 'kept'},
  },
};
const type = {apiVersion: 'kept', kind: 'kept'} as const;

/** The fields that are kept of each kind of API object, and how. All others are left out. */
export const objectTreatments: Readonly<Record<keyof ApiObjects, Treatment>> = {
  services: {
    fields: {
      ...type,
      metadata: metadata('service'),
      spec: {
        fields: {
          ...{type: 'kept', clusterIP: 'address', clusterIPs: {list: 'address'}, ipFamilies: 'kept', ipFamilyPolicy: 'kept'},
          ports: {
            list: {fields: {name: 'kept', protocol: 'kept', port: 'kept', nodePort: 'kept', targetPort: 'kept', appProtocol: 'kept'}},
          },
          ...{externalIPs: {list: 'address'}, loadBalancerIP: 'address', loadBalancerSourceRanges: {list: 'address'}},
          ...{loadBalancerClass: 'word', allocateLoadBalancerNodePorts: 'kept', externalName: 'word', selector: labels},
          ...{externalTrafficPolicy: 'kept', internalTrafficPolicy: 'kept', trafficDistribution: 'kept', healthCheckNodePort: 'kept'},
          ...{sessionAffinity: 'kept', sessionAffinityConfig: 'kept', publishNotReadyAddresses: 'kept'},
        },
      },
      status: {
        fields: {loadBalancer: {fields: {ingress: {list: {fields: {ip: 'address', hostname: 'word', ipMode: 'kept'}}}}}},
      },
    },
  },
  endpointSlices: {
    fields: {
      ...{...type, metadata: metadata('word'), addressType: 'kept', ports: {list: slicePort}},
      endpoints: {
        list: {
          fields: {
            ...{addresses: {list: 'address'}, conditions: 'kept', hostname: 'word', nodeName: 'node', targetRef, zone: 'word'},
            hints: {fields: {forZones: {list: {fields: {name: 'word'}}}, forNodes: {list: {fields: {name: 'node'}}}}},
          },
        },
      },
    },
  },
  endpoints: {
    fields: {
      ...{...type, metadata: metadata('service')},
      subsets: {
        list: {fields: {addresses: {list: endpointAddress}, notReadyAddresses: {list: endpointAddress}, ports: {list: slicePort}}},
      },
    },
  },
  nodes: {
    fields: {
      ...{...type, metadata: metadata('node'), spec: {fields: {podCIDR: 'address', podCIDRs: {list: 'address'}, unschedulable: 'kept'}}},
      status: {
        fields: {
          addresses: {list: {fields: {type: 'kept', address: 'address'}}},
          conditions,
          nodeInfo: {
            fields: {
              ...{kubeProxyVersion: 'kept', kubeletVersion: 'kept', operatingSystem: 'kept', kernelVersion: 'kept', osImage: 'kept'},
              ...{containerRuntimeVersion: 'kept', architecture: 'kept'},
            },
          },
        },
      },
    },
  },
  pods: {
    fields: {
      ...{...type, metadata: metadata('pod')},
      spec: {fields: {nodeName: 'node', hostNetwork: 'kept', containers: {list: container}}},
      status: {
        fields: {
          ...{phase: 'kept', hostIP: 'address', podIP: 'address', podIPs: {list: {fields: {ip: 'address'}}}, startTime: 'kept', conditions},
        },
      },
    },
  },
  configMaps: {fields: {...type, metadata: metadata('word'), data: configData}},
};

/** Labels whose keys are those of Kubernetes or of no one in particular keep them; their values are replaced as names are. */
function labels(value: unknown, {names}: Replacements): unknown {
  const entries = Object.entries(asObject(value)).map(([key, text]) => [
    isCommonKey(key) ? key : names.replace(key),
    isCommonValue(key, text) ? text : names.replace(String(text)),
  ]);
  return Object.fromEntries(entries);
}

function isCommonKey(key: string): boolean {
  return /^(?:app|name|component|tier|version|k8s-app)$|^(?:[a-z-]+\.)*(?:kubernetes|k8s)\.io\//.test(key) && !/^node-role\./.test(key);
}

function isCommonValue(key: string, value: unknown): boolean {
  return key === 'endpointslice.kubernetes.io/managed-by' && String(value).endsWith('.k8s.io');
}

const keptAnnotations = new Set([
  'endpoints.kubernetes.io/last-change-trigger-time',
  'service.kubernetes.io/topology-mode',
  'service.kubernetes.io/topology-aware-hints',
]);

function annotations(value: unknown): unknown {
  return Object.fromEntries(
    Object.entries(asObject(value)).filter(
      ([key, text]) => keptAnnotations.has(key) && /^(?:[a-zA-Z]{4,8}|[-\dT:.Z+]+)$/.test(String(text)),
    ),
  );
}

/** Of containers that are not kube-proxy's only the name is kept, as another one. */
function container(value: unknown, replacements: Replacements): unknown {
  const {name, image, command, args} = asObject(value);
  const isKubeProxy = [name, image].some(text => typeof text === 'string' && text.includes('kube-proxy'));
  if (!isKubeProxy) return treat({name}, {fields: {name: 'word'}}, replacements);
  return {
    name: 'kube-proxy',
    ...(typeof image === 'string' ? {image: kubeProxyImage(image)} : {}),
    ...(Array.isArray(command) ? {command: redactArguments(command, replacements)} : {}),
    ...(Array.isArray(args) ? {args: redactArguments(args, replacements)} : {}),
  };
}

/** Without the registry. What the tag is matters: it tells the version. */
function kubeProxyImage(image: string): string {
  const tag = /^[^@]*(:v?\d[^/:@]*)(?:@|$)/.exec(image)?.[1] ?? '';
  return `${image.includes('kube-proxy') ? 'registry.example/kube-proxy' : 'registry.example/image'}${tag}`;
}

/** Only the configuration of kube-proxy is kept. */
function configData(value: unknown, replacements: Replacements): unknown {
  return Object.fromEntries(
    Object.entries(asObject(value)).flatMap(([key, text]) =>
      (key === 'config.conf' || key === 'config') && typeof text === 'string' ? [[key, redactConfigText(text, replacements)] as const] : [],
    ),
  );
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : {};
}
