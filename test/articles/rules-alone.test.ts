/** The way that each article follows by hand, from its rules and nothing else. */
import {describe, expect, test} from 'vitest';
import {isRulesAlone, reportRulesAlone} from '../../src/diagnosis/report-rules-alone.ts';
import type {PortTrace} from '../../src/model/service-trace.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {splitText} from '../../src/parse/pasted/split-text.ts';
import {tree} from '../../src/render/table/tree.ts';
import {selectInRules} from '../../src/run/scope/select-in-rules.ts';
import {readFixture} from '../fixtures.ts';

const noObjects = {services: null, endpointSlices: null, endpoints: null, nodes: null, pods: null, configMaps: null};

function pasted(...fixtures: readonly string[]): Snapshot {
  const text = fixtures.map(name => readFixture(`articles/${name}`).toString('utf8')).join('\n\nAnd then, some pages later:\n\n');
  const files = splitText(Buffer.from(text));
  const node: NodeDump = {name: 'rules.txt', files: [...files.keys()], read: file => files.get(file) ?? null};
  return {origin: 'rules.txt', api: noObjects, nodes: [node], problems: []};
}

function trace(snapshot: Snapshot, ...names: readonly string[]) {
  return reportRulesAlone(snapshot, {toolVersion: '0.0.0'}, traces =>
    selectInRules(traces, {names, namespace: undefined, allNamespaces: false}),
  );
}

/** `nodePort 30964: KUBE-SVC-… to 10.0.0.1:80 50%`. */
function waysOf(traces: readonly PortTrace[]): readonly string[] {
  return traces.flatMap(({entries}) =>
    entries.map(({entry, steps, endpoints}) => {
      const ends = endpoints.map(({hostPort, share, rewrite}) => `${hostPort} ${Math.round(share * 100)}% by ${rewrite?.chain}`);
      return `${entry.kind} ${entry.address ?? '-'} ${entry.port}: ${steps.map(({to}) => to).join(' ')} to ${ends.join(', ')}`;
    }),
  );
}

describe('a Service is traced from rules alone', () => {
  test('of 2016: from the cluster IP and the node port to both pods, and the chain whose name does not fit its address', () => {
    const report = trace(pasted('mysql-2016/nodes/node1/iptables-save'), 'mysql-service');
    const ends = '192.168.125.129:3306 50% by KUBE-SEP-ID6YWIT3F6WNZ47P, 192.168.125.131:3306 50% by KUBE-SEP-IN2YML2VIFH5RO2T';
    expect(waysOf(report.traces)).toEqual([
      `clusterIP 10.254.162.44 3306: KUBE-SVC-67RL4FN6JRUPOJYM to ${ends}`,
      `nodePort - 30964: KUBE-SVC-67RL4FN6JRUPOJYM to ${ends}`,
    ]);
    expect(report.findings.map(({code}) => code)).toEqual(['ST216']);
    expect(report.traces[0]?.entries[1]?.endpoints[0]).toMatchObject({masquerade: true, mark: 'shown', expectedShare: null});
  });

  test('of 2016 in userspace mode: to kube-proxy itself', () => {
    const {traces} = trace(pasted('ssh-2016/nodes/node1/iptables-save'), 'default/ssh-service1');
    expect(waysOf(traces)).toEqual([
      expect.stringContaining('clusterIP 10.254.132.107 2222:  to kube-proxy itself, at port 36463 of the node 100%'),
      expect.stringContaining('nodePort - 30239:  to kube-proxy itself, at port 36463 of the node 100%'),
    ]);
  });

  test('of 2017: what the article shows piece by piece is one Service with three entries', () => {
    const snapshot = pasted(
      'hostnames-2017-scaled/nodes/gke-node/iptables-save',
      'hostnames-2017-node-port.txt',
      'hostnames-2017-load-balancer.txt',
    );
    const ends = '10.76.0.10:9376 50% by KUBE-SEP-BWZ646KDVNVKXICT, 10.76.0.9:9376 50% by KUBE-SEP-EV2NQKURMPKCP5UI';
    expect(waysOf(trace(snapshot, 'hostnames').traces).toSorted()).toEqual([
      `clusterIP 10.79.255.4 80: KUBE-SVC-NWV5X2332I4OT4T3 to ${ends}`,
      expect.stringMatching(/^loadBalancerIP 104\.\d+\.\d+\.\d+ 80: KUBE-FW-NWV5X2332I4OT4T3 KUBE-SVC-NWV5X2332I4OT4T3 to /),
      `nodePort - 31358: KUBE-SVC-NWV5X2332I4OT4T3 to ${ends}`,
    ]);
  });

  test('of 2020: chains without comments are known by their name, and their entry is not in the text', () => {
    const snapshot = pasted('test-service-2020/nodes/node1/iptables-save');
    const report = trace(snapshot, 'KUBE-SVC-FCDRZOMGBO47PTZS');
    expect(waysOf(report.traces)).toEqual([
      'clusterIP - 0:  to 10.42.19.2:80 50% by KUBE-SEP-XMEIUTLIHCVEEQRB, 10.42.20.2:80 50% by KUBE-SEP-T4IG46XR4M43OGK2',
    ]);
    expect(tree(report, {color: false, width: 120, quiet: false, verbose: false, failOn: 'error', unixTime: 0})).toContain(
      'an entry that is not in this text',
    );
    expect(() => trace(snapshot, 'default/test-service')).toThrow('is not in these rules');
  });

  test('of 2022: a listing with remarks, its node port shown apart, and a row shown again without its comment', () => {
    const snapshot = pasted('nginx-2022/nodes/master/iptables-save', 'nginx-2022-node-port.txt');
    const ends = '192.168.196.131:80 50% by KUBE-SEP-5V2UTJDVBQ73MZHD, 192.168.219.77:80 50% by KUBE-SEP-6KKQPHGRLUODOJRX';
    expect(waysOf(trace(snapshot, 'default/nginx').traces)).toEqual([
      `clusterIP 10.110.64.222 8080: KUBE-SVC-P4Q3KNUAWJVP4ILH to ${ends}`,
      `nodePort - 30170: KUBE-EXT-P4Q3KNUAWJVP4ILH KUBE-SVC-P4Q3KNUAWJVP4ILH to ${ends}`,
    ]);
  });

  test('and the first line says that nothing was compared', () => {
    const snapshot = pasted('mysql-2016/nodes/node1/iptables-save');
    expect(isRulesAlone(snapshot)).toBe(true);
    const text = tree(trace(snapshot), {color: false, width: 120, quiet: false, verbose: false, failOn: 'error', unixTime: 0});
    expect(text.split('\n')[0]).toBe('from rules alone: nothing to compare with; 1 warning in the rules themselves');
  });
});
