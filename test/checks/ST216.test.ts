import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {node: 'node-b', family: 'IPv4'};

test('a third-party rule in a Service’s chain that changes nothing is an info', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['"shop/web:http -> 10.244.11.4:8080"'], '-A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "count me" -j LOG');
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST216', severity: 'info', ...place, subject: 'shop/web:http'},
      message: containing('a rule of nat/KUBE-SVC-67NZLRHBNDSAWJRO was not written by kube-proxy: no traffic is affected'),
      actual: [dump.evidence('"count me"')],
    },
  ]);
});

test('a rule that intercepts all packets in a Service’s chain is one error, and not one for each endpoint without traffic', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['-A KUBE-SVC-67NZLRHBNDSAWJRO', '-j KUBE-MARK-MASQ'], '-A KUBE-SVC-67NZLRHBNDSAWJRO -j ACCEPT');
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST216', severity: 'error', ...place, subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
      message: containing(
        'a rule in nat/KUBE-SVC-67NZLRHBNDSAWJRO that kube-proxy would not have written intercepts packets',
        'they end in no endpoint at all',
      ),
      actual: [dump.evidence('-A KUBE-SVC-67NZLRHBNDSAWJRO -j ACCEPT')],
    },
  ]);
});

test('a rule that sends a Service’s packets elsewhere before kube-proxy’s rules is an error', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const rule = '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.12.99:80';
  dump.insertBefore(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], rule);
  expect(given.newFindings().map(({code, severity, subject, message}) => ({code, severity, subject, message}))).toEqual([
    {code: 'ST216', severity: 'error', subject: 'shop/web:http', message: containing('they end in 10.244.12.99:80')},
  ]);
});

test.each([
  [
    'accepts a Service’s packets',
    '-A KUBE-SERVICES -d 10.96.1.1/32 -j RETURN',
    'the cluster IP 10.96.1.1:80 of shop/web:http end in no endpoint at all',
  ],
  ['intercepts every packet', '-A KUBE-SERVICES -j ACCEPT', 'more Service ports are affected'],
])('an unattributed rule that %s is one error', async (_, rule, effect) => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], rule);
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST216', severity: 'error', ...place},
      message: containing('a rule in nat/KUBE-SERVICES is not one that kube-proxy would have written', effect),
      actual: [dump.evidence(rule)],
    },
  ]);
});

test('unexpected rules that masquerade packets to a cluster IP and lose those to a node port are an error for the loss', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['-A KUBE-SERVICES', '"shop/nodeport:http cluster IP"'], '-A KUBE-SERVICES -d 10.96.1.3/32 -j KUBE-MARK-MASQ');
  const first = ['-A KUBE-NODEPORTS -d 127.0.0.0/8', 'shop/both-local:http'];
  dump.insertBefore(first, '-A KUBE-NODEPORTS -p tcp -m tcp --dport 30079:30080 -j RETURN');
  expect(given.newFindings()).toMatchObject([
    {
      code: 'ST216',
      severity: 'error',
      message: containing("2 rules in kube-proxy's chains", 'node port 30080 of shop/nodeport:http end in'),
    },
  ]);
});

test('an unexpected rule that drops packets to an endpoint is an error with their outcome', async () => {
  const given = await scenario();
  const rule = '-A KUBE-EXTERNAL-SERVICES -d 10.244.12.6/32 -j DROP';
  given.rules('node-b').insertBefore(['-A KUBE-EXTERNAL-SERVICES', '"shop/empty-lb:http', '30089'], rule);
  expect(given.newFindings().map(({code, severity, message}) => ({code, severity, message}))).toEqual([
    {
      code: 'ST216',
      severity: 'error',
      message: containing('of shop/sleepy-published:http end in a DROP, and without it in 10.244.12.6:8080'),
    },
  ]);
});

test.each(['-A KUBE-SERVICES -d 10.200.0.0/16 -j RETURN', '-A KUBE-SERVICES -j LOG'])('%s changes nothing and is an info', async rule => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], rule);
  expect(given.newFindings()).toEqual([
    {...{code: 'ST216', severity: 'info', ...place}, message: containing('no traffic is affected'), actual: [containing(rule)]},
  ]);
});

