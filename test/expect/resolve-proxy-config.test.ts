import {describe, expect, test} from 'vitest';
import {kubeProxyPod} from '../../src/expect/kube-proxy-pod.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../../src/expect/resolve-proxy-config.ts';
import type {ConfigMapObject, NodeObject, PodObject} from '../../src/model/api-objects.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {apiObjects, nodeDump} from '../cluster.ts';
import {snapshotOf} from '../fixtures.ts';

const resolve = (files: Readonly<Record<string, string>>, api: Partial<ApiObjects> = {}, overrides: ConfigOverrides = {}) =>
  resolveProxyConfig(nodeDump('node-a', files), apiObjects(api), overrides);
const configOf = (...args: Parameters<typeof resolve>) => resolve(...args).config;

function pod(
  args: readonly string[],
  more: {node?: string; image?: string; name?: string; container?: string; command?: readonly string[]} = {},
): PodObject {
  return {
    metadata: {name: more.name ?? 'kube-proxy-x7k2p', namespace: 'kube-system'},
    spec: {
      nodeName: more.node ?? 'node-a',
      containers: [
        {
          name: more.container ?? 'kube-proxy',
          image: more.image ?? 'registry.k8s.io/kube-proxy:v1.33.4',
          ...(more.command === undefined ? {} : {command: more.command}),
          args,
        },
      ],
    },
  };
}

function map(data: Readonly<Record<string, string>>, name = 'kube-proxy', namespace = 'kube-system'): ConfigMapObject {
  return {metadata: {name, namespace}, data};
}

function node(more: Partial<NodeObject['metadata']> = {}, nodeInfo: NonNullable<NodeObject['status']>['nodeInfo'] = {}): NodeObject {
  return {metadata: {name: 'node-a', ...more}, status: {nodeInfo}};
}

const configz = (fields: object) => JSON.stringify({'kubeproxy.config.k8s.io': fields});

