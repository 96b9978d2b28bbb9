import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {checks} from '../../src/checks/all-checks.ts';
import type {DiagnoseOptions} from '../../src/diagnose.ts';
import {needsAction, type Scenario, scenario} from '../scenario.ts';
import {changeFirst, empty, kernel, otherName, unaware, waiting, without, withOne} from './changes.ts';

interface Incident {
  /** As in `docs/dev/incidents.md`. */
  readonly id: string;
  readonly title: string;
  /** Makes the smallest change that shows it. */
  readonly change: (given: Scenario) => void;
  /** The codes of all findings to act on, and of those that explain. */
  readonly loud: readonly string[];
  readonly quiet?: readonly string[];
  readonly options?: Partial<DiagnoseOptions>;
  /** The capture that is changed, when it is not the usual one. */
  readonly capture?: string;
}

/** Only the findings that the API objects alone show. */
const api: Partial<DiagnoseOptions> = {only: new Set(checks.filter(({code}) => code.startsWith('ST1')).map(({code}) => code))};

const onNodeB: Partial<DiagnoseOptions> = {nodes: name => name === 'node-b'};

const incidents: readonly Incident[] = [
  {
    id: 'F01',
    title: 'an endpoint that was deleted from the API',
    change: given => given.slices('shop/web', without('10.244.11.5')),
    loud: ['ST203'],
    options: onNodeB,
  },
  {
    id: 'F02',
    title: 'an endpoint that is missing on the node',
    change: given => given.slices('shop/web', withOne({addresses: ['10.244.12.50'], conditions: {ready: true}, nodeName: 'node-b'})),
    loud: ['ST202'],
    options: onNodeB,
  },
  {
    id: 'F03',
    title: 'no Service rules, and a kube-proxy whose restores fail',
    change: given => {
      empty(given, 'iptables-save');
      waiting(given);
    },
    loud: ['ST305', 'ST505'],
  },
  {id: 'F04', title: 'no Service rules in IPv6', change: given => empty(given, 'ip6tables-save'), loud: ['ST305']},
  {
    id: 'F05',
    title: 'an external IP of the other family',
    change: given => given.service('shop/external-ips', service => ({...service, spec: {...service.spec, externalIPs: ['fd00:198::10']}})),
    loud: ['ST105'],
    options: api,
  },
  {
    id: 'F06',
    title: 'a new endpoint that kube-proxy received long ago',
    change: given => {
      given.slices('shop/web', withOne({addresses: ['10.244.12.50'], conditions: {ready: true}, nodeName: 'node-b'}));
      waiting(given);
    },
    loud: ['ST202', 'ST505'],
    options: onNodeB,
  },
  {
    id: 'F07',
    title: 'conflicting Service rules in both backends',
    change: given => {
      const dump = given.rules('node-b').toString();
      given.file('node-b', 'iptables-nft-save', dump);
      given.file('node-b', 'iptables-legacy-save', dump.replaceAll(' (nf_tables)', '').replace('10.244.12.4:8080', '10.244.12.77:8080'));
    },
    loud: ['ST501'],
  },
  {
    id: 'F08',
    title: 'destinations that an older iptables could not read',
    change: given => given.rules('node-b').replaceAll('--to-destination 10.', '--to-destination :0 --persistent 10.'),
    loud: ['ST506'],
  },
  {
    id: 'F09',
    title: 'an iptables-save that failed',
    change: given =>
      given.file('node-b', 'iptables-save', "iptables-save v1.8.2 (nf_tables): table `nat' is incompatible, use 'nft' tool.\n\n"),
    loud: ['ST902'],
  },
  {
    id: 'F10',
    title: 'a REJECT of a Service that has endpoints',
    change: given =>
      given
        .rules('node-b')
        .append(
          'filter',
          '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable',
        ),
    loud: [],
    quiet: ['ST213'],
  },
  {
    id: 'F10',
    title: 'rules of iptables mode under a kube-proxy in another mode',
    change: given => given.file('node-b', 'proxy-mode', 'ipvs'),
    loud: ['ST503', 'ST901'],
  },
  {
    id: 'F11',
    title: 'a Service whose last endpoint was removed',
    change: given => given.slices('shop/web', slice => ({...slice, endpoints: []})),
    loud: ['ST101', 'ST203'],
    options: onNodeB,
  },
  {
    id: 'F12',
    title: 'no jump to the REJECTs from FORWARD',
    change: given => given.rules('node-b').delete('-A FORWARD', '-j KUBE-SERVICES'),
    loud: ['ST301'],
  },
  {
    id: 'F12',
    title: 'an ACCEPT before the REJECTs in FORWARD',
    change: given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-SERVICES'], '-A FORWARD -s 10.244.0.0/16 -j ACCEPT'),
    loud: ['ST212'],
  },
  {
    id: 'F13',
    title: 'a node port of a Service without endpoints is refused for all',
    change: given =>
      given.addService({
        metadata: {namespace: 'shop', name: 'hollow'},
        spec: {type: 'NodePort', clusterIP: '10.96.9.9', clusterIPs: ['10.96.9.9'], ports: [{name: 'http', port: 80, nodePort: 31_022}]},
      }),
    loud: ['ST101'],
    options: api,
  },
  {id: 'F14', title: 'the rules of another node name', change: otherName, loud: ['ST507'], options: {nodes: name => name === 'node-a'}},
  {
    id: 'F15',
    title: 'a node without an endpoint drops packets, as a Local policy requires',
    change: given => {
      expect(given.rules('node-c').lines('shop/lb-local:http has no local endpoints', '-j DROP')).not.toEqual([]);
    },
    loud: [],
  },
  {
    id: 'F16',
    title: 'the bypass for pods of one Service is missing',
    change: given => given.rules('node-b').delete('-A KUBE-EXT-', 'pod traffic for shop/lb-local:http'),
    loud: ['ST207'],
  },
  {
    id: 'F16',
    title: 'pods are recognized by a network that is not theirs',
    change: given =>
      given.nodeObject('node-b', node => ({...node, spec: {...node.spec, podCIDR: '10.99.2.0/24', podCIDRs: ['10.99.2.0/24']}})),
    loud: ['ST504'],
    options: onNodeB,
  },
  {
    id: 'F17',
    title: 'another cluster CIDR in all rules',
    change: given => given.rules('node-b').replaceAll('-s 10.244.0.0/16', '-s 10.200.0.0/16'),
    loud: ['ST504'],
  },
  {
    id: 'F18',
    title: 'no DROP for clients outside of the source ranges',
    change: given => given.rules('node-b').delete('-A KUBE-PROXY-FIREWALL'),
    loud: ['ST210'],
  },
  {
    id: 'F18',
    title: 'an allowed source range that is missing in the rules',
    change: given => given.rules('node-b').deleteAll('-A KUBE-FW-', ' -s '),
    loud: ['ST210'],
  },
  {
    id: 'F19',
    title: 'no masquerading of packets from an endpoint to itself',
    change: given => given.rules('node-b').delete('-A KUBE-SEP-', '"shop/web:http"', '-s 10.244.12.4/32'),
    loud: ['ST211'],
  },
  {
    id: 'F21',
    title: 'a host port before KUBE-SERVICES',
    change: given =>
      given
        .rules('node-b')
        .insertBefore(
          ['-A PREROUTING', '-j KUBE-SERVICES'],
          '-A PREROUTING -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DNAT --to-destination 10.244.12.40:80',
        ),
    loud: ['ST401'],
  },
  {id: 'F22', title: 'no jump', change: given => given.rules('node-b').delete('-A PREROUTING', '-j KUBE-SERVICES'), loud: ['ST301']},
  {
    id: 'F22',
    title: 'an unreachable jump',
    change: given => given.rules('node-b').insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -d 10.96.0.0/12 -j ACCEPT'),
    loud: ['ST401'],
  },
  {
    id: 'F23',
    title: 'flushed tables',
    change: given => {
      empty(given, 'iptables-save');
      given.file(
        'node-b',
        'iptables-save',
        given
          .rules('node-b')
          .toString()
          .replaceAll(/^:KUBE-.*\n/gm, ''),
      );
    },
    loud: ['ST305'],
    quiet: ['ST306'],
  },
  {
    id: 'F24',
    title: 'FORWARD drops by its policy',
    change: given => given.rules('node-b').policy('filter', 'FORWARD', 'DROP'),
    loud: ['ST303'],
  },
  {
    id: 'F24',
    title: 'FORWARD accepts only pods, and the rule that accepts marked packets is missing',
    change: given => {
      given.rules('node-b').policy('filter', 'FORWARD', 'DROP');
      given.rules('node-b').append('filter', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT');
      given.rules('node-b').delete('-A KUBE-FORWARD', '-j ACCEPT', '--mark');
    },
    loud: ['ST303'],
  },
  {
    id: 'F25',
    title: 'a tracked flow to a former endpoint',
    change: given =>
      given.file(
        'node-b',
        'conntrack',
        'udp      17 25 src=10.244.13.7 dst=10.96.0.10 sport=40000 dport=53 src=10.244.11.77 dst=10.244.13.7 sport=53 dport=40000 mark=0 use=1\n',
      ),
    loud: ['ST508'],
  },
  {
    id: 'F26',
    title: 'INVALID packets are not dropped',
    change: given => given.rules('node-b').delete('-A KUBE-FORWARD', 'INVALID'),
    loud: [],
    quiet: ['ST217'],
  },
  {
    id: 'F26',
    title: 'more than INVALID packets are dropped',
    change: given => given.rules('node-b').replace(['-A KUBE-FORWARD', 'INVALID'], 'INVALID', 'INVALID,NEW'),
    loud: ['ST303'],
  },
  {
    id: 'F27',
    title: 'a node drops packets although a terminating endpoint on it still serves',
    change: given =>
      given.slices(
        'shop/nodeport-local',
        withOne({
          addresses: ['10.244.12.60'],
          conditions: {ready: false, serving: true, terminating: true},
          nodeName: 'node-b',
        }),
      ),
    loud: ['ST207'],
    options: onNodeB,
  },
  {
    id: 'F28',
    title: 'one endpoint without a hint',
    change: given =>
      given.slices(
        'shop/zonal',
        changeFirst(({hints: _, ...endpoint}) => endpoint),
      ),
    loud: [],
    quiet: ['ST104'],
    options: api,
  },
  {id: 'F28', title: 'a node that has a zone uses all zones', change: unaware, loud: ['ST509'], options: onNodeB},
  {
    id: 'F29',
    title: 'a removed endpoint with session affinity',
    change: given => given.slices('shop/sticky', without('10.244.11.5')),
    loud: ['ST203'],
    options: onNodeB,
  },
  {
    id: 'F29',
    title: 'a timeout other than the configured one',
    change: given => given.rules('node-b').replaceAll('--seconds 10800', '--seconds 60'),
    loud: ['ST209'],
  },
  {
    id: 'F30',
    title: 'no ACCEPT of the health-check port',
    change: given => given.rules('node-b').delete('-A KUBE-NODEPORTS', 'health check node port'),
    loud: ['ST219'],
  },
  {
    id: 'F31',
    title: 'no slice has a port of this name',
    change: given =>
      given.service('shop/web', service => ({...service, spec: {...service.spec, ports: [{name: 'web', port: 80, protocol: 'TCP'}]}})),
    loud: ['ST102'],
    options: api,
  },
  {
    id: 'F32',
    title: 'two endpoints with one address',
    change: given =>
      given.slices('shop/web', withOne({addresses: ['10.244.12.4'], conditions: {ready: false, serving: true, terminating: true}})),
    loud: ['ST103'],
    options: api,
  },
  {
    id: 'F33',
    title: 'a node-port jump for another address',
    change: given =>
      given
        .rules('node-b')
        .replace(
          ['-A KUBE-SERVICES', '-j KUBE-NODEPORTS'],
          /-A KUBE-SERVICES (.*) -m addrtype --dst-type LOCAL/,
          '-A KUBE-SERVICES -d 192.0.2.7/32 $1',
        ),
    loud: ['ST304'],
  },
  {
    id: 'F34',
    title: 'a kube-proxy in nftables mode',
    change: given => {
      given.file('node-b', 'proxy-mode', 'nftables');
      empty(given, 'iptables-save');
      empty(given, 'ip6tables-save');
    },
    loud: ['ST901'],
  },
  {
    id: 'F35',
    title: 'no rules for an address of mode Proxy',
    change: given => {
      expect(given.rules('node-b').lines('203.0.113.10/32')).not.toEqual([]);
      expect(given.rules('node-b').lines('203.0.113.11/32')).toEqual([]);
    },
    loud: [],
  },
  {
    id: 'F36',
    title: "a node's address as an external IP",
    change: given => given.service('shop/external-ips', service => ({...service, spec: {...service.spec, externalIPs: ['172.18.0.12']}})),
    loud: ['ST106'],
    options: api,
  },
  {
    id: 'F38',
    title: 'the mark is not cleared',
    change: given => given.rules('node-b').delete('-A KUBE-POSTROUTING', '-j MARK'),
    loud: ['ST302'],
  },
  {
    id: 'F40',
    title: 'a duplicate rule',
    change: given => {
      const rule = given.rules('node-b').line('-A KUBE-FIREWALL');
      given.rules('node-b').insertAfter(['-A KUBE-FIREWALL'], ...Array.from({length: 50}, () => rule));
    },
    loud: [],
    quiet: ['ST218'],
  },
  {
    id: 'F41',
    title: 'a real server of a removed endpoint, and the virtual server of a deleted Service',
    change: given => {
      given.slices('shop/nodeport', without('10.244.11.5'));
      given.deleteService('shop/web');
    },
    loud: ['ST203', 'ST205'],
    options: {nodes: name => name === 'node-a', skip: new Set(['ST101'])},
    capture: 'ipvs/1.36',
  },
  {
    id: 'F20',
    title: 'pods on a bridge whose packets bypass iptables',
    change: given => kernel(given, {sysctls: {'net.bridge.bridge-nf-call-iptables': 0}}),
    loud: ['ST602'],
  },
  {
    id: 'F53',
    title: 'the only load balancer is of MetalLB, and every node is excluded',
    change: given => {
      for (const name of ['lb-local', 'lb-no-nodeport', 'lb-ranges', 'lb-pending'])
        given.service(`shop/${name}`, object => ({...object, spec: {...object.spec, type: 'NodePort'}}));
      given.service('shop/lb-cluster', object => ({
        ...object,
        metadata: {...object.metadata, annotations: {'metallb.io/ip-allocated-from-pool': 'first'}},
      }));
      const label = {'node.kubernetes.io/exclude-from-external-load-balancers': ''};
      for (const name of ['node-a', 'node-b', 'node-c'])
        given.nodeObject(name, node => ({...node, metadata: {...node.metadata, labels: {...node.metadata.labels, ...label}}}));
    },
    loud: ['ST111'],
    options: api,
  },
  {
    id: 'F54',
    title: 'endpoints on port 80 of pods that declare 8080',
    change: given => given.slices('shop/web', slice => ({...slice, ports: (slice.ports ?? []).map(port => ({...port, port: 80}))})),
    loud: [],
    quiet: ['ST112'],
    options: api,
  },
  {id: 'F43', title: 'forwarding is off', change: given => kernel(given, {sysctls: {'net.ipv4.ip_forward': 0}}), loud: ['ST601']},
  {id: 'F44', title: 'a bridge port without hairpin mode', change: given => kernel(given, {hairpin: false}), loud: ['ST603']},
  {
    id: 'F45',
    title: 'strict filtering, and a pod whose packets leave by another interface',
    change: given =>
      kernel(given, {
        sysctls: {'net.ipv4.conf.eth0.rp_filter': 1},
        routes: [{dst: 'default', gateway: '172.19.0.1', dev: 'eth1', table: '2'}],
        rules: [
          {priority: 512, src: 'all', dst: '10.244.0.0', dstlen: 16, table: 'main'},
          {priority: 1536, src: '10.244.11.5', table: '2'},
        ],
      }),
    loud: ['ST604'],
  },
  {
    id: 'F46',
    title: 'a full table',
    change: given => kernel(given, {sysctls: {'net.netfilter.nf_conntrack_count': 65_536}}),
    loud: ['ST605'],
  },
  {
    id: 'F47',
    title: 'local ports from 1024 on',
    change: given => kernel(given, {sysctls: {'net.ipv4.ip_local_port_range': '1024 65535'}}),
    loud: ['ST607'],
  },
  {id: 'F48', title: 'a tunnel as large as its carrier', change: given => kernel(given, {tunnelMtu: 1500}), loud: ['ST610']},
  {
    id: 'F49',
    title: 'pods of another node without a route',
    change: given => kernel(given, {routes: [{type: 'unreachable', dst: '10.244.12.0/26'}]}),
    loud: ['ST611'],
  },
  {
    id: 'F50',
    title: 'flannel masquerades before kube-proxy',
    change: given => {
      kernel(given, {});
      const dump = given.rules('node-a').toString();
      const masquerade = '-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE --random-fully';
      given.file(
        'node-a',
        'iptables-save',
        dump.replace(/^-A POSTROUTING .*-j KUBE-POSTROUTING$/m, jump => `${masquerade}\n${jump}`),
      );
    },
    // The source of these packets is rewritten as well.
    loud: ['ST211', 'ST612'],
  },
  {
    id: 'F51',
    title: 'a kube-proxy that ends again and again',
    change: given =>
      given.api(({pods}) => ({
        pods: [
          ...(pods ?? []).filter(({spec}) => spec?.nodeName !== 'node-b'),
          {
            metadata: {namespace: 'kube-system', name: 'kube-proxy-b', labels: {'k8s-app': 'kube-proxy'}},
            spec: {nodeName: 'node-b', containers: [{name: 'kube-proxy', image: 'kube-proxy:v1.36.2'}]},
            status: {
              phase: 'Running',
              containerStatuses: [
                {
                  ...{name: 'kube-proxy', image: '', imageID: '', ready: false, restartCount: 12},
                  state: {waiting: {reason: 'CrashLoopBackOff'}},
                },
              ],
            },
          },
        ],
      })),
    loud: ['ST505'],
    options: {only: new Set(['ST505'])},
  },
  {
    id: 'F52',
    title: 'a flow to the last endpoint of a Service',
    change: given => {
      given.slices('infra/dns', slice => ({...slice, endpoints: []}));
      const flow =
        'udp 17 110 src=10.244.13.7 dst=10.96.0.10 sport=40000 dport=53 src=10.244.11.9 dst=10.244.13.7 sport=53 dport=40000 use=1\n';
      given.file('node-b', 'conntrack', flow);
    },
    loud: ['ST101', 'ST508'],
    options: {only: new Set(['ST101', 'ST508'])},
  },
  {
    id: 'F55',
    title: 'an external IP, and a NetworkPolicy that allows its clients by address',
    change: given => {
      const ingress = [{from: [{ipBlock: {cidr: '203.0.113.0/24'}}]}];
      const spec = {podSelector: {matchLabels: {app: 'web'}}, policyTypes: ['Ingress'], ingress};
      given.api(() => ({networkPolicies: [{metadata: {namespace: 'shop', name: 'clients'}, spec}]}));
    },
    loud: [],
    quiet: ['ST113'],
    options: api,
  },
  {
    id: 'F56',
    title: 'jumbo frames on two nodes, and 1500 on the third',
    change: given => {
      for (const [node, own, mtu] of [['node-a', 11, 8951] as const, ['node-b', 12, 8951] as const, ['node-c', 13, 1450] as const]) {
        const links = ['flannel.1', 'cni0'].map(ifname => ({ifname, flags: ['UP'], mtu}));
        const others = [11, 12, 13]
          .filter(n => n !== own)
          .map(n => ({dst: `10.244.${n}.0/24`, gateway: `10.244.${n}.0`, dev: 'flannel.1'}));
        given.file(node, 'links.json', JSON.stringify(links));
        given.file(node, 'routes.json', JSON.stringify([...others, {dst: `10.244.${own}.0/24`, dev: 'cni0'}]));
        given.file(node, 'ip-rules.json', JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]));
      }
    },
    loud: ['ST613'],
    options: {only: new Set(['ST613'])},
  },
  ...['shop/headless', 'shop/alias', 'shop/other-proxy'].map(
    (name): Incident => ({
      id: 'F42',
      title: `${name} is not for kube-proxy`,
      change: () => {},
      loud: [],
      quiet: ['ST107'],
      options: {selects: ({metadata}) => `${metadata.namespace}/${metadata.name}` === name, byName: true},
    }),
  ),
];