test.each([
  ['-A KUBE-SERVICES -s 10.244.11.64/26 -j RETURN', '10.244.11.64/26'],
  ['-A KUBE-SERVICES -s 10.244.12.200/32 -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j RETURN', '10.244.12.200'],
  ['-A KUBE-SVC-67NZLRHBNDSAWJRO -s 203.0.113.64/26 -j RETURN', '203.0.113.64/26'],
  ['-A KUBE-SVC-67NZLRHBNDSAWJRO -s 172.18.0.13/32 -j ACCEPT', '172.18.0.13'],
  [
    '-A KUBE-SVC-67NZLRHBNDSAWJRO -m iprange --src-range 10.244.12.100-10.244.12.109 -p tcp -j DNAT --to-destination 10.244.11.5:8080',
    '10.244.12.100-10.244.12.109',
  ],
  ['-A KUBE-SVC-67NZLRHBNDSAWJRO -s 10.9.0.0/16 -p tcp -m tcp --sport 1:1023 -j RETURN', '10.9.0.0/16, source port 1-1023'],
])('%s is an info that names its range', async (rule, range) => {
  const given = await scenario();
  const first = rule.includes('KUBE-SVC') ? ['KUBE-SVC-67NZLRHBNDSAWJRO ! -s'] : ['-A KUBE-SERVICES', '"shop/web:http cluster IP"'];
  given.rules('node-b').insertBefore(first, rule);
  expect(given.newFindings()).toMatchObject([
    {code: 'ST216', severity: 'info', message: expect.stringContaining(range), actual: [containing(rule)]},
  ]);
});

test('an unexpected base rule that affects no packet is an info', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.append(
    'filter',
    '-A KUBE-FORWARD -m comment --comment "mine" -m conntrack --ctstate RELATED,ESTABLISHED -m mark --mark 0x1 -j ACCEPT',
  );
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST216', severity: 'info', ...place},
      message: containing('a rule in filter/KUBE-FORWARD is not one that kube-proxy would have written'),
      actual: [dump.evidence('"mine"')],
    },
  ]);
});

test('different words in a comment stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['"shop/web:http -> 10.244.11.4:8080"'], 'shop/web:http -> 10.244.11.4:8080', 'changed');
  expect(given.newFindings()).toEqual([]);
});

test('another order of Services in the shared chains stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').swapWithNext('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(given.newFindings()).toEqual([]);
});

test('counters stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').replaceAll('-A KUBE-S', '[12:720] -A KUBE-S');
  expect(given.newFindings()).toEqual([]);
});

test('the rules of a kubelet up to 1.26 in KUBE-FIREWALL stay silent', async () => {
  const given = await scenario('healthy/1.23-iptables');
  expect(given.rules('node-b').lines('-A KUBE-FIREWALL', '--mark 0x8000/0x8000')).toHaveLength(1);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST216');
});

test.each(['-A KUBE-SERVICES -s 10.244.0.0/16 -j RETURN', '-A KUBE-SERVICES -j RETURN'])(
  '%s behind the jump to the node ports changes nothing and is an info',
  async rule => {
    const given = await scenario();
    given.rules('node-b').append('nat', rule);
    expect(given.newFindings()).toEqual([
      {...{code: 'ST216', severity: 'info', ...place}, message: containing('no traffic is affected'), actual: [containing(rule)]},
    ]);
  },
);

test.each([
  ['the usual ports of clients', '32768:60999 -j ACCEPT', 'error'],
  ['ports that clients do not use', '1:1023 -j ACCEPT', 'info'],
])('a rule that asks for %s has the effect that it has on them', async (_, rule, severity) => {
  const given = await scenario();
  given
    .rules('node-b')
    .insertBefore(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], `-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m tcp --sport ${rule}`);
  expect(given.newFindings()).toMatchObject([{code: 'ST216', severity}]);
});

test.each([
  ['50000:65535', 'error', 'source port 50000-60999'],
  ['! --sport 1:50000', 'error', 'source port 50001-60999'],
  ['1024:5000', 'info', ', source port 1024-5000 are affected'],
  // Few enough of the ports of clients.
  ['40000:40001', 'info', 'source port 40000-40001'],
])("a rule of a Service's chain with the source ports %s is an %s that names these", async (ports, severity, text) => {
  const given = await scenario();
  const rule = `-A KUBE-SVC-67NZLRHBNDSAWJRO -p tcp -m tcp ${ports.startsWith('!') ? ports : `--sport ${ports}`} -j ACCEPT`;
  given.rules('node-b').insertBefore(['-A KUBE-SVC-67NZLRHBNDSAWJRO', '-j KUBE-MARK-MASQ'], rule);
  const news = given.newFindings();
  expect(news.map(finding => finding.severity)).toContain(severity);
  expect(news.map(({message}) => message).join(' ')).toContain(text);
  expect(news.map(({code}) => code)).not.toContain('ST403');
});

test('a rule that cannot be evaluated is a warning', async () => {
  const given = await scenario();
  given
    .rules('node-b')
    .insertBefore(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], '-A KUBE-SERVICES -m frobnicate --level 3 -j ACCEPT');
  expect(given.newFindings()).toMatchObject([{code: 'ST216', severity: 'warning', message: containing('cannot be evaluated')}]);
});
