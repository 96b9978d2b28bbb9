/** Public reports, rebuilt by what they tell of the cluster: the cause that was confirmed is named, and nothing else is. */
import {describe, expect, test} from 'vitest';
import type {DiagnoseOptions} from '../../src/diagnose.ts';
import {kubeProxyLog} from '../../src/model/node/kube-proxy-failures.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {trafficOf, webPort} from '../checks/traffic.ts';
import {needsAction, type Scenario, scenario} from '../scenario.ts';
import {empty, kernel, otherName, waiting, without, withOne} from './changes.ts';

interface PublicReport {
  readonly source: string;
  readonly symptom: string;
  readonly change: (given: Scenario) => void;
  /** The codes of all findings to act on, or of the one that explains, each with words of its message. */
  readonly says: Readonly<Record<string, string>>;
  readonly capture?: string;
  readonly options?: Partial<DiagnoseOptions>;
}

const k8s = 'https://github.com/kubernetes/kubernetes/issues/';

/** Nothing is ready, and pods are there whose labels are others than the selector. */
const relabeled = (given: Scenario): void => {
  given.service('shop/web', service => ({...service, spec: {...service.spec, selector: {run: 'web'}}}));
  given.slices('shop/web', slice => ({...slice, endpoints: []}));
  given.leaveOutNodes();
};

const failing = (line: string) => (given: Scenario) => {
  empty(given, 'iptables-save');
  given.file('node-b', kubeProxyLog, `${line}\n`);
};

const behind = (line: string) => (given: Scenario) => {
  given.slices('shop/web', withOne({addresses: ['10.244.12.50'], conditions: {ready: true}, nodeName: 'node-b'}));
  waiting(given);
  given.file('node-b', kubeProxyLog, `${line}\n`);
};

const unauthorized =
  'E0901 10:00:00.000000       1 reflector.go:138] k8s.io/client-go/informers/factory.go:134: Failed to watch *v1.EndpointSlice: failed to list *v1.EndpointSlice: Unauthorized';

const onNodeB: Partial<DiagnoseOptions> = {nodes: name => name === 'node-b'};

const udp = (to: string, state = '[ASSURED] ') =>
  `udp      17 110 src=10.244.13.7 dst=10.96.0.10 sport=40000 dport=53 src=${to} dst=10.244.13.7 sport=53 dport=40000 ${state}mark=0 use=1\n`;

