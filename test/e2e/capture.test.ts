import {cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test, vi} from 'vitest';
import {svcTraceCommand} from '../executable.ts';
import {capturePath} from '../fixtures.ts';
import type {ApiServer} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import {svcTrace as runSvcTrace} from '../svc-trace.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-capture-'));
});

const open: ApiServer[] = [];
afterAll(async () => {
  for (const server of open) await server.close();
  rmSync(folder, {recursive: true});
});

async function cluster(...args: Parameters<typeof startBundleCluster>): Promise<ApiServer> {
  const server = await startBundleCluster(...args);
  open.push(server);
  return server;
}

const svcTrace = (...args: readonly string[]) => runSvcTrace(args);

let counter = 0;
const target = (name: string): string => join(folder, `${counter++}`, name);

async function checkJson(...args: readonly string[]) {
  const {stdout} = await svcTrace('check', '-A', '-o', 'json', ...args);
  // The command and the source are others.
  const {origin: _, ...report} = JSON.parse(stdout);
  return report;
}

interface Found {
  readonly code: string;
  readonly severity: string;
}

/** How many findings of each code and severity. */
function countsOf({findings}: {readonly findings: readonly Found[]}): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(findings, ({code, severity}) => `${code} ${severity}`)].map(([key, list]) => [key, list.length]),
  );
}

// A check of a cluster with an old fault waits for kube-proxy's grace period; the other tests run meanwhile.
describe.concurrent('capture of a cluster', () => {
  test('of chosen nodes: a check of the bundle reports the same of them as a check of the cluster, and no other node is missing', async () => {
    const {kubeconfig} = await cluster(capturePath('faults/missing-endpoint'));
    const path = target('two-nodes');
    const captured = await svcTrace('capture', '-o', path, '--node', 'node-a,node-c', '--kubeconfig', kubeconfig);
    expect(captured).toMatchObject({exitCode: 0, stderr: expect.stringContaining('2 nodes')});
    expect(readdirSync(join(path, 'nodes')).sort()).toEqual(['node-a', 'node-c']);
    const replayed = await checkJson('--from', path);
    expect(replayed).toEqual(await checkJson('--kubeconfig', kubeconfig, '--node', 'node-a,node-c'));
    expect(replayed.summary).toMatchObject({verdict: 'findings', nodesChecked: 2, nodesUnread: 0});
  });

  test.each(['faults/missing-endpoint', 'faults/frozen-node', 'healthy/1.33-iptables'])(
    '%s: a check of the bundle gives the same result as a check of the cluster',
    async name => {
      const {kubeconfig} = await cluster(capturePath(name));
      const path = target('bundle.tgz');
      const captured = await svcTrace('capture', '-o', path, '--kubeconfig', kubeconfig);
      expect(captured).toMatchObject({exitCode: 0, stdout: '', stderr: expect.stringContaining('bundle.tgz: 3 nodes')});
      expect(await checkJson('--from', path)).toEqual(await checkJson('--kubeconfig', kubeconfig));
    },
  );

  test('the dumps are those that the nodes printed, and snapshot.json contains how they were read', async () => {
    const bundle = capturePath('faults/missing-endpoint');
    const {kubeconfig, requests} = await cluster(bundle);
    const path = target('bundle');
    await svcTrace('capture', '-o', path, '--kubeconfig', kubeconfig);
    const dump = 'nodes/node-b/iptables-save';
    expect(readFileSync(join(path, dump))).toEqual(readFileSync(join(bundle, dump)));
    const {takenAt, tool, origin, serverVersion, redacted, nodes} = JSON.parse(readFileSync(join(path, 'snapshot.json'), 'utf8'));
    expect({takenAt, tool, origin, serverVersion, redacted}).toEqual({
      takenAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      tool: {name: 'svc-trace', version: expect.any(String)},
      origin: expect.stringContaining('stand-in'),
      serverVersion: 'v1.36.2',
      redacted: false,
    });
    expect(nodes['node-b']).toMatchObject({status: 'read', via: 'exec into kube-system/kube-proxy-node-b'});
    expect(requests.filter(request => request.path.includes('/secrets'))).toEqual([]);
  });

  test('reports from a bundle show when the cluster was read and the version of its API server', async () => {
    const {kubeconfig} = await cluster(capturePath('faults/missing-endpoint'));
    const path = target('bundle.tgz');
    await svcTrace('capture', '-o', path, '--redact', '--kubeconfig', kubeconfig);
    const report = (...args: readonly string[]) => svcTrace(...args, '-A', '--from', path);
    const {origin} = JSON.parse((await report('check', '-o', 'json')).stdout);
    expect(origin).toMatchObject({source: path, serverVersion: 'v1.36.2', readAt: expect.stringMatching(/^\d{4}-/)});
    expect((await report('check', '-o', 'markdown')).stdout).toContain('| Kubernetes | v1.36.2 |');
    expect((await report('check', '-o', 'html')).stdout).toContain('<dt>Kubernetes</dt><dd>v1.36.2</dd>');
    expect((await report('preview', '--proxy-mode', 'nftables', '-o', 'html')).stdout).toContain('<dt>Kubernetes</dt><dd>v1.36.2</dd>');
  });

  test('an unreadable node is exit 3, and the bundle contains the same reason as the cluster', async () => {
    const exec = ({node}: {readonly node: string}) => (node === 'node-b' ? {exitCode: 1, stderr: 'permission denied'} : null);
    const {kubeconfig} = await cluster(capturePath('faults/missing-endpoint'), {exec});
    const path = target('bundle.tgz');
    const {exitCode, stderr} = await svcTrace('capture', '-o', path, '--kubeconfig', kubeconfig);
    expect({exitCode, stderr}).toEqual({exitCode: 3, stderr: expect.stringContaining('3 nodes, 1 not read')});
    const [bundled, live] = [await checkJson('--from', path), await checkJson('--kubeconfig', kubeconfig)];
    expect(bundled).toEqual(live);
    expect(bundled.findings).toContainEqual(
      expect.objectContaining({code: 'ST901', node: 'node-b', message: expect.stringContaining('permission denied')}),
    );
  });

  test('without permission to list pods is exit 0, and unread pods are not mentioned', async () => {
    const allow = ({resource, namespace, verb}: {resource: string; namespace?: string | null; verb: string}) =>
      !(resource === 'pods' && verb === 'list' && (namespace ?? '') === '');
    const {kubeconfig} = await cluster(capturePath('healthy/1.36-iptables'), {allow: allow as never});
    const path = target('bundle');
    const {exitCode} = await svcTrace('capture', '-o', path, '--kubeconfig', kubeconfig);
    const {scope, problems} = JSON.parse(readFileSync(join(path, 'snapshot.json'), 'utf8'));
    expect({exitCode, scope, problems}).toEqual({
      exitCode: 0,
      scope: {podsOf: []},
      problems: [expect.objectContaining({isMinor: true, message: expect.stringContaining('pods')})],
    });
  });

  test('redacted at once: it contains no name, and the findings are the same', async () => {
    const {kubeconfig} = await cluster(capturePath('faults/frozen-node'));
    const [plain, redacted] = [target('plain'), target('redacted')];
    await svcTrace('capture', '-o', plain, '--kubeconfig', kubeconfig);
    const {exitCode, stderr} = await svcTrace('capture', '-o', redacted, '--redact', '--kubeconfig', kubeconfig);
    expect({exitCode, stderr}).toEqual({
      exitCode: 0,
      stderr: expect.stringMatching(/replaced: \d+ namespaces?, 3\d Services, \d+ pods, 3 nodes/),
    });
    expect(countsOf(await checkJson('--from', redacted))).toEqual(countsOf(await checkJson('--from', plain)));
    const record = readFileSync(join(redacted, 'snapshot.json'), 'utf8');
    expect(record).not.toMatch(/node-[abc]\b|stand-in|127\.0\.0\.1/);
    expect(readdirSync(join(redacted, 'nodes'))).toEqual([
      expect.stringMatching(/^node-[a-z2-7]{10}$/),
      expect.any(String),
      expect.any(String),
    ]);
  });

  test('reads only the requested nodes', async () => {
    const {kubeconfig} = await cluster(capturePath('faults/missing-endpoint'));
    const path = target('bundle');
    await svcTrace('capture', '-o', path, '--node', 'node-c', '--kubeconfig', kubeconfig);
    expect(readdirSync(join(path, 'nodes'))).toEqual(['node-c']);
  });
});

