import {describe, expect, test} from 'vitest';
import {needsAction, containing, type Scenario, scenario} from '../scenario.ts';

const place = {code: 'ST903', severity: 'info', node: 'node-b'};

test.each([
  ['Cilium', ':CILIUM_PRE_nat - [0:0]'],
  ['OVN-Kubernetes', ':OVN-KUBE-NODEPORT - [0:0]'],
])('a node that %s serves is an info, and no Service is reported as missing there', async (name, chain) => {
  const given = await without(chain);
  expect(given.newFindings()).toEqual([{...place, message: containing('none of kube-proxy', name)}]);
});

test.each([
  ['Calico in eBPF mode', 'bpfin.cali'],
  ['kube-router', 'kube-dummy-if'],
  ['OVN-Kubernetes', 'ovn-k8s-mp0'],
  ['Cilium', 'cilium_host'],
])('a node with an interface that %s creates to serve Services, and without rules of kube-proxy, is an info', async (name, device) => {
  const given = await without('');
  given.file('node-b', 'addresses.json', JSON.stringify([{ifname: device, addr_info: []}]));
  expect(given.newFindings()).toEqual([{...place, message: containing(`the interface ${device}`, `${name} serves its Services`)}]);
  // The pods of the system are there, and none of its program.
  const pod = {metadata: {name: 'coredns-x', namespace: 'kube-system'}, spec: {nodeName: 'node-b'}};
  given.api(({pods}) => ({pods: [...(pods ?? []), pod]}));
  expect(loud(given)).toContain('ST305');
});

test.each([
  ['Windows', {'kubernetes.io/os': 'windows'}],
  ['Fargate', {'eks.amazonaws.com/compute-type': 'fargate'}],
  ['virtual', {type: 'virtual-kubelet'}],
])('a %s node has no rules of kube-proxy, and is an info', async (kind, labels) => {
  const given = await scenario();
  given.nodeObject('node-b', node => ({...node, metadata: {...node.metadata, labels: {...node.metadata.labels, ...labels}}}));
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, null);
  expect(given.newFindings()).toEqual([{...place, message: containing(`a ${kind} node`)}]);
});

test('a node with rules of kube-proxy and of Cilium beside them is checked', async () => {
  const given = await scenario();
  given.rules('node-b').declare('nat', 'CILIUM_PRE_nat');
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST201']);
});

test('a node with only kube-proxy stays silent', async () => {
  const given = await scenario();
  expect(given.summaries().map(({code}) => code)).not.toContain('ST903');
});

test('a node on which kube-proxy reports that it runs, without any of its rules, is broken', async () => {
  const given = await without(':CILIUM_PRE_nat - [0:0]');
  given.file('node-b', 'kube-proxy-version', 'v1.36.2\n');
  expect(
    given
      .newFindings()
      .filter(needsAction)
      .map(({code}) => code),
  ).toContain('ST305');
});

const loud = (given: Scenario) =>
  given
    .newFindings()
    .filter(needsAction)
    .map(({code}) => code);

test('a node with a pod of kube-proxy and none of its rules is broken, whatever else runs there', async () => {
  const given = await without(':CILIUM_PRE_nat - [0:0]');
  const pod = {metadata: {name: 'kube-proxy-x7k2p', namespace: 'kube-system'}, spec: {nodeName: 'node-b'}, status: {phase: 'Running'}};
  given.api(({pods}) => ({pods: [...(pods ?? []), pod]}));
  expect(loud(given)).toContain('ST305');
});

describe('a node of k3s', () => {
  const args = async (server: readonly string[], chain: string): Promise<Scenario> => {
    const given = await without(chain);
    const annotated = (words: readonly string[]) => ({'k3s.io/node-args': JSON.stringify(words)});
    given.nodeObject('node-a', node => ({...node, metadata: {...node.metadata, annotations: annotated(['server', ...server])}}));
    given.nodeObject('node-b', node => ({...node, metadata: {...node.metadata, annotations: annotated(['agent'])}}));
    return given;
  };

  test('whose servers switched kube-proxy off is an info, whatever serves its Services', async () => {
    const given = await args(['--disable-kube-proxy'], ':NOBODYS - [0:0]');
    expect(given.newFindings().filter(({node}) => node === 'node-b')).toEqual([
      {...place, message: containing('disabled', '--disable-kube-proxy')},
    ]);
  });

  test('whose servers did not is broken without the rules of its kube-proxy', async () => {
    expect(loud(await args([], ':CILIUM_PRE_nat - [0:0]'))).toContain('ST305');
  });
});

/** node-b without anything of kube-proxy, and with this chain in table nat. */
async function without(chain: string): Promise<Scenario> {
  const given = await scenario();
  for (const file of ['proxy-mode', 'kube-proxy-version', 'configz.json', 'kube-proxy-config.yaml', 'healthz.json', 'metrics'])
    given.file('node-b', file, null);
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, bare(chain));
  return given;
}

function bare(chain: string): string {
  const policies = (...names: readonly string[]) => names.map(name => `:${name} ACCEPT [0:0]`);
  const filter = ['*filter', ...policies('INPUT', 'FORWARD', 'OUTPUT'), 'COMMIT'];
  const nat = ['*nat', ...policies('PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'), chain, 'COMMIT'];
  return [...filter, ...nat, ''].join('\n');
}

test.each([
  ['Windows', {'kubernetes.io/os': 'windows'}],
  ['Fargate', {'eks.amazonaws.com/compute-type': 'fargate'}],
  ['virtual', {type: 'virtual-kubelet'}],
])('a node with rules that its labels call a %s node is checked, and the contradiction is a warning', async (kind, labels) => {
  const given = await scenario();
  given.nodeObject('node-b', node => ({...node, metadata: {...node.metadata, labels: {...node.metadata.labels, ...labels}}}));
  given.rules('node-b').deleteAll('"shop/web:http');
  const found = given.newFindings().filter(needsAction);
  expect(found).toContainEqual({...place, severity: 'warning', message: containing(`a ${kind} node`, 'were checked')});
  expect(found.some(({code, severity}) => code.startsWith('ST2') && severity === 'error')).toBe(true);
});
