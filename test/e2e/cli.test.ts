import {chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {delimiter, dirname, join} from 'node:path';
import process from 'node:process';
import {stripVTControlCharacters} from 'node:util';
import {execa} from 'execa';
import {load} from 'js-yaml';
import {create} from 'tar';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {checks} from '../../src/checks/all-checks.ts';
import {executable} from '../executable.ts';
import {capturePath} from '../fixtures.ts';
import {svcTrace} from '../svc-trace.ts';

const root = join(import.meta.dirname, '../..');
const faulty = capturePath('faults/missing-endpoint');
const skewed = capturePath('faults/skewed-balance');
const harmless = capturePath('faults/leftover-reject');
const dump = join(faulty, 'nodes/node-a/iptables-save');

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-cli-'));
});
afterAll(() => rmSync(folder, {recursive: true}));

const check = (...args: string[]) => svcTrace(['check', '--from', faulty, '--skip', 'ST101', ...args]);

interface ReportJson {
  readonly summary: {readonly services: number; readonly nodesChecked: number};
  readonly nodes: readonly {readonly name: string}[];
  readonly findings: readonly {readonly code: string; readonly node?: string; readonly service?: {readonly name: string}}[];
}

async function reportOf(...args: string[]): Promise<ReportJson> {
  return JSON.parse((await svcTrace([...args, '-o', 'json'])).stdout);
}

const lostEndpoint = /^ST202 error {2}missing-endpoint {2}node-a$/m;

describe('check', () => {
  test('shows what is wrong and where, in a table', async () => {
    const {stdout, stderr, exitCode} = await check('-A');
    expect(stdout).toMatch(
      /^FAULTY: shop\/web on node-a: pod web-2 gets no traffic \(ST202\); 1 error on 1 of 3 nodes \(34 Services: \d+ in sync, \d with findings, 3 without rules\); 3 findings of other codes not shown$/m,
    );
    expect(stdout).toMatch(/^shop\/web +ST202 +ok +ok$/m);
    expect(stdout).toMatch(lostEndpoint);
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 1});
  });

  test('-o wide shows every Service and every setting', async () => {
    const {stdout} = await check('-A', '-o', 'wide');
    expect(stdout).toMatch(/^shop\/zonal +ok +ok +ok$/m);
    expect(stdout).toContain('  clusterCIDRs=10.244.0.0/16 (');
  });

  test('-o json and -o yaml contain the same', async () => {
    const [json, yaml] = await Promise.all([check('-A', '-o', 'json'), check('-A', '-o', 'yaml')]);
    expect(withoutOrigin(load(yaml.stdout))).toEqual(withoutOrigin(JSON.parse(json.stdout)));
    expect(JSON.parse(json.stdout).findings).toEqual([
      expect.objectContaining({code: 'ST202', node: 'node-a', service: {namespace: 'shop', name: 'web'}, endpoint: '10.244.11.5:8080'}),
    ]);
  });

  test('the exit code is the same in every format', async () => {
    const runs = await Promise.all(['table', 'wide', 'json', 'yaml'].map(format => check('-o', format)));
    expect(runs.map(({exitCode}) => exitCode)).toEqual([1, 1, 1, 1]);
  });

  test('the same bundle gives the same bytes', async () => {
    const [one, other] = await Promise.all([check('-A', '-o', 'json'), check('-A', '-o', 'json')]);
    expect(one.stdout).toBe(other.stdout);
  });
});

describe('trace', () => {
  test('shows the path to each endpoint, and what is missing on it', async () => {
    const {stdout, exitCode} = await svcTrace(['trace', 'web', '--from', faulty]);
    expect(stdout).toMatch(/✗ {4}0% 10\.244\.11\.5:8080 {2}shop\/web-2 on node-a, ready {2}missing$/m);
    expect(stdout).toMatch(lostEndpoint);
    expect(exitCode).toBe(1);
  });

  test.each([['web'], ['svc/web'], ['shop/web'], ['-n', 'shop', 'web'], ['--node', 'node-a', '-n', 'shop', 'web'], ['web', 'empty']])(
    'the word trace may be left out: %s %s %s',
    async (...words) => {
      const args = words.filter(word => word !== undefined);
      const [short, long] = await Promise.all([svcTrace([...args, '--from', faulty]), svcTrace(['trace', ...args, '--from', faulty])]);
      expect(short.stdout).toBe(long.stdout);
      expect(short).toMatchObject({exitCode: 1, stderr: ''});
    },
  );

  test('a Service with the name of a command is reached as svc/NAME', async () => {
    const bundle = join(folder, 'named-check');
    writeBundle(bundle, (path, content) => (path.startsWith('api/') ? content.replaceAll('"name": "web"', '"name": "check"') : content));
    const {stdout} = await svcTrace(['svc/check', '--from', bundle]);
    expect(stdout).toContain('shop/check:http  port 80/TCP');
  });

  test('-o json and -o yaml contain the same, with every entry and endpoint', async () => {
    const [json, yaml] = await Promise.all(['json', 'yaml'].map(format => svcTrace(['web', '--from', faulty, '-o', format])));
    const report = JSON.parse(json?.stdout ?? '');
    expect(withoutOrigin(load(yaml?.stdout ?? ''))).toEqual(withoutOrigin(report));
    expect(report.traces).toHaveLength(3);
    expect(report.traces[0].entries[0]).toMatchObject({entry: {kind: 'clusterIP', address: '10.96.1.1', port: 80}, mark: 'wrong'});
    expect(report.traces[0].entries[0].endpoints.map(({mark}: {mark: string}) => mark)).toEqual(['ok', 'missing', 'wrong']);
    expect(json?.exitCode).toBe(1);
  });
});

