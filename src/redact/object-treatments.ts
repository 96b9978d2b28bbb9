import {configMapPlaces} from '../model/proxy-config.ts';
import {runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {readJson} from '../parse/attempt.ts';
import {isKnownText, knownVersion, wordSet} from './known-words.ts';
import {ciliumAnnotations, ciliumSettings} from './redact-cilium.ts';
import {redactArguments, redactConfigText} from './redact-config.ts';
import type {Replacements} from './replacements.ts';
import {kept, type Treatment, treat} from './treatment.ts';

const metadata = (name: Treatment): Treatment => ({
  fields: {
    name,
    namespace: 'namespace',
    uid: 'uid',
    labels,
    annotations,
    ...kept('resourceVersion generation creationTimestamp deletionTimestamp'),
  },
});

const portName: Treatment = (value, {names}) => (typeof value === 'string' ? names.port(value) : typeof value === 'number' ? value : null);
const version: Treatment = value => (typeof value === 'string' ? knownVersion(value) : null);

const slicePort: Treatment = {fields: {name: portName, port: 'kept', protocol: 'kept'}};
const targetRef: Treatment = {fields: {kind: 'kept', name: 'pod', namespace: 'namespace', uid: 'uid'}};
const endpointAddress: Treatment = {fields: {ip: 'address', hostname: 'word', nodeName: 'node', targetRef}};
const conditions: Treatment = {
  list: {
    fields: kept('type status reason lastHeartbeatTime lastTransitionTime lastProbeTime'),
  },
};
const type = {apiVersion: 'kept', kind: 'kept'} as const;

/** The lists of objects in a bundle. */
export type ObjectList = Exclude<keyof ApiObjects, 'lacksNodes' | 'namespaces' | 'podsOf' | 'unsure'>;

/** The fields that are kept of each kind of API object, and their treatment. All others are left out. */
export const objectTreatments: Readonly<Record<ObjectList, Treatment>> = {
  services: {
    fields: {
      ...type,
      metadata: metadata('service'),
      spec: {
        fields: {
          ...kept(`
            type ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts externalTrafficPolicy internalTrafficPolicy trafficDistribution
            healthCheckNodePort sessionAffinity sessionAffinityConfig publishNotReadyAddresses
          `),
          clusterIP: 'address',
          clusterIPs: {list: 'address'},
          ports: {
            list: {fields: {name: portName, protocol: 'kept', port: 'kept', nodePort: 'kept', targetPort: portName}},
          },
          externalIPs: {list: 'address'},
          loadBalancerIP: 'address',
          loadBalancerSourceRanges: {list: 'address'},
          loadBalancerClass: 'word',
          externalName: 'word',
          selector: labels,
          topologyKeys: {list: labelKey},
        },
      },
      status: {
        fields: {loadBalancer: {fields: {ingress: {list: {fields: {ip: 'address', hostname: 'word', ipMode: 'kept'}}}}}},
      },
    },
  },
  endpointSlices: {
    fields: {
      ...type,
      metadata: metadata('word'),
      addressType: 'kept',
      ports: {list: slicePort},
      endpoints: {
        list: {
          fields: {
            addresses: {list: 'address'},
            conditions: 'kept',
            hostname: 'word',
            nodeName: 'node',
            targetRef,
            zone: 'word',
            topology: labels,
            hints: {fields: {forZones: {list: {fields: {name: 'word'}}}, forNodes: {list: {fields: {name: 'node'}}}}},
          },
        },
      },
    },
  },
  endpoints: {
    fields: {
      ...type,
      metadata: metadata('service'),
      subsets: {
        list: {fields: {addresses: {list: endpointAddress}, notReadyAddresses: {list: endpointAddress}, ports: {list: slicePort}}},
      },
    },
  },
  nodes: {
    fields: {
      ...type,
      metadata: metadata('node'),
      spec: {fields: {podCIDR: 'address', podCIDRs: {list: 'address'}, unschedulable: 'kept'}},
      status: {
        fields: {
          addresses: {list: {fields: {type: 'kept', address: 'address'}}},
          conditions,
          nodeInfo: {
            fields: {
              kubeProxyVersion: version,
              kubeletVersion: version,
              operatingSystem: 'kept',
              kernelVersion: version,
              containerRuntimeVersion: version,
              architecture: 'kept',
            },
          },
        },
      },
    },
  },
  pods: podTreatment,
  configMaps: {fields: {...type, metadata: metadata('word'), data: configData}},
  serviceCIDRs: {fields: {...type, metadata: metadata('word'), spec: {fields: {cidrs: {list: 'address'}}}}},
  networkPolicies: {
    fields: {
      ...type,
      metadata: metadata('word'),
      spec: {
        fields: {
          podSelector: {
            fields: {matchLabels: labels, matchExpressions: {list: {fields: {key: labelKey, operator: 'kept', values: {list: 'word'}}}}},
          },
          policyTypes: 'kept',
          ingress: {
            list: {
              fields: {
                from: {list: {fields: {ipBlock: {fields: {cidr: 'address', except: {list: 'address'}}}}}},
                ports: {list: {fields: {protocol: 'kept', port: portName, endPort: 'kept'}}},
              },
            },
          },
        },
      },
    },
  },
};

/** Of containers the replaced name and the ports are kept; of those in kube-proxy's pods the image and the command line. */
function podTreatment(pod: unknown, replacements: Replacements): unknown {
  const {metadata: about} = asObject(pod);
  const {name, namespace, labels: given} = asObject(about);
  const isKubeProxy = runsKubeProxy({
    name: String(name),
    namespace: String(namespace),
    labels: asObject(given) as Readonly<Record<string, string>>,
  });
  return treat(pod, podFields({list: isKubeProxy ? kubeProxyContainer : container}), replacements);
}

const container: Treatment = {
  fields: {name: 'word', ports: {list: {fields: {containerPort: 'kept', hostPort: 'kept', hostIP: 'address', protocol: 'kept'}}}},
};

function podFields(containers: Treatment): Treatment {
  return {
    fields: {
      ...type,
      metadata: metadata('pod'),
      spec: {fields: {nodeName: 'node', hostNetwork: 'kept', containers, volumes: {list: {fields: {configMap: {fields: {name: 'word'}}}}}}},
      status: {
        fields: {
          phase: 'kept',
          hostIP: 'address',
          podIP: 'address',
          podIPs: {list: {fields: {ip: 'address'}}},
          startTime: 'kept',
          conditions,
        },
      },
    },
  };
}

/** Labels whose keys are those of Kubernetes, or are generic, keep their keys; their values are replaced like names. */
function labels(value: unknown, replacements: Replacements): unknown {
  const {names} = replacements;
  const entries = Object.entries(asObject(value)).map(([key, text]) => [
    labelKey(key, replacements),
    key === 'endpointslice.kubernetes.io/managed-by' && String(text).endsWith('.k8s.io') ? text : names.replace(String(text)),
  ]);
  return Object.fromEntries(entries);
}

function labelKey(key: unknown, {names}: Replacements): string {
  const text = String(key);
  return text === '*' || commonKeys.has(text) ? text : names.replace(text);
}

/** A key under kubernetes.io can still contain a word of the cluster's own, as in `node-restriction.kubernetes.io/team`. */
const commonKeys: ReadonlySet<string> = wordSet(`
  app name component tier version k8s-app
  app.kubernetes.io/name app.kubernetes.io/instance app.kubernetes.io/version app.kubernetes.io/component app.kubernetes.io/part-of
  app.kubernetes.io/managed-by
  kubernetes.io/service-name kubernetes.io/os kubernetes.io/arch kubernetes.io/hostname kubernetes.io/metadata.name
  beta.kubernetes.io/os beta.kubernetes.io/arch
  service.kubernetes.io/headless service.kubernetes.io/service-proxy-name service.cilium.io/node
  endpointslice.kubernetes.io/managed-by endpointslice.kubernetes.io/skip-mirror
  topology.kubernetes.io/zone topology.kubernetes.io/region failure-domain.beta.kubernetes.io/zone
  failure-domain.beta.kubernetes.io/region node.kubernetes.io/exclude-from-external-load-balancers node.kubernetes.io/instance-type
  `);

const keptAnnotations = new Set([
  'endpoints.kubernetes.io/last-change-trigger-time',
  'service.kubernetes.io/topology-mode',
  'service.kubernetes.io/topology-aware-hints',
]);

/** The command line of k3s or RKE2, as a list. */
const nodeArgs = new Set(['k3s.io/node-args', 'rke2.io/node-args']);

function annotations(value: unknown, replacements: Replacements): unknown {
  return Object.fromEntries(
    Object.entries(asObject(value)).flatMap(([key, text]): readonly (readonly [string, unknown])[] => {
      if (keptAnnotations.has(key)) return typeof text === 'string' && isKnownText(text) ? [[key, text]] : [];
      // Words that are no code of a finding mean nothing.
      if (key === 'svc-trace.dev/skip') return [[key, (String(text).match(/\bST\d{3}\b/gi) ?? []).join(',')]];
      if (key.startsWith(healthCheck)) return [[healthCheck, 'true']];
      if (key === 'service.cilium.io/node-selector') return [[key, nodeSelector(String(text), replacements)]];
      const ofCilium = Object.hasOwn(ciliumAnnotations, key) ? ciliumAnnotations[key] : undefined;
      if (ofCilium !== undefined) return [[key, treat(String(text), ofCilium, replacements)]];
      const words = nodeArgs.has(key) ? readJson(String(text)) : undefined;
      return Array.isArray(words) ? [[key, JSON.stringify(redactArguments(words, replacements))]] : [];
    }),
  );
}

const healthCheck = 'service.cilium.io/health-check';

/** `pool in (blue, green),!old`: the first word of each part is the key of a label, the others are values. */
function nodeSelector(selector: string, replacements: Replacements): string {
  const parts = selector.split(/,(?![^(]*\))/).map(part => {
    const [, not = '', key = '', rest = ''] = /^(\s*!?\s*)([^\s=!<>()]+)(.*)$/s.exec(part) ?? [];
    const values = rest.replace(/[^\s=!<>(),]+/g, text => (/^(?:in|notin)$/.test(text) ? text : replacements.names.replace(text)));
    return `${not}${labelKey(key, replacements)}${values}`;
  });
  return parts.join(',');
}

function kubeProxyContainer(value: unknown, replacements: Replacements): unknown {
  const {name, image, command, args} = asObject(value);
  return {
    ...(typeof name === 'string' ? {name: name.includes('kube-proxy') ? 'kube-proxy' : replacements.names.replace(name)} : {}),
    ...(typeof image === 'string' ? {image: redactImage(image)} : {}),
    ...(Array.isArray(command) ? {command: redactArguments(command, replacements)} : {}),
    ...(Array.isArray(args) ? {args: redactArguments(args, replacements)} : {}),
  };
}

/** Without the registry. The image name and its tag are kept: they show the version. */
function redactImage(image: string): string {
  const tag = /^[^@]*:(v?\d[^/:@]*)(?:@|$)/.exec(image)?.[1];
  return `registry.example/${/kube-proxy|hardened-kubernetes|hyperkube/.exec(image)?.[0] ?? 'image'}${tag === undefined ? '' : `:${knownVersion(tag)}`}`;
}

const configKeys: ReadonlySet<string> = new Set(configMapPlaces.map(({key}) => key));

/** Only the configuration of kube-proxy, and settings of Cilium, are kept. */
function configData(value: unknown, replacements: Replacements): unknown {
  return Object.fromEntries(
    Object.entries(asObject(value)).flatMap(([key, text]): readonly (readonly [string, unknown])[] => {
      const ofCilium = Object.hasOwn(ciliumSettings, key) ? ciliumSettings[key] : undefined;
      if (ofCilium !== undefined) return [[key, treat(text, ofCilium, replacements)]];
      return configKeys.has(key) && typeof text === 'string' ? [[key, redactConfigText(text, replacements)]] : [];
    }),
  );
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : {};
}
