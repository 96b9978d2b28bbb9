/** The rules around IPVS of kube-proxy 1.21 to 1.25, written by hand from its sources and from a node of 1.24.3. */
import {expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectIpvs} from '../../../src/expect/ipvs/expected-ipvs.ts';
import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../../cluster.ts';
import {proxyConfig, version} from '../../kube-proxy.ts';

/** The base rules for a load balancer with source ranges, and for node ports of SCTP under both policies. */
function baseRules(text: string): ReadonlyMap<string, readonly string[]> {
  const sctp = [{name: 'sig', port: 3868, protocol: 'SCTP', targetPort: 3868}];
  const api = apiObjects({
    services: [
      service(
        'shop/lb',
        {
          ...{type: 'LoadBalancer', clusterIP: '10.96.1.1', loadBalancerSourceRanges: ['198.51.100.0/24']},
          ports: [{name: 'http', port: 80, protocol: 'TCP', nodePort: 30080}],
        },
        {ingress: [{ip: '203.0.113.10'}]},
      ),
      service('shop/sig', {type: 'NodePort', clusterIP: '10.96.1.2', ports: [{...sctp[0], port: 3868, nodePort: 31000}]}),
      service('shop/sig-local', {
        ...{type: 'NodePort', clusterIP: '10.96.1.3', externalTrafficPolicy: 'Local'},
        ports: [{...sctp[0], port: 3868, nodePort: 31001}],
      }),
    ],
    endpointSlices: ['shop/sig', 'shop/sig-local'].map(name => slice(name, [endpoint('10.244.1.5', 'node-a')], {ports: sctp})),
  });
  const node = nodeDump('node-a', {'addresses.json': '[{"ifname":"eth0","addr_info":[{"local":"172.18.0.11","prefixlen":16}]}]'});
  const config = proxyConfig({version: version(text), mode: 'ipvs'});
  return expectIpvs({view: new ClusterView(api), config, facts: nodeFacts(node, api), family: 'IPv4', bound: []}).baseRules;
}

const ranges = '-m comment --comment "Kubernetes service load balancer ip + port for load balancer with sourceRange"';
const source = '-m comment --comment "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"';

test.each(['1.21.14', '1.22.4', '1.23.4', '1.24.0', '1.24.3'])('source ranges end in KUBE-MARK-DROP of table nat in %s', text => {
  const rules = baseRules(text);
  expect(rules.get('nat/KUBE-LOAD-BALANCER')).toEqual([
    `${ranges} -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-FIREWALL`,
    '-j KUBE-MARK-MASQ',
  ]);
  expect(rules.get('nat/KUBE-FIREWALL')).toEqual([
    `${source} -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN`,
    '-j KUBE-MARK-DROP',
  ]);
  expect(rules.has('filter/KUBE-PROXY-FIREWALL')).toBe(false);
  expect(rules.get('filter/INPUT')).toEqual(['-m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT']);
});

test('source ranges end in table filter from 1.25 on', () => {
  expect(baseRules('1.25.0').has('nat/KUBE-FIREWALL')).toBe(false);
  expect(baseRules('1.25.0').get('filter/KUBE-SOURCE-RANGES-FIREWALL')?.at(-1)).toBe('-j DROP');
});

const accepts = '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT';
const forwards = '-m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT';

test('established connections are accepted by two rules up to 1.22, and by one from 1.23 on', () => {
  for (const text of ['1.21.1', '1.22.0', '1.22.17'])
    expect(baseRules(text).get('filter/KUBE-FORWARD')).toEqual([
      forwards,
      `-m comment --comment "kubernetes forwarding conntrack pod source rule" ${accepts}`,
      `-m comment --comment "kubernetes forwarding conntrack pod destination rule" ${accepts}`,
    ]);
  expect(baseRules('1.23.0').get('filter/KUBE-FORWARD')).toEqual([
    forwards,
    `-m comment --comment "kubernetes forwarding conntrack rule" ${accepts}`,
  ]);
});

test('node ports of SCTP are marked before those of the Local policy return up to 1.22, and after from 1.23 on', () => {
  const targets = (text: string) =>
    baseRules(text)
      .get('nat/KUBE-NODE-PORT')
      ?.flatMap(rule => /match-set (\S+SCTP-HASH) dst,dst -j (\S+)/.exec(rule)?.slice(1).join(' ') ?? []);
  const marked = 'KUBE-NODE-PORT-SCTP-HASH KUBE-MARK-MASQ';
  const returned = 'KUBE-NODE-PORT-LOCAL-SCTP-HASH RETURN';
  for (const text of ['1.21.1', '1.22.17']) expect(targets(text)).toEqual([marked, returned]);
  for (const text of ['1.23.0', '1.24.3', '1.36.2']) expect(targets(text)).toEqual([returned, marked]);
});
