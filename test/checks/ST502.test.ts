import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST502', severity: 'warning', node: 'node-b'};

test('the capture of a node that ran in IPVS mode before has this finding with the leftovers', async () => {
  const found = findingsOf(await snapshotOf('faults/ipvs-leftovers')).filter(({node}) => node === 'node-a');
  expect(found.map(summaryOf)).toEqual([
    {...place, node: 'node-a', message: containing('ipvs mode left something behind: 61 virtual servers, 40 addresses on kube-ipvs0')},
  ]);
});

test('one virtual server is enough', async () => {
  const given = await scenario();
  given.file('node-b', 'ipvsadm-save', '-A -t 10.96.1.1:80 -s rr\n-a -t 10.96.1.1:80 -r 10.244.12.4:8080 -m -w 1\n');
  expect(given.newFindings()).toEqual([{...place, message: containing('ipvs mode left something behind: 1 virtual servers')}]);
});

test('an nftables table of kube-proxy’s beside its iptables rules is reported', async () => {
  const given = await scenario();
  given.file('node-b', 'nft.json', '{"nftables":[{"table":{"family":"ip","name":"kube-proxy","handle":1}}]}');
  expect(given.newFindings()).toEqual([{...place, message: containing('nftables mode left something behind')}]);
});

test('third-party nftables tables, such as those of iptables-nft, stay silent', async () => {
  const given = await scenario();
  given.file('node-b', 'nft.json', '{"nftables":[{"table":{"family":"ip","name":"nat","handle":1}}]}');
  expect(given.newFindings()).toEqual([]);
});

test('an IPVS without virtual servers stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'ipvsadm-save', '');
  given.file('node-b', 'kube-ipvs0.json', '[]');
  expect(given.newFindings()).toEqual([]);
});

const portals = [
  '-A KUBE-PORTALS-CONTAINER -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 36463',
  '-A KUBE-PORTALS-HOST -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http" -m tcp --dport 80 -j DNAT --to-destination 172.18.0.12:36463',
];

