import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {apiObjects, endpoint, service, slice} from '../cluster.ts';
import {containing, type Scenario, scenario} from '../scenario.ts';

test('two Services with the same node port and protocol are one finding that names both', async () => {
  const given = await cluster();
  given.service('shop/lb-pending', object => ({
    ...object,
    spec: {...object.spec, ports: (object.spec?.ports ?? []).map(port => ({...port, nodePort: 30080}))},
  }));
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST110', severity: 'warning', family: 'IPv4', subject: 'shop/lb-pending:http'},
      message: containing('shop/lb-pending:http, shop/nodeport:http all claim node port 30080/TCP'),
    },
  ]);
});

test('two Services with the same external IP and port are reported', async () => {
  const given = await cluster();
  given.service('shop/manual', object => ({
    ...object,
    spec: {...object.spec, externalIPs: ['198.51.100.10'], ports: [{name: 'db', port: 80, protocol: 'TCP'}]},
  }));
  expect(given.newFindings()).toContainEqual({
    ...{code: 'ST110', severity: 'warning', family: 'IPv4', subject: 'shop/external-ips:http'},
    message: containing('shop/external-ips:http, shop/manual:db all claim 198.51.100.10 port 80/TCP'),
  });
});

test('it is also reported if only one of the two was requested', async () => {
  const given = await cluster();
  given.addService(
    service('shop/late', {clusterIP: '10.96.1.99', externalIPs: ['198.51.100.10'], ports: [{name: 'http', port: 80, protocol: 'TCP'}]}),
  );
  const found = given.summaries({selects: ({metadata}) => metadata.name === 'late'});
  expect(found.map(({code}) => code)).toContain('ST110');
});

test('the same node port for TCP and UDP stays silent', async () => {
  const given = await cluster();
  const ports = (await scenario()).snapshot().api.services?.find(({metadata}) => metadata.name === 'same-node-port')?.spec?.ports;
  expect(ports?.map(({nodePort, protocol}) => [nodePort, protocol])).toEqual([
    [30094, 'UDP'],
    [30094, 'TCP'],
  ]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST110');
});

test('one load-balancer address that two Services share by port stays silent', async () => {
  const given = await cluster();
  given.service('shop/lb-no-nodeport', object => ({
    ...object,
    spec: {...object.spec, ports: [{name: 'http', port: 81, protocol: 'TCP'}]},
    status: {loadBalancer: {ingress: [{ip: '203.0.113.10'}]}},
  }));
  expect(given.newFindings()).toEqual([]);
});

test('a Service that kube-proxy does not serve claims nothing', async () => {
  const given = await cluster();
  given.service('shop/other-proxy', object => ({...object, spec: {...object.spec, externalIPs: ['198.51.100.10']}}));
  expect(given.newFindings()).toEqual([]);
});

test.each([
  [
    'of the API server is an error',
    'shop/nodeport',
    6443,
    'default/kubernetes',
    [['error', containing('6443/TCP', '172.18.0.11:6443', 'default/kubernetes:https')]],
  ],
  [
    'of a pod in the network of its node is reported',
    'shop/nodeport',
    9100,
    'infra/node-exporter',
    [['warning', containing('172.18.0.11:9100')]],
  ],
  ['of its own pods there is not', 'infra/node-exporter', 9100, 'infra/node-exporter', []],
])('a node port that is the port %s', async (_, name, nodePort, listening, found) => {
  const given = await cluster();
  given.service(name, object => ({
    ...object,
    spec: {...object.spec, type: 'NodePort', ports: (object.spec?.ports ?? []).map(port => ({...port, nodePort}))},
  }));
  given.slices(listening, slice => ({...slice, endpoints: [{addresses: ['172.18.0.11'], conditions: {ready: true}, nodeName: 'node-a'}]}));
  expect(
    given
      .newFindings()
      .filter(({code}) => code === 'ST110')
      .map(({severity, message}) => [severity, message]),
  ).toEqual(found);
});

test('a node port of IPv6 that is the port of a pod in the network of its node is reported', () => {
  const address = 'fd00:18::11';
  const spec = {ipFamilies: ['IPv6'], selector: {}};
  const port = {port: 80, protocol: 'TCP'};
  const api = apiObjects({
    nodes: [{metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address}]}}],
    services: [
      service('shop/web', {
        ...spec,
        type: 'NodePort',
        clusterIP: 'fd00:96::1',
        clusterIPs: ['fd00:96::1'],
        ports: [{...port, nodePort: 30080}],
      }),
      service('infra/agent', {...spec, clusterIP: 'fd00:96::2', clusterIPs: ['fd00:96::2'], ports: [port]}),
    ],
    endpointSlices: [
      slice('infra/agent', [endpoint(address, 'node-a', {ready: true})], {ports: [{name: '', port: 30080, protocol: 'TCP'}]}),
    ],
  });
  const {findings} = diagnose({origin: 'test', api, nodes: [], problems: []}, {toolVersion: '0'});
  expect(findings.filter(({code}) => code === 'ST110').map(({message}) => message)).toEqual([containing('[fd00:18::11]:30080')]);
});

async function cluster(): Promise<Scenario> {
  const given = await scenario();
  given.leaveOutNodes();
  return given;
}

test('a node port that is a host port of a pod is reported, unless the pod is an endpoint of the Service', async () => {
  const told = async (name: string, port: object, status: object = {}) => {
    const given = await cluster();
    given.api(({pods}) => ({
      pods: (pods ?? []).map(pod =>
        pod.metadata.name === name
          ? {...pod, spec: {...pod.spec, containers: [{name: 'c', ports: [port]}]}, status: {...pod.status, phase: 'Running', ...status}}
          : pod,
      ),
    }));
    return given.newFindings().flatMap(({code, message}) => (code === 'ST110' ? [message] : []));
  };
  expect(await told('solo-1', {containerPort: 8080, hostPort: 30080})).toEqual([
    containing('shop/nodeport:http: its node port 30080/TCP is a host port of pod shop/solo-1 on node-a too'),
  ]);
  expect(await told('web-1', {containerPort: 8080, hostPort: 30080})).toEqual([]);
  expect(await told('solo-1', {containerPort: 8080, hostPort: 30080, protocol: 'UDP'})).toEqual([]);
  expect(await told('solo-1', {containerPort: 8080, hostPort: 30080, hostIP: '127.0.0.1'})).toEqual([]);
  expect(await told('solo-1', {containerPort: 8080, hostPort: 30080}, {phase: 'Succeeded'})).toEqual([]);
});
