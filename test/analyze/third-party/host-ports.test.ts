/** Host ports of pods whose rules are never reached, because a pod that is gone left its rule before them. */
import {describe, expect, test} from 'vitest';
import type {PodObject} from '../../../src/model/api-objects.ts';
import {nftScenario} from '../../nft-scenario.ts';
import {findingsOf, type Scenario, scenario} from '../../scenario.ts';

const living = '10.244.11.60';
const gone = '10.244.11.33';

type Pod = PodObject & {readonly status: NonNullable<PodObject['status']>};

/** A pod of node-a with host port 80. */
const pod = (change: {port?: object; spec?: object; status?: object; metadata?: object} = {}): Pod => ({
  metadata: {namespace: 'infra', name: 'ingress-2', ...change.metadata},
  spec: {
    nodeName: 'node-a',
    containers: [{name: 'c', image: 'ingress', ports: [{hostPort: 80, containerPort: 8080, protocol: 'TCP', ...change.port}]}],
    ...change.spec,
  },
  status: {phase: 'Running', podIPs: [{ip: living}], conditions: [{type: 'Ready', status: 'True'}], ...change.status},
});

/** What the portmap plugin writes of each pod, in the order in which the pods came. */
function portmap(given: Scenario, addresses: readonly string[], condition = ''): void {
  const dump = given.rules('node-a');
  dump.insertAfter(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT');
  dump.declare('nat', 'CNI-HOSTPORT-DNAT');
  addresses.forEach((address, index) => {
    dump.declare('nat', `CNI-DN-${index}`);
    dump.append('nat', `-A CNI-HOSTPORT-DNAT ${condition}-p tcp -m multiport --dports 80,443 -j CNI-DN-${index}`);
    dump.append('nat', `-A CNI-DN-${index} ${condition}-p tcp -m tcp --dport 80 -j DNAT --to-destination ${address}:8080`);
  });
}

const withPods = (given: Scenario, ...pods: readonly PodObject[]) => given.api(({pods: others}) => ({pods: [...(others ?? []), ...pods]}));

/** Codes and messages of what node-a has beside the other findings of the capture. */
const found = (given: Scenario) =>
  findingsOf(given.snapshot(), {nodes: name => name === 'node-a'})
    .filter(({code}) => code === 'ST401')
    .map(({severity, message, remedy}) => `${severity}: ${message}. ${remedy}`);

describe('a host port that is sent elsewhere before the rule of its pod', () => {
  test('is an error that names the pod, the address that no pod has, and how the rule is deleted', async () => {
    const given = await scenario();
    withPods(given, pod());
    portmap(given, [gone, living]);
    expect(found(given)).toEqual([
      expect.stringMatching(
        /^error: host port 80\/TCP of pod infra\/ingress-2 is lost: packets to it are sent to 10\.244\.11\.33:8080, an address that no pod has, by rules of another pod\. Those for this pod \(10\.244\.11\.60:8080\) come later and .*iptables -t nat -F CNI-DN-0\)/,
      ),
    ]);
  });

  test('is not said to be of a pod where another program publishes the port', async () => {
    const given = await scenario();
    withPods(given, pod());
    portmap(given, [living]);
    const docker = '-A DOCKER -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.17.0.2:80';
    given.rules('node-a').declare('nat', 'DOCKER');
    given.rules('node-a').append('nat', docker);
    given.rules('node-a').insertAfter(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER');
    expect(found(given)).toEqual([
      expect.stringMatching(/172\.17\.0\.2:80, an address that no pod has, by a rule of DOCKER\. .*give one of the two another\.$/),
    ]);
  });

  test('is one as well where a pod that ended is all that has the address', async () => {
    const given = await scenario();
    withPods(given, pod(), pod({metadata: {name: 'ingress-1'}, status: {phase: 'Failed', podIPs: [{ip: gone}]}}));
    portmap(given, [gone, living]);
    expect(found(given)).toHaveLength(1);
  });

  test('names the pod that got the address since', async () => {
    const given = await scenario();
    withPods(given, pod(), pod({metadata: {name: 'other'}, port: {hostPort: 9000}, status: {podIPs: [{ip: gone}]}}));
    portmap(given, [gone, living]);
    expect(found(given)).toEqual([expect.stringContaining('10.244.11.33:8080, the address of pod infra/other')]);
  });

  test('is found in the chains of the runtimes that have KUBE-HOSTPORTS', async () => {
    const given = await scenario();
    withPods(given, pod());
    const dump = given.rules('node-a');
    dump.insertAfter(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS');
    for (const [name, address] of [['OLD', gone] as const, ['NEW', living] as const]) {
      dump.declare('nat', `KUBE-HP-${name}`);
      dump.append('nat', `-A KUBE-HOSTPORTS -p tcp -m tcp --dport 80 -j KUBE-HP-${name}`);
      dump.append('nat', `-A KUBE-HP-${name} -p tcp -m tcp -j DNAT --to-destination ${address}:8080`);
    }
    dump.declare('nat', 'KUBE-HOSTPORTS');
    expect(found(given)).toEqual([expect.stringContaining('iptables -t nat -F KUBE-HP-OLD')]);
  });

  test('is found in the nftables table of portmap, on a node in nftables mode', async () => {
    const rules = (addresses: readonly string[]) => addresses.map(one => `tcp dport 80 dnat to ${one}:8080`).join('\n    ');
    const base = 'type nat hook prerouting priority dstnat; policy accept;\n    fib daddr type local jump hostports';
    const table = (addresses: readonly string[]) =>
      `table ip cni_hostport {\n  chain hostports {\n    ${rules(addresses)}\n  }\n  chain prerouting {\n    ${base}\n  }\n}\n`;
    const of = async (addresses: readonly string[]) => {
      const given = await nftScenario(text => text + table(addresses));
      withPods(given, pod());
      return found(given);
    };
    expect(await of([gone, living])).toEqual([expect.stringContaining('10.244.11.33:8080, an address that no pod has')]);
    expect(await of([living, gone])).toEqual([]);
  });
});

describe('no finding is made', () => {
  test.each<[string, readonly PodObject[], readonly string[], string?]>([
    ['of a rule behind that of the living pod', [pod()], [living, gone]],
    ['of the only rule, where the pod has none yet', [pod()], [gone]],
    ['of a pod that is not ready yet', [pod({status: {conditions: []}})], [gone, living]],
    ['of a pod that is about to go', [pod({metadata: {deletionTimestamp: '2026-11-21T09:00:00Z'}})], [gone, living]],
    [
      'while the pod before it is about to go',
      [pod(), pod({metadata: {name: 'ingress-1', deletionTimestamp: '2026-11-21T09:00:00Z'}, status: {podIPs: [{ip: gone}]}})],
      [gone, living],
    ],
    ['of a pod with another protocol', [pod({port: {protocol: 'UDP'}})], [gone, living]],
    ['of a pod in the network of the node', [pod({spec: {hostNetwork: true}})], [gone, living]],
    ['of a pod of another node', [pod({spec: {nodeName: 'node-b'}})], [gone, living]],
    ['of a rule for another address of the node', [pod()], [gone, living], '-d 172.18.0.99/32 '],
    ['of a port on an address that the node does not have', [pod({port: {hostIP: '192.0.2.1'}})], [gone, living]],
  ])('%s', async (_, pods, addresses, condition) => {
    const given = await scenario();
    withPods(given, ...pods);
    portmap(given, addresses, condition);
    expect(found(given)).toEqual([]);
  });

  test('without the pods', async () => {
    const given = await scenario();
    given.api(() => ({pods: null}));
    portmap(given, [gone, living]);
    expect(found(given)).toEqual([]);
  });

  test('between pods with the same port at different addresses of the node', async () => {
    const given = await scenario();
    const address = '172.18.0.11';
    withPods(given, pod(), pod({metadata: {name: 'ingress-1'}, port: {hostIP: address}, status: {podIPs: [{ip: gone}]}}));
    portmap(given, [gone, living]);
    expect(found(given)).toEqual([]);
  });
});
