import {describe, expect, test} from 'vitest';
import {parseArguments, parseConfigFile, parseConfigz} from '../../../src/parse/kube-proxy/kube-proxy-config.ts';
import {readFixture} from '../../fixtures.ts';

describe('/configz', () => {
  const fromCapture = (name: string) => parseConfigz(readFixture(`captures/${name}/nodes/node-a/configz.json`).toString());

  // The nftables mode has settings of its own, which kube-proxy 1.29 and later show whatever the mode.
  const ofNftables = {nftMasqueradeAll: false, nftMasqueradeBit: 14};

  // kube-proxy before 1.26 has no localhostNodePorts, before 1.29 no tcpBeLiberal, and up to 1.27 detectLocalMode may be empty.
  test.each([
    ['healthy/1.23-iptables', {}],
    ['healthy/1.26-iptables', {localhostNodePorts: true}],
    ['healthy/1.28-iptables', {localhostNodePorts: true, detectLocalMode: 'ClusterCIDR'}],
    ['healthy/1.30-iptables', {localhostNodePorts: true, detectLocalMode: 'ClusterCIDR', tcpBeLiberal: false, ...ofNftables}],
    ['healthy/1.33-iptables', {localhostNodePorts: true, detectLocalMode: 'ClusterCIDR', tcpBeLiberal: false, ...ofNftables}],
    ['healthy/1.36-iptables', {localhostNodePorts: true, detectLocalMode: 'ClusterCIDR', tcpBeLiberal: false, ...ofNftables}],
  ])('of %s is read in any shape', (name, more) => {
    expect(fromCapture(name)).toEqual({
      mode: 'iptables',
      clusterCIDRs: ['10.244.0.0/16'],
      ipvsStrictARP: false,
      masqueradeAll: false,
      masqueradeBit: 14,
      bindAddress: '0.0.0.0',
      hostnameOverride: 'node-a',
      ...more,
    });
  });

  test.each([
    ['settings/masquerade-all', {masqueradeAll: true}],
    ['settings/masquerade-bit-5', {masqueradeBit: 5}],
    ['settings/no-localhost-nodeports', {localhostNodePorts: false}],
    ['settings/nodeport-primary', {nodePortAddresses: ['primary']}],
    ['settings/nodeport-addresses', {nodePortAddresses: ['172.18.0.0/16', 'fd00:172:18::/64']}],
    ['settings/detect-bridge', {detectLocalMode: 'BridgeInterface', bridgeInterface: 'cbr0'}],
    ['settings/detect-interface-prefix', {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth'}],
    ['settings/detect-node-cidr', {detectLocalMode: 'NodeCIDR'}],
  ])('of %s shows the setting', (name, fields) => {
    expect(fromCapture(name)).toMatchObject(fields);
  });

  test('of 1.31 to 1.35 has lists of networks, and settings under linux', () => {
    const text = JSON.stringify({
      'kubeproxy.config.k8s.io': {
        Linux: {MasqueradeAll: true, Conntrack: {TCPBeLiberal: true}},
        IPTables: {MasqueradeBit: 15, LocalhostNodePorts: false},
        DetectLocal: {ClusterCIDRs: ['10.244.0.0/16', 'fd00:10::/48'], BridgeInterface: 'br0', InterfaceNamePrefix: ''},
        FeatureGates: {PreferSameTrafficDistribution: false},
        NodePortAddresses: ['10.0.0.0/8'],
      },
    });
    expect(parseConfigz(text)).toEqual({
      masqueradeAll: true,
      nftMasqueradeAll: true,
      tcpBeLiberal: true,
      masqueradeBit: 15,
      localhostNodePorts: false,
      clusterCIDRs: ['10.244.0.0/16', 'fd00:10::/48'],
      bridgeInterface: 'br0',
      featureGates: {PreferSameTrafficDistribution: false},
      nodePortAddresses: ['10.0.0.0/8'],
    });
  });

  test.each([
    ['nftables/1.33', {mode: 'nftables', nftMasqueradeAll: false, nftMasqueradeBit: 14, nodePortAddresses: ['172.18.0.11/32']}],
    ['nftables/1.36', {mode: 'nftables', nftMasqueradeAll: false, nftMasqueradeBit: 14, nodePortAddresses: ['primary']}],
    ['nftables/masquerade-all', {masqueradeAll: false, nftMasqueradeAll: true}],
  ])('of %s shows the settings of nftables mode', (name, fields) => {
    expect(fromCapture(name)).toMatchObject(fields);
  });

  test('that is not JSON is an error, and other JSON has no settings', () => {
    expect(() => parseConfigz('404 page not found')).toThrow(SyntaxError);
    expect(parseConfigz('[]')).toEqual({});
    expect(parseConfigz('{"kubeproxy.config.k8s.io": null}')).toEqual({});
  });
});

describe('a configuration file', () => {
  test('of kubeadm is read; empty fields are unset', () => {
    // The form that kubeadm writes into the ConfigMap kube-system/kube-proxy.
    const text = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
kind: KubeProxyConfiguration
mode: ""
nodePortAddresses: null
`;
    expect(parseConfigFile(text)).toEqual({
      bindAddress: '0.0.0.0',
      clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56'],
      masqueradeAll: false,
      tcpBeLiberal: false,
    });
  });

  test('may be JSON', () => {
    expect(parseConfigFile('{"mode": "iptables", "clusterCIDR": "10.0.0.0/8"}')).toEqual({mode: 'iptables', clusterCIDRs: ['10.0.0.0/8']});
  });

  test('that is not YAML is an error, and other YAML has no settings', () => {
    expect(() => parseConfigFile('mode: [iptables')).toThrow();
    expect(parseConfigFile('just a line')).toEqual({});
    expect(parseConfigFile('- mode: iptables')).toEqual({});
    expect(parseConfigFile('mode: {iptables: true}\nclusterCIDR: 17\niptables: yes')).toEqual({});
  });

  test('with another name than that of the node before has the other fields of it', () => {
    parseConfigFile('mode: iptables\nhostnameOverride: node-1\nclusterCIDR: 10.0.0.0/8\n');
    expect(parseConfigFile('mode: iptables\nhostnameOverride: node-10\nclusterCIDR: 10.0.0.0/8\n')).toEqual({
      mode: 'iptables',
      hostnameOverride: 'node-10',
      clusterCIDRs: ['10.0.0.0/8'],
    });
  });

  test.each([
    ['another field differs', 'mode: iptables\nhostnameOverride: node-1\n', 'mode: ipvs\nhostnameOverride: node-2\n'],
    ['the name is no text', 'hostnameOverride: node-1\n', 'hostnameOverride: 12\n'],
    ['the name is null', 'hostnameOverride: node-1\n', 'hostnameOverride: null\n'],
    ['a comment follows', 'hostnameOverride: node-1 # a\n', 'hostnameOverride: node-2 # a\n'],
    ['the name is a reference', 'x: &a node-1\nhostnameOverride: *a\n', 'x: &a node-2\nhostnameOverride: *a\n'],
    ['the name goes on', 'hostnameOverride: node-1\n  more\n', 'hostnameOverride: node-2\n  more\n'],
    ['the name is also elsewhere', 'mode: node-1\nhostnameOverride: node-1\n', 'mode: node-2\nhostnameOverride: node-1\n'],
    ['the line is text of another field', 'mode: |\n hostnameOverride: node-1\n', 'mode: |\n hostnameOverride: node-2\n'],
    ['the line is commented out', 'mode: ipvs\nhostnameOverride: node-1\n', 'mode: ipvs\n#hostnameOverride: node-2\n'],
    ['the name is quoted', 'hostnameOverride: "node-1"\n', 'hostnameOverride: "node-2"\n'],
  ])('is read by itself where %s', (_, before, text) => {
    parseConfigFile('mode: other');
    const alone = parseConfigFile(text);
    parseConfigFile(before);
    expect(parseConfigFile(text)).toEqual(alone);
  });
});

describe('the arguments of kube-proxy', () => {
  test('are read with and without an equals sign', () => {
    expect(
      parseArguments([
        '--proxy-mode=iptables',
        '--cluster-cidr',
        '10.0.0.0/8,fd00::/48',
        '--masquerade-all',
        '--iptables-masquerade-bit=5',
        '--iptables-localhost-nodeports=false',
        '--nodeport-addresses=10.0.0.0/8,192.168.0.0/16',
        '--bind-address=10.0.0.1',
        '--hostname-override=Node-A',
        '--conntrack-tcp-be-liberal=true',
        '--detect-local-mode=BridgeInterface',
        '--pod-bridge-interface=cbr0',
        '--pod-interface-name-prefix=veth',
        '--feature-gates=A=true,B=false',
        '--v=2',
      ]),
    ).toEqual({
      mode: 'iptables',
      clusterCIDRs: ['10.0.0.0/8', 'fd00::/48'],
      masqueradeAll: true,
      nftMasqueradeAll: true,
      masqueradeBit: 5,
      localhostNodePorts: false,
      nodePortAddresses: ['10.0.0.0/8', '192.168.0.0/16'],
      bindAddress: '10.0.0.1',
      hostnameOverride: 'Node-A',
      tcpBeLiberal: true,
      detectLocalMode: 'BridgeInterface',
      bridgeInterface: 'cbr0',
      interfaceNamePrefix: 'veth',
      featureGates: {A: true, B: false},
    });
  });

  test('of GKE are found in the command of a shell', () => {
    const command =
      'exec kube-proxy --master=https://10.128.0.2 --cluster-cidr=10.8.0.0/14 --oom-score-adj=-998 --iptables-sync-period=1m --iptables-min-sync-period=10s 1>>/var/log/kube-proxy.log 2>&1';
    expect(parseArguments(['/bin/sh', '-c', command])).toEqual({clusterCIDRs: ['10.8.0.0/14'], minSyncPeriod: 10});
  });

  test('are read from quotes and with underscores, and boolean flags take no argument', () => {
    const script = 'exec kube-proxy --masquerade_all false --cluster-cidr="10.8.0.0/14" --hostname-override "$NODE" \n 2>&1';
    expect(parseArguments(['/bin/sh', '-c', script])).toEqual({
      masqueradeAll: true,
      nftMasqueradeAll: true,
      clusterCIDRs: ['10.8.0.0/14'],
      hostnameOverride: '$NODE',
    });
    expect(parseArguments(['--masquerade-all=F', '--cluster-cidr='])).toEqual({
      masqueradeAll: false,
      nftMasqueradeAll: false,
      clusterCIDRs: [],
    });
  });

  test('other than the hostname are ignored beside a configuration file', () => {
    expect(
      parseArguments([
        '/usr/local/bin/kube-proxy',
        '--config=/var/lib/kube-proxy/config.conf',
        '--masquerade-all',
        '--hostname-override=a',
      ]),
    ).toEqual({hostnameOverride: 'a'});
    expect(parseArguments(['--config', '/var/lib/kube-proxy/config.conf', '--cluster-cidr=10.0.0.0/8'])).toEqual({});
  });

  test('that do not affect rules are skipped', () => {
    expect(parseArguments([])).toEqual({});
    expect(parseArguments(['kube-proxy', '--v=4', '-h'])).toEqual({});
  });
});
