import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST217', node: 'node-b', family: 'IPv4'};

test('a missing rule that only counts is harmless', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-NODEPORTS -d 127.0.0.0/8', '"shop/nodeport:http"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'info', subject: 'shop/nodeport:http'},
      message: containing('a rule of nat/KUBE-NODEPORTS is missing: no traffic is affected'),
      expected: [gone],
    },
  ]);
});

test('without the rule that drops INVALID packets, connections may be reset: an info that says so', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-FORWARD', '--ctstate INVALID');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'info', message: containing('INVALID packets are not dropped', 'nf_conntrack_tcp_be_liberal')},
      expected: [gone],
    },
  ]);
});

test('a loopback address that neighbors can reach is a warning', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-FIREWALL', '"block incoming localnet connections"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'warning', message: containing('packets to 127.0.0.0/8 from other hosts are not dropped')},
      expected: [gone],
    },
  ]);
});

test('up to 1.24 kube-proxy only marks packets to drop: a missing rule that drops them is a warning', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-b').delete('-A KUBE-FIREWALL', '--mark 0x8000/0x8000');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'warning', message: containing('KUBE-FIREWALL does not drop what is marked')},
      actual: [given.rules('node-b').evidence('-A KUBE-MARK-DROP')],
    },
  ]);
});

test('with a kernel that is liberal about TCP windows, the INVALID rule is missing by design', async () => {
  const given = await scenario();
  for (const file of ['iptables-save', 'ip6tables-save']) given.rules('node-b', file).delete('-A KUBE-FORWARD', '--ctstate INVALID');
  given.file('node-b', 'sysctls', 'net.netfilter.nf_conntrack_tcp_be_liberal = 1\n');
  expect(given.newFindings()).toEqual([]);
});

test('counting rules are missing by design if the kernel does not count', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.deleteAll('--nfacct-name  localhost_nps_accepted_pkts');
  dump.replaceAll(' -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts', '');
  expect(given.newFindings()).toEqual([]);
});

test('a node without a kubelet has no rules in KUBE-MARK-DROP by design', async () => {
  const given = await scenario('healthy/1.23-iptables');
  const dump = given.rules('node-b');
  dump.deleteAll('KUBE-FIREWALL');
  dump.delete('-A KUBE-MARK-DROP');
  expect(given.newFindings()).toEqual([]);
});
