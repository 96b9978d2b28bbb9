import {describe, expect, test} from 'vitest';
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

describe('in nftables mode, a chain of an endpoint of yesterday', () => {
  const leftover = 'endpoint-AAAAAAAA-shop/old/tcp/http__10.244.12.99/8080';
  const rule = (chain: string, statement: string): string =>
    `{"rule": {"family": "ip", "table": "kube-proxy", "chain": "${chain}", "handle": 999, "expr": [${statement}]}}`;
  const declared = `{"chain": {"family": "ip", "table": "kube-proxy", "name": "${leftover}", "handle": 998}}`;
  const goto = `{"goto": {"target": "${leftover}"}}`;

  async function codesWith(more: (dump: string) => readonly string[]): Promise<readonly string[]> {
    const given = await scenario('nftables/1.33');
    const before = given.rules('node-a', 'nft.json').toString();
    const objects = [declared, rule(leftover, '{"dnat": {"addr": "10.244.12.99", "port": 8080}}'), ...more(before)];
    given.file('node-a', 'nft.json', before.replace(/\]\}\s*$/, `, ${objects.join(', ')}]}\n`));
    return given.newFindings().map(({code}) => code);
  }

  test('is a leftover if no rule leads to it', async () => {
    expect(await codesWith(() => [])).toEqual(['ST215']);
  });

  test('is none if the chain of another endpoint leads to it by a rule that kube-proxy does not write', async () => {
    const codes = await codesWith(dump => [rule(/"name": "(endpoint-[^"]*shop\/web\/[^"]*)"/.exec(dump)?.[1] ?? '', goto)]);
    expect(codes).not.toContain('ST215');
    expect(codes.length).toBeGreaterThan(0);
  });

  test('is none if a base chain leads to it', async () => {
    expect(await codesWith(() => [rule('services', goto)])).not.toContain('ST215');
  });
});