test('portals of the userspace mode behind KUBE-SERVICES are a warning with their remaining effect', async () => {
  const given = await scenario();
  const rules = given.rules('node-b');
  for (const chain of ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST']) rules.declare('nat', chain);
  rules.append('nat', '-A PREROUTING -j KUBE-PORTALS-CONTAINER');
  for (const rule of portals) rules.append('nat', rule);
  expect(given.newFindings({only: new Set(['ST502'])})).toEqual([
    expect.objectContaining({
      ...place,
      message: containing(
        'userspace mode left 2 rules',
        'KUBE-PORTALS-CONTAINER, KUBE-PORTALS-HOST',
        'of shop/web:http',
        'packets that KUBE-SERVICES does not match',
      ),
    }),
  ]);
});

test('portals before KUBE-SERVICES are an error: they intercept packets', async () => {
  const given = await scenario();
  const rules = given.rules('node-b');
  for (const chain of ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST']) rules.declare('nat', chain);
  rules.insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -j KUBE-PORTALS-CONTAINER');
  for (const rule of portals) rules.append('nat', rule);
  expect(given.newFindings({only: new Set(['ST502'])})).toEqual([
    expect.objectContaining({...place, severity: 'error', message: containing('KUBE-PORTALS-CONTAINER come before KUBE-SERVICES')}),
  ]);
});

test('old KUBE-XLB chains are reported if kube-proxy does not remove them', async () => {
  for (const [capture, reported] of [
    ['healthy/1.36-iptables', true],
    ['healthy/1.26-iptables', false],
  ] as const) {
    const given = await scenario(capture);
    const rules = given.rules('node-b');
    rules.declare('nat', 'KUBE-XLB-67NZLRHBNDSAWJRO');
    rules.append('nat', '-A KUBE-XLB-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http" -j KUBE-SVC-67NZLRHBNDSAWJRO');
    const summaryOf = given.newFindings().map(({code, severity, message}) => [code, severity, message]);
    expect(summaryOf, capture).toEqual([
      reported
        ? ['ST502', 'warning', containing('1 chain KUBE-XLB-', 'cannot be deleted')]
        : ['ST215', 'info', containing('KUBE-XLB-67NZLRHBNDSAWJRO')],
    ]);
  }
});

test('chains that make every sync fail are the cause of what the node misses, and the first line says so', async () => {
  const given = await scenario();
  const rules = given.rules('node-b');
  rules.declare('nat', 'KUBE-XLB-67NZLRHBNDSAWJRO');
  rules.append('nat', '-A KUBE-XLB-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http" -j KUBE-SVC-67NZLRHBNDSAWJRO');
  for (const service of ['web', 'sticky', 'nodal']) rules.delete('-A KUBE-SERVICES', `"shop/${service}:http cluster IP"`);
  const report = await diagnose(given.snapshot(), {toolVersion: ''});
  expect(headlineOf(report)).toMatch(
    /^FAULTY: node-b: kube-proxy cannot sync, chains of an older version are left behind \(ST502\); 3 errors on 1 of 3 nodes/,
  );
});

test('leftovers of an older kubelet stay silent', async () => {
  const given = await scenario();
  const rules = given.rules('node-b');
  rules.declare('nat', 'KUBE-MARK-DROP');
  rules.append('nat', '-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000');
  rules.append(
    'filter',
    '-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x8000/0x8000 -j DROP',
  );
  expect(given.newFindings()).toEqual([]);
});

test('a virtual server of a deleted Service, whose address the node still has, accepts packets', async () => {
  const given = await scenario('faults/ipvs-leftovers');
  given.deleteService('shop/web');
  for (const text of given.rules('node-a').lines('shop/web:http')) given.rules('node-a').delete(text);
  const found = given.summaries({nodes: name => name === 'node-a', only: new Set(['ST502'])});
  expect(found).toEqual([
    {
      ...{code: 'ST502', severity: 'error', node: 'node-a'},
      message: containing(
        'ipvs mode left something behind',
        'packets to 10.96.1.1:80, which no Service has, are still sent to 10.244.11.4:8080',
      ),
      actual: expect.arrayContaining([expect.stringContaining('-A -t 10.96.1.1:80 -s rr')]),
    },
  ]);
});

test('leftovers of iptables mode on a node in nftables mode are reported with their effect', async () => {
  const [nft, iptables] = [await scenario('nftables/1.36'), await snapshotOf('healthy/1.36-iptables')];
  const rules =
    iptables.nodes
      .find(({name}) => name === 'node-b')
      ?.read('iptables-save')
      ?.toString() ?? '';
  nft.file('node-b', 'iptables-save', rules);
  expect(nft.newFindings({only: new Set(['ST502'])})).toEqual([
    {
      ...place,
      message: containing(
        'runs in nftables mode, and iptables mode left something behind',
        'it still intercepts packets of',
        'such as',
        ', and nothing keeps its rules up to date',
      ),
    },
  ]);
  nft.file('node-b', 'iptables-save', rules.replaceAll('--to-destination 10.244.11.4:8080', '--to-destination 10.244.99.9:8080'));
  expect(nft.newFindings({only: new Set(['ST502'])})).toEqual([
    {...place, severity: 'error', message: containing('it still intercepts packets of', 'to an address that is no endpoint of theirs')},
  ]);
});

test('leftovers of nftables mode on a node in iptables mode are reported with their effect', async () => {
  const [given, nft] = [await scenario(), await snapshotOf('nftables/1.36')];
  given.file(
    'node-b',
    'nft.json',
    nft.nodes
      .find(({name}) => name === 'node-b')
      ?.read('nft.json')
      ?.toString() ?? '',
  );
  expect(given.newFindings({only: new Set(['ST502'])})).toEqual([
    {...place, message: containing('runs in iptables mode, and nftables mode left something behind', 'it still intercepts packets of')},
  ]);
});

test('up to 1.24 the chain KUBE-NODE-PORT is deleted before the cleanup, which fails at it', async () => {
  const given = await scenario('healthy/1.23-iptables');
  const rules = given.rules('node-b');
  rules.declare('filter', 'KUBE-NODE-PORT');
  rules.append('filter', '-A KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT');
  const found = (version: string) => {
    given.file('node-b', 'kube-proxy-version', `${version}\n`);
    return given.findings({nodes: name => name === 'node-b'}).find(({code}) => code === 'ST502');
  };
  expect(found('v1.23.4')).toMatchObject({
    remedy: expect.stringMatching(/^Delete the chain KUBE-NODE-PORT of table filter first: in kube-proxy v1\.23\.4/),
    command: expect.stringContaining('iptables -F KUBE-NODE-PORT\niptables -X KUBE-NODE-PORT'),
  });
  expect(found('v1.25.1')?.remedy).not.toContain('KUBE-NODE-PORT');
});