const named: readonly PublicReport[] = [
  {
    source: 'a kernel without table nat',
    symptom: 'no Services: the dump has no table nat, and the log says why',
    change: given => {
      empty(given, 'iptables-save');
      const [before = '', after = ''] = given.rules('node-b').toString().split('*nat\n');
      given.file('node-b', 'iptables-save', before + after.slice(after.indexOf('COMMIT\n') + 'COMMIT\n'.length));
      given.file(
        'node-b',
        kubeProxyLog,
        "iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)\n",
      );
    },
    says: {ST305: 'no such table of iptables'},
    options: onNodeB,
  },
  {
    source: 'Calico in eBPF mode beside kube-proxy',
    symptom: 'rules are outdated, and each sync fails',
    change: given => {
      behind("iptables-restore v1.8.9 (nf_tables): Couldn't load target `KUBE-SVC-TCOU7JCQXEZGVUNU':No such file or directory")(given);
      given.file('node-b', 'links.json', JSON.stringify([{ifname: 'bpfin.cali', flags: ['UP']}]));
    },
    says: {ST202: '10.244.12.50', ST505: 'the node has bpfin.cali, which Calico makes in eBPF mode'},
    options: onNodeB,
  },
  {
    source: `${k8s}47711`,
    symptom: 'the Service has no endpoints',
    change: relabeled,
    says: {ST101: 'its selector run=web matches no pod'},
  },
  {
    source: 'https://github.com/helm/charts/issues/5455',
    symptom: 'a load balancer is empty',
    change: given => {
      given.service('shop/lb-cluster', service => ({...service, spec: {...service.spec, selector: {app: 'web', release: 'other'}}}));
      given.slices('shop/lb-cluster', slice => ({...slice, endpoints: []}));
      given.leaveOutNodes();
    },
    says: {ST101: 'its selector app=web,release=other matches no pod'},
  },
  {
    source: 'https://toolstac.com',
    symptom: 'connections are refused although there are endpoints',
    change: given => {
      given.slices('shop/web', slice => ({...slice, ports: (slice.ports ?? []).map(port => ({...port, port: 80}))}));
      given.leaveOutNodes();
    },
    says: {ST112: 'port 80'},
  },
  {
    source: 'https://github.com/metallb/metallb/issues/2353',
    symptom: 'the load-balancer address is never announced',
    change: given => {
      for (const name of ['lb-local', 'lb-no-nodeport', 'lb-ranges', 'lb-pending', 'empty-lb'])
        given.service(`shop/${name}`, object => ({...object, spec: {...object.spec, type: 'NodePort'}}));
      given.service('shop/lb-cluster', object => ({
        ...object,
        metadata: {...object.metadata, annotations: {'metallb.universe.tf/ip-allocated-from-pool': 'first'}},
      }));
      const label = {'node.kubernetes.io/exclude-from-external-load-balancers': ''};
      for (const name of ['node-a', 'node-b', 'node-c'])
        given.nodeObject(name, node => ({...node, metadata: {...node.metadata, labels: {...node.metadata.labels, ...label}}}));
      given.leaveOutNodes();
    },
    says: {ST111: 'exclude-from-external-load-balancers'},
  },
  {
    source: 'https://github.com/cloudfoundry-incubator/kubo-release/issues/277',
    symptom: 'node ports of Local Services are dropped on every node',
    change: otherName,
    says: {ST507: 'node-a'},
    options: {nodes: name => name === 'node-a'},
  },
  {
    source: `${k8s}55429`,
    symptom: 'no session affinity',
    change: given => given.rules('node-b').deleteAll('-A KUBE-', '--rcheck'),
    says: {ST209: 'shop/sticky'},
  },
  {
    source: 'https://github.com/flannel-io/flannel/issues/1702',
    symptom: 'a pod does not reach a cluster IP if the endpoint is on its node',
    change: given => kernel(given, {sysctls: {'net.bridge.bridge-nf-call-iptables': 0}}),
    says: {ST602: 'net.bridge.bridge-nf-call-iptables is 0'},
  },
  {
    source: 'https://github.com/aws/amazon-vpc-cni-k8s/issues/75',
    symptom: 'node ports time out for pods on secondary interfaces',
    change: given =>
      kernel(given, {
        sysctls: {'net.ipv4.conf.all.rp_filter': 1},
        routes: [{dst: 'default', gateway: '172.19.0.1', dev: 'eth1', table: '2'}],
        rules: [
          {priority: 512, src: 'all', dst: '10.244.0.0', dstlen: 16, table: 'main'},
          {priority: 1536, src: '10.244.11.5', table: '2'},
        ],
      }),
    says: {ST604: 'rp_filter of eth0 is strict'},
  },
  {
    source: 'https://besthub.dev',
    symptom: 'calls time out for one to five seconds under load',
    change: given => {
      kernel(given, {sysctls: {'net.netfilter.nf_conntrack_count': 65_536}});
      const statistics = (failed: number) =>
        `cpu=0 found=1 invalid=3 insert=0 insert_failed=${failed} drop=${failed} early_drop=0 error=0\n`;
      given.file('node-a', 'conntrack-stats', statistics(410));
      given.file('node-a', 'conntrack-stats-after', statistics(433));
    },
    says: {ST605: 'the kernel drops packets of new connections', ST606: 'insert_failed from 410 to 433'},
  },
  {
    source: 'https://michal-drozd.com',
    symptom: 'two minutes of 503 after each deploy',
    change: given =>
      given.file(
        'node-b',
        'conntrack-tcp',
        'tcp      6 118 SYN_SENT src=10.244.13.7 dst=10.96.1.1 sport=40000 dport=80 [UNREPLIED] src=10.244.11.77 dst=10.244.13.7 sport=8080 dport=40000 use=1\n',
      ),
    says: {ST508: '1 tracked TCP connection leads to 10.244.11.77:8080'},
  },
  {
    source: `${k8s}139628`,
    symptom: 'UDP is lost for 13 hours after a scale to zero and back',
    change: given => {
      given.slices('infra/dns', slice => ({...slice, endpoints: []}));
      given.file('node-b', 'conntrack', udp('10.244.11.9'));
    },
    says: {ST101: 'infra/dns', ST508: '10.244.11.9:53'},
    options: {only: new Set(['ST101', 'ST508'])},
  },
  {
    source: 'https://charlesxu.io/kube-proxy-bug',
    symptom: 'DNS times out after kube-proxy and CoreDNS were restarted',
    change: given => given.file('node-b', 'conntrack', udp('10.244.11.99', '[UNREPLIED] ')),
    says: {ST508: '1 tracked UDP flow leads to 10.244.11.99:53, no endpoint of the Service'},
  },
  {
    source: `${k8s}111682`,
    symptom: 'connections from one control plane to another time out',
    change: given => kernel(given, {sysctls: {'net.ipv4.ip_local_port_range': '15001 65535'}}),
    says: {ST607: 'inside it and not reserved'},
  },
  {
    source: 'https://github.com/projectcalico/calico/issues/2026',
    symptom: 'large answers hang from one node',
    change: given => {
      for (const [node, own, mtu] of [['node-a', 11, 1440] as const, ['node-b', 12, 1440] as const, ['node-c', 13, 8981] as const]) {
        given.file(
          node,
          'links.json',
          JSON.stringify([
            {ifname: 'tunl0', flags: ['UP'], mtu},
            {ifname: 'cali0', flags: ['UP'], mtu},
          ]),
        );
        const others = [11, 12, 13].filter(n => n !== own).map(n => ({dst: `10.244.${n}.0/24`, gateway: '172.18.0.9', dev: 'tunl0'}));
        given.file(node, 'routes.json', JSON.stringify([...others, {dst: `10.244.${own}.0/24`, dev: 'cali0'}]));
        given.file(node, 'ip-rules.json', JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]));
      }
    },
    says: {ST613: 'the MTU between pods is 8981 (tunl0), and 1440 on 2 other nodes'},
  },
  {
    source: 'https://github.com/flannel-io/flannel/issues/1679',
    symptom: 'connections stall for 60 seconds',
    change: given => {
      kernel(given, {});
      given
        .rules('node-a')
        .insertBefore(['-A POSTROUTING', '-j KUBE-POSTROUTING'], '-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE');
    },
    says: {ST211: 'masquerade', ST612: 'the packets that carry them through flannel.1 are masqueraded again'},
  },
  {
    source: `${k8s}22717`,
    symptom: 'a pod does not reach itself by its Service',
    change: given => kernel(given, {hairpin: false}),
    says: {ST603: 'hairpin_mode is 0'},
  },
  {
    source: 'https://github.com/rancher/rke/issues/485',
    symptom: 'a Service does not answer, and FORWARD drops',
    change: given => given.rules('node-b').policy('filter', 'FORWARD', 'DROP'),
    says: {ST303: 'policy'},
  },
  {
    source: `${k8s}81635`,
    symptom: 'no route to host',
    change: given =>
      given
        .rules('node-b')
        .insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -j REJECT --reject-with icmp-host-prohibited'),
    says: {ST303: 'are sent to an endpoint and then refused by a third-party rule'},
  },
  {
    source: 'https://github.com/k3s-io/k3s/issues/1280',
    symptom: 'the installation hangs: the firewall blocks the port of a Service whose endpoint is the node itself',
    change: given =>
      given.rules('node-a').insertBefore(['-A INPUT', '-j KUBE-PROXY-FIREWALL'], '-A INPUT -p tcp -m tcp --dport 9100 -j DROP'),
    says: {ST402: 'infra/node-exporter:http'},
  },
  {
    source: 'https://github.com/k3s-io/k3s/issues/7542',
    symptom: 'nothing works after the firewall was reloaded',
    change: given => empty(given, 'iptables-save'),
    says: {ST305: 'no Service works on this node'},
  },
  {
    source: `${k8s}58908`,
    symptom: 'a node port answers only on the node of the pod: network policies of a removed plugin are left',
    change: given =>
      given
        .rules('node-b')
        .insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -d 10.244.0.0/16 -m comment --comment "cali:old" -j DROP'),
    // Of Services whose endpoints are no pods, pods get no replies.
    says: {
      ST303: 'are sent to an endpoint and then dropped by a third-party rule',
      ST402: 'replies to packets from',
    },
  },
  {
    source: `${k8s}107965`,
    symptom: 'iptables shows no KUBE-SERVICES, and traffic passes them: they are in the other backend',
    change: given => {
      const dump = given.rules('node-b').toString();
      given.file('node-b', 'iptables-legacy-save', dump.replaceAll(' (nf_tables)', ''));
      given.file(
        'node-b',
        'iptables-save',
        '# Generated by iptables-save v1.8.9 (nf_tables)\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n# Completed\n',
      );
    },
    says: {},
  },
  {
    source: 'https://github.com/kubernetes/kops/issues/17915',
    symptom: 'no Services on RHEL 10: kube-proxy crashes',
    change: failing(
      'E0901 10:00:00.000000       1 server.go:500] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory"',
    ),
    says: {ST305: 'nf_conntrack_max: no such file or directory'},
  },
  {
    source: 'https://github.com/kubernetes/kubernetes (nftables mode and InterfaceNamePrefix)',
    symptom: 'no Services in nftables mode with detectLocalMode InterfaceNamePrefix',
    change: failing(
      'E0901 10:00:00.000000       1 proxier.go:1240] "nftables sync failed" err="/dev/stdin:60:1-78: Error: Interface does not exist"',
    ),
    says: {ST305: 'Interface does not exist'},
  },
  {
    source: `${k8s}136786`,
    symptom: 'rules in nftables mode are outdated',
    change: behind(
      'E0901 10:00:00.000000       1 proxier.go:1240] "nftables sync failed" err="nft: expression.c:1: Assertion `0\' failed."',
    ),
    says: {ST202: '10.244.12.50', ST505: 'cannot read tables that a newer program wrote'},
    options: onNodeB,
  },
  {
    source: 'https://github.com/rancher/rke2/issues/6212',
    symptom: 'a node keeps old endpoints: the API server refuses its kube-proxy, of which only the log was read',
    change: given => {
      given.slices('shop/web', withOne({addresses: ['10.244.12.50'], conditions: {ready: true}, nodeName: 'node-b'}));
      for (const file of ['healthz.json', 'metrics']) given.file('node-b', file, null);
      given.file('node-b', kubeProxyLog, `${unauthorized}\n`);
    },
    says: {ST202: '10.244.12.50', ST505: 'do not accept the credentials of each other'},
    options: onNodeB,
  },
  {
    source: 'https://github.com/rancher/rke2/issues/6212 and a log that goes on',
    symptom: 'a node keeps old endpoints: what the log said long ago is no reason',
    change: given => {
      given.slices('shop/web', withOne({addresses: ['10.244.12.50'], conditions: {ready: true}, nodeName: 'node-b'}));
      for (const file of ['healthz.json', 'metrics']) given.file('node-b', file, null);
      const later = 'I0901 12:00:00.000000       1 proxier.go:845] "Syncing iptables rules"\n'.repeat(12);
      given.file('node-b', kubeProxyLog, `${unauthorized}\n${later}`);
    },
    says: {ST202: '10.244.12.50'},
    options: onNodeB,
  },
  {
    source: `${k8s}47589`,
    symptom: 'the Service kubernetes has a removed endpoint on some nodes',
    change: given =>
      given.slices('default/kubernetes', slice => ({
        ...slice,
        endpoints: (slice.endpoints ?? []).map(endpoint => ({...endpoint, addresses: ['172.18.0.99']})),
      })),
    says: {ST202: '172.18.0.99', ST203: 'default/kubernetes'},
    options: onNodeB,
  },
  {
    source: `${k8s}36652`,
    symptom: 'new endpoints never arrive',
    change: behind("E0901 10:00:00.000000       1 proxier.go:700] Failed to execute iptables-restore: exit status 2 (Bad argument `-j')"),
    says: {ST202: '10.244.12.50', ST505: 'a CIDR in its settings is not valid'},
    options: onNodeB,
  },
  {
    source: `${k8s}48107`,
    symptom: 'rules are minutes behind',
    change: behind(
      'E0901 10:00:00.000000       1 proxier.go:700] Failed to execute iptables-restore: exit status 4 (Another app is currently holding the xtables lock. Perhaps you want to use the -w option?)',
    ),
    says: {ST202: '10.244.12.50', ST505: 'another program holds the lock of iptables'},
    options: onNodeB,
  },
  {
    source: 'https://ronaknathani.com',
    symptom: 'a node port is missing on one node, where another process holds the port',
    change: given => given.rules('node-b').deleteAll('-A KUBE-NODEPORTS', '"shop/nodeport:http"'),
    says: {ST206: '30080'},
  },
  {
    source: 'two proxies at once',
    symptom: 'rules of Services change every few seconds',
    change: given =>
      given.api(({pods}) => ({
        pods: [
          ...(pods ?? []),
          {
            metadata: {namespace: 'kube-system', name: 'kube-router-x', labels: {'k8s-app': 'kube-router'}},
            spec: {nodeName: 'node-a', containers: [{name: 'kube-router', args: ['--run-service-proxy=true']}]},
            status: {phase: 'Running'},
          },
          {
            metadata: {namespace: 'kube-system', name: 'kube-proxy-x', labels: {'k8s-app': 'kube-proxy'}},
            spec: {nodeName: 'node-a', containers: [{name: 'kube-proxy'}]},
            status: {phase: 'Running'},
          },
        ],
      })),
    says: {ST516: 'both write rules for Services'},
    options: {nodes: name => name === 'node-a'},
  },
  {
    source: `${k8s}105505`,
    symptom: 'nodes that are gone stay in IPVS',
    change: given => given.slices('shop/nodeport', without('10.244.11.5')),
    says: {ST203: '10.244.11.5'},
    capture: 'ipvs/1.36',
    options: {nodes: name => name === 'node-a'},
  },
  {
    source: `${k8s}75443`,
    symptom: 'a node port is not served on the address of keepalived (IPVS)',
    change: given => {
      const address = (local: string) => ({family: 'inet', local, prefixlen: 24});
      const own = ['172.18.0.11', '172.18.0.100'].map(address);
      given.file(
        'node-a',
        'addresses.json',
        JSON.stringify([
          {ifname: 'lo', addr_info: [address('127.0.0.1')]},
          {ifname: 'eth0', addr_info: own},
        ]),
      );
    },
    says: {ST206: 'shop/nodeport:http: its node port 30080 is not programmed', ST212: 'empty-lb'},
    capture: 'ipvs/1.36',
    options: {nodes: name => name === 'node-a'},
  },
  {
    source: 'network policies and masqueraded sources',
    symptom: 'an allowed client is refused by the node port',
    change: given => {
      const ingress = [{from: [{ipBlock: {cidr: '203.0.113.0/24'}}]}];
      const spec = {podSelector: {matchLabels: {app: 'web'}}, policyTypes: ['Ingress'], ingress};
      given.api(() => ({networkPolicies: [{metadata: {namespace: 'shop', name: 'clients'}, spec}]}));
      given.leaveOutNodes();
    },
    says: {ST113: 'connections from outside arrive with the address of a node'},
  },
  {
    source: `${k8s}121371`,
    symptom: 'a timeout in place of a refusal with internalTrafficPolicy Local',
    change: given => given.slices('shop/internal-local', slice => ({...slice, endpoints: []})),
    says: {ST101: 'shop/internal-local'},
    options: {only: new Set(['ST101'])},
  },
];

