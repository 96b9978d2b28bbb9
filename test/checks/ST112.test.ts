import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {PodObject} from '../../src/model/api-objects.ts';
import {containing, scenario} from '../scenario.ts';

type Port = {readonly containerPort: number; readonly protocol?: string};

/** What is found if the containers of the pods of shop/web, which listen on 8080, declare these ports. */
async function found(
  ports: (pod: string) => readonly Port[],
  more: (pod: PodObject) => PodObject = pod => pod,
): Promise<readonly Finding[]> {
  const given = await scenario();
  given.leaveOutNodes();
  const snapshot = given.snapshot();
  const pods = (snapshot.api.pods ?? []).map(pod => {
    const {name, namespace} = pod.metadata;
    if (namespace !== 'shop' || !/^web-/.test(name)) return pod;
    const containers = (pod.spec?.containers ?? []).map(container => ({...container, ports: ports(name)}));
    return more({...pod, spec: {...pod.spec, containers}});
  });
  const report = diagnose({...snapshot, api: {...snapshot.api, pods}}, {toolVersion: '0.0.0'});
  return report.findings.filter(({code}) => code === 'ST112');
}

test('a target port that no container declares is an info with the one that they declare', async () => {
  const findings = await found(() => [
    {containerPort: 9090, protocol: 'TCP'},
    {containerPort: 5353, protocol: 'UDP'},
  ]);
  expect(findings.find(({service}) => service?.name === 'web')).toMatchObject({
    ...{code: 'ST112', severity: 'info', service: {namespace: 'shop', name: 'web'}},
    message: containing('packets go to port 8080/TCP of its pods, whose containers declare 9090/TCP and no other port of this protocol'),
  });
});

test('pods that declare no port of the protocol, or several, stay silent', async () => {
  expect(await found(() => [{containerPort: 9090, protocol: 'UDP'}])).toEqual([]);
  expect(await found(() => [{containerPort: 9090}, {containerPort: 3000}])).toEqual([]);
  expect(await found(pod => [{containerPort: pod.endsWith('2') ? 9090 : 9091}])).toEqual([]);
  expect(await found(() => [])).toEqual([]);
});

test('one pod that declares the port, or declares nothing, is enough to stay silent', async () => {
  expect(await found(pod => [{containerPort: pod.endsWith('2') ? 8080 : 9090}])).toEqual([]);
  expect(await found(pod => (pod.endsWith('2') ? [] : [{containerPort: 9090}]))).toEqual([]);
});

test('a sidecar that is an init container may declare it', async () => {
  const sidecar = {name: 'proxy', ports: [{containerPort: 8080}]};
  const findings = await found(
    () => [{containerPort: 9090}],
    pod => ({...pod, spec: {...pod.spec, containers: pod.spec?.containers ?? [], initContainers: [sidecar]}}),
  );
  expect(findings).toEqual([]);
});

test('healthy clusters stay silent', async () => {
  const given = await scenario();
  expect(given.summaries().filter(({code}) => code === 'ST112')).toEqual([]);
});

test('a port of another container with the name of the target port is said to get nothing', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('shop/web', ({spec, ...service}) => ({
    ...service,
    spec: {...spec, ports: (spec?.ports ?? []).map(port => ({...port, targetPort: 'http'}))},
  }));
  const named = (second: string) => {
    const ports = [
      {name: 'http', containerPort: 8080},
      {name: second, containerPort: 9090},
    ];
    given.api(({pods}) => ({
      pods: (pods ?? []).map(pod => {
        const containers = ports.map((port, index) => ({name: `c${index}`, ports: [port]}));
        return /^web-/.test(pod.metadata.name) ? {...pod, spec: {...pod.spec, containers}} : pod;
      }),
    }));
    return given.newFindings({only: new Set(['ST112'])});
  };
  expect(named('http')).toMatchObject([
    {severity: 'info', message: containing('shop/web:http: packets go to port 8080/TCP', 'none to 9090/TCP, which has the name http too')},
  ]);
  expect(named('other')).toEqual([]);
});

test('a port that pods declare for another protocol alone is said', async () => {
  const messages = (await found(() => [{containerPort: 8080, protocol: 'UDP'}])).map(({message}) => message);
  expect(messages).toContainEqual(containing('shop/web:http', 'declare 8080/UDP and not 8080/TCP'));
  expect(await found(() => [{containerPort: 8080}, {containerPort: 8080, protocol: 'UDP'}])).toEqual([]);
});

test('pods of another workload that declare other ports are named, and pods of a rollout are not', async () => {
  const owned = (others: string) => (pod: PodObject) => ({
    ...pod,
    metadata: {
      ...pod.metadata,
      ownerReferences: [{kind: 'ReplicaSet', name: pod.metadata.name === 'web-3' ? others : 'web-5d9c', controller: true}],
    },
  });
  const ports = (pod: string) => [{containerPort: pod === 'web-3' ? 5432 : 8080}];
  const messages = (await found(ports, owned('postgres-77c4'))).map(({message}) => message);
  expect(messages).toContainEqual(
    containing('shop/web:http', 'pods of another workload too, which declare other ports: shop/web-3 5432/TCP'),
  );
  expect(await found(ports, owned('web-77c4'))).toEqual([]);
});