describe('the settings of a kube-proxy', () => {
  test('without any source are kube-proxy’s defaults', () => {
    const byDefault = <T>(value: T) => ({value, source: 'kube-proxy default'});
    expect(resolve({})).toEqual({
      problems: [],
      config: {
        version: {
          value: {text: 'unknown', minor: 37, patch: null, guessed: true},
          source: 'not found: checked against the newest known rules',
        },
        mode: byDefault('iptables'),
        clusterCIDRs: byDefault([]),
        detectLocalMode: byDefault('ClusterCIDR'),
        bridgeInterface: byDefault(''),
        interfaceNamePrefix: byDefault(''),
        masqueradeAll: byDefault(false),
        masqueradeBit: byDefault(14),
        localhostNodePorts: byDefault(true),
        nodePortAddresses: byDefault([]),
        bindAddress: byDefault('0.0.0.0'),
        nodeName: byDefault('node-a'),
        tcpBeLiberal: byDefault(false),
        ipvsScheduler: byDefault(''),
        ipvsStrictARP: byDefault(false),
        ipvsExcludeCIDRs: byDefault([]),
        featureGates: byDefault({}),
        zone: {value: null, source: 'label of the Node'},
      },
    });
  });

  test('come from the first source that has them: flag, /configz, file, arguments of the pod, ConfigMap', () => {
    const files = {
      'configz.json': configz({clusterCIDR: '10.2.0.0/16'}),
      'kube-proxy-config.yaml': 'clusterCIDR: 10.3.0.0/16\nmode: iptables\nbindAddress: 10.0.0.3',
    };
    const api = {
      pods: [pod(['--cluster-cidr=10.4.0.0/16', '--bind-address=10.0.0.4', '--masquerade-all'])],
      configMaps: [
        map({'config.conf': 'clusterCIDR: 10.5.0.0/16\niptables: {masqueradeAll: false, masqueradeBit: 7}\nbindAddress: 10.0.0.5'}),
      ],
    };
    expect(configOf(files, api, {clusterCIDRs: ['10.1.0.0/16']}).clusterCIDRs).toEqual({value: ['10.1.0.0/16'], source: 'flag'});
    expect(configOf(files, api)).toMatchObject({
      clusterCIDRs: {value: ['10.2.0.0/16'], source: 'configz.json'},
      mode: {value: 'iptables', source: 'kube-proxy-config.yaml'},
      bindAddress: {value: '10.0.0.3', source: 'kube-proxy-config.yaml'},
      masqueradeAll: {value: true, source: 'arguments of pod kube-proxy-x7k2p'},
      masqueradeBit: {value: 7, source: 'ConfigMap kube-proxy'},
      localhostNodePorts: {value: true, source: 'kube-proxy default'},
    });
    expect(configOf({}, api).clusterCIDRs).toEqual({value: ['10.4.0.0/16'], source: 'arguments of pod kube-proxy-x7k2p'});
    expect(configOf({}, {configMaps: api.configMaps}).clusterCIDRs).toEqual({value: ['10.5.0.0/16'], source: 'ConfigMap kube-proxy'});
  });

  test.each([
    ['healthy/1.23-iptables', 'v1.23.4'],
    ['healthy/1.28-iptables', 'v1.28.3'],
    ['healthy/1.33-iptables', 'v1.33.13'],
    ['healthy/1.36-iptables', 'v1.36.2'],
  ])('of %s are read from the pages of its kube-proxy', async (name, text) => {
    const {api, nodes} = await snapshotOf(name);
    const [first] = nodes;
    if (first === undefined) throw new Error('no node');
    const {config, problems} = resolveProxyConfig(first, api, {});
    expect(problems).toEqual([]);
    expect(config).toMatchObject({
      version: {value: {text}, source: 'kube-proxy-version'},
      mode: {value: 'iptables', source: 'proxy-mode'},
      clusterCIDRs: {value: ['10.244.0.0/16'], source: 'configz.json'},
      masqueradeBit: {value: 14, source: 'configz.json'},
      nodeName: {value: 'node-a', source: 'configz.json'},
      tcpBeLiberal: {value: false, source: 'sysctls'},
      zone: {value: 'zone-1', source: 'label of the Node'},
    });
  });

  test('of a kubeadm cluster are those of its ConfigMap, and the name that of the Node', () => {
    const args = ['/usr/local/bin/kube-proxy', '--config=/var/lib/kube-proxy/config.conf', '--hostname-override=$(NODE_NAME)'];
    const api = {
      pods: [pod([], {command: args}), pod(['--cluster-cidr=10.9.0.0/16'], {node: 'node-b', name: 'kube-proxy-other'})],
      configMaps: [
        map({'config.conf': 'clusterCIDR: 10.8.0.0/16'}, 'kube-proxy', 'elsewhere'),
        map({'config.conf': 'clusterCIDR: 10.244.0.0/16\nmode: ""\nhostnameOverride: ""\niptables: {masqueradeBit: null}'}),
      ],
    };
    expect(configOf({}, api)).toMatchObject({
      clusterCIDRs: {value: ['10.244.0.0/16'], source: 'ConfigMap kube-proxy'},
      mode: {value: 'iptables', source: 'kube-proxy default'},
      masqueradeBit: {value: 14, source: 'kube-proxy default'},
      nodeName: {value: 'node-a', source: 'Node'},
      version: {value: {text: 'v1.33.4'}, source: "image of kube-proxy's pod"},
    });
  });

  test('of EKS are those of its own ConfigMap', () => {
    const api = {configMaps: [map({config: 'clusterCIDR: ""\nmode: iptables'}, 'kube-proxy-config')]};
    expect(configOf({}, api)).toMatchObject({
      mode: {value: 'iptables', source: 'ConfigMap kube-proxy-config'},
      clusterCIDRs: {value: [], source: 'kube-proxy default'},
    });
  });

  test('of GKE are in the command of a static pod', () => {
    const command = [
      '/bin/sh',
      '-c',
      'exec kube-proxy --cluster-cidr=10.8.0.0/14 --iptables-sync-period=1m 1>>/var/log/kube-proxy.log 2>&1',
    ];
    const api = {pods: [pod([], {command, name: 'kube-proxy-gke-pool-1'})]};
    expect(configOf({}, api).clusterCIDRs).toEqual({value: ['10.8.0.0/14'], source: 'arguments of pod kube-proxy-gke-pool-1'});
  });

  test('are those that its rules show if there is no other source', () => {
    const inferred = {clusterCIDRs: ['10.7.0.0/16'], masqueradeBit: 9};
    const seen = (files: Readonly<Record<string, string>>, api: Partial<ApiObjects> = {}) =>
      resolveProxyConfig(nodeDump('node-a', files), apiObjects(api), {}, () => inferred).config.clusterCIDRs;
    expect(seen({})).toEqual({value: ['10.7.0.0/16'], source: "seen in the node's rules"});
    expect(seen({'configz.json': configz({mode: 'iptables'})}).source).toBe('kube-proxy default');
    expect(seen({}, {configMaps: [map({'config.conf': 'mode: iptables'})]}).source).toBe('kube-proxy default');
    // A command line that names a file on another path shows no setting.
    expect(seen({}, {pods: [pod(['--config=/etc/x', '--hostname-override=a'])]}).source).toBe("seen in the node's rules");
    expect(seen({}, {pods: [pod(['--masquerade-all'])]}).source).toBe('kube-proxy default');
  });

  test('of a pod are those of its only container, whatever its name', () => {
    expect(configOf({}, {pods: [pod(['--cluster-cidr=10.4.0.0/16'], {container: 'main'})]}).clusterCIDRs.value).toEqual(['10.4.0.0/16']);
  });

  test('that cannot be read are a problem, and the others are used', () => {
    const files = {'configz.json': '404 page not found\n', 'kube-proxy-config.yaml': 'mode: [iptables', 'proxy-mode': 'iptables'};
    const api = {configMaps: [map({'config.conf': 'clusterCIDR: 10.244.0.0/16\n\tmode: x'})]};
    const {config, problems} = resolve(files, api);
    expect(config.clusterCIDRs.source).toBe('kube-proxy default');
    expect(problems.map(problem => problem.message)).toEqual([
      expect.stringMatching(/^configz\.json cannot be read: [^\n]+$/),
      expect.stringMatching(/^kube-proxy-config\.yaml cannot be read: [^\n]+$/),
      expect.stringMatching(/^ConfigMap kube-proxy cannot be read: [^\n]+$/),
    ]);
    expect(problems.every(problem => problem.node === 'node-a')).toBe(true);
  });

  test('from empty files are unset, which is no problem', () => {
    expect(
      resolve({'configz.json': '', 'kube-proxy-config.yaml': '\n', 'proxy-mode': '', 'kube-proxy-version': '', sysctls: ''}).problems,
    ).toEqual([]);
  });

  test('with unknown values are handled like in kube-proxy', () => {
    expect(configOf({'configz.json': configz({detectLocalMode: 'Unheard'})}).detectLocalMode.value).toBe('ClusterCIDR');
    for (const mode of ['NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'])
      expect(configOf({'configz.json': configz({detectLocalMode: mode})}).detectLocalMode.value).toBe(mode);
  });
});

