import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, expect, test} from 'vitest';
import {readManifests, UnreadableManifest} from '../../../src/collect/manifests/read-manifests.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-trace-manifests-'));
afterAll(() => rmSync(folder, {recursive: true}));

function read(text: string) {
  const file = join(folder, 'service.yaml');
  writeFileSync(file, text);
  return readManifests([file], 'shop');
}

const service = (spec: object, status: object = {}) =>
  JSON.stringify({apiVersion: 'v1', kind: 'Service', metadata: {name: 'web'}, spec: {ports: [{port: 80}], ...spec}, status});
const slice = (fields: object) => JSON.stringify({kind: 'EndpointSlice', metadata: {name: 'web-1'}, ...fields});

test.each([
  ['a port that is not a number', service({ports: [{port: 'http'}]}), 'Service shop/web: its spec.ports[0].port is not a number'],
  ['a port that is too big', service({ports: [{port: 70_000}]}), 'spec.ports[0].port is 70000: it must be a number from 1 to 65535'],
  ['no port', service({ports: []}), 'Service shop/web: spec.ports has no port'],
  ['two ports without names', service({ports: [{port: 80, name: 'a'}, {port: 81}]}), 'spec.ports[1].name is missing'],
  [
    'a port twice',
    service({
      ports: [
        {port: 80, name: 'a'},
        {port: 80, name: 'b'},
      ],
    }),
    'spec.ports[1] has the port 80/TCP of another port',
  ],
  ['a cluster IP that is no address', service({clusterIP: '10.96.300.1'}), 'spec.clusterIP: "10.96.300.1" is not an IP address'],
  ['a range that is none', service({loadBalancerSourceRanges: ['10.0.0.1']}), '"10.0.0.1" is not a CIDR'],
  ['a type that does not exist', service({type: 'Nodeport'}), 'spec.type is "Nodeport": it must be one of ClusterIP, NodePort'],
  ['a slice of no type', slice({endpoints: []}), 'EndpointSlice shop/web-1: addressType is missing'],
  [
    'an endpoint of another family',
    slice({addressType: 'IPv6', endpoints: [{addresses: ['10.0.0.1']}]}),
    '"10.0.0.1" is not an IPv6 address',
  ],
  ['no YAML', 'kind: Service\nmetadata: {name: x\n', 'is not valid YAML'],
])('refuses %s, and names the file', (_, text, message) => {
  expect(() => read(text)).toThrow(UnreadableManifest);
  expect(() => read(text)).toThrow(message);
  expect(() => read(text)).toThrow('service.yaml');
});

test.each([
  ['a headless Service without ports', service({clusterIP: 'None', ports: []})],
  ['an ExternalName Service', service({type: 'ExternalName', externalName: 'example.com', ports: []})],
  [
    'one port in TCP and UDP',
    service({
      ports: [
        {port: 53, name: 'a'},
        {port: 53, name: 'b', protocol: 'UDP'},
      ],
    }),
  ],
  ['ranges with blanks, which kube-proxy trims', service({loadBalancerSourceRanges: [' 10.0.0.0/8']})],
])('accepts %s', (_, text) => {
  expect(read(text).services).toMatchObject([{metadata: {namespace: 'shop', name: 'web'}}]);
});

test('a file that does not exist is named in a plain sentence', () => {
  expect(() => readManifests(['nosuch.yaml'], 'shop')).toThrow(/^cannot read nosuch\.yaml: no such file or directory$/);
  expect(() => readManifests([folder], 'shop')).toThrow(/: it is a directory$/);
});
