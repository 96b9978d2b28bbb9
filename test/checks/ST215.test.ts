import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const service = '-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "shop/old:http -> 10.244.12.99:8080" -j KUBE-SEP-BBBBBBBBBBBBBBBB';
const endpoint =
  '-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m comment --comment "shop/old:http" -m tcp -j DNAT --to-destination 10.244.12.99:8080';

test('chains that no rule jumps to are one info for each node and family, with their number and an example', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  for (const chain of ['KUBE-SVC-AAAAAAAAAAAAAAAA', 'KUBE-SEP-BBBBBBBBBBBBBBBB']) dump.declare('nat', chain);
  dump.append('nat', service);
  dump.append('nat', endpoint);
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST215', severity: 'info', node: 'node-b', family: 'IPv4'},
      message: containing('2 chains of kube-proxy that no rule jumps to'),
      actual: expect.arrayContaining([dump.evidence('"shop/old:http -> ')]),
    },
  ]);
});

test('a chain of a Service that lost its external entries is a leftover, and not expected', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.deleteAll('-A KUBE-NODEPORTS', '"shop/nodeport:http"');
  given.service('shop/nodeport', object => ({
    ...object,
    spec: {...object.spec, type: 'ClusterIP', ports: (object.spec?.ports ?? []).map(({nodePort: _, ...port}) => port)},
  }));
  expect(given.newFindings({nodes: name => name === 'node-b'}).map(({code, severity, message}) => ({code, severity, message}))).toEqual([
    {code: 'ST215', severity: 'info', message: containing('1 chain', 'KUBE-EXT-UCJAHX4E4XCGRRJS')},
  ]);
});

test('an empty declared chain stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').declare('nat', 'KUBE-SVC-AAAAAAAAAAAAAAAA');
  expect(given.newFindings()).toEqual([]);
});

test('chains of other programs stay silent', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.declare('nat', 'CNI-HOSTPORT-DNAT');
  dump.append('nat', '-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 9999 -j DNAT --to-destination 10.244.12.99:9999');
  expect(given.newFindings()).toEqual([]);
});

test('a chain that some rule still jumps to is not unreached: its effect is evaluated', async () => {
  const given = await scenario();
  given.deleteService('shop/web');
  given.deleteSlices('shop/web');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST215');
});