describe('packet', () => {
  const ask = ['packet', '--from', faulty, '--node', 'node-a', '--source', '10.244.12.20', '--destination', 'shop/web'];

  test('follows one packet through the rules of one node', async () => {
    const {stdout, exitCode} = await svcTrace(ask);
    expect(stdout).toMatch(/^node-a: TCP 10\.244\.12\.20 → 10\.96\.1\.1:80 \(shop\/web:http\) {2}2 endpoints, 33.3% to 66.7% each$/m);
    expect(stdout).toContain('accepted 10.244.11.4:8080');
    expect(stdout).toContain('nat:404 -A KUBE-SERVICES -d 10.96.1.1/32');
    expect(exitCode).toBe(0);
  });

  test('-o json and -o yaml contain the same, and the probabilities add up to 1', async () => {
    const [json, yaml] = await Promise.all(['json', 'yaml'].map(format => svcTrace([...ask, '-o', format])));
    const answer = JSON.parse(json?.stdout ?? '');
    expect(load(yaml?.stdout ?? '')).toEqual(answer);
    expect(answer.packet).toEqual({family: 'IPv4', source: '10.244.12.20', destination: '10.96.1.1', port: 80, protocol: 'TCP'});
    expect(answer.outcomes.map(({destination}: {destination: string}) => destination)).toEqual(['10.244.11.4:8080', '10.244.12.4:8080']);
    expect(answer.outcomes.reduce((sum: number, {probability}: {probability: number}) => sum + probability, 0)).toBeCloseTo(1, 6);
  });

  test('needs no API objects with a bare dump, also through a pipe', async () => {
    const args = ['--source', '10.244.12.20', '--destination', '10.96.1.1', '--port', '80', '--local-address', '172.18.0.11', '-o', 'json'];
    const file = await svcTrace(['packet', '--from', dump, ...args]);
    const piped = await svcTrace(['packet', '--from', '-', ...args], {input: readFileSync(dump)});
    expect(JSON.parse(file.stdout).outcomes).toHaveLength(2);
    expect(JSON.parse(piped.stdout).outcomes).toEqual(JSON.parse(file.stdout).outcomes);
  });

  test('says that the bundle has no files of a node that is asked', async () => {
    const bundle = capturePath('ipvs/1.36');
    const asked = (...nodes: readonly string[]) =>
      svcTrace([
        'packet',
        '--from',
        bundle,
        ...nodes.flatMap(node => ['--node', node]),
        '--source',
        '10.244.11.4',
        '--destination',
        'shop/web',
      ]);
    const [none, one] = await Promise.all([asked('node-b'), asked('node-a', 'node-b')]);
    expect(unwrapped(none.stderr)).toContain('no node could be read: node-b: the bundle has no files of this node');
    expect(one.stdout).toMatch(/^node-a: TCP/);
    expect(one.stderr).toContain('not read: node-b: the bundle has no files of this node');
    expect([none.exitCode, one.exitCode]).toEqual([3, 3]);
  });

  test('also follows nftables rules, from a bundle and from the output of nft', async () => {
    const bundle = capturePath('nftables/1.36');
    const own = ['--local-address', '172.18.0.11', '--local-address', '10.244.11.1'];
    const to = ['--source', '10.244.12.20', '--destination', '10.96.1.2', '--port', '8000', '-o', 'json'];
    const runs = await Promise.all([
      svcTrace(['packet', '--from', bundle, '--node', 'node-a', ...to]),
      ...['json', 'txt'].map(type => svcTrace(['packet', '--from', join(bundle, `nodes/node-a/nft.${type}`), ...own, ...to])),
      svcTrace(['packet', '--from', '-', ...own, ...to], {input: readFileSync(join(bundle, 'nodes/node-a/nft.txt'))}),
    ]);
    const destinations = runs.map(({stdout}) => JSON.parse(stdout).outcomes.map(({destination}: {destination: string}) => destination));
    expect(destinations).toEqual(runs.map(() => ['10.244.11.4:8080', '10.244.11.5:8080', '10.244.12.4:8080']));
  });

  test.each([
    ['an unknown destination', ['--source', '10.0.0.1', '--destination', 'shop/nope'], 'Service "nope" not found in namespace shop'],
    ['an unknown source', ['--source', 'pod/nope', '--destination', 'shop/web'], 'pod "nope" not found'],
    ['a mistyped address', ['--source', '10.0.0', '--destination', 'shop/web'], '--source 10.0.0: is not an IP address'],
    [
      'a port that the Service does not have',
      ['--source', '10.0.0.1', '--destination', 'shop/web', '--port', '81'],
      'has no port 81; it has 80/TCP (http)',
    ],
    ['no source', ['--destination', 'shop/web'], 'missing flag: --source'],
  ])('%s is wrong use', async (_, args, message) => {
    const {stdout, stderr, exitCode} = await svcTrace(['packet', '--from', faulty, ...args]);
    expect(unwrapped(stderr)).toContain(message);
    expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 2});
  });
});