describe.concurrent('capture of a bundle', () => {
  const bundle = capturePath('faults/missing-endpoint');

  test('writes an equal bundle', async () => {
    const path = target('again.tgz');
    const {exitCode, stderr} = await svcTrace('capture', '--from', bundle, '-o', path);
    expect({exitCode, stderr}).toEqual({exitCode: 0, stderr: `${path}: 3 nodes`});
    expect(await checkJson('--from', path)).toEqual(await checkJson('--from', bundle));
  });

  test('without files of nodes is incomplete, as it says', async () => {
    const path = target('api-alone');
    cpSync(join(bundle, 'api'), join(path, 'api'), {recursive: true});
    const {exitCode, stderr} = await svcTrace('capture', '--from', path, '-o', `${path}.tgz`);
    expect({exitCode, stderr}).toEqual({exitCode: 3, stderr: `${path}.tgz: INCOMPLETE: no nodes were found`});
  });

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('leaves nothing behind after %s', async signal => {
    const many = target('many');
    cpSync(bundle, many, {recursive: true});
    for (let node = 0; node < 30; node++) cpSync(join(bundle, 'nodes/node-a'), join(many, `nodes/copy-${node}`), {recursive: true});
    const path = target('interrupted');
    mkdirSync(dirname(path), {recursive: true});
    const args = ['capture', '--from', many, '-o', path, '--redact'];
    const running = execa(...svcTraceCommand(args), {reject: false, stdin: 'ignore'});
    await vi.waitUntil(() => readdirSync(dirname(path)).length > 0, {timeout: 600_000, interval: 5});
    running.kill(signal);
    const {exitCode, stderr} = await running;
    expect({exitCode, stderr}).toEqual({exitCode: 130, stderr: `interrupted (${signal})`});
    expect(readdirSync(dirname(path))).toEqual([]);
  });

  test('overwrites nothing', async () => {
    const path = target('once');
    await svcTrace('capture', '--from', bundle, '-o', path, '--quiet');
    const {exitCode, stderr} = await svcTrace('capture', '--from', bundle, '-o', path);
    expect({exitCode, stderr: stderr.replaceAll(/\s+›?\s*/g, ' ')}).toEqual({exitCode: 2, stderr: expect.stringContaining('is not empty')});
  });

  test('needs a writable target', async () => {
    expect((await svcTrace('capture', '--from', bundle)).exitCode).toBe(2);
    expect((await svcTrace('capture', '--from', bundle, '-o', '-')).exitCode).toBe(2);
    expect(existsSync('-')).toBe(false);
  });

  test('uses other names in every run of --redact', async () => {
    const paths = [target('a'), target('b')];
    for (const path of paths) await svcTrace('capture', '--from', bundle, '-o', path, '--redact');
    const [first, second] = paths.map(path => readdirSync(join(path, 'nodes')));
    expect(first).not.toEqual(second);
  });
});
