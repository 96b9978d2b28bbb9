import {expect, test} from 'vitest';
import {endpoint, gone, leaving, service, slice} from '../cluster.ts';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('a Service whose selector matches no pod is reported with its selector', async () => {
  const {findings} = await empty();
  expect(findings).toContainEqual(finding('shop/empty', 'shop/empty has no endpoint', 'selector app=nobody matches no pod'));
});

test('a Service whose pods are not ready is reported with their names', async () => {
  const {findings} = await empty();
  expect(findings).toContainEqual(finding('shop/sleepy', 'none of its endpoints is ready (shop/sleepy-1)'));
});

test('endpoints that are not ready, as their node is not, are reported with the node', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.nodeObject('node-b', node => ({...node, status: {...node.status, conditions: [{type: 'Ready', status: 'Unknown'}]}}));
  const told = given.findings().flatMap(({code, message}) => (code === 'ST101' ? message : []));
  expect(told).toContainEqual(containing('none of its endpoints is ready (shop/sleepy-1): the node node-b is not ready'));
});

test('pods that are ready, and whose endpoints are not, are reported with who does not follow them', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.slices('shop/web', each => ({...each, endpoints: each.endpoints?.map(end => ({...end, conditions: {ready: false}})) ?? []}));
  const told = given.findings().find(({code, service}) => code === 'ST101' && service?.name === 'web');
  expect(told?.message).toContain('shop/web-4-notready), although shop/web-1, shop/web-2, shop/web-3 are by the status of the pods');
  expect(told?.remedy).toMatch(/^If that stays so, kube-controller-manager does not follow its pods/);
});

test('a healthy cluster has only these findings and that of the empty load balancer', async () => {
  const {findings} = await empty();
  expect(findings.map(({subject}) => subject)).toEqual(['shop/empty', 'shop/empty-lb', 'shop/sleepy']);
});

test('a Service that loses all its slices is reported once, not once for each of its ports', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.deleteSlices('infra/dns');
  expect(given.newFindings()).toEqual([
    finding('infra/dns', 'its selector matches dns-1, dns-2, and no EndpointSlice holds an endpoint of it'),
  ]);
});

test('a Service without a selector is distinguished from one whose selector matches nothing', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.deleteSlices('shop/manual');
  expect(given.newFindings()).toEqual([finding('shop/manual', 'it has no selector, and no EndpointSlice gives it endpoints')]);
  expect(given.findings().find(({message}) => message.startsWith('shop/manual'))?.remedy).toMatch(
    /^Check the program that writes its EndpointSlices/,
  );
});

test('terminating endpoints that no longer serve are reported as terminating', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.deleteSlices('shop/web');
  given.addSlice(slice('shop/web', [endpoint('10.244.11.4', 'node-a', gone)], {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]}));
  expect(given.newFindings()).toEqual([finding('shop/web', 'all its endpoints are terminating (10.244.11.4:8080)')]);
});

test('if only one of two ports is without an endpoint, the finding names that port', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.addService(
    service('shop/pair', {
      clusterIP: '10.96.1.99',
      ports: [
        {name: 'a', port: 80, protocol: 'TCP'},
        {name: 'b', port: 81, protocol: 'TCP'},
      ],
    }),
  );
  given.addSlice(
    slice('shop/pair', [endpoint('10.244.11.4', 'node-a')], {name: 'pair-1', ports: [{name: 'a', port: 8080, protocol: 'TCP'}]}),
    slice('shop/pair', [endpoint('10.244.11.5', 'node-a', {ready: false, serving: false})], {
      name: 'pair-2',
      ports: [{name: 'b', port: 8081, protocol: 'TCP'}],
    }),
  );
  expect(given.newFindings()).toEqual([
    finding('shop/pair:b', 'shop/pair:b has no endpoint', 'none of its endpoints is ready (10.244.11.5:8081)'),
  ]);
});

test('a Service whose only endpoints are terminating but still serve stays silent: kube-proxy uses them', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.deleteSlices('shop/web');
  given.addSlice(slice('shop/web', [endpoint('10.244.11.4', 'node-a', leaving)], {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]}));
  expect(given.newFindings()).toEqual([]);
});