test.each(named)('$source: $symptom', async ({change, says, capture, options}) => {
  const given = await scenario(capture);
  change(given);
  const found = given.newFindings(options);
  const loud = found.filter(needsAction);
  // What only explains counts where nothing is to be acted on.
  const shown = loud.length === 0 ? found : loud;
  expect([...new Set(shown.map(({code}) => code))].sort()).toEqual(Object.keys(says));
  for (const [code, words] of Object.entries(says))
    expect(
      shown
        .filter(finding => finding.code === code)
        .map(({message}) => String(message))
        .join('\n'),
    ).toContain(words);
});

describe('without a finding', () => {
  const asked = async (packet: {readonly source: string; readonly destination: string; readonly port: string}, capture?: string) => {
    const given = await scenario(capture);
    const [answer] = askNodes(packet, given.snapshot(), name => name === 'node-a');
    return answer?.outcomes.map(({verdict, reason}) => `${verdict}: ${reason}`) ?? [];
  };

  test.each([
    {
      source: `${k8s}90236`,
      symptom: '[::1]:nodePort does not answer',
      address: '::1',
      port: '30093',
      capture: undefined,
      why: 'no proxy mode has rules for node ports on ::1',
    },
    {
      ...{
        source: `${k8s}39658`,
        symptom: '127.0.0.1:nodePort does not answer',
        address: '127.0.0.1',
        port: '30080',
        capture: 'nftables/1.36',
      },
      why: 'rules serve node ports on 127.0.0.1 in iptables mode only',
    },
  ])('$source: $symptom, and packet says why', async ({address, port, why, capture}) => {
    expect((await asked({source: address, destination: address, port}, capture)).join()).toContain(why);
  });

  test(`${k8s}55603: all clients stay on one pod after a rollout, and top says that affinity keeps them there`, () => {
    const entry = webPort(['10.244.1.4', '10.244.1.5'], {
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: {clientIP: {timeoutSeconds: 10_800}},
    });
    const counts = {'10.244.1.4': {newConnections: 40, expectedShare: 0.5}, '10.244.1.5': {newConnections: 0, expectedShare: 0.5}};
    const found = trafficOf(entry, counts, {clients: 2});
    expect(found).toMatchObject([{code: 'ST515', message: expect.stringContaining('session affinity keeps each client on its endpoint')}]);
  });

  test.each([
    {source: 'https://github.com/aws/amazon-vpc-cni-k8s/issues/231', cause: 'the cloud drops packets of addresses that it does not know'},
    {source: 'https://github.com/projectcalico/calico/issues/1934', cause: 'the MTU of the network below'},
    {
      source: 'https://github.com/kube-hetzner/terraform-hcloud-kube-hetzner/issues/1210',
      cause: 'Cilium serves Services too, which only its configuration says',
    },
    {source: 'https://github.com/kubernetes/kubeadm/issues/836', cause: 'the machines of other nodes are not reached'},
    {source: `${k8s}134648`, cause: 'the network plugin of a node is down, and load balancers do not notice'},
  ])('$source: $cause, which no node shows: nothing is found, and the rules accept the packets', async () => {
    const given = await scenario();
    kernel(given, {});
    expect(given.newFindings().filter(needsAction)).toEqual([]);
    const outcomes = await asked({source: '10.244.11.4', destination: 'shop/web', port: '80'});
    expect(outcomes.length).toBeGreaterThan(1);
    for (const outcome of outcomes) expect(outcome).toMatch(/^accept: /);
  });
});