test('addresses of node ports that /configz shows as the default of nftables mode are those of no other mode', () => {
  const addresses = (shown: readonly string[], mode?: string) => {
    const configz = JSON.stringify({'kubeproxy.config.k8s.io': {mode: 'nftables', nodePortAddresses: shown}});
    const node: NodeObject = {metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address: '192.0.2.1'}]}};
    return configOf({'configz.json': configz}, {nodes: [node]}, mode === undefined ? {} : {mode}).nodePortAddresses.value;
  };
  expect(addresses(['primary'])).toEqual(['primary']);
  expect(addresses(['primary'], 'iptables')).toEqual([]);
  expect(addresses(['192.0.2.1/32'], 'iptables')).toEqual([]);
  expect(addresses(['192.0.2.0/24'], 'iptables')).toEqual(['192.0.2.0/24']);
});

describe('the mode', () => {
  test('with a name that is not a mode of kube-proxy is reported and ignored', () => {
    const {config, problems} = resolve({'proxy-mode': '404 page not found', 'configz.json': configz({mode: 'iptables'})});
    expect(config.mode).toEqual({value: 'iptables', source: 'configz.json'});
    expect(problems.map(({message}) => message).join()).toContain('404 page not found');
  });

  test('is the one that the running kube-proxy reports, unless a flag sets it', () => {
    const files = {'proxy-mode': 'nftables\n', 'configz.json': configz({mode: 'iptables'})};
    expect(configOf(files).mode).toEqual({value: 'nftables', source: 'proxy-mode'});
    expect(configOf(files, {}, {mode: 'ipvs'}).mode).toEqual({value: 'ipvs', source: 'flag'});
    expect(configOf({'configz.json': configz({mode: 'ipvs'})}).mode).toEqual({value: 'ipvs', source: 'configz.json'});
  });
});