test('rules with NUL characters are an unreadable input', async () => {
  const ask = ['packet', '--from', '-', '--source', '10.244.12.20', '--destination', '10.96.1.1', '--port', '80'];
  const rules = '*filter\n:FORWARD ACCEPT [0:0]\n-A FOR\0\0RD -p tcp -j DROP\nCOMMIT\n';
  const {exitCode, stdout, stderr} = await svcTrace(ask, {input: rules});
  expect({exitCode, stdout}).toEqual({exitCode: 2, stdout: ''});
  expect(unwrapped(stderr)).toMatch(/^Error: line 3 of its rules holds NUL characters/);
});

test('a count of nothing exits with 3', async () => {
  const uncounted = join(folder, 'uncounted');
  writeBundle(uncounted, (_, content) => content);
  const nothing = await svcTrace(['top', 'shop/web', '--from', uncounted]);
  expect(nothing.stdout).toMatch(/^shop\/web:http: the connections so far were not counted$/m);
  const open = await svcTrace(['top', 'shop/web', '--from', capturePath('healthy/1.36-iptables')]);
  expect(open.stdout).toMatch(/were not counted; 0 open$/m);
  expect([nothing, open].map(({exitCode}) => exitCode)).toEqual([3, 0]);
});

describe('explain', () => {
  test('lists all codes', async () => {
    const {stdout, exitCode} = await svcTrace(['explain']);
    const [codes = '', causes] = stdout.split('\n\n');
    expect(codes.split('\n').map(line => line.slice(0, 5))).toEqual(checks.map(({code}) => code));
    expect(causes).toMatch(/^Causes and requirements in a preview: new-service, .*\bhairpin\b/);
    expect(exitCode).toBe(0);
  });

  test.each(['ST202', 'st202', 'missing-endpoint'])('prints the page of %s', async code => {
    const {stdout, exitCode} = await svcTrace(['explain', code]);
    expect(stdout.startsWith(readFileSync(join(root, 'docs/checks/ST202.md'), 'utf8'))).toBe(true);
    expect(stdout).toMatch(/\n## Names in the commands\n\nWords in capitals stand for the names in your finding\. PROXY_POD is [\s\S]+$/);
    expect(exitCode).toBe(0);
  });

  test('prints what a cause of a preview means', async () => {
    const {stdout, exitCode} = await svcTrace(['explain', 'hairpin']);
    expect({stdout, exitCode}).toEqual({
      stdout: expect.stringMatching(/^# hairpin\n\nnftables mode from 1\.36 on masquerades/),
      exitCode: 0,
    });
    expect(stdout).not.toContain('ipvs-scheduler');
  });

  test('suggests the nearest code for an unknown one', async () => {
    const {stderr, exitCode} = await svcTrace(['explain', 'ST22']);
    expect(stderr).toMatch(/unknown finding "ST22"; "svc-trace explain" lists all\. Did you mean ST2\d\d/);
    expect(exitCode).toBe(2);
  });
});

describe('the choice of Services', () => {
  test.each([
    [['-A'], 34],
    [[], 34],
    [['-n', 'infra'], 6],
    [['web', 'infra/dns'], 2],
    [['svc', 'web'], 1],
    [['10.96.1.1'], 1],
    [['web.shop.svc.cluster.local', 'dns.infra'], 2],
    [['-n', 'shop,infra'], 33],
    [['-l', 'component=apiserver'], 1],
    [['-l', 'component in (apiserver, other),!tier'], 1],
    [['-l', '!component', '-n', 'shop'], 27],
  ])('%j are %i', async (args, services) => {
    expect((await reportOf('check', '--from', faulty, ...args)).summary.services).toBe(services);
  });

  test('faults of other Services are not reported', async () => {
    expect((await svcTrace(['check', 'infra/dns', '--from', faulty])).exitCode).toBe(0);
    expect((await svcTrace(['check', '-n', 'infra', '--from', faulty])).exitCode).toBe(0);
    const nothing = await svcTrace(['check', '-n', 'infar', '--from', faulty]);
    expect(nothing).toMatchObject({exitCode: 2, stdout: ''});
    expect(nothing.stderr).toContain('no Services in namespace infar. Did you mean infra?');
    const empty = await svcTrace(['check', '-n', 'elsewhere', '--from', faulty]);
    expect(empty).toMatchObject({exitCode: 0, stdout: 'no Services in namespace elsewhere'});
  });

  test('an address of no Service, and a name in several namespaces, are wrong use', async () => {
    const address = await svcTrace(['check', '10.96.77.77', '--from', faulty]);
    expect(address).toMatchObject({exitCode: 2, stderr: 'Error: 10.96.77.77 is the address of no Service'});
    const several = await svcTrace(['check', 'web', '-n', 'shop,infra', '--from', faulty]);
    expect(several.stderr).toContain('web may be in each of the namespaces shop,infra: write NAMESPACE/NAME');
    expect(several.exitCode).toBe(2);
  });

  test('-A without a command is check, and check -w suggests watch', async () => {
    expect((await svcTrace(['-A', '--from', faulty])).stdout).toContain('34 Services');
    expect((await svcTrace(['check', '-w', '--from', faulty])).stderr).toBe(
      'Error: unknown flag -w. Did you mean `kubectl svc-trace watch`?',
    );
  });

  test('names together with a selector are wrong use, as in kubectl', async () => {
    const {stderr, exitCode} = await svcTrace(['check', 'web', '-l', 'app=nope', '--from', faulty]);
    expect(stderr).toContain('a name (web) cannot be combined with a selector (-l app=nope)');
    expect(exitCode).toBe(2);
  });

  test('a dash in place of a name is refused with the flag that reads standard input, without a cluster', async () => {
    const {stderr, exitCode} = await svcTrace(['trace', 'web', '-']);
    expect(stderr).toBe('Error: "-" is not a Service name: --from - reads standard input');
    expect(exitCode).toBe(2);
  });

  test('trace accepts a selector in place of names', async () => {
    const {stdout} = await svcTrace(['trace', '-l', 'component=apiserver', '--from', faulty]);
    expect(stdout).toMatch(/^OK: default\/kubernetes is in sync on all 3 nodes$/m);
  });

  test('one that there is not is wrong use, and the nearest are named', async () => {
    const {stderr, stdout, exitCode} = await svcTrace(['wbe', '--from', faulty]);
    expect(stderr).toMatch(/Service "wbe" not found in any namespace[\s\S]*shop\/web/);
    expect(stderr).not.toContain('deleted');
    expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 2});
  });

  test('one that is like no other may have been deleted, and the command is named that looks for its rules', async () => {
    const {stderr} = await svcTrace(['trace', 'shop/ledger', '--from', faulty]);
    expect(unwrapped(stderr)).toContain('If it was deleted and still answers, "kubectl svc-trace check -n shop" names the nodes');
  });

  test('a name in another namespace is not selected', async () => {
    const {stderr, exitCode} = await svcTrace(['check', 'web', '-n', 'infra', '--from', faulty]);
    expect(stderr).toContain('Service "web" not found in namespace infra');
    expect(exitCode).toBe(2);
  });
});

