import {expect, test} from 'vitest';
import {redactFile} from '../../src/redact/redact-file.ts';
import {objectTreatments} from '../../src/redact/object-treatments.ts';
import {Replacements, treat} from '../../src/redact/replacements.ts';

const replacements = new Replacements('key');

test.each(['--selctx', '--tls-host', '--tls-hostset', '--condition', '--rateest', '--rateest1', '--rateest2', '--rateest-name'])(
  'the value of %s in a rule of iptables does not survive redaction, with or without quotes',
  flag => {
    const lines = ['zebrafish.example', '"zebrafish example"'].map(word => redacted('iptables-save', `-A INPUT ${flag} ${word} -j ACCEPT`));
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

const redacted = (file: string, text: string) => String(redactFile(file, Buffer.from(text), replacements));

test('a connection keeps its tuples, counters, marks and zones, and no security context, label or helper', () => {
  const kept = [
    'tcp      6 86399 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 packets=3 bytes=40',
    'src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 [ASSURED] mark=0x4000 zone-orig=5 use=1',
  ];
  const names = 'secctx=system_u:object_r:zebrafish_t:s0 labels=zebrafish,Zebra-Fish helper=zebrafish';
  expect(redacted('conntrack', `${kept[0]} ${kept[1]?.replace(' use=1', '')} ${names} use=1\n`)).toBe(`${kept.join(' ')}\n`);
  const other = 'ipv6     10 unknown  2 580 src=fd00::1 dst=fd00::2 [UNREPLIED] src=fd00::2 dst=fd00::1 mark=0 zone=0 use=2\n';
  expect(redacted('conntrack-tcp', other)).toBe(other);
});

test.each([
  [
    'ipvsadm-save',
    '-A -t zebrafish:http -s rr\n-a -t zebrafish:http -r zebrafish-2.corp:8080 -m -w 1\n',
    '-A -t name:http -s rr\n-a -t name:http -r name:8080 -m -w 1\n',
  ],
  [
    'ipvsadm-list',
    '  -> RemoteAddress:Port           Forward\nTCP  zebrafish:http rr\n',
    '  -> RemoteAddress:Port           Forward\nTCP  name:http rr\n',
  ],
])('host names in %s are replaced, and ports and headings stay', (file, text, expected) => {
  expect(redacted(file, text).replace(/(?<=\s)[\w.-]*-[a-z2-7]{10}(?=:)/g, 'name')).toBe(expected);
});

test('addresses of IPVS, also of IPv6, stay where they are private', () => {
  const text = '-A -t [fd00:10:96::1]:80 -s rr\n-a -t [fd00:10:96::1]:80 -r 10.244.1.7:8080 -m -w 1\n';
  expect(redacted('ipvsadm-save', text)).toBe(text);
});

test('a member of a set of sets gets the new name of its set', () => {
  const text = 'create all list:set size 8\ncreate zebrafish hash:ip family inet\nadd all zebrafish\nadd zebrafish 10.0.0.1\n';
  const [, created, member, element] = redacted('ipset-save', text).split('\n');
  const name = created?.split(' ')[1] ?? '';
  expect(name).not.toMatch(/^$|zebrafish/);
  expect(member?.endsWith(` ${name}`)).toBe(true);
  expect(element).toBe(`add ${name} 10.0.0.1`);
});