describe('the name of the node', () => {
  test('is trimmed and in lower case', () => {
    expect(configOf({'configz.json': configz({hostnameOverride: ' Node-A.Example.ORG '})}).nodeName.value).toBe('node-a.example.org');
  });
});

describe('the zone', () => {
  test('is the label of the Node, unless a flag says otherwise', () => {
    const nodes = [node({labels: {'topology.kubernetes.io/zone': 'zone-7'}})];
    expect(configOf({}, {nodes}).zone).toEqual({value: 'zone-7', source: 'label of the Node'});
    expect(configOf({}, {nodes}, {zone: 'zone-8'}).zone).toEqual({value: 'zone-8', source: 'flag'});
    expect(configOf({}, {nodes: [node()]}).zone.value).toBeNull();
  });
});

describe('nf_conntrack_tcp_be_liberal', () => {
  test('strictARP is what the sysctls are set to, whatever is configured; without them, what is configured', () => {
    const config = {'kube-proxy-config.yaml': 'mode: ipvs\nipvs: {strictARP: true}\n'};
    const arp = (ignore: number, announce: number) => ({
      sysctls: `net.ipv4.conf.all.arp_ignore = ${ignore}\nnet.ipv4.conf.all.arp_announce = ${announce}\n`,
    });
    expect(configOf(config).ipvsStrictARP).toEqual({value: true, source: 'kube-proxy-config.yaml'});
    expect(configOf({...config, ...arp(0, 0)}).ipvsStrictARP).toEqual({value: false, source: 'sysctls'});
    expect(configOf({...config, ...arp(1, 2)}).ipvsStrictARP).toEqual({value: true, source: 'sysctls'});
  });

  test("is the kernel's setting, whoever set it", () => {
    const liberal = (value: number) => ({sysctls: `net.ipv4.ip_forward = 1\nnet.netfilter.nf_conntrack_tcp_be_liberal = ${value}\n`});
    expect(configOf(liberal(1)).tcpBeLiberal).toEqual({value: true, source: 'sysctls'});
    expect(configOf({...liberal(0), 'configz.json': configz({conntrack: {tcpBeLiberal: true}})}).tcpBeLiberal.value).toBe(false);
    expect(configOf({'configz.json': configz({conntrack: {tcpBeLiberal: true}})}).tcpBeLiberal).toEqual({
      value: true,
      source: 'configz.json',
    });
  });
});

