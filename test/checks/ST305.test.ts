import {expect, test} from 'vitest';
import {diagnosed} from '../diagnosed.ts';
import {snapshotOf} from '../fixtures.ts';
import {nftScenario, replaced} from '../nft-scenario.ts';
import {findingsOf, summaryOf, containing, type Scenario, scenario} from '../scenario.ts';

const place = {code: 'ST305', severity: 'error', node: 'node-b', family: 'IPv4'};

test('a node without any Service rule is one error with the number of Service ports', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  for (const kind of ['SVC', 'SVL', 'EXT', 'FW', 'SEP']) dump.deleteAll(`-A KUBE-${kind}-`);
  for (const chain of ['KUBE-SERVICES', 'KUBE-NODEPORTS']) dump.deleteAll(`-A ${chain} `, '-j KUBE-', ' -m ');
  expect(given.newFindings()).toEqual([{...place, message: containing('table nat holds none of the rules of 34 Service ports')}]);
});

test('where no pod of kube-proxy is in the cluster, and a node shows no trace of it, that is said', async () => {
  const given = await scenario();
  const files = ['proxy-mode', 'healthz.json', 'metrics', 'configz.json', 'kube-proxy-config.yaml', 'ip6tables-save'];
  for (const file of files) given.file('node-b', file, null);
  const base = (...[table, ...chains]: readonly string[]) => [`*${table}`, ...chains.map(name => `:${name} ACCEPT [0:0]`), ''].join('\n');
  const told = (more: string) => {
    given.file(
      'node-b',
      'iptables-save',
      `${base('filter', 'INPUT', 'FORWARD', 'OUTPUT')}${more}COMMIT\n${base('nat', 'PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING')}COMMIT\n`,
    );
    return given.findings().find(({code}) => code === 'ST305')?.message;
  };
  expect(told('')).toMatch(/: no pod of kube-proxy is in the cluster, nor a trace of it on the node$/);
  expect(told(':KUBE-SERVICES - [0:0]\n')).toMatch(/no Service works on this node$/);
});

test('a flushed KUBE-SERVICES is one error, also where the chains of Services are left', async () => {
  const given = await scenario();
  const gone = given
    .rules('node-b')
    .deleteAll('-A KUBE-SERVICES ', '"', '-m comment')
    .filter(rule => !/-j (?:REJECT|DROP)/.test(rule));
  const found = given.newFindings().filter(({code}) => code !== 'ST212');
  expect(found.map(({code, severity, node, message}) => ({code, severity, node, message}))).toEqual([
    {
      code: 'ST305',
      severity: 'error',
      node: 'node-b',
      message: `nat/KUBE-SERVICES is empty, and lacks all ${gone.length} that it should hold: no Service works on this node`,
    },
  ]);
});

/** Of six rules of KUBE-SERVICES, one is left. With the Services that the others led to. */
async function mostlyFlushed(): Promise<{readonly given: Scenario; readonly lost: readonly string[]}> {
  const given = await scenario();
  const dump = given.rules('node-b');
  const gone = dump.lines('-A KUBE-SERVICES ', '"', '-j KUBE-S').filter((_, index) => index % 6 > 0);
  for (const rule of gone) dump.delete(rule);
  return {given, lost: [...new Set(gone.map(rule => /"([^:" ]+)/.exec(rule)?.[1] ?? ''))]};
}

test('a KUBE-SERVICES that lost most of its rules is one error beside the other faults, and names the Services that do not answer', async () => {
  const {given, lost} = await mostlyFlushed();
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/nodeport:http -> 10.244.11.4:8080"');
  const place = `nat/KUBE-SERVICES lacks 24 of the 37 rules that it should hold: ${lost.length} Services`;
  expect(given.newFindings()).toMatchObject([
    {code: 'ST202', subject: 'shop/nodeport:http'},
    {code: 'ST305', message: expect.stringMatching(`^${place} \\(such as default/kubernetes\\) do not answer there$`)},
  ]);
  const [found] = given.findings().filter(({code}) => code === 'ST305');
  expect(found?.affects?.map(({namespace, name}) => `${namespace}/${name}`).toSorted()).toEqual(lost.toSorted());
});

test('the Services whose rules are left are in sync', async () => {
  const {given, lost} = await mostlyFlushed();
  const before = diagnosed((await scenario()).snapshot()).summary;
  const {servicesInSync, servicesWithFindings} = diagnosed(given.snapshot()).summary;
  expect({servicesInSync, servicesWithFindings}).toEqual({
    servicesInSync: before.servicesInSync - lost.length,
    servicesWithFindings: before.servicesWithFindings + lost.length,
  });
});

