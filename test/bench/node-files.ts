import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import type {ProxyMode} from './cluster-size.ts';
import type {Cluster, ClusterNode} from './model.ts';

interface BundledNode {
  readonly cluster: Cluster;
  readonly node: ClusterNode;
  readonly mode: ProxyMode;
}

/** What a bundle holds of a node beside the dumps. */
export function writeNodeFiles(dir: string, {cluster, node, mode}: BundledNode): void {
  writeFileSync(join(dir, 'kube-proxy-version'), `${versionOf[mode]}\n`);
  writeFileSync(join(dir, 'proxy-mode'), mode);
  writeFileSync(join(dir, 'kube-proxy-config.yaml'), proxyConfig({cluster, node, mode}));
  writeFileSync(join(dir, 'addresses.json'), `${JSON.stringify(interfaces(node))}\n`);
}

/** In nftables mode the last version with a chain for each endpoint. */
const versionOf: Readonly<Record<ProxyMode, string>> = {iptables: 'v1.36.2', nftables: 'v1.35.4'};

function proxyConfig({cluster: {podCIDR}, node, mode}: BundledNode): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${mode}
hostnameOverride: ${node.name}
clusterCIDR: ${podCIDR.IPv4},${podCIDR.IPv6}
clientConnection: {kubeconfig: /var/lib/kube-proxy/proxy.kubeconfig}
`;
}

/** As `ip -j address` prints them. */
export function interfaces(node: ClusterNode): unknown[] {
  return [
    {
      ifindex: 1,
      ifname: 'lo',
      flags: ['LOOPBACK', 'UP', 'LOWER_UP'],
      mtu: 65536,
      operstate: 'UNKNOWN',
      link_type: 'loopback',
      address: '00:00:00:00:00:00',
      addr_info: [
        {family: 'inet', local: '127.0.0.1', prefixlen: 8, scope: 'host', label: 'lo'},
        {family: 'inet6', local: '::1', prefixlen: 128, scope: 'host'},
      ],
    },
    {
      ifindex: 2,
      ifname: 'eth0',
      flags: ['BROADCAST', 'MULTICAST', 'UP', 'LOWER_UP'],
      mtu: 1500,
      operstate: 'UP',
      link_type: 'ether',
      address: '02:00:00:00:00:02',
      addr_info: [
        {
          family: 'inet',
          local: node.address.IPv4,
          prefixlen: 16,
          scope: 'global',
          label: 'eth0',
        },
        {family: 'inet6', local: node.address.IPv6, prefixlen: 64, scope: 'global'},
      ],
    },
  ];
}
