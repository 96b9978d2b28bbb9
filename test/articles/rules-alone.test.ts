/** The way that each article follows by hand, from its rules and nothing else. */
import {describe, expect, test} from 'vitest';
import {isRulesAlone} from '../../src/model/snapshot.ts';
import type {PortTrace} from '../../src/model/service-trace.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {serviceList, tree} from '../../src/render/table/tree.ts';
import {readFixture} from '../fixtures.ts';
import {answerText, askText} from '../pasted/ask.ts';
import {snapshotOfText, traceText} from '../pasted/trace-text.ts';

function pasted(...fixtures: readonly string[]): Snapshot {
  return snapshotOfText(fixtures.map(name => readFixture(`articles/${name}`).toString('utf8')).join('\n\nAnd then, some pages later:\n\n'));
}

/** `nodePort 30964: KUBE-SVC-… to 10.0.0.1:80 50%`. */
function pathsOf(traces: readonly PortTrace[]): readonly string[] {
  return traces.flatMap(({entries}) =>
    entries.map(({entry, steps, endpoints}) => {
      const ends = endpoints.map(
        ({hostPort, share, rewrite}) => `${hostPort} ${Math.round((share ?? Number.NaN) * 100)}% by ${rewrite?.chain}`,
      );
      return `${entry.kind} ${entry.address ?? '-'} ${entry.port}: ${steps.map(({to}) => to).join(' ')} to ${ends.join(', ')}`;
    }),
  );
}