describe('the choice of nodes', () => {
  test.each([
    [['--node', 'node-b'], ['node-b'], 0],
    [['--node', 'node-b', '--node', 'node-a'], ['node-a', 'node-b'], 1],
    [['--node-selector', 'kubernetes.io/hostname=node-a'], ['node-a'], 1],
    [['--node-selector', 'kubernetes.io/hostname!=node-a'], ['node-b', 'node-c'], 0],
  ])('%j', async (args, nodes, exitCode) => {
    const run = await check('-A', '-o', 'json', ...args);
    expect(JSON.parse(run.stdout).nodes.map(({name}: {name: string}) => name)).toEqual(nodes);
    expect(run.exitCode).toBe(exitCode);
  });

  test('one that there is not is wrong use, and the nearest are named', async () => {
    const {stderr, exitCode} = await check('--node', 'node-x');
    expect(stderr).toMatch(/node "node-x" not found[\s\S]*node-a/);
    expect(exitCode).toBe(2);
  });
});

test.each([['help'], ['--help'], ['help', '--help'], ['help', '-h']])('%s lists the commands', async (...args) => {
  const {stdout, exitCode} = await svcTrace(args);
  expect(stdout).toMatch(/^Diagnose +check +Check every Service/m);
  expect(exitCode).toBe(0);
});

