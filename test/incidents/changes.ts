/** The smallest changes of a healthy capture that show a fault. */
import type {EndpointSliceObject, SliceEndpoint} from '../../src/model/api-objects.ts';
import type {Scenario} from '../scenario.ts';

export function without(address: string): (slice: EndpointSliceObject) => EndpointSliceObject {
  return slice => ({...slice, endpoints: (slice.endpoints ?? []).filter(({addresses}) => !addresses?.includes(address))});
}

export function withOne(endpoint: SliceEndpoint): (slice: EndpointSliceObject) => EndpointSliceObject {
  return slice => ({...slice, endpoints: [...(slice.endpoints ?? []), endpoint]});
}

export function changeFirst(change: (endpoint: SliceEndpoint) => SliceEndpoint): (slice: EndpointSliceObject) => EndpointSliceObject {
  return slice => ({...slice, endpoints: (slice.endpoints ?? []).map((endpoint, index) => (index === 0 ? change(endpoint) : endpoint))});
}

/** Chains and hooks of kube-proxy, and not one rule of a Service, on node-b. */
export function empty(given: Scenario, file: string): void {
  given.rules('node-b', file).deleteAll('-A KUBE-');
}

/** A change that the kube-proxy of node-b has been failing to carry out for ten minutes. */
export function waiting(given: Scenario): void {
  const now = '2026-11-21T09:31:24Z';
  const seconds = Date.parse(now) / 1000;
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, lastUpdated: now, healthy: true}));
  given.file(
    'node-b',
    'metrics',
    [
      `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} ${seconds - 600}`,
      `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} ${seconds - 900}`,
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total 20',
      '',
    ].join('\n'),
  );
}

/** Services with hints are left out of the API and of all rules: they go by the zone of the node. */
function withoutHints(given: Scenario): void {
  for (const name of ['zonal', 'nodal']) {
    given.deleteService(`shop/${name}`);
    for (const node of ['node-a', 'node-b', 'node-c']) given.rules(node).deleteAll(`"shop/${name}:http`);
  }
}

/** The rules of node-c, where no endpoint is local, on node-a. */
export function otherName(given: Scenario): void {
  withoutHints(given);
  given.rules('node-a').become(given.rules('node-c'));
}

/** The only Service with hints, and its rules spread over all its endpoints. */
export function unaware(given: Scenario): void {
  withoutHints(given);
  given.slices('shop/web', slice => ({
    ...slice,
    endpoints: (slice.endpoints ?? []).map(endpoint => ({
      ...endpoint,
      hints: {forZones: [{name: endpoint.nodeName === 'node-a' ? 'zone-1' : 'zone-2'}]},
    })),
  }));
}

interface Kernel {
  readonly sysctls?: Readonly<Record<string, string | number>>;
  readonly hairpin?: boolean;
  readonly routes?: readonly object[];
  readonly links?: readonly object[];
  readonly rules?: readonly object[];
  readonly tunnelMtu?: number;
}

/** What iproute2 and sysctl print of node-a: a healthy node with a bridge and flannel, and what is given. */
export function kernel(
  given: Scenario,
  {sysctls = {}, hairpin = true, routes = [], links: others = [], rules = [], tunnelMtu = 1450}: Kernel,
): void {
  const usual = {
    ...{'net.ipv4.ip_forward': 1, 'net.ipv6.conf.all.forwarding': 1, 'net.ipv4.conf.all.rp_filter': 0, 'net.ipv4.conf.eth0.rp_filter': 0},
    ...{'net.bridge.bridge-nf-call-iptables': 1, 'net.bridge.bridge-nf-call-ip6tables': 1},
    ...{'net.netfilter.nf_conntrack_count': 900, 'net.netfilter.nf_conntrack_max': 65_536},
    'net.ipv4.ip_local_port_range': '32768 60999',
  };
  const lines = Object.entries({...usual, ...sysctls}).map(([name, value]) => `${name} = ${value}\n`);
  given.file('node-a', 'sysctls', lines.join(''));
  const up = {flags: ['UP'], promiscuity: 0};
  const port = {...up, ifname: 'veth1', master: 'cni0', link_netnsid: 0, linkinfo: {info_kind: 'veth', info_slave_data: {hairpin}}};
  const tunnel = {...up, ifname: 'flannel.1', mtu: tunnelMtu, linkinfo: {info_kind: 'vxlan', info_data: {id: 1, link: 'eth0', port: 8472}}};
  const links = [{...up, ifname: 'eth0', mtu: 1500}, {...up, ifname: 'cni0', linkinfo: {info_kind: 'bridge'}}, port, tunnel, ...others];
  given.file('node-a', 'links.json', JSON.stringify(links));
  const pods = ['12', '13'].map(n => ({dst: `10.244.${n}.0/24`, gateway: `10.244.${n}.0`, dev: 'flannel.1'}));
  const main = [
    {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
    {dst: '172.18.0.0/16', dev: 'eth0'},
    {dst: '10.244.11.0/24', dev: 'cni0'},
  ];
  given.file('node-a', 'routes.json', JSON.stringify([...main, ...pods, ...routes]));
  given.file('node-a', 'ip-rules.json', JSON.stringify([...rules, {priority: 32_766, src: 'all', table: 'main'}]));
}