describe('a Service is traced from rules alone', () => {
  test('of 2016: from the cluster IP and the node port to both pods, and the chain whose name does not match its address', () => {
    const report = traceText(pasted('mysql-2016/nodes/node1/iptables-save'), 'mysql-service');
    const ends = '192.168.125.129:3306 50% by KUBE-SEP-ID6YWIT3F6WNZ47P, 192.168.125.131:3306 50% by KUBE-SEP-IN2YML2VIFH5RO2T';
    expect(pathsOf(report.traces)).toEqual([
      `clusterIP 10.254.162.44 3306: KUBE-SVC-67RL4FN6JRUPOJYM to ${ends}`,
      `nodePort - 30964: KUBE-SVC-67RL4FN6JRUPOJYM to ${ends}`,
    ]);
    expect(report.findings.map(({code}) => code)).toEqual(['ST216']);
    expect(report.traces[0]?.entries[1]?.endpoints[0]).toMatchObject({masquerade: true, mark: 'shown', expectedShare: null});
  });

  test('of 2016 in userspace mode: to kube-proxy itself', () => {
    const {traces} = traceText(pasted('ssh-2016/nodes/node1/iptables-save'), 'default/ssh-service1');
    expect(pathsOf(traces)).toEqual([
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
    expect(pathsOf(traceText(snapshot, 'hostnames').traces).toSorted()).toEqual([
      `clusterIP 10.79.255.4 80: KUBE-SVC-NWV5X2332I4OT4T3 to ${ends}`,
      expect.stringMatching(/^loadBalancerIP 104\.\d+\.\d+\.\d+ 80: KUBE-FW-NWV5X2332I4OT4T3 KUBE-SVC-NWV5X2332I4OT4T3 to /),
      `nodePort - 31358: KUBE-SVC-NWV5X2332I4OT4T3 to ${ends}`,
    ]);
  });

  test('of 2020: chains without comments are identified by their name, and their entry is not in the text', () => {
    const snapshot = pasted('test-service-2020/nodes/node1/iptables-save');
    const report = traceText(snapshot, 'KUBE-SVC-FCDRZOMGBO47PTZS');
    expect(pathsOf(report.traces)).toEqual([
      'clusterIP - 0:  to 10.42.19.2:80 50% by KUBE-SEP-XMEIUTLIHCVEEQRB, 10.42.20.2:80 50% by KUBE-SEP-T4IG46XR4M43OGK2',
    ]);
    expect(tree(report, {...{color: false, width: Infinity, quiet: false}, verbose: false, failOn: 'error', unixTime: 0})).toContain(
      'an entry that is not in this text',
    );
    expect(() => traceText(snapshot, 'default/test-service')).toThrow('is not in these rules');
  });

  test('of 2022: a listing with remarks, its node port shown apart, and a row shown again without its comment', () => {
    const snapshot = pasted('nginx-2022/nodes/master/iptables-save', 'nginx-2022-node-port.txt');
    const ends = '192.168.196.131:80 50% by KUBE-SEP-5V2UTJDVBQ73MZHD, 192.168.219.77:80 50% by KUBE-SEP-6KKQPHGRLUODOJRX';
    expect(pathsOf(traceText(snapshot, 'default/nginx').traces)).toEqual([
      `clusterIP 10.110.64.222 8080: KUBE-SVC-P4Q3KNUAWJVP4ILH to ${ends}`,
      `nodePort - 30170: KUBE-EXT-P4Q3KNUAWJVP4ILH KUBE-SVC-P4Q3KNUAWJVP4ILH to ${ends}`,
    ]);
  });

  test('the first line says that nothing was compared', () => {
    const snapshot = pasted('mysql-2016/nodes/node1/iptables-save');
    expect(isRulesAlone(snapshot)).toBe(true);
    const text = tree(traceText(snapshot), {
      ...{color: false, width: Infinity, quiet: false},
      verbose: false,
      failOn: 'error',
      unixTime: 0,
    });
    expect(text.split('\n')[0]).toBe(
      'from rules alone: nothing to compare with; default/mysql-service on rules.txt: the chain of an endpoint has not the name that kube-proxy gives it (ST216); 1 warning in the rules themselves',
    );
  });
});

describe('a whole article, its prose and all its commands in one text, shows the same', () => {
  test('of 2016, with two modes in it', () => {
    const {traces} = traceText(pasted('whole/mysql-2016.txt'));
    expect(pathsOf(traces)).toEqual(
      pathsOf(traceText(pasted('mysql-2016/nodes/node1/iptables-save', 'ssh-2016/nodes/node1/iptables-save')).traces),
    );
    expect(traces.map(({service}) => service.name)).toEqual(['mysql-service', 'ssh-service1']);
  });

  test('of 2017, which shows its rules several times and before they were scaled', () => {
    const excerpts = [
      'hostnames-2017-scaled/nodes/gke-node/iptables-save',
      'hostnames-2017-node-port.txt',
      'hostnames-2017-load-balancer.txt',
    ];
    const paths = pathsOf(traceText(pasted('whole/hostnames-2017.txt'), 'hostnames').traces);
    expect(paths.toSorted()).toEqual(pathsOf(traceText(pasted(...excerpts), 'hostnames').traces).toSorted());
    expect(paths).toHaveLength(3);
  });

  test('of 2020 about Docker, which shows no rule of kube-proxy', async () => {
    const snapshot = pasted('whole/docker-2020.txt');
    const report = traceText(snapshot);
    expect(report.traces).toEqual([]);
    expect(serviceList(report, {...{color: false, width: Infinity, quiet: false}, verbose: false, failOn: 'error', unixTime: 0})).toContain(
      'These rules contain no Service of kube-proxy.',
    );
    const text = readFixture('articles/whole/docker-2020.txt');
    const question = {source: '172.17.0.2', destination: '10.96.0.1', port: '443'};
    expect((await askText(text, [question])).map(answerText)).toEqual(['100.0% undecided']);
  });

  test('of 2020 about a Service whose name the rules do not show', () => {
    expect(pathsOf(traceText(pasted('whole/test-service-2020.txt')).traces)).toEqual([
      'clusterIP - 0:  to 10.42.19.2:80 50% by KUBE-SEP-XMEIUTLIHCVEEQRB, 10.42.20.2:80 50% by KUBE-SEP-T4IG46XR4M43OGK2',
    ]);
  });

  test('of 2022, with listings that repeat some rows and leave out others', () => {
    const snapshot = pasted('whole/nginx-2022.txt');
    const ends = '192.168.196.131:80 50% by KUBE-SEP-5V2UTJDVBQ73MZHD, 192.168.219.77:80 50% by KUBE-SEP-6KKQPHGRLUODOJRX';
    expect(pathsOf(traceText(snapshot, 'default/nginx').traces)).toEqual([
      `clusterIP 10.110.64.222 8080: KUBE-SVC-P4Q3KNUAWJVP4ILH to ${ends}`,
      `nodePort - 30170: KUBE-EXT-P4Q3KNUAWJVP4ILH KUBE-SVC-P4Q3KNUAWJVP4ILH to ${ends}`,
    ]);
    expect(traceText(snapshot).traces.map(({service}) => service.name)).toEqual([
      'kubernetes',
      'nginx',
      'kube-dns',
      'kube-dns',
      'kube-dns',
    ]);
  });
});