describe('exit codes', () => {
  test.each([
    ['no finding', [capturePath('healthy/1.36-iptables'), '--skip', 'ST101', '--fail-on', 'info'], 0],
    ['an error', [faulty], 1],
    ['an error below --fail-on', [faulty, '--fail-on', 'never'], 0],
    ['a warning', [skewed, '--skip', 'ST101'], 0],
    ['a warning that --fail-on counts', [skewed, '--skip', 'ST101', '--fail-on', 'warning'], 1],
    ['an info', [harmless, '--skip', 'ST101', '--fail-on', 'warning'], 0],
    ['an info that --fail-on counts', [harmless, '--skip', 'ST101', '--fail-on', 'info'], 1],
  ])('%s', async (_, args, exitCode) => {
    expect((await svcTrace(['check', '-A', '--from', ...args])).exitCode).toBe(exitCode);
  });

  test('3 when a node could not be read, unless another finding fails the run', async () => {
    const bundle = join(folder, 'unread');
    writeBundle(bundle, (path, content) => (path.startsWith('nodes/node-b/') ? null : content));
    const run = await svcTrace(['check', '-A', '--from', bundle, '--skip', 'ST101']);
    expect(run.stdout).toMatch(/; 1 of 3 nodes was not checked \(node-\w\); 3 findings of other codes not shown$/m);
    expect(run.exitCode).toBe(1);
    const rest = await svcTrace(['check', '-A', '--from', bundle, '--skip', 'ST101', '--node', 'node-b', '--node', 'node-c']);
    expect(rest.stdout).toMatch(/^INCOMPLETE: 1 of 2 nodes was not checked \(node-b\): .*\. No problems on the other node /);
    expect(rest.exitCode).toBe(3);
  });

  test('3 when a file of the bundle is unusable', async () => {
    const bundle = join(folder, 'broken-list');
    writeBundle(bundle, (path, content) => (path === 'api/pods.json' ? content.slice(0, 100) : content));
    const {stdout, exitCode} = await svcTrace(['check', '-A', '--from', bundle, '--skip', 'ST101', '--node', 'node-b']);
    expect(stdout).toContain('api/pods.json is not valid JSON');
    expect(exitCode).toBe(3);
  });

  test.each([
    ['an unknown flag', ['check', '--nope', '--from', faulty], 'unknown flag --nope'],
    ['a mistyped flag', ['check', '--skpi', 'ST101', '--from', faulty], 'unknown flag --skpi. Did you mean --skip?'],
    [
      'a mistyped command',
      ['chekc', '-A', '--from', faulty],
      'unknown command or Service "chekc". Did you mean `kubectl svc-trace check`?',
    ],
    ['an unknown format', ['check', '-o', 'xml', '--from', faulty], '--output: "xml" must be one of table, wide, json, yaml'],
    ['no cluster', ['check', '-A', '--kubeconfig', '/nowhere'], '/nowhere'],
    ['a missing bundle', ['check', '--from', '/nowhere'], 'cannot read the bundle /nowhere'],
    ['a folder that is not a bundle', ['check', '--from', root], 'is no bundle: it has neither api/services.json nor'],
    ['a file that is not a dump', ['check', '--from', join(root, 'LICENSE')], 'is neither a bundle nor a dump of iptables-save or nft'],
    ['an unknown code', ['check', '--only', 'ST999', '--from', faulty], 'unknown finding "ST999"'],
    ['an invalid selector', ['check', '-l', 'a=(', '--from', faulty], 'is not a label selector'],
    [
      'an invalid version',
      ['check', '--kube-proxy-version', 'new', '--from', faulty],
      '--kube-proxy-version: "new" is not a kube-proxy version from 1.5 on, such as v1.30.5',
    ],
    [
      'a version before the first known rules',
      ['rules', 'shop/web', '--for-node', 'node-a', '--kube-proxy-version', 'v1.4', '--from', faulty],
      '--kube-proxy-version: "v1.4" is not a kube-proxy version from 1.5 on',
    ],
    ['an invalid mode', ['check', '--proxy-mode', 'ipvss', '--from', faulty], '--proxy-mode: "ipvss" is not one of iptables, ipvs'],
    ['an invalid mask', ['check', '--cluster-cidr', '10.244.0.0/99', '--from', faulty], '--cluster-cidr: "10.244.0.0/99" is not a CIDR'],
    ['an invalid bit', ['check', '--masquerade-bit', '99', '--from', faulty], '--masquerade-bit: "99" is not an integer'],
    ['help for an unknown command', ['help', 'nosuch'], 'unknown command "nosuch"'],
    ['an archive that is not a .tgz', ['capture', '--from', faulty, '-o', '/nowhere/x.zip'], 'Name a file that ends in .tgz'],
    ['missing flags', ['packet', '--from', faulty], 'missing flags: --destination, --source'],
    ['an invalid name', ['trace', 'shop/', '--from', faulty], '"shop/" is not a Service name'],
    ['a pod in place of a Service', ['trace', 'pod/web-1', '--from', faulty], '"pod/web-1" is not a Service: write NAME'],
    ['a missing bundle', ['check', '-A', '--from', '/no/such'], 'cannot read the bundle /no/such: no such file or directory'],
    ['no Service to trace', ['trace', '--from', faulty], 'name a Service (svc-trace trace NAME) or a selector'],
    ['an unwritable file', ['check', '--from', faulty, '--output-file', '/nowhere/report'], 'cannot write the report'],
    ['an invalid baseline', ['check', '--from', faulty, '--baseline', join(root, 'LICENSE')], 'as a baseline'],
    [
      'a baseline that is a bundle',
      ['check', '--from', faulty, '--baseline', faulty],
      'it is a directory. Make one with: kubectl svc-trace check -A --from',
    ],
    ['a missing baseline', ['check', '--from', faulty, '--baseline', '/nowhere'], 'cannot read /nowhere'],
    ['standard input twice', ['diff', '-', '-'], 'only one of the two can be read from standard input'],
  ])('2 for wrong use: %s', async (_, args, message) => {
    const {stdout, stderr, exitCode} = await svcTrace(args);
    expect(unwrapped(stderr)).toContain(message);
    expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 2});
  });

  test('2 for rules of a bundle without nodes', async () => {
    const own = join(folder, 'nodeless');
    mkdirSync(join(own, 'api'), {recursive: true});
    for (const list of ['services.json', 'endpointslices.json'])
      writeFileSync(join(own, 'api', list), readFileSync(join(faulty, 'api', list)));
    const {stdout, stderr, exitCode} = await svcTrace(['rules', '-A', '--from', own]);
    expect(unwrapped(stderr)).toContain('no nodes were found, and rules are those of one node: a bundle needs api/nodes.json');
    expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 2});
  });

  test('2 for files that are truncated or broken, in one line', async () => {
    const [archive, half, yaml] = ['whole.tgz', 'half.tgz', 'broken.yaml'].map(name => join(folder, name)) as [string, string, string];
    await create({file: archive, gzip: true, cwd: faulty}, ['.']);
    writeFileSync(half, readFileSync(archive).subarray(0, 20_000));
    writeFileSync(yaml, 'contexts: [{name: x\n');
    const [bundle, kubeconfig] = await Promise.all([
      svcTrace(['check', '-A', '--from', half]),
      svcTrace(['check', '-A', '--kubeconfig', yaml]),
    ]);
    expect(bundle).toMatchObject({exitCode: 2, stderr: `Error: cannot read the bundle ${half}: the archive is truncated: copy it again`});
    expect(kubeconfig.exitCode).toBe(2);
    expect(kubeconfig.stderr).toMatch(new RegExp(`^Error: cannot use the kubeconfig ${yaml}: line 2 is not valid YAML \\([^)]+\\)$`));
  });
});