test('kube-proxy 1.23 does not use them, and the finding is reported', async () => {
  const given = await scenario('healthy/1.23-iptables');
  expect(given.findings().map(({service: name}) => name?.name)).toContain('leaving');
});

test('a headless Service and one of another proxy stay silent whatever they have', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.deleteSlices('shop/headless');
  given.deleteSlices('shop/other-proxy');
  expect(given.newFindings()).toEqual([]);
});

async function empty(): Promise<{readonly findings: readonly FindingSummary[]}> {
  const given = await scenario();
  return {findings: given.summaries().filter(({code}) => code === 'ST101')};
}

function finding(subject: string, ...words: readonly string[]): FindingSummary {
  return {code: 'ST101', severity: 'warning', family: 'IPv4', subject, message: containing(...words)};
}

test('Endpoints that somebody wrote for a Service with a selector are said to be unused', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  const subsets = [{addresses: [{ip: '10.9.9.9'}], ports: [{port: 80}]}];
  const message = (name: string) => {
    given.api(() => ({endpoints: [{metadata: {namespace: 'shop', name}, subsets}]}));
    return given.findings().find(({code, service}) => code === 'ST101' && service?.name === 'empty')?.message;
  };
  expect(message('empty')).toContain('Its Endpoints object has 10.9.9.9, which kube-proxy does not use');
  expect(message('other')).not.toContain('Endpoints object');
});

test("a slice that is no Service's is named beside a Service without a selector that has none", async () => {
  const told = async (labels: Readonly<Record<string, string>>, namespaces?: readonly string[]) => {
    const given = await scenario();
    given.leaveOutNodes();
    given.slices('shop/manual', slice => ({...slice, metadata: {...slice.metadata, labels}}));
    if (namespaces !== undefined) given.api(() => ({namespaces}));
    return given.newFindings().map(({message}) => message);
  };
  const ofAnother = {'kubernetes.io/service-name': 'manuel'};
  expect(await told({})).toEqual([containing('(EndpointSlice manual-1 has no label kubernetes.io/service-name)')]);
  expect(await told(ofAnother)).toEqual([containing('(EndpointSlice manual-1 is of a Service manuel, which does not exist)')]);
  // The other Services of the namespace were not read.
  expect(await told(ofAnother, [])).toEqual([containing('no EndpointSlice gives it endpoints. Connections')]);
  // Its controller has not deleted it yet.
  expect(await told({...ofAnother, 'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io'})).toEqual([
    containing('no EndpointSlice gives it endpoints. Connections'),
  ]);
});

test('pods without an address, and those that ended, are said to be no endpoints, with their state', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  const status = {phase: 'Pending', containerStatuses: [{name: 'a', state: {waiting: {reason: 'ImagePullBackOff'}}}]};
  const pod = (name: string, of: object) => ({metadata: {namespace: 'shop', name, labels: {app: 'nobody'}}, status: of});
  const told = () => given.findings().find(({code, service}) => code === 'ST101' && service?.name === 'empty')?.message;
  given.api(({pods}) => ({pods: [...(pods ?? []), pod('new', status), pod('old', {phase: 'Failed', podIP: '10.244.11.99'})]}));
  expect(told()).toContain('matches new, old (ImagePullBackOff, Failed): a pod without an address is no endpoint');
});

test('pods without an address of the family of their Service are said to be so', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.slices('infra/six', slice => ({...slice, endpoints: []}));
  const message = () => given.findings().find(({code, service}) => code === 'ST101' && service?.name === 'six')?.message;
  expect(message()).toContain('its selector matches dns-1, dns-2, and no EndpointSlice holds an endpoint of it');
  given.api(({pods}) => ({pods: (pods ?? []).map(pod => ({...pod, status: {...pod.status, podIPs: [{ip: pod.status?.podIP ?? ''}]}}))}));
  expect(message()).toContain('its selector matches dns-1, dns-2, none of which has an address of IPv6');
});
