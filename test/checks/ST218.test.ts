import {expect, test} from 'vitest';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('a harmless duplicate of a Service rule is an info with the Service', async () => {
  expect(await doubled('-A KUBE-SERVICES', '"shop/web:http cluster IP"')).toEqual([
    {
      ...{code: 'ST218', severity: 'info', node: 'node-b', family: 'IPv4', subject: 'shop/web:http'},
      message: containing('a rule of nat/KUBE-SERVICES is there twice: no traffic is affected'),
      actual: [containing('"shop/web:http cluster IP"')],
    },
  ]);
});

test('a duplicate jump of the base rules is an info of the node', async () => {
  expect(await doubled('-A PREROUTING', '-j KUBE-SERVICES')).toEqual([
    {
      ...{code: 'ST218', severity: 'info', node: 'node-b', family: 'IPv4'},
      message: containing('a rule of nat/PREROUTING is there twice'),
      actual: [containing('-A PREROUTING')],
    },
  ]);
});

test('a jump that is there many times is counted as duplicates, not as so many rules', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const jump = ['-A PREROUTING', '-j KUBE-SERVICES'];
  const [line = ''] = dump.lines(...jump);
  dump.insertAfter(jump, [line, line, line].join('\n'));
  const [found] = given.newFindings();
  expect(found).toMatchObject({code: 'ST218', message: containing('3 base rules are duplicates')});
});

test.each([
  ['a hairpin rule', ['-A KUBE-SEP-', '-s 10.244.12.4/32', '"shop/web:http"']],
  ['a refusal', ['-A KUBE-SERVICES', '"shop/empty:http has no endpoints"']],
  ['the accept rule of a health check', ['-A KUBE-NODEPORTS', '"shop/lb-local:http health check node port"']],
])('a duplicate of %s is an info', async (_, words) => {
  expect((await doubled(...words)).map(({code, severity}) => [code, severity])).toEqual([['ST218', 'info']]);
});

test('a duplicate balancing rule is harmful, and is ST208 instead', async () => {
  expect((await doubled('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.4:8080"')).map(({code}) => code)).toEqual(['ST208']);
});

test('the two rules of a node port, one of which only counts, are no duplicates', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-A KUBE-NODEPORTS', '"shop/nodeport:http"')).toHaveLength(2);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST218');
});

test('up to 1.23 a chain holds the same rules once for each load-balancer address, by design', async () => {
  const given = await scenario('healthy/1.23-iptables');
  expect(given.rules('node-b').lines('-A KUBE-FW-M3QFV6FJK7ELJDP7', '-j KUBE-MARK-DROP')).toHaveLength(2);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST218');
});

async function doubled(...words: readonly string[]): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertAfter(words, dump.line(...words));
  return given.newFindings();
}