describe('--from', () => {
  test('a folder of bundles is named as such, with its bundles', async () => {
    const several = join(folder, 'several');
    mkdirSync(several);
    for (const name of ['before', 'after']) symlinkSync(faulty, join(several, name));
    const {stderr, exitCode} = await svcTrace(['check', '-A', '--from', several]);
    const [after, before] = [join(several, 'after'), join(several, 'before')];
    expect({stderr, exitCode}).toEqual({
      stderr: `Error: ${several} is a folder of 2 bundles: ${after}, ${before}. Name one, as in --from ${after}. "kubectl svc-trace diff ${after} ${before}" compares two`,
      exitCode: 2,
    });
  });

  test('empty standard input is said to be empty', async () => {
    const {stderr, exitCode} = await svcTrace(['check', '-A', '--from', '-'], {input: ''});
    expect({stderr, exitCode}).toEqual({
      stderr: expect.stringContaining('Error: standard input is empty: pipe a bundle or a dump'),
      exitCode: 2,
    });
  });

  test('packet follows what a named pod sends on the node of that pod alone, unless another is named', async () => {
    const of = async (...more: readonly string[]) => {
      const args = ['--source', 'pod/web-3', '-n', 'shop', '--destination', 'web', '-o', 'json', ...more];
      const found: unknown = JSON.parse((await svcTrace(['packet', '--from', faulty, ...args])).stdout);
      return Array.isArray(found) ? found.map(({node}: {node: string}) => node) : (found as {node: string}).node;
    };
    expect(await of()).toBe('node-b');
    expect(await of('--node', 'node-a', '--node', 'node-c')).toEqual(['node-a', 'node-c']);
  });

  test('packet takes the DNS name of a Service', async () => {
    const args = ['--node', 'node-a', '--source', '10.244.11.4', '--destination', 'web.shop.svc.cluster.local', '--port', '80'];
    expect((await svcTrace(['packet', '--from', faulty, ...args])).stdout).toMatch(/^node-a: TCP 10\.244\.11\.4 → 10\.96\.1\.1:80 /);
  });
});

describe('the choice of findings', () => {
  test('--only and --skip accept codes in upper or lower case, separated by commas or in repeated flags', async () => {
    const codes = async (...args: string[]): Promise<readonly string[]> => [
      ...new Set((await reportOf('check', '-A', '--from', faulty, ...args)).findings.map(({code}) => code)),
    ];
    expect(await codes()).toEqual(['ST202', 'ST101']);
    expect(await codes('--only', 'st202,ST203')).toEqual(['ST202']);
    expect(await codes('--skip', 'ST202', '--skip', 'ST101')).toEqual([]);
  });

  test('-o name prints what has findings, and nothing if nothing has', async () => {
    expect((await check('-A', '-o', 'name')).stdout).toBe('shop/web');
    expect(await check('shop/nodeport', '-o', 'name')).toMatchObject({stdout: '', exitCode: 0});
  });

  test('--skip of a Service without its namespace is wrong use', async () => {
    const {stderr, exitCode} = await check('-A', '--skip', 'ST101=empty');
    expect({stderr, exitCode}).toEqual({
      stderr: 'Error: --skip ST101=empty: name the Service as NAMESPACE/NAME, as in ST101=shop/web',
      exitCode: 2,
    });
  });

  test('findings excluded by --skip do not fail', async () => {
    expect((await check('-A', '--skip', 'ST202')).exitCode).toBe(0);
  });

  test('a report is recognized by its content, whatever its name, and refused with the reason', async () => {
    const [before, later, cut] = ['report', 'later.json', 'cut.json'].map(name => join(folder, name)) as [string, string, string];
    await check('-A', '-o', 'json', '--output-file', before);
    const text = readFileSync(before, 'utf8');
    expect((await svcTrace(['diff', before, before])).stdout).toMatch(/^SAME as far as it could be compared/);
    writeFileSync(later, text.replace('"schemaVersion": 1', '"schemaVersion": 2'));
    writeFileSync(cut, text.slice(0, 300));
    const said = async (file: string) => {
      const {stderr, exitCode} = await svcTrace(['diff', before, file]);
      expect(exitCode).toBe(2);
      return unwrapped(stderr);
    };
    expect(await said(later)).toContain('it is a report of schemaVersion 2, and this version of svc-trace reads 1');
    expect(await said(cut)).toContain('cut.json: it is not JSON, or it is truncated');
  });

  test('a node that the later report did not read makes diff 3, because its earlier findings may still exist', async () => {
    const [before, after] = ['both.json', 'less.json'].map(name => join(folder, name)) as [string, string];
    await check('-A', '-o', 'json', '--output-file', before);
    await check('-A', '-o', 'json', '--output-file', after, '--node', 'node-b');
    const {stdout, exitCode} = await svcTrace(['diff', before, after]);
    expect(exitCode).toBe(3);
    expect(stdout).toContain('what was found on node-a: the later side did not read it');
    expect(stdout).not.toContain('ST202');
  });

  test('findings of a baseline do not fail, and new ones do', async () => {
    const baseline = join(folder, 'baseline.json');
    expect((await check('-A', '-o', 'json', '--output-file', baseline)).exitCode).toBe(1);
    const again = await check('-A', '--baseline', baseline);
    expect(again.exitCode).toBe(0);
    expect(again.stdout).toMatch(/^OK: no new findings \(\d suppressed by the baseline\); 34 Services on all 3 nodes: /m);
    expect(again.stdout).toContain('ST202 error (known)');
    const report = JSON.parse((await check('-A', '--baseline', baseline, '-o', 'json')).stdout);
    expect(report.summary.errors).toBe(0);
    expect(report.findings.every((finding: {known?: boolean}) => finding.known === true)).toBe(true);
    const other = await svcTrace(['check', '-A', '--from', capturePath('faults/wrong-dnat'), '--baseline', baseline]);
    expect(other.exitCode).toBe(1);
  });
});

