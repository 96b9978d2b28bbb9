import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {diagnosed} from '../diagnosed.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, type Scenario, scenario} from '../scenario.ts';

const place = {code: 'ST501', node: 'node-c', family: 'IPv4'};

test('the capture of a node with other Service rules in each backend has one error for it', async () => {
  const found = findingsOf(await snapshotOf('faults/split-brain')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([
    {
      ...{...place, severity: 'error'},
      message:
        'iptables-legacy and iptables-nft both hold Service rules and disagree about shop/web:http: iptables-legacy sends shop/web:http to 10.244.99.99:8080. Packets pass both, and the backend whose hook runs first decides',
      actual: [containing('26: -A KUBE-SERVICES -d 10.96.1.1/32'), containing('10.244.11.4:8080'), containing('10.244.11.5:8080')],
    },
  ]);
});

test('two backends that differ in one chain contradict each other, and the chain is named', async () => {
  const given = await twice();
  given.file('node-c', 'iptables-legacy-save', legacy(given).replace('10.244.12.4:8080', '10.244.12.5:8080'));
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'error'},
      message: containing('disagree about', 'iptables-legacy sends', 'to 10.244.12.5:8080'),
      actual: expect.arrayContaining([containing('--to-destination 10.244.12.5:8080')]),
    },
  ]);
});

test('two backends that disagree about one Service leave the others in sync, in a trace too', async () => {
  const snapshot = await snapshotOf('faults/split-brain');
  const report = diagnosed(snapshot);
  expect(headlineOf(report)).toMatch(
    /^FAULTY: shop\/web on node-c: both backends of iptables hold Service rules, and iptables-legacy sends shop\/web:http to 10\.244\.99\.99:8080 \(ST501\); .*27 in sync, 4 with findings/,
  );
  expect(report.findings.find(({code}) => code === 'ST501')?.hits?.effect).toBe('may have connections for shop/web:http sent elsewhere');
  expect(headlineOf(diagnose(snapshot, {toolVersion: '0.0.0', selects: ({metadata: {name}}) => name === 'manual'}))).toBe(
    'OK: shop/manual is in sync on all 3 nodes',
  );
});

test('what is wrong for Services of one namespace alone is no fault of another namespace', async () => {
  const snapshot = await snapshotOf('faults/split-brain');
  const inNamespace = (wanted: string): readonly string[] =>
    diagnose(snapshot, {toolVersion: '0.0.0', selects: ({metadata: {namespace}}) => namespace === wanted}).findings.map(({code}) => code);
  expect(inNamespace('shop')).toContain('ST501');
  expect(inNamespace('infra')).not.toContain('ST501');
});

describe('if one Service was read, with no other object', () => {
  const ofManual = '10.96.1.24';
  test.each([
    [
      'a rule for the address of another is none of its faults',
      '-d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.99.99:8080',
      [],
    ],
    [
      'a rule whose comment names another is none of its faults',
      '-p tcp -m comment --comment "masquerade traffic for shop/web:http external destinations" -j MARK --set-xmark 0x4000/0x4000',
      [],
    ],
    [
      'a rule for its own address is an error',
      `-d ${ofManual}/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.99.99:8080`,
      ['ST501'],
    ],
    [
      'a rule for a network with its address is an error',
      '-d 10.96.0.0/12 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.99.99:8080',
      ['ST501'],
    ],
    [
      'a rule for its own address with the name of another is an error',
      `-d ${ofManual}/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j DNAT --to-destination 10.244.99.99:8080`,
      ['ST501'],
    ],
    ['a rule without an address is an error', '-p tcp -m tcp --dport 8443 -j DNAT --to-destination 10.244.99.99:8080', ['ST501']],
  ])('%s', async (_, rule, codes) => {
    const snapshot = await snapshotOf('faults/split-brain');
    const services = (snapshot.api.services ?? []).filter(({metadata: {name}}) => name === 'manual');
    expect(services.map(({spec}) => spec?.clusterIP)).toEqual([ofManual]);
    const dump = '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n';
    const nodes = snapshot.nodes.map(node =>
      node.name === 'node-c' ? withFiles(node, {'iptables-legacy-save': `${dump}-A KUBE-SERVICES ${rule}\nCOMMIT\n`}) : node,
    );
    const {findings} = diagnose(
      {...snapshot, nodes, api: {...snapshot.api, services, namespaces: []}},
      {toolVersion: '0.0.0', byName: true},
    );
    expect(findings.filter(({severity}) => severity === 'error').map(({code}) => code)).toEqual(codes);
  });
});

test('two backends may disagree about every Service if a rule of theirs names none', async () => {
  const given = await twice();
  given.file(
    'node-c',
    'iptables-legacy-save',
    legacy(given).replace('*nat', '*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n-A KUBE-SVC-AAAAAAAAAAAAAAAA -j RETURN'),
  );
  const [found] = diagnosed(given.snapshot()).findings.filter(({code}) => code === 'ST501');
  expect(found).toMatchObject({severity: 'error'});
  expect(found).not.toHaveProperty('affects');
});

test('two equal backends are a warning: only one of them is kept up to date', async () => {
  const given = await twice();
  expect(given.newFindings()).toEqual([
    {...place, severity: 'warning', message: containing('agree so far: kube-proxy keeps up only one of them')},
  ]);
});

test('a backend with third-party rules and no Services stays silent', async () => {
  const given = await scenario();
  const dump = given.rules('node-c');
  given.file('node-c', 'iptables-nft-save', dump.toString());
  const others =
    '*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n';
  given.file('node-c', 'iptables-legacy-save', `# Generated by iptables-save v1.8.9 on Sat Nov 21 09:31:23 2026\n${others}`);
  expect(given.newFindings()).toEqual([]);
});

test('one backend that was read under two names is one backend, and stays silent', async () => {
  const given = await scenario();
  given.file('node-c', 'iptables-nft-save', given.rules('node-c').toString());
  expect(given.newFindings()).toEqual([]);
});

/** node-c holds the same rules in both backends. */
async function twice(): Promise<Scenario> {
  const given = await scenario();
  given.file('node-c', 'iptables-nft-save', given.rules('node-c').toString());
  given.file('node-c', 'iptables-legacy-save', legacy(given));
  return given;
}

function legacy(given: Scenario): string {
  return given.rules('node-c').toString().replaceAll(' (nf_tables)', '');
}

test("rules in the backend that the node's own tools do not show are the ones that are checked", async () => {
  const given = await scenario();
  const dump = given.rules('node-c').toString();
  given.file('node-c', 'iptables-legacy-save', dump.replaceAll('(nf_tables)', '(legacy)'));
  given.file('node-c', 'iptables-save', '# Generated by iptables-save v1.8.9 (nf_tables)\n*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n');
  expect(given.newFindings()).toEqual([]);
  given.file('node-c', 'iptables-legacy-save', null);
  expect(given.newFindings()).not.toEqual([]);
});
