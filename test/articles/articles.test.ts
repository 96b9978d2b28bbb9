/** Rules as articles show them, pasted as they stand, beside API objects that fit them. */
import {describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../src/diagnose.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {fixture} from '../fixtures.ts';
import {needsAction, summaryOf, containing} from '../scenario.ts';

const article = (name: string): Promise<Snapshot> => readBundle(fixture(`articles/${name}`));

function explained(snapshot: Snapshot) {
  const {traces, findings, nodes} = diagnose(snapshot, {toolVersion: '0.0.0', trace: true});
  const paths = traces.map(({service, entries}) => [
    `${service.namespace}/${service.name}`,
    ...entries.map(
      ({entry, mark, steps, endpoints}) =>
        `${mark}: ${entry.kind} ${entry.port} by ${steps.map(({to, line}) => `${to}:${line}`).join(' ')} to ${endpoints.map(({hostPort, share, pick}) => `${hostPort} ${share} ${pick?.text.split(' -j ')[1]}`).join(', ')}`,
    ),
  ]);
  return {paths, loud: findings.filter(needsAction).map(summaryOf), version: nodes[0]?.kubeProxyVersion, status: nodes[0]?.status};
}

const part = (node: string, ...words: readonly string[]) =>
  expect.objectContaining({code: 'ST902', severity: 'warning', message: containing('was checked in part', node, 'excerpt', ...words)});

describe('the dumps of an article are traced to the endpoints', () => {
  test('of 2016: a node port and its two pods, and the one chain whose name is not that of its address', async () => {
    const {paths, loud, version, status} = explained(await article('mysql-2016'));
    const ends = '192.168.125.129:3306 0.5 KUBE-SEP-ID6YWIT3F6WNZ47P, 192.168.125.131:3306 0.5 KUBE-SEP-IN2YML2VIFH5RO2T';
    expect(paths).toEqual([
      [
        'default/mysql-service',
        `ok: clusterIP 3306 by KUBE-SVC-67RL4FN6JRUPOJYM:13 to ${ends}`,
        `ok: nodePort 30964 by KUBE-NODEPORTS:14 KUBE-SVC-67RL4FN6JRUPOJYM:8 to ${ends}`,
      ],
    ]);
    expect(loud).toEqual([
      expect.objectContaining({
        code: 'ST216',
        message: containing('KUBE-SEP-IN2YML2VIFH5RO2T leads to 192.168.125.131:3306', 'KUBE-SEP-MDJPMLAM6OPI7T2O'),
        actual: [containing('12: -A KUBE-SEP-IN2YML2VIFH5RO2T', '192.168.125.131:3306')],
      }),
      part('node1', '14 rules in 9 chains of table nat (of default/mysql-service:)'),
    ]);
    expect([version, status]).toEqual(['about v1.18', 'unread']);
  });

  test('of 2017: a cluster IP of kube-proxy 1.5, before and after it was scaled', async () => {
    const one = explained(await article('hostnames-2017'));
    expect(one.paths).toEqual([
      ['default/hostnames', 'ok: clusterIP 80 by KUBE-SVC-NWV5X2332I4OT4T3:2 to 10.76.0.9:9376 1 KUBE-SEP-EV2NQKURMPKCP5UI'],
    ]);
    expect(one.loud).toEqual([part('gke-node')]);
    expect(explained(await article('hostnames-2017-scaled')).paths).toEqual([
      [
        'default/hostnames',
        'ok: clusterIP 80 by KUBE-SVC-NWV5X2332I4OT4T3:2 to 10.76.0.10:9376 0.5 KUBE-SEP-BWZ646KDVNVKXICT, 10.76.0.9:9376 0.5 KUBE-SEP-EV2NQKURMPKCP5UI',
      ],
    ]);
  });

  test('of 2022: a listing by iptables -L, with remarks and marks of a diff', async () => {
    const {paths, loud} = explained(await article('nginx-2022'));
    expect(paths).toContainEqual([
      'default/nginx',
      'ok: clusterIP 8080 by KUBE-SVC-P4Q3KNUAWJVP4ILH:12 to 192.168.196.131:80 0.5 KUBE-SEP-5V2UTJDVBQ73MZHD, 192.168.219.77:80 0.5 KUBE-SEP-6KKQPHGRLUODOJRX',
    ]);
    expect(loud).toEqual([part('master')]);
  });

  test('of 2020: chains whose Service has another name than in the article are reported as unattributed', async () => {
    const {loud} = explained(await article('test-service-2020'));
    expect(loud).toEqual([part('node1', 'KUBE-SVC-FCDRZOMGBO47PTZS is of no Service that was given')]);
  });
});

describe('faults in the pasted rules are found', () => {
  test('an endpoint that the Service no longer has', async () => {
    const snapshot = await article('hostnames-2017-scaled');
    const endpoints = (snapshot.api.endpoints ?? []).map(object => ({
      ...object,
      subsets: (object.subsets ?? []).map(subset => ({...subset, addresses: (subset.addresses ?? []).slice(0, 1)})),
    }));
    const {loud} = explained({...snapshot, api: {...snapshot.api, endpoints}});
    expect(loud[0]).toMatchObject({code: 'ST203', severity: 'error', endpoint: '10.76.0.9:9376'});
  });

  test('a Service whose rules are not shown is not reported as missing', async () => {
    const snapshot = await article('mysql-2016');
    const other = {metadata: {namespace: 'default', name: 'other'}, spec: {clusterIP: '10.254.9.9', ports: [{port: 80}]}};
    const services = [...(snapshot.api.services ?? []), other];
    const endpoints = [
      ...(snapshot.api.endpoints ?? []),
      {metadata: other.metadata, subsets: [{addresses: [{ip: '192.168.125.140'}], ports: [{port: 80}]}]},
    ];
    const {loud} = explained({...snapshot, api: {...snapshot.api, services, endpoints}});
    expect(loud.map(({code}) => code)).toEqual(['ST216', 'ST902']);
  });
});

describe('without API objects', () => {
  test('a dump alone shows what it contains and which files to add, and chains are identified by their names', async () => {
    const snapshot = await readBundle(fixture('articles/mysql-2016/nodes/node1/iptables-save'));
    const {findings} = diagnose(snapshot, {toolVersion: '0.0.0'});
    expect(findings.map(summaryOf)).toEqual([
      expect.objectContaining({code: 'ST216', message: containing('KUBE-SEP-IN2YML2VIFH5RO2T leads to 192.168.125.131:3306')}),
      expect.objectContaining({
        code: 'ST901',
        message: containing('the Services were not read', '14 rules in 9 chains of table nat (of default/mysql-service:)'),
      }),
    ]);
    expect(findings.at(-1)?.remedy).toContain('svc-trace packet --from FILE');
  });
});
