import {expect, test} from 'vitest';
import {type Said, saying, scenario} from '../scenario.ts';

const flow = (to: string) =>
  `udp      17 25 src=10.244.13.7 dst=10.96.0.10 sport=40000 dport=53 src=${to} dst=10.244.13.7 sport=53 dport=40000 mark=0 use=1\n`;

test('a tracked flow that leads to a former endpoint is reported with the address and the line', async () => {
  expect(await tracked(`${flow('10.244.11.9')}${flow('10.244.11.77')}`)).toEqual([
    {
      ...{code: 'ST508', severity: 'warning', node: 'node-b', family: 'IPv4', subject: 'infra/dns:dns'},
      message: saying('1 tracked UDP flow leads to 10.244.11.77:53, no endpoint of the Service (conntrack line 2)'),
    },
  ]);
});

test('a flow that was never rewritten, since it came before the rules, is reported', async () => {
  expect((await tracked(flow('10.96.0.10'))).map(({code, message}) => [code, message])).toEqual([
    ['ST508', saying('leads to 10.96.0.10:53')],
  ]);
});

test('flows to endpoints stay silent', async () => {
  expect(await tracked(flow('10.244.11.9'))).toEqual([]);
});

test('TCP connections keep their endpoint by design, and stay silent', async () => {
  expect(await tracked(flow('10.244.11.77').replace('udp      17', 'tcp      6'))).toEqual([]);
});

test('flows to addresses that are no Service’s stay silent', async () => {
  expect(await tracked(flow('10.244.11.77').replaceAll('10.96.0.10', '8.8.8.8'))).toEqual([]);
});

async function tracked(conntrack: string): Promise<readonly Said[]> {
  const given = await scenario();
  given.file('node-b', 'conntrack', conntrack);
  return given.news();
}
