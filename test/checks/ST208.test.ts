import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST208', severity: 'warning', family: 'IPv4'};

test('the capture of rules with other probabilities has this finding with the shares', async () => {
  const found = findingsOf(await snapshotOf('faults/skewed-balance')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([
    {
      ...{...place, node: 'node-a', subject: 'shop/web:http'},
      message: containing('10.244.11.4:8080 90%, 10.244.11.5:8080 5%, 10.244.12.4:8080 5%; each should get 33.3%'),
      expected: expect.anything(),
      actual: expect.anything(),
    },
  ]);
});

test('a duplicated balancing rule gives its endpoint more than its share', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const words = ['-A KUBE-SVC-', '"infra/dns:dns -> 10.244.11.9:53"'];
  dump.insertAfter(words, dump.line(...words));
  const found = given.newFindings();
  expect(found).toEqual([
    {
      ...{...place, node: 'node-b', subject: 'infra/dns:dns'},
      message: containing('10.244.11.9:53 75%, 10.244.12.9:5353 25%; each should get 50%'),
      actual: [expect.stringContaining(dump.lines(...words)[0] ?? 'none')],
    },
  ]);
});

test('balancing rules in the wrong order are uneven', async () => {
  const given = await scenario();
  given.rules('node-b').swapWithNext('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.4:8080"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, node: 'node-b', subject: 'shop/web:http'},
      message: containing('10.244.11.5:8080 50%', '10.244.11.4:8080 16.7%', 'each should get 33.3%'),
      actual: expect.anything(),
    },
  ]);
});

test('the same probability with fewer decimals stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').replaceAll('0.33333333349', '0.33333');
  expect(given.newFindings()).toEqual([]);
});

test('two rules that together give even shares stay silent about the balance', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const words = ['-A KUBE-SVC-', '"infra/dns:dns -> 10.244.12.9:5353"'];
  dump.insertAfter(words, dump.line(...words));
  expect(given.newFindings().map(({code, severity}) => [code, severity])).toEqual([['ST218', 'info']]);
});

test('a Service with one endpoint has no shares and stays silent', async () => {
  const given = await scenario();
  given
    .rules('node-b')
    .replace(['-A KUBE-SVC-', '"default/kubernetes:https -> '], ' -j ', ' -m statistic --mode random --probability 1.00000000000 -j ');
  expect(given.newFindings().filter(({severity}) => severity !== 'info')).toEqual([]);
});