describe('the version', () => {
  const nodes = [node({}, {kubeProxyVersion: 'v1.31.1', kubeletVersion: 'v1.31.2'})];

  test('comes from the first source that has it: flag, kube-proxy, its image, the Node', () => {
    const api = {nodes, pods: [pod([])]};
    expect(configOf({'kube-proxy-version': 'Kubernetes v1.34.9\n'}, api, {version: '1.30'}).version).toEqual({
      value: {text: 'v1.30', minor: 30, patch: null},
      source: 'flag',
    });
    expect(configOf({'kube-proxy-version': 'Kubernetes v1.34.9\n'}, api).version).toEqual({
      value: {text: 'v1.34.9', minor: 34, patch: 9},
      source: 'kube-proxy-version',
    });
    expect(configOf({}, api).version).toMatchObject({value: {text: 'v1.33.4'}, source: "image of kube-proxy's pod"});
    expect(configOf({}, {nodes}).version).toMatchObject({value: {text: 'v1.31.1'}, source: 'Node status'});
    expect(configOf({}, {nodes: [node({}, {kubeProxyVersion: '', kubeletVersion: 'v1.31.2'})]}).version).toMatchObject({
      value: {text: 'v1.31.2'},
      source: 'kubelet version in the Node status',
    });
  });

  test.each([
    ['602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy:v1.29.0-minimal-eksbuild.1', 29, 0],
    ['localhost:5000/kube-proxy:v1.30.2', 30, 2],
    ['registry.k8s.io/kube-proxy:v1.32.13@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 32, 13],
  ])('of the image %s is its tag', (image, minor, patch) => {
    expect(configOf({}, {pods: [pod([], {image})]}).version).toMatchObject({value: {minor, patch}, source: "image of kube-proxy's pod"});
  });

  test.each(['registry.k8s.io/kube-proxy@sha256:0123456789abcdef', 'localhost:5000/kube-proxy', 'kube-proxy'])(
    'is not in the image %s, and that of the Node is used',
    image => {
      const {config, problems} = resolve({}, {nodes, pods: [pod([], {image})]});
      expect(config.version.source).toBe('Node status');
      expect(problems).toEqual([]);
    },
  );

  test('that is invalid is a problem, and the next source is used', () => {
    const {config, problems} = resolve(
      {'kube-proxy-version': 'sh: kube-proxy: not found\n'},
      {nodes, pods: [pod([], {image: 'kube-proxy:latest'})]},
    );
    expect(config.version.source).toBe('Node status');
    expect(problems).toEqual([
      {node: 'node-a', message: 'kube-proxy-version: "sh: kube-proxy: not found" is no version of kube-proxy'},
      {node: 'node-a', message: 'image of kube-proxy\'s pod: "latest" is no version of kube-proxy'},
    ]);
  });

  test.each([
    ['v1.36.2', 'v1.36.2', 36, 2],
    ['1.30', 'v1.30', 30, null],
    ['v1.33', 'v1.33', 33, null],
    ['Kubernetes v1.30.5-gke.100', 'v1.30.5-gke.100', 30, 5],
    ['v1.29.1+k3s2\n', 'v1.29.1+k3s2', 29, 1],
    ['v1.34.1-rc1+k3s1', 'v1.34.1-rc1+k3s1', 34, 1],
    ['v1.30.4-rke2r1-build20240815', 'v1.30.4-rke2r1-build20240815', 30, 4],
    ['v1.29.0-minimal-eksbuild.1', 'v1.29.0-minimal-eksbuild.1', 29, 0],
    ['v1.28.9-hotfix.20240601', 'v1.28.9-hotfix.20240601', 28, 9],
    ['v1.28.6+0fb4726', 'v1.28.6+0fb4726', 28, 6],
    ['go1.22.5 v1.30.4', 'v1.30.4', 30, 4],
    ['go1.22.5 1.30.4', 'v1.30.4', 30, 4],
    ['1.22.5 v1.30.4', 'v1.30.4', 30, 4],
  ])('%j is read', (text, printed, minor, patch) => {
    expect(configOf({'kube-proxy-version': text}).version.value).toEqual({text: printed, minor, patch});
  });

  test.each([
    ['v1.34.0-rc.1', 34, 0],
    ['Kubernetes v1.33.6-rc.0', 33, 6],
    ['v1.37.0-alpha.3.120+4d8a8d7c', 37, 0],
  ])('%j comes before the version that it names', (text, minor, patch) => {
    expect(configOf({'kube-proxy-version': text}).version.value).toMatchObject({minor, patch, isPreRelease: true});
  });

  test.each(['', 'latest', 'v2.1.3', 'v11.2', 'unknown', 'go1.22.5'])('%j is no version', text => {
    expect(configOf({'kube-proxy-version': text}).version.value).toMatchObject({text: 'unknown', guessed: true});
  });
});

test('the pod of a node’s kube-proxy is identified by its name, its namespace and its node', () => {
  const pods = [
    pod([], {name: 'coredns-1'}),
    {...pod([]), metadata: {name: 'kube-proxy-fake', namespace: 'default'}},
    pod([], {node: 'node-b', name: 'kube-proxy-b'}),
    pod([], {name: 'kube-proxy-a'}),
  ];
  expect(kubeProxyPod(apiObjects({pods}), 'node-a')?.metadata.name).toBe('kube-proxy-a');
  expect(kubeProxyPod(apiObjects({pods}), 'node-c')).toBeUndefined();
  expect(kubeProxyPod(apiObjects({}), 'node-a')).toBeUndefined();
});
