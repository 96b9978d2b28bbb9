import type {PodObject} from '../../../src/model/api-objects.ts';
import {expect, test} from 'vitest';
import {EditableDump} from '../../editable-dump.ts';
import {snapshotOf} from '../../fixtures.ts';
import {needsAction, Scenario} from '../../scenario.ts';
import {ruleInFront, thirdPartyRules, scenarioWith} from './merge.ts';

interface Breach {
  readonly title: string;
  /** The program on whose rules the change is made; the bare capture when there is none. */
  readonly program?: string;
  readonly change: (dump: EditableDump) => void;
  /** Every finding to act on: its code, the Service it names (null for the node), and a part of the rule it shows. */
  readonly found: readonly (readonly [code: string, subject: string | null, rule: string | null])[];
}

/** Changes that break Services, made to the bare rules of kube-proxy and to those of each program. */
const breaches: readonly Breach[] = [
  {
    title: 'a host port with the number of a node port, before the rules of kube-proxy',
    change: ruleInFront(
      'nat',
      '-A PREROUTING -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DNAT --to-destination 10.244.11.40:80',
    ),
    found: [['ST401', 'shop/nodeport', '10.244.11.40:80']],
  },
  {
    title: 'a host port with the number of a node port, for packets of the node itself',
    change: ruleInFront(
      'nat',
      '-A OUTPUT -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DNAT --to-destination 10.244.11.40:80',
    ),
    found: [['ST401', 'shop/nodeport', '10.244.11.40:80']],
  },
  {
    title: 'a DNAT of an external IP',
    change: ruleInFront('nat', '-A PREROUTING -d 198.51.100.10/32 -j DNAT --to-destination 10.244.11.40'),
    found: [['ST401', 'shop/external-ips', '10.244.11.40']],
  },
  {
    title: 'a REDIRECT of all TCP, as by a service mesh that mistook the node for a pod',
    change: ruleInFront('nat', '-A PREROUTING -p tcp -j REDIRECT --to-ports 15006'),
    found: [['ST401', null, '15006']],
  },
  {
    title: 'a third-party jump into the chain of another Service',
    change: ruleInFront('nat', '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-NPX46M4PTMTKRN6Y'),
    found: [['ST401', 'shop/web', 'KUBE-SVC-NPX46M4PTMTKRN6Y']],
  },
  {
    title: 'an ACCEPT of a cluster IP before KUBE-SERVICES',
    change: ruleInFront('nat', '-A PREROUTING -d 10.96.1.1/32 -j ACCEPT'),
    found: [['ST401', 'shop/web', '-j ACCEPT']],
  },
  {
    title: 'an ACCEPT of a cluster IP whose comment reads like a jump of kube-proxy',
    change: ruleInFront('nat', '-A PREROUTING -d 10.96.1.1/32 -m comment --comment "then -j KUBE-SERVICES" -j ACCEPT'),
    found: [['ST401', 'shop/web', '-j ACCEPT']],
  },
  {
    title: 'an ACCEPT of the whole network of cluster IPs before KUBE-SERVICES',
    change: ruleInFront('nat', '-A OUTPUT -d 10.96.0.0/12 -j ACCEPT'),
    found: [['ST401', null, '-j ACCEPT']],
  },
  {
    title: 'a RETURN of a load-balancer IP before KUBE-SERVICES',
    change: ruleInFront('nat', '-A PREROUTING -d 203.0.113.12/32 -j RETURN'),
    found: [['ST401', 'shop/lb-local', '-j RETURN']],
  },
  {
    title: 'NOTRACK of a cluster IP',
    change: ruleInFront('raw', '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j NOTRACK'),
    found: [['ST401', 'shop/web', '-j NOTRACK']],
  },
  {
    title: 'CT --notrack of a cluster IP',
    change: ruleInFront('raw', '-A OUTPUT -d 10.96.1.1/32 -j CT --notrack'),
    found: [['ST401', 'shop/web', '--notrack']],
  },
  ...(['raw', 'mangle'] as const).flatMap(table =>
    ['PREROUTING', 'OUTPUT'].map(
      (chain): Breach => ({
        title: `a DROP of a cluster IP in ${table}/${chain}`,
        change: ruleInFront(table, `-A ${chain} -d 10.96.1.1/32 -j DROP`),
        found: [['ST402', 'shop/web', '-j DROP']],
      }),
    ),
  ),
  {
    title: 'a DROP of a node port in mangle/PREROUTING',
    change: ruleInFront('mangle', '-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP'),
    found: [['ST402', 'shop/nodeport', '-j DROP']],
  },
  {
    title: 'a DROP of an external IP in raw/PREROUTING',
    change: ruleInFront('raw', '-A PREROUTING -d 198.51.100.11/32 -j DROP'),
    found: [['ST402', 'shop/external-ips', '-j DROP']],
  },
  {
    title: 'a REJECT of the port of an endpoint on the node in INPUT',
    change: ruleInFront('filter', '-A INPUT -p tcp -m tcp --dport 9100 -j REJECT --reject-with icmp-port-unreachable'),
    found: [['ST402', 'infra/node-exporter', '-j REJECT']],
  },
  {
    title: 'a DROP of the port of one endpoint in OUTPUT',
    change: ruleInFront('filter', '-A OUTPUT -d 10.244.12.9/32 -p sctp -m sctp --dport 2905 -j DROP'),
    found: [['ST402', 'infra/sctp', '-j DROP']],
  },
  {
    title: "a DROP of one endpoint's address in FORWARD",
    change: ruleInFront('filter', '-A FORWARD -d 10.244.11.8/32 -j DROP'),
    found: [
      ['ST303', 'shop/half-leaving', '-j DROP'],
      // The endpoint itself gets no replies from any Service.
      ['ST402', null, '-j DROP'],
    ],
  },
  {
    title: "a REJECT of one endpoint's address in filter/FORWARD",
    change: ruleInFront('filter', '-A FORWARD -d 192.0.2.10/32 -j REJECT --reject-with icmp-port-unreachable'),
    found: [['ST303', 'shop/manual', '-j REJECT']],
  },
  {
    title: 'a DROP of all pods in mangle/FORWARD',
    change: ruleInFront('mangle', '-A FORWARD -d 10.244.0.0/16 -j DROP'),
    // Of Services whose endpoints are no pods, pods get no replies.
    found: [
      ['ST303', null, '-j DROP'],
      ['ST402', null, '-j DROP'],
    ],
  },
  {
    title: 'FORWARD drops by its policy what kube-proxy does not masquerade',
    change: policy('FORWARD'),
    found: [['ST303', null, null]],
  },
  {
    title: 'INPUT drops by its policy',
    change: policy('INPUT'),
    // The node itself gets no replies from any Service.
    found: [
      ['ST402', null, null],
      ['ST402', 'infra/node-exporter', null],
    ],
  },
  {
    title: 'OUTPUT drops by its policy',
    change: policy('OUTPUT'),
    found: [['ST402', null, null]],
  },
  {
    title: 'REJECT at the end of FORWARD',
    change: dump => dump.append('filter', '-A FORWARD -j REJECT --reject-with icmp-host-prohibited'),
    found: [['ST303', null, 'icmp-host-prohibited']],
  },
  {
    title: 'REJECT at the end of INPUT',
    change: dump => dump.append('filter', '-A INPUT -j REJECT --reject-with icmp-host-prohibited'),
    found: [
      ['ST402', null, 'icmp-host-prohibited'],
      ['ST402', 'infra/node-exporter', 'icmp-host-prohibited'],
    ],
  },
  {
    title: 'an unknown match before KUBE-SERVICES',
    change: ruleInFront('nat', '-A PREROUTING -m bpf --bytecode "4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0" -j ACCEPT'),
    found: [['ST403', null, 'bpf']],
  },
  {
    title: 'an unknown target before KUBE-SERVICES, for one cluster IP',
    change: ruleInFront('nat', '-A PREROUTING -d 10.96.1.1/32 -j LARK --twist 3'),
    found: [['ST403', 'shop/web', 'LARK']],
  },
  {
    title: 'an ACCEPT in POSTROUTING before KUBE-POSTROUTING',
    change: ruleInFront('nat', '-A POSTROUTING -d 10.244.0.0/16 -j ACCEPT'),
    found: [['ST302', null, '-j ACCEPT']],
  },
  {
    title: 'a RETURN of marked packets in POSTROUTING before KUBE-POSTROUTING',
    change: ruleInFront('nat', '-A POSTROUTING -m mark --mark 0x4000/0x4000 -j RETURN'),
    found: [['ST302', null, '-j RETURN']],
  },
  {
    title: 'an ACCEPT in FORWARD before the REJECT of Services without endpoints',
    change: ruleInFront('filter', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT'),
    found: [['ST212', null, '-j ACCEPT']],
  },
  {
    title: 'Docker publishes a port with the number of a node port, and its jump is first',
    program: 'docker',
    change: dump => {
      dump.replace(['-A DOCKER', '--dport 8081'], '--dport 8081', '--dport 30083');
      moveToFront(dump, 'nat', '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER');
    },
    found: [['ST401', 'shop/lb-cluster', '172.17.0.2:80']],
  },
  {
    title: 'Docker sets the policy of FORWARD, and no rule accepts packets to pods',
    program: 'docker-20',
    change: dump => {
      dump.delete('-A FORWARD -s 10.244.0.0/16 -j ACCEPT');
      dump.delete('-A FORWARD -d 10.244.0.0/16 -j ACCEPT');
    },
    found: [['ST303', null, null]],
  },
  {
    title: 'portmap serves a host port with the number of a node port, and its jump is first',
    program: 'portmap',
    change: dump => {
      dump.replaceAll('--dports 8080,8443', '--dports 30081,8443');
      dump.replaceAll('--dport 8080 -j', '--dport 30081 -j');
      moveToFront(dump, 'nat', '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT');
    },
    found: [['ST401', 'shop/nodeport-local', '10.244.11.40:80']],
  },
  {
    title: 'Calico gives an external IP of a Service to a pod as its floating IP',
    program: 'calico',
    change: dump => dump.append('nat', '-A cali-fip-dnat -d 198.51.100.10/32 -j DNAT --to-destination 10.244.11.40'),
    found: [['ST401', 'shop/external-ips', '10.244.11.40']],
  },
  {
    title: 'Cilium disables connection tracking for a cluster IP',
    program: 'cilium-chaining',
    change: dump => dump.append('raw', '-A CILIUM_PRE_raw -d 10.96.1.1/32 -j CT --notrack'),
    found: [['ST401', 'shop/web', '--notrack']],
  },
  {
    title: "Istio's rules for a pod are on the node",
    program: 'istio',
    change: dump => {
      dump.declare('nat', 'ISTIO_INBOUND');
      ruleInFront('nat', '-A PREROUTING -p tcp -j ISTIO_INBOUND')(dump);
      dump.append('nat', '-A ISTIO_INBOUND -p tcp -m tcp --dport 15008 -j RETURN');
      dump.append('nat', '-A ISTIO_INBOUND -p tcp -j REDIRECT --to-ports 15006');
    },
    found: [['ST401', null, '15006']],
  },
  {
    title: 'firewalld neither trusts the pod network nor accepts translated packets, and node-exporter has no port in it',
    program: 'firewalld',
    change: dump => {
      dump.delete('-A IN_public_allow -p tcp -m tcp --dport 9100');
      dump.replaceAll('RELATED,ESTABLISHED,DNAT -j ACCEPT', 'RELATED,ESTABLISHED -j ACCEPT');
      dump.delete('-A FORWARD_ZONES -s 10.244.0.0/16');
    },
    found: [
      ['ST303', null, 'icmp-host-prohibited'],
      ['ST402', 'infra/node-exporter', 'icmp-host-prohibited'],
    ],
  },
  {
    title: "the kubelet's drop mark is kube-proxy's masquerade mark",
    program: 'kubelet',
    change: dump =>
      dump.append(
        'filter',
        '-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x4000/0x4000 -j DROP',
      ),
    found: [['ST216', null, '0x4000/0x4000']],
  },
  {
    title: 'flannel accepts the pods of another cluster',
    program: 'flannel-drop',
    change: dump => {
      dump.replace(['-A FLANNEL-FWD -s'], '10.244.0.0/16', '10.42.0.0/16');
      dump.replace(['-A FLANNEL-FWD -d'], '10.244.0.0/16', '10.42.0.0/16');
    },
    found: [['ST303', null, null]],
  },
  {
    title: 'beside kube-router, a rule drops the pod network of another node',
    program: 'kube-router',
    change: dump => dump.append('filter', '-A FORWARD -d 10.244.12.0/24 -j DROP'),
    found: [['ST303', null, '10.244.12.0/24']],
  },
  {
    title: 'NodeLocal DNSCache was removed and left its NOTRACK of the cluster IP',
    program: 'nodelocal-dns',
    change: ruleInFront(
      'raw',
      '-A PREROUTING -d 10.96.0.10/32 -p udp -m udp --dport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK',
    ),
    found: [['ST401', 'infra/dns', '-j NOTRACK']],
  },
  {
    title: 'connection tracking is off for all UDP, which is harmless for the DNS Service that the node answers, and not for others',
    program: 'nodelocal-dns-cluster-ip',
    change: ruleInFront('raw', '-A PREROUTING -p udp -j NOTRACK'),
    found: [['ST401', 'infra/same-node-port', '-A PREROUTING -p udp -j NOTRACK']],
  },
  {
    title: 'the VPC CNI accepts packets inside the VPC before KUBE-POSTROUTING',
    program: 'aws-vpc-cni',
    change: ruleInFront('nat', '-A POSTROUTING -d 10.244.0.0/16 -m comment --comment "AWS, no SNAT in the VPC" -j ACCEPT'),
    found: [['ST302', null, 'no SNAT in the VPC']],
  },
  {
    title: "reports a rule that sets the whole mark, and with it deletes kube-proxy's",
    change: ruleInFront('mangle', '-A FORWARD -j MARK --set-xmark 0x1/0xffffffff'),
    found: [['ST302', null, '--set-xmark 0x1/0xffffffff']],
  },
  {
    title: 'a GKE node lacks its ACCEPT of forwarded TCP',
    program: 'gke-ip-masq',
    change: dump => dump.delete('-A FORWARD -p tcp -j ACCEPT'),
    found: [['ST303', null, null]],
  },
  {
    title: 'ufw drops all packets to pods',
    program: 'ufw',
    change: dump => {
      dump.delete('-A ufw-user-forward -s');
      dump.delete('-A ufw-user-forward -d');
    },
    found: [['ST303', null, null]],
  },
  {
    title: 'ufw drops packets to the port of an endpoint on the node',
    program: 'ufw',
    change: dump => dump.delete('-A ufw-user-input', '--dport 9100'),
    found: [['ST402', 'infra/node-exporter', null]],
  },
];

test.each(breaches)('$title', async ({program, change, found}) => {
  const rules = thirdPartyRules().find(({name}) => name === program);
  const given = rules === undefined ? new Scenario(await snapshotOf('healthy/1.36-iptables')) : await scenarioWith(rules);
  change(given.rules('node-a'));
  const loud = given.findings({nodes: node => node === 'node-a'}).filter(finding => needsAction(finding) && /^ST[2-5]/.test(finding.code));
  const seen = loud.map(({code, service, actual}): readonly [string, string | null, string | null] => [
    code,
    service === undefined ? null : `${service.namespace}/${service.name}`,
    actual?.[0]?.text ?? null,
  ]);
  const wanted = found.map(([code, subject, rule]) => [code, subject, rule === null ? null : expect.stringContaining(rule)]);
  expect([...new Map(seen.map(one => [JSON.stringify(one), one])).values()]).toEqual(wanted);
});

test('rules of NodeLocal DNSCache for an address that is still bound are a warning where no pod of it runs on the node', async () => {
  const rules = thirdPartyRules().find(({name}) => name === 'nodelocal-dns-cluster-ip');
  const of = async (podsOf: 'this node' | 'another node' | 'unknown') => {
    const given = await scenarioWith(rules ?? {name: '', capture: ''});
    const elsewhere = (pods: readonly PodObject[]) =>
      pods.map(pod => (pod.spec?.hostNetwork === true ? {...pod, spec: {...pod.spec, nodeName: 'node-b'}} : pod));
    if (podsOf === 'another node') given.api(({pods}) => ({pods: elsewhere(pods ?? [])}));
    if (podsOf === 'unknown') given.api(() => ({pods: null}));
    const found = given.findings({nodes: node => node === 'node-a'}).filter(({code, severity}) => code === 'ST401' && severity !== 'info');
    return new Set(
      found.map(({severity, service, message}) => `${severity} ${service?.name} ${/and none of its pods.*/.exec(message)?.[0]}`),
    );
  };
  expect(await of('another node')).toEqual(new Set(['warning dns and none of its pods runs on this node: nothing may answer']));
  expect([await of('this node'), await of('unknown')]).toEqual([new Set(), new Set()]);
});

function moveToFront(dump: EditableDump, table: string, rule: string): void {
  dump.delete(rule);
  ruleInFront(table, rule)(dump);
}

function policy(chain: string): (dump: EditableDump) => void {
  return dump =>
    dump.become(new EditableDump(dump.toString().replace(new RegExp(`^(\\*filter\\n(?:.*\\n)*?:${chain}) ACCEPT`, 'm'), '$1 DROP')));
}

test('packets that a rule keeps from translation, and that meet what kube-proxy drops of other packets, are taken by that rule', async () => {
  const scenario = new Scenario(await snapshotOf('healthy/1.36-iptables'));
  ruleInFront('nat', '-A OUTPUT -d 127.0.0.1/32 -j ACCEPT')(scenario.rules('node-c'));
  const found = scenario
    .findings()
    .filter(needsAction)
    .filter(({node}) => node === 'node-c');
  expect(new Set(found.map(({code}) => code))).toEqual(new Set(['ST401']));
  const named = found.map(({service}) => service?.name);
  // Without a local endpoint, kube-proxy drops what comes untranslated to their node ports.
  expect(named).toEqual(expect.arrayContaining(['nodeport', 'nodeport-local', 'lb-local', 'both-local', 'sticky-short']));
});
