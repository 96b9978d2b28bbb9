import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST212', severity: 'error', node: 'node-b', family: 'IPv4'};

test('a Service without endpoints that does not reject packets is reported with the missing rule', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/empty:http has no endpoints"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/empty:http', entry: 'cluster IP 10.96.1.14:80'},
      message: containing(
        'it has no endpoints, so packets',
        'to its cluster IP 10.96.1.14:80 must be refused; they end in no endpoint at all: clients wait until they time out',
      ),
      expected: [gone],
    },
  ]);
});

test('all its entries together are one finding', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').deleteAll('"shop/empty-lb:http has no endpoints"');
  expect(gone).toHaveLength(4);
  const found = given.newFindings();
  expect(found).toEqual([
    {...place, subject: 'shop/empty-lb:http', message: expect.anything(), expected: expect.arrayContaining([...gone])},
  ]);
  for (const entry of ['cluster IP 10.96.1.15:80', 'node port 30089', 'load-balancer IP 203.0.113.15:80', 'external IP 198.51.100.77:80'])
    expect(found[0]?.message).toContain(entry);
});

test('a single entry that does not reject packets is named alone', async () => {
  const given = await scenario();
  given.rules('node-b').delete('"shop/empty-lb:http has no endpoints"', '--dport 30089');
  expect(given.newFindings().map(({code, entry}) => ({code, entry}))).toEqual([{code: 'ST212', entry: 'node port 30089'}]);
});

test('a Service whose endpoints are no longer ready does not reject packets yet: its endpoints still get traffic, which is ST203', async () => {
  const given = await scenario();
  given.slices('shop/manual', slice => ({...slice, endpoints: (slice.endpoints ?? []).map(one => ({...one, conditions: {ready: false}}))}));
  const codes = given.newFindings({nodes: name => name === 'node-b'}).map(({code}) => code);
  expect(new Set(codes)).toEqual(new Set(['ST101', 'ST203']));
});

test('kube-proxy 1.23 rejects packets to a Service whose endpoints only terminate, and the missing rule is reported there', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-b').deleteAll('"shop/leaving:http has no endpoints"');
  expect(given.newFindings().map(({code, subject}) => ({code, subject}))).toEqual([{code: 'ST212', subject: 'shop/leaving:http'}]);
});

test('a Service with endpoints rejects nothing by design', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('"shop/web:http has no')).toEqual([]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST212');
});

test('another ICMP answer rejects as well, and is no missing refusal', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-SERVICES', '"shop/empty:http has no'], 'icmp-port-unreachable', 'icmp-host-unreachable');
  expect(given.newFindings().filter(({severity}) => severity !== 'info')).toEqual([]);
});

test('where a third-party rule accepts the packets first, the remedy is about that rule, and not about kube-proxy', async () => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-SERVICES'], '-A FORWARD -s 10.244.0.0/16 -j ACCEPT');
  const [finding] = given.findings({nodes: name => name === 'node-b', only: new Set(['ST212'])});
  expect(finding?.remedy).toMatch(/^Find out which tool wrote the rule .* Do not just delete it/);
  expect(finding?.command).toBe('iptables -t filter -S FORWARD');
});

test('where the rule of kube-proxy is missing, the remedy is about its log', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/empty:http has no');
  const [finding] = given.findings({nodes: name => name === 'node-b', only: new Set(['ST212'])});
  expect(finding?.remedy).toMatch(/^Read the log of kube-proxy on this node/);
});
