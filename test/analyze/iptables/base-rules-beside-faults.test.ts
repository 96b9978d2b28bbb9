/** The effect of base rules that differ is tried with one Service port of each shape. It is as severe if this one has a fault of its own. */
import {expect, test} from 'vitest';
import type {NodeDump, Snapshot} from '../../../src/model/snapshot.ts';
import {seededRandom} from '../../bench/random.ts';
import {nodeDump} from '../../cluster.ts';
import {withRules} from '../../rendered-dump.ts';
import {findingsOf} from '../../scenario.ts';
import {names, twoServices} from '../two-services.ts';
import {withFiles} from '../../fixtures.ts';

function cluster(): Snapshot {
  const api = twoServices('NodePort');
  const config = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    clusterCIDR: '10.244.0.0/16',
  };
  const node = nodeDump('node-a', {'kube-proxy-version': 'v1.36.0\n', 'kube-proxy-config.yaml': JSON.stringify(config)});
  return withRules({origin: 'two Services', api, problems: [], nodes: [node]}, seededRandom(1));
}

function codes(change: (dump: string) => string): readonly string[] {
  const snapshot = cluster();
  const changed = (node: NodeDump) => withFiles(node, {'iptables-save': change(node.read('iptables-save')?.toString() ?? '')});
  const found = findingsOf({...snapshot, nodes: snapshot.nodes.map(changed)});
  return found.flatMap(({code, severity, node}) => (node === undefined || severity === 'info' ? [] : [`${severity} ${code}`]));
}

/** No rule leads to it. */
function broken(index: number): (dump: string) => string {
  return dump => dump.replaceAll(new RegExp(`^-A KUBE-(?:SERVICES|NODEPORTS) .*"${names[index]}:http.*\n`, 'gm'), '');
}

test.each([
  ['KUBE-FORWARD rejects what it should accept', /^(-A KUBE-FORWARD .*--mark 0x4000\/0x4000) -j ACCEPT$/m, '$1 -j REJECT', 'error ST303'],
  ['KUBE-POSTROUTING does not masquerade', /^-A KUBE-POSTROUTING .*-j MASQUERADE.*\n/m, '', 'error ST302'],
  [
    'KUBE-SERVICES is not reached from OUTPUT',
    /^-A OUTPUT .*-j KUBE-SERVICES\n(?=(?:-A (?:OUTPUT|POSTROUTING|KUBE).*\n)*-A KUBE-SVC)/m,
    '',
    'error ST301',
  ],
])('%s', (_, rule, by, found) => {
  expect(codes(dump => dump)).toEqual([]);
  const change = (dump: string): string => {
    expect(dump).toMatch(rule);
    return dump.replace(rule, by);
  };
  expect(codes(change)).toContain(found);
  for (const index of names.keys())
    expect(
      codes(dump => broken(index)(change(dump))),
      names[index] ?? '',
    ).toContain(found);
});