describe('incidents', () => {
  test.each(incidents)('$id: $title', async ({change, loud, quiet = [], options, capture}) => {
    const given = await scenario(capture);
    change(given);
    const found = given.newFindings(options);
    const codes = (list: typeof found): readonly string[] => [...new Set(list.map(({code}) => code))].sort();
    expect(codes(found.filter(needsAction))).toEqual(loud);
    expect(codes(found)).toEqual(expect.arrayContaining([...quiet]));
  });
});

describe('docs/dev/incidents.md', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/dev/incidents.md'), 'utf8');
  const rows = [...page.matchAll(/^- (F\d\d) (.*?): .* \[[^\]]+\]\(https:\S+\)$/gm)].map(([, id = '', codes = '']) => ({id, codes}));

  test('has a line for each of them, in order', () => {
    expect(rows.map(({id}) => id)).toEqual(Array.from({length: 56}, (_, index) => `F${String(index + 1).padStart(2, '0')}`));
  });

  test('names existing codes', () => {
    const known = new Set<string>(checks.map(({code}) => code));
    expect(rows.flatMap(({codes}) => codes.match(/ST\d{3}/g) ?? []).filter(code => !known.has(code))).toEqual([]);
  });

  test.each(rows)('$id: its claims match the tests', ({id, codes}) => {
    const shown = incidents.filter(incident => incident.id === id);
    const named = new Set(codes.match(/ST\d{3}/g) ?? []);
    expect(shown.length > 0).toBe(!codes.startsWith('not '));
    expect(named.size > 0).toBe(shown.some(({loud, quiet = []}) => loud.length + quiet.length > 0));
    const bracketed = new Set([...codes.matchAll(/\((ST\d{3})\)/g)].map(([, code = '']) => code));
    const all = shown.flatMap(({loud, quiet = []}) => [...loud, ...quiet]);
    expect([...named].filter(code => !all.includes(code))).toEqual([]);
    const explains = shown.flatMap(({quiet = []}) => quiet);
    expect([...bracketed].filter(code => !explains.includes(code))).toEqual([]);
  });
});
