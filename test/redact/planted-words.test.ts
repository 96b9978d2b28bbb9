import {expect, test} from 'vitest';
import {redactRuleLine} from '../../src/redact/redact-dump.ts';
import {objectTreatments} from '../../src/redact/object-treatments.ts';
import {Replacements} from '../../src/redact/replacements.ts';
import {treat} from '../../src/redact/treatment.ts';

const replacements = new Replacements('key');

test.each(['--selctx', '--tls-host', '--tls-hostset', '--condition', '--rateest', '--rateest1', '--rateest2', '--rateest-name'])(
  'the value of %s in a rule of iptables does not survive redaction, with or without quotes',
  flag => {
    const lines = ['zebrafish.example', '"zebrafish example"'].map(word =>
      redactRuleLine(`-A INPUT ${flag} ${word} -j ACCEPT`, replacements),
    );
    expect(lines.join('\n').toLowerCase()).not.toContain('zebrafish');
    for (const line of lines) expect(line).toMatch(new RegExp(`^-A INPUT ${flag} \\S.* -j ACCEPT$`));
  },
);

test("keys of labels keep Kubernetes' own names, and no others under its domains", () => {
  const labels = {'kubernetes.io/service-name': 'web', 'node-restriction.kubernetes.io/zebrafish': 'a', 'zebrafish.k8s.io/x': 'b'};
  const text = JSON.stringify(treat({metadata: {name: 'web', labels}}, objectTreatments.services, replacements));
  expect(text).toContain('"kubernetes.io/service-name"');
  expect(text).not.toContain('zebrafish');
});

test('appProtocol and osImage, which take any words, are left out', () => {
  const port = {name: 'http', port: 80, appProtocol: 'zebrafish.example/h2'};
  const service = treat({spec: {ports: [port]}}, objectTreatments.services, replacements);
  const slice = treat({ports: [port]}, objectTreatments.endpointSlices, replacements);
  const node = treat({status: {nodeInfo: {osImage: 'Zebrafish 1', architecture: 'amd64'}}}, objectTreatments.nodes, replacements);
  expect(service).toEqual({spec: {ports: [{name: 'http', port: 80}]}});
  expect(slice).toEqual({ports: [{name: 'http', port: 80}]});
  expect(node).toEqual({status: {nodeInfo: {architecture: 'amd64'}}});
});