describe('the place of the output', () => {
  test('the report goes to --output-file, and stdout stays empty', async () => {
    const file = join(folder, 'report.txt');
    const [written, printed] = await Promise.all([check('-A', '--output-file', file), check('-A')]);
    expect(written).toMatchObject({stdout: '', exitCode: 1});
    expect(readFileSync(file, 'utf8')).toBe(`${printed.stdout}\n`);
  });

  test.each<[string, readonly string[], Readonly<Record<string, string>>, boolean]>([
    ['a pipe', [], {}, false],
    ['a pipe with FORCE_COLOR', [], {FORCE_COLOR: '1'}, true],
    ['a pipe with FORCE_COLOR=0', [], {FORCE_COLOR: '0'}, false],
    ['a pipe with NO_COLOR', [], {NO_COLOR: '1'}, false],
    ['a pipe with --color always', ['--color', 'always'], {NO_COLOR: '1'}, true],
    ['a pipe with --color never', ['--color', 'never'], {FORCE_COLOR: '1'}, false],
  ])('color in %s', async (_, args, env, colored) => {
    const {stdout} = await svcTrace(['check', '-A', '--from', faulty, ...args], {env});
    expect(stdout !== stripVTControlCharacters(stdout)).toBe(colored);
    expect(stripVTControlCharacters(stdout)).toMatch(lostEndpoint);
  });

  test('a file gets no color, whatever the environment', async () => {
    const file = join(folder, 'plain.txt');
    await svcTrace(['check', '-A', '--from', faulty, '--output-file', file], {env: {FORCE_COLOR: '1'}});
    expect(readFileSync(file, 'utf8')).not.toContain('\u001b');
  });

  test('COLUMNS sets the width of output to a pipe', async () => {
    const {stdout} = await svcTrace(['web', '--from', faulty], {env: {COLUMNS: '60'}});
    // A word that is wider stands alone, and the names of chains with their lines do not get shorter.
    expect(stdout.split('\n').filter(line => line.length > 72 && !/^ {2}run /.test(line))).toEqual([]);
  });
});

