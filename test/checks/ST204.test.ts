import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, containing, scenario} from '../scenario.ts';

const finding = {code: 'ST204', severity: 'error', node: 'node-b', family: 'IPv4', subject: 'shop/web:http', endpoint: '10.244.12.4:8080'};
const rewrite = ['-A KUBE-SEP-', '"shop/web:http"', '-j DNAT --to-destination 10.244.12.4:8080'];

test('a chain that sends its endpoint’s traffic to another address is reported with both rules', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const right = dump.replace(rewrite, '10.244.12.4:8080', '10.244.12.44:8080');
  expect(given.newFindings()).toEqual([
    {
      ...finding,
      message: containing('the rule of endpoint 10.244.12.4:8080 sends traffic to 10.244.12.44:8080'),
      expected: [right],
      actual: [dump.evidence('--to-destination 10.244.12.44:8080')],
    },
  ]);
});

test('a wrong port is reported like a wrong address', async () => {
  const given = await scenario();
  given.rules('node-b').replace(rewrite, '10.244.12.4:8080', '10.244.12.4:9090');
  expect(given.newFindings().map(({code, endpoint, message}) => ({code, endpoint, message}))).toEqual([
    {code: 'ST204', endpoint: '10.244.12.4:8080', message: containing('sends traffic to 10.244.12.4:9090')},
  ]);
});

test('a chain that sends traffic to another endpoint of the same Service is found too', async () => {
  const given = await scenario();
  given.rules('node-b').replace(rewrite, '10.244.12.4:8080', '10.244.11.4:8080');
  expect(given.newFindings().map(({code, endpoint, message}) => ({code, endpoint, message}))).toEqual([
    {
      code: 'ST204',
      endpoint: '10.244.12.4:8080',
      message: containing('the rule of endpoint 10.244.12.4:8080 sends traffic to 10.244.11.4:8080'),
    },
  ]);
});

test('the capture of a wrong DNAT has this finding and no other', async () => {
  const healthy = findingsOf(await snapshotOf('healthy/1.36-iptables')).length;
  const found = findingsOf(await snapshotOf('faults/wrong-dnat'));
  expect(found).toHaveLength(healthy + 1);
  expect(found[0]).toMatchObject({
    code: 'ST204',
    node: 'node-c',
    endpoint: '192.0.2.10:5432',
    service: {namespace: 'shop', name: 'manual'},
  });
});

test('the same IPv6 address in another spelling stays silent', async () => {
  const given = await scenario();
  const words = ['-A KUBE-SEP-', '"infra/six:metrics"', '[fd00:10:244:11::9]:9153'];
  given.rules('node-b', 'ip6tables-save').replace(words, '[fd00:10:244:11::9]', '[fd00:0010:0244:0011:0:0:0:9]');
  expect(given.newFindings()).toEqual([]);
});

test('options that other versions of iptables print beside the address stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-POSTROUTING', 'MASQUERADE'], ' --random-fully', '');
  expect(given.newFindings()).toEqual([]);
});
