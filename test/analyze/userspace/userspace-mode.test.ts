import {describe, expect, test} from 'vitest';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../../src/diagnose.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {apiObjects, nodeDump, service} from '../../cluster.ts';
import {fixture} from '../../fixtures.ts';
import {needsAction, summaryOf, containing} from '../../scenario.ts';

/** Section 1.3 of the reference: four rules for a Service port with a node port, all to one port of kube-proxy. */
const portal = (name: string, address: string, port: number, proxyPort: number) => [
  `-A KUBE-PORTALS-CONTAINER -d ${address}/32 -p tcp -m comment --comment "${name}:" -m tcp --dport ${port} -j REDIRECT --to-ports ${proxyPort}`,
  `-A KUBE-PORTALS-HOST -d ${address}/32 -p tcp -m comment --comment "${name}:" -m tcp --dport ${port} -j DNAT --to-destination 10.0.0.5:${proxyPort}`,
];
const nodePort = (name: string, port: number, proxyPort: number) => [
  `-A KUBE-NODEPORT-CONTAINER -p tcp -m comment --comment "${name}:" -m tcp --dport ${port} -j REDIRECT --to-ports ${proxyPort}`,
  `-A KUBE-NODEPORT-HOST -p tcp -m comment --comment "${name}:" -m tcp --dport ${port} -j DNAT --to-destination 10.0.0.5:${proxyPort}`,
];
const ssh = [...portal('default/ssh', '10.254.132.107', 2222, 36463), ...nodePort('default/ssh', 30239, 36463)];
const hooks = [
  '-A PREROUTING -j KUBE-PORTALS-CONTAINER',
  '-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-NODEPORT-CONTAINER',
  '-A OUTPUT -j KUBE-PORTALS-HOST',
  '-A OUTPUT -m addrtype --dst-type LOCAL -j KUBE-NODEPORT-HOST',
];
const chains = ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST', 'KUBE-NODEPORT-CONTAINER', 'KUBE-NODEPORT-HOST'];

const services = [service('default/ssh', {type: 'NodePort', clusterIP: '10.254.132.107', ports: [{port: 2222, nodePort: 30239}]})];

function snapshot(rules: readonly string[], api = services): Snapshot {
  const dump = [
    '*nat',
    ':PREROUTING ACCEPT [0:0]',
    ':OUTPUT ACCEPT [0:0]',
    ...chains.map(name => `:${name} - [0:0]`),
    ...rules,
    'COMMIT',
    '',
  ];
  return {
    origin: 'test',
    api: apiObjects({services: api, endpoints: []}),
    nodes: [nodeDump('node1', {'iptables-save': dump.join('\n')})],
    problems: [],
  };
}

const found = (given: Snapshot) =>
  diagnose(given, {toolVersion: '0.0.0'})
    .findings.filter(needsAction)
    .filter(({code}) => code !== 'ST101')
    .map(summaryOf);
const unseen = expect.objectContaining({code: 'ST902', message: containing('kube-proxy itself picks the endpoints')});

describe('a node in userspace mode', () => {
  test('shows its mode by its rules, and reports that its endpoints are not visible', () => {
    expect(found(snapshot([...hooks, ...ssh]))).toEqual([unseen]);
    const [node] = diagnose(snapshot([...hooks, ...ssh]), {toolVersion: '0.0.0'}).nodes;
    expect(node).toMatchObject({proxyMode: 'userspace', status: 'unread'});
  });

  test('with the excerpt of an article is traced to the port of kube-proxy', async () => {
    const {traces, findings} = diagnose(await readBundle(fixture('articles/ssh-2016')), {toolVersion: '0.0.0', trace: true});
    expect(traces.flatMap(({entries}) => entries.map(({entry, steps, end}) => [entry.kind, steps[0]?.to, end?.reason]))).toEqual([
      ['clusterIP', 'REDIRECT 36463', 'kube-proxy, on port 36463, picks the endpoint'],
      ['nodePort', 'REDIRECT 36463', 'kube-proxy, on port 36463, picks the endpoint'],
    ]);
    expect(findings.filter(({code}) => code.startsWith('ST2') || code.startsWith('ST3'))).toEqual([]);
  });

  test.each(ssh)('lacks one entry: %s', rule => {
    const [missing, rest] = found(snapshot([...hooks, ...ssh.filter(other => other !== rule)]));
    const chain = rule.split(' ')[1] ?? '';
    const entry = chain.includes('NODEPORT') ? 'node port 30239' : 'cluster IP 10.254.132.107:2222';
    expect(missing).toMatchObject({code: 'ST206', severity: 'error', subject: 'default/ssh:', entry, message: containing(chain)});
    expect(rest).toEqual(unseen);
  });

  test('lacks all entries of a Service', () => {
    const other = service('default/web', {clusterIP: '10.254.7.7', ports: [{name: 'http', port: 80}]});
    expect(found(snapshot([...hooks, ...ssh], [...services, other]))).toEqual([
      expect.objectContaining({code: 'ST201', message: containing('default/web:http: not programmed on this node')}),
      unseen,
    ]);
  });

  test('still serves a deleted Service', () => {
    const gone = portal('default/old', '10.254.9.9', 80, 40000);
    const [stale, rest] = found(snapshot([...hooks, ...ssh, ...gone]));
    expect(stale).toMatchObject({code: 'ST205', severity: 'error', message: containing('10.254.9.9:80', 'default/old', 'no such entry')});
    expect(stale?.actual?.map(line => line.split(': ').slice(1).join(': '))).toEqual(gone);
    expect(rest).toEqual(unseen);
  });

  test('redirects one Service port to two ports of kube-proxy', () => {
    const [split] = found(snapshot([...hooks, ...ssh.slice(0, 2), ...nodePort('default/ssh', 30239, 36464)]));
    expect(split).toMatchObject({code: 'ST216', severity: 'error', message: containing('36463, 36464')});
  });

  test('has a chain that no rule jumps to', () => {
    const [hook] = found(snapshot([...hooks.slice(1), ...ssh]));
    expect(hook).toMatchObject({
      code: 'ST301',
      severity: 'error',
      message: containing('KUBE-PORTALS-CONTAINER is not reached from nat/PREROUTING'),
    });
  });
});