describe('bundles of every kind', () => {
  test.each(['.', './', '../missing-endpoint'])('the working directory as %s', async path => {
    const {nodes, findings} = await reportOf('check', '-A', '--from', faulty);
    const run = await svcTrace(['check', '-A', '--from', path, '-o', 'json'], {cwd: faulty});
    const report: ReportJson = JSON.parse(run.stdout);
    expect(report.nodes.length).toBeGreaterThan(0);
    expect({nodes: report.nodes, findings: report.findings}).toEqual({nodes, findings});
  });

  test.each(['bundle.tgz', 'bundle.tar'])('%s, with and without a folder around it', async name => {
    const file = join(folder, name);
    const gzip = name.endsWith('.tgz');
    const wanted = (await check('-A', '-o', 'json')).stdout;
    for (const [cwd, paths] of [
      [faulty, ['api', 'nodes']],
      [dirname(faulty), ['missing-endpoint']],
    ] as const) {
      await create({cwd, file, gzip}, [...paths]);
      const run = await svcTrace(['check', '-A', '--from', file, '--skip', 'ST101', '-o', 'json']);
      expect(withoutOrigin(JSON.parse(run.stdout))).toEqual(withoutOrigin(JSON.parse(wanted)));
    }
    const piped = await svcTrace(['check', '-A', '--from', '-', '--skip', 'ST101', '-o', 'json'], {input: readFileSync(file)});
    expect(withoutOrigin(JSON.parse(piped.stdout))).toEqual(withoutOrigin(JSON.parse(wanted)));
  });

  test('a dump through a pipe is read as a dump, not as the name of a Service', async () => {
    const piped = await svcTrace(['check', '--from', '-', '-o', 'json'], {input: readFileSync(dump)});
    const {nodes}: ReportJson = JSON.parse(piped.stdout);
    expect(nodes).toEqual([expect.objectContaining({name: 'stdin', rules: 396})]);
    const file = await reportOf('check', '--from', dump);
    expect(file.nodes).toEqual([expect.objectContaining({name: 'iptables-save', rules: 396})]);
  });

  test('a pipe without usable content is wrong use', async () => {
    const {stderr, exitCode} = await svcTrace(['check', '--from', '-'], {input: 'hello\n'});
    expect(unwrapped(stderr)).toContain('- is neither a bundle nor a dump of iptables-save or nft');
    expect(exitCode).toBe(2);
  });

  test('names with escape sequences are escaped', async () => {
    const bundle = join(folder, 'hostile');
    const evil = '\\u001b]0;owned\\u0007\\u202e';
    writeBundle(bundle, (path, content) => (path.startsWith('api/') ? content.replaceAll('shop', `shop${evil}`) : content));
    for (const args of [
      ['check', '-A'],
      ['check', '-A', '-o', 'wide'],
      ['check', '-A', '-o', 'json'],
      ['check', '-A', '-o', 'yaml'],
      ['web'],
      ['wab'],
    ]) {
      const {stdout, stderr} = await svcTrace([...args, '--from', bundle], {env: {NO_COLOR: '1'}});
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(stdout + stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    }
  });
});

describe('80 columns wide', () => {
  test.each([
    ['check', '-A', '--from', capturePath('faults/frozen-node')],
    ['check', '-A', '-v', '--from', capturePath('faults/split-brain')],
    ['check', '--from', dump],
    ['trace', '--from', dump],
    ['trace', 'lb-ranges', '-n', 'shop', '--from', capturePath('ipvs/1.36')],
    ['packet', '--from', faulty, '--node', 'node-a', '--source', '10.244.11.4', '--destination', '10.96.1.1', '--port', '80'],
    ['diff', capturePath('healthy/1.36-iptables'), faulty],
    ['preview', '-A', '--proxy-mode', 'nftables', '--from', capturePath('healthy/1.36-iptables')],
  ])('%s %s %s prints no longer line, except commands to copy', async (...args) => {
    const {stdout} = await svcTrace(args, {env: {COLUMNS: '80'}});
    expect(stdout.length).toBeGreaterThan(100);
    expect(stdout.split('\n').filter(line => line.length > 80 && !/^ {2}(?:run|on node) /.test(line))).toEqual([]);
  });
});

describe('as a plugin of kubectl', () => {
  test('a link named kubectl-svc_trace in PATH runs it, from any folder', async () => {
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    symlinkSync(executable, join(bin, 'kubectl-svc_trace'));
    chmodSync(executable, 0o755);
    const path = [bin, dirname(process.execPath), process.env['PATH']].join(delimiter);
    const {stdout, exitCode} = await execa('kubectl-svc_trace', ['web', '--from', faulty], {cwd: folder, env: {PATH: path}, reject: false});
    expect(stdout).toMatch(lostEndpoint);
    expect(exitCode).toBe(1);
  });

  test('help names the command kubectl svc-trace', async () => {
    const {stdout, exitCode} = await svcTrace(['check', '--help']);
    expect(stdout).toContain('Usage: kubectl svc-trace check [SERVICE...] [flags]');
    expect(exitCode).toBe(0);
    const all = await svcTrace(['check', '--help=all']);
    expect(all).toMatchObject({exitCode: 0, stdout: expect.stringContaining('user to log in as')});
    expect(stdout).not.toContain('user to log in as');
  });
});

/** A copy of the faulty capture; `change` gives the new text of a file, or null to leave it out. */
function writeBundle(target: string, change: (path: string, content: string) => string | null): void {
  const files = ['services', 'endpointslices', 'nodes', 'pods'].map(name => `api/${name}.json`);
  const dumps = ['node-a', 'node-b', 'node-c'].flatMap(node =>
    ['iptables-save', 'ip6tables-save', 'kube-proxy-config.yaml', 'kube-proxy-version'].map(file => `nodes/${node}/${file}`),
  );
  for (const path of [...files, ...dumps]) {
    const content = change(path, readFileSync(join(faulty, path), 'utf8'));
    if (content === null) continue;
    mkdirSync(dirname(join(target, path)), {recursive: true});
    writeFileSync(join(target, path), content);
  }
}

/** Error messages come broken into lines, with a mark at the beginning of each. */
function unwrapped(text: string): string {
  return text.replaceAll(/\s*\n ›\s+/g, ' ');
}

/** A report without its source and command, which differ between runs that say the same. */
function withoutOrigin(report: unknown): object {
  const {origin: _, ...rest} = report as {readonly origin?: object};
  return rest;
}
