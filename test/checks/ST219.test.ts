import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

test('a missing accept rule of a health-check port is a warning with the port', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-NODEPORTS', '"shop/lb-local:http health check node port"');
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST219', severity: 'warning', node: 'node-b', family: 'IPv4', subject: 'shop/lb-local:http'},
      message: containing('the rule that accepts health checks on port 32100 is missing'),
      expected: [gone],
    },
  ]);
});

test('kube-proxy 1.23 writes it as well, and a missing one is reported', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-c').delete('"shop/lb-local:http health check node port"');
  expect(given.newFindings().map(({code, node}) => ({code, node}))).toEqual([{code: 'ST219', node: 'node-c'}]);
});

test('a Service under the Cluster policy has no health-check port, even if a number is left in it', async () => {
  const given = await scenario();
  given.service('shop/lb-cluster', object => ({...object, spec: {...object.spec, healthCheckNodePort: 32200}}));
  expect(given.newFindings()).toEqual([]);
});

test('a Service without any of its rules is only ST201', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('"shop/lb-local:http', '-A KUBE-');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST201']);
});
