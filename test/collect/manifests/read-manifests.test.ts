import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
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
  ['a range that is none', service({type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.1']}), '"10.0.0.1" is not a CIDR'],
  ['a type that does not exist', service({type: 'Nodeport'}), 'spec.type is "Nodeport": it must be one of ClusterIP, NodePort'],
  ['a slice of no type', slice({endpoints: []}), 'EndpointSlice shop/web-1: addressType is missing'],
  [
    'an endpoint of another family',
    slice({addressType: 'IPv6', endpoints: [{addresses: ['10.0.0.1']}]}),
    '"10.0.0.1" is not an IPv6 address',
  ],
  ['a name with a quote', service({}).replace('"web"', '"we\\"b"'), 'metadata.name "we"b" is not a DNS label'],
  ['a name of a port that is none', service({ports: [{name: 'a:b', port: 80}]}), 'spec.ports[0].name "a:b" is not a DNS label'],
  [
    'a node port twice',
    service({
      type: 'NodePort',
      ports: [
        {name: 'a', port: 80, nodePort: 30_080},
        {name: 'b', port: 81, nodePort: 30_080},
      ],
    }),
    'spec.ports[1] has the node port 30080/TCP of another port',
  ],
  ['ranges without a load balancer', service({loadBalancerSourceRanges: ['10.0.0.0/8']}), 'cannot be set if type is ClusterIP'],
  ['a node port of a headless Service', service({type: 'NodePort', clusterIP: 'None'}), 'spec.clusterIP cannot be None'],
  ['two different first addresses', service({clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.2']}), 'spec.clusterIP is 10.96.0.1'],
  ['two addresses of one family', service({clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1', '10.96.0.2']}), 'more than one address'],
  ['an address of another family', service({clusterIP: '10.96.0.1', ipFamilies: ['IPv6']}), 'spec.ipFamilies[0] is IPv6'],
  ['a policy that does not exist', service({type: 'NodePort', externalTrafficPolicy: 'local'}), 'must be one of Cluster, Local'],
  ['an affinity that does not exist', service({sessionAffinity: 'clientIP'}), 'must be one of None, ClientIP'],
  [
    'an affinity for two days',
    service({sessionAffinity: 'ClientIP', sessionAffinityConfig: {clientIP: {timeoutSeconds: 172_800}}}),
    'timeoutSeconds is 172800: it must be a number from 1 to 86400',
  ],
  ['a Deployment alone', JSON.stringify({apiVersion: 'apps/v1', kind: 'Deployment', metadata: {name: 'web'}}), 'only Deployment'],
  [
    'a Service of another API',
    JSON.stringify({apiVersion: 'serving.knative.dev/v1', kind: 'Service', metadata: {name: 'web'}}),
    'only Service.serving.knative.dev',
  ],
  ['an empty file', '', 'holds no API object'],
  ['an empty List', 'apiVersion: v1\nkind: List\nitems: []\n', 'holds no API object'],
  ['no YAML', 'kind: Service\nmetadata: {name: x\n', 'line 3 is not valid YAML (its indentation does not fit, or a bracket above is open)'],
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
  ['ranges with blanks, which kube-proxy trims', service({type: 'LoadBalancer', loadBalancerSourceRanges: [' 10.0.0.0/8']})],
])('accepts %s', (_, text) => {
  expect(read(text).services).toMatchObject([{metadata: {namespace: 'shop', name: 'web'}}]);
});

const other = JSON.stringify({apiVersion: 'apps/v1', kind: 'Deployment', metadata: {name: 'web'}});
test.each([
  ['several YAML documents', `---\n${service({})}\n---\n${other}\n---\n`],
  ['a List', JSON.stringify({apiVersion: 'v1', kind: 'List', items: [JSON.parse(service({})), JSON.parse(other)]})],
  ['JSON objects one after the other', `${JSON.stringify(JSON.parse(service({})), null, 2)}\n${other}\n`],
])('reads %s', (_, text) => {
  expect(read(text)).toMatchObject({services: [{metadata: {name: 'web'}}], ignored: ['Deployment']});
});

test.each([
  ['UTF-16, as PowerShell redirects it', (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')],
  ['lines that end in CR LF', (text: string) => Buffer.from(text.replaceAll('\n', '\r\n'))],
])('manifests in %s are read', (_, change) => {
  const file = join(folder, 'windows.json');
  writeFileSync(file, change(`${service({})}\n${service({type: 'ClusterIP'})}\n`));
  expect(readManifests([file], 'shop').services.map(({metadata}) => metadata.name)).toEqual(['web', 'web']);
});

test('a directory stands for the manifests in it', () => {
  const directory = join(folder, 'manifests');
  mkdirSync(directory);
  expect(() => readManifests([directory], 'shop')).toThrow('manifests holds no .yaml, .yml or .json file');
  writeFileSync(join(directory, 'web.yaml'), service({}));
  writeFileSync(join(directory, 'other.json'), other);
  writeFileSync(join(directory, 'README.md'), '# not a manifest');
  expect(readManifests([directory], 'shop')).toMatchObject({services: [{metadata: {name: 'web'}}], ignored: ['Deployment']});
});

test('a file that does not exist is named in a plain sentence', () => {
  expect(() => readManifests(['nosuch.yaml'], 'shop')).toThrow(/^cannot read nosuch\.yaml: no such file or directory$/);
});
