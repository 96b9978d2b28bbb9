import {expect, test} from 'vitest';
import {containing, type Scenario, scenario} from '../scenario.ts';

test('a node that uses all zones for the Services with hints is one warning, not one finding for each endpoint', async () => {
  const given = await unaware();
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST509', severity: 'warning', node: 'node-c', family: 'IPv4'},
      message: containing("its kube-proxy does not know the node's zone"),
    },
  ]);
});

test('a node without a zone label uses all zones by design, which ST104 tells', async () => {
  const given = await unaware();
  given.nodeObject('node-c', node => ({...node, metadata: {...node.metadata, labels: {'kubernetes.io/hostname': 'node-c'}}}));
  expect([...new Set(given.newFindings().map(({code, severity}) => `${code} ${severity}`))]).toEqual(['ST104 info']);
});

test('one Service with hints that has one endpoint too many on the node is a fault of that Service', async () => {
  const given = await scenario();
  given.slices('shop/zonal', slice => ({
    ...slice,
    endpoints: (slice.endpoints ?? []).map(one =>
      one.hints === undefined ? one : {...one, hints: {forZones: [{name: 'zone-1'}, {name: 'zone-2'}]}},
    ),
  }));
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST509');
});

const endpoints = ['10.244.11.4', '10.244.11.5', '10.244.12.4'];
const probabilities = [
  ' -m statistic --mode random --probability 0.33333333349',
  ' -m statistic --mode random --probability 0.50000000000',
  '',
];

/** On node-c, in zone-2, the rules of a kube-proxy that does not know its zone: it spreads over the endpoints of both zones. */
async function unaware(): Promise<Scenario> {
  const given = await scenario();
  const [dump, other] = [given.rules('node-c'), given.rules('node-a')];
  for (const name of ['zonal', 'nodal']) {
    const local = dump.delete('-A KUBE-SVC-', `"shop/${name}:http -> 10.244.12.4:8080"`);
    for (const rule of other.lines('-A KUBE-SEP-', `"shop/${name}:http"`)) {
      if (rule.endsWith('KUBE-MARK-MASQ')) dump.declare('nat', rule.split(' ')[1] ?? '');
      dump.append('nat', rule);
    }
    for (const [index, address] of endpoints.entries()) {
      const chain = dump.line('-A KUBE-SEP-', `"shop/${name}:http"`, `--to-destination ${address}:8080`).split(' ')[1] ?? '';
      dump.append('nat', local.replace('10.244.12.4', address).replace(/ -j .*$/, `${probabilities[index]} -j ${chain}`));
    }
  }
  return given;
}
