import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const label = 'service.kubernetes.io/headless';

test('the headless label at a Service with a cluster IP is reported where kube-proxy is 1.33', async () => {
  expect(await withLabel('healthy/1.33-iptables', {})).toEqual([
    ['ST116', 'warning', containing('kube-proxy up to 1.35 ignores the Service')],
  ]);
});

test('kube-proxy 1.36 serves such a Service, and stays silent', async () => {
  expect(await withLabel('healthy/1.36-iptables', {})).toEqual([]);
});

test('a Service without a cluster IP may have the label, and stays silent', async () => {
  expect(await withLabel('healthy/1.33-iptables', {clusterIP: 'None'})).toEqual([]);
});

test('a Service that is given to another proxy stays silent', async () => {
  expect(await withLabel('healthy/1.33-iptables', {}, {'service.kubernetes.io/service-proxy-name': 'mesh'})).toEqual([]);
});

async function withLabel(capture: string, spec: object, labels: Readonly<Record<string, string>> = {}) {
  const given = await scenario(capture);
  given.service('shop/external-ips', service => ({
    ...service,
    metadata: {...service.metadata, labels: {...service.metadata.labels, ...labels, [label]: ''}},
    spec: {...service.spec, ...spec},
  }));
  return given
    .findings()
    .filter(({code}) => code === 'ST116')
    .map(({code, severity, message}) => [code, severity, message]);
}