test('a kube-proxy that has not written most Services yet did not lose them: each is reported', async () => {
  const {given} = await mostlyFlushed();
  given.rules('node-b').deleteAll('-A KUBE-SVC-', 'KUBE-SEP-');
  given.rules('node-b').deleteAll('-A KUBE-SVC-', 'KUBE-MARK-MASQ');
  const codes = given.newFindings().map(({code}) => code);
  expect(codes).not.toContain('ST305');
  expect(codes.filter(code => code === 'ST201').length).toBeGreaterThan(5);
});

test('in nftables mode an emptied map service-ips is one error, and node ports are still checked', async () => {
  const given = await nftScenario(ruleset =>
    replaced(/tcp \. 30080 : goto \S+,\s+/, '')(replaced(/(map service-ips \{[^}]*?)\t\telements = \{[^}]*\}\n/, '$1')(ruleset)),
  );
  const found = given.newFindings().map(({code, subject, message}) => `${code} ${subject ?? message}`);
  expect(found).toEqual([
    'ST201 shop/nodeport:http',
    expect.stringMatching(
      /^ST305 map service-ips of ip kube-proxy is empty, .*: no cluster IP, load-balancer IP or external IP answers on this node$/,
    ),
  ]);
});

test('the capture of a flushed table has this finding and no other of the node', async () => {
  const found = findingsOf(await snapshotOf('faults/nat-flushed')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([{...place, node: 'node-a', message: containing('no Service works on this node')}]);
});

test('if one family was flushed the other is still checked', async () => {
  const given = await scenario();
  const dump = given.rules('node-b', 'ip6tables-save');
  dump.deleteAll('-A KUBE-', '"infra/');
  dump.deleteAll('-A KUBE-EXT-');
  expect(given.newFindings()).toEqual([
    {...place, family: 'IPv6', message: containing('of 2 Service ports: no Service works on this node over IPv6')},
  ]);
});

test('in nftables mode a missing table is said with its family', async () => {
  for (const [table, where] of [
    ['table ip kube-proxy', 'on this node'],
    ['table ip6 kube-proxy', 'on this node over IPv6'],
  ] as const) {
    const given = await nftScenario(ruleset => ruleset.replace(`${table} {`, `${table}-before {`));
    const messages = given.newFindings({only: new Set(['ST305'])}).map(({message}) => message);
    expect(messages).toEqual([expect.stringMatching(`^there is no ${table}, .*: no Service works ${where}$`)]);
  }
});

test('with one Service left, each missing Service is reported by itself', async () => {
  const given = await scenario();
  given.rules('node-b', 'ip6tables-save').deleteAll('-A KUBE-', '"infra/dual');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST201']);
});

test('in a cluster in which no Service has an endpoint there are no such rules by design', async () => {
  const given = await scenario();
  given.api(() => ({services: [], endpointSlices: []}));
  for (const node of ['node-a', 'node-c']) given.leaveOut(node);
  const dump = given.rules('node-b');
  dump.deleteAll('-A KUBE-', '"shop/');
  dump.deleteAll('-A KUBE-', '"infra/');
  dump.deleteAll('-A KUBE-', '"default/');
  dump.deleteAll('-A KUBE-FW-');
  dump.deleteAll('-A KUBE-EXT-');
  given.rules('node-b', 'ip6tables-save').deleteAll('-A KUBE-', '"infra/');
  given.rules('node-b', 'ip6tables-save').deleteAll('-A KUBE-EXT-');
  expect(given.summaries({nodes: name => name === 'node-b'})).toEqual([]);
});

test('the log of kube-proxy says why, and what to do', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  for (const kind of ['SVC', 'SVL', 'EXT', 'FW', 'SEP']) dump.deleteAll(`-A KUBE-${kind}-`);
  for (const chain of ['KUBE-SERVICES', 'KUBE-NODEPORTS']) dump.deleteAll(`-A ${chain} `, '-j KUBE-', ' -m ');
  given.file('node-b', 'kube-proxy.log', 'Warning: Extension nfacct revision 0 not supported, missing kernel module?\n');
  const [found] = given.findings().filter(({code}) => code === 'ST305');
  expect(found?.message).toContain('. Of kube-proxy: its log says: Warning: Extension nfacct revision 0 not supported');
  expect(found?.remedy).toMatch(/^Load the module xt_nfacct/);
});
