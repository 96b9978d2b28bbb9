import {readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {svcTraceCommand} from '../../executable.ts';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import {startBundleCluster} from '../../stand-in/bundle-cluster.ts';
import {svcTrace as runSvcTrace} from '../../svc-trace.ts';

const bundle = capturePath('faults/missing-endpoint');
let server: ApiServer;

beforeAll(async () => {
  server = await startBundleCluster(bundle, {certificate: 'server'});
});
afterAll(() => server.close());

function svcTrace(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return runSvcTrace(args, {env: {KUBECONFIG: server.kubeconfig, ...env}});
}

/** A process of its own, which gets signals. */
function start(args: readonly string[], {kubeconfig}: ApiServer) {
  return execa(...svcTraceCommand(args), {reject: false, stdin: 'ignore', env: {KUBECONFIG: kubeconfig}});
}

const unwrapped = (text: string): string => text.replaceAll(/\s*›\s*/g, ' ').replaceAll(/\s+/g, ' ');

describe('a cluster and a bundle of it give the same report', () => {
  test.each([
    ['check', ['check', '-A', '-o', 'json']],
    ['trace', ['trace', 'shop/web', '-o', 'json']],
    ['packet', ['packet', '--node', 'node-a', '--source', '10.244.11.20', '--destination', 'shop/web', '-o', 'json']],
  ])('%s', async (_, args) => {
    const [live, replayed] = await Promise.all([svcTrace(args), svcTrace([...args, '--from', bundle])]);
    const isOfAll = args.includes('-A');
    expect(withoutSources(live.stdout, isOfAll)).toEqual(withoutSources(replayed.stdout, isOfAll));
    expect(live.exitCode).toBe(replayed.exitCode);
    expect(live.stderr).toBe('');
  });
});

/**
 * kube-proxy's settings are found in other places; a bundle does not contain the transport of the node, and this one has no pods. Of a node
 * that is read for a Service of IPv4, the rules of IPv6 are not read.
 */
function withoutSources(json: string, isOfAll: boolean): object {
  const ofReading = new Set(['settings', 'via', 'notRead', 'origin', 'command', ...(isOfAll ? [] : ['families', 'chains', 'rules'])]);
  return JSON.parse(json, (key, value) => (ofReading.has(key) ? undefined : value)) as object;
}

describe('a page shows its source', () => {
  const factsOf = (page: string): Readonly<Record<string, string>> =>
    Object.fromEntries(
      [...page.slice(0, page.indexOf('<section')).matchAll(/<dt>(.*?)<\/dt><dd>(.*?)<\/dd>/g)].map(([, name = '', value = '']) => [
        name,
        value.replaceAll(/<[^>]*>/g, ''),
      ]),
    );

  test('of a cluster: time, context and server, version, scope, and the command without the token', async () => {
    const before = Date.now();
    const {stdout, stderr} = await svcTrace(['check', '-n', 'shop', '-o', 'html', '--token', 'admin-token']);
    const {Made = '', 'Read at': readAt = '', ...facts} = factsOf(stdout);
    expect(stderr).toBe('');
    expect(facts).toEqual({
      From: expect.stringContaining('stand-in'),
      Kubernetes: 'v1.36.2',
      Scope: 'namespace shop',
      Command: 'kubectl svc-trace check -n shop -o html --token HIDDEN',
    });
    const [read, made] = [readAt, Made].map(time => Date.parse(time.replace(' UTC', 'Z')));
    expect(read).toBeGreaterThanOrEqual(before - 1000);
    expect(made).toBeGreaterThanOrEqual(read ?? Infinity);
    expect(made).toBeLessThanOrEqual(Date.now());
    expect(stdout).not.toContain('admin-token');
  });

  test('of a bundle: its name, and no version that was not requested', async () => {
    const {stdout} = await svcTrace(['trace', 'shop/web', '-o', 'html', '--from', bundle]);
    const {Made, ...facts} = factsOf(stdout);
    expect(facts).toEqual({From: bundle, Scope: 'shop/web', Command: `kubectl svc-trace trace shop/web -o html --from ${bundle}`});
  });
});

test('JSON contains time, context, version, scope and command', async () => {
  const {stdout} = await svcTrace(['check', 'web', '-n', 'shop', '-o', 'json', '--token', 'admin-token']);
  expect(JSON.parse(stdout).origin).toEqual({
    readAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    source: expect.stringContaining('stand-in'),
    serverVersion: 'v1.36.2',
    scope: 'web',
    command: 'kubectl svc-trace check web -n shop -o json --token HIDDEN',
  });
});

describe('if nothing can be checked', () => {
  test.each([
    ['no such context', ['--context', 'nowhere'], 2, 'nowhere'],
    ['no such kubeconfig', ['--kubeconfig', '/nowhere'], 2, '/nowhere'],
    ['an invalid duration', ['--request-timeout', 'soon'], 2, '--request-timeout: "soon" is not a duration'],
    ['a token that is not accepted', ['--token', 'wrong'], 3, 'Log in again'],
    ['an unreachable API server', ['--server', 'https://127.0.0.1:1'], 3, 'nothing listens at 127.0.0.1:1'],
    ['a missing Service', ['-n', 'shop'], 2, 'Did you mean shop/web?'],
    ['a missing namespace', ['-n', 'none'], 2, 'Service "wbe" not found in namespace none'],
    ['a missing node', ['-n', 'shop', '--node', 'node-x', '--from', bundle], 2, 'not found'],
  ])('%s', async (_, flags, code, message) => {
    const {exitCode, stderr, stdout} = await svcTrace(['check', 'wbe', ...flags]);
    expect(unwrapped(stderr)).toContain(message);
    expect(exitCode).toBe(code);
    expect(stdout).toBe('');
  });

  test('an expired credential is reported as expired', async () => {
    const {stderr, exitCode} = await svcTrace(['web', '--as', 'nobody', '--token', 'old']);
    expect(unwrapped(stderr)).toContain('The token has expired, was revoked, or is of another cluster');
    expect(exitCode).toBe(3);
  });
});

test('the default namespace is that of the context', async () => {
  const kubeconfig = join(dirname(server.kubeconfig), 'shop');
  writeFileSync(
    kubeconfig,
    readFileSync(server.kubeconfig, 'utf8').replace('cluster: stand-in\n', 'cluster: stand-in\n      namespace: shop\n'),
  );
  const {stdout} = await svcTrace(['check', '-o', 'json', '--sample', '1'], {KUBECONFIG: kubeconfig});
  const {findings, summary}: {findings: {service?: {namespace: string}}[]; summary: {sampledFrom: number}} = JSON.parse(stdout);
  expect(new Set(findings.flatMap(({service}) => service?.namespace ?? []))).toEqual(new Set(['shop']));
  expect(summary.sampledFrom).toBe(3);
});

test('packet to an address knows the Service that has it', async () => {
  const asked = ['packet', '--node', 'node-a', '--source', '10.244.12.20', '--port', '80', '--destination', '10.96.1.1'];
  const {stdout, stderr} = await svcTrace(asked);
  expect(stdout).toMatch(/^node-a: TCP 10\.244\.12\.20 → 10\.96\.1\.1:80 \(shop\/web:http\) {2}2 endpoints, 33.3% to 66.7% each$/m);
  expect(stderr).toBe('');
});

test('packet to a cluster IP that no Service has leads nowhere, of a cluster and of a bundle', async () => {
  const asked = ['packet', '--node', 'node-a', '--source', '10.244.12.20', '--port', '80', '--destination', '10.96.0.77'];
  for (const args of [asked, [...asked, '--from', bundle]]) {
    const {stdout} = await svcTrace(args);
    expect(stdout).toMatch(
      /^node-a: TCP 10\.244\.12\.20 → 10\.96\.0\.77:80 {2}dropped: no Service has 10\.96\.0\.77, which is in the range of cluster IPs \(10\.96\.0\.1 to 10\.96\.2\.5\): no host has the address$/m,
    );
  }
});

test('--from needs no credentials', async () => {
  const {exitCode} = await svcTrace(['check', '-n', 'shop', 'web', '--from', bundle, '--context', 'nowhere']);
  expect(exitCode).toBe(1);
});

describe('--wait', () => {
  const asked = ['check', '-n', 'shop', 'web', '-o', 'json'];

  test('a bundle cannot be waited for', async () => {
    const {exitCode, stderr, stdout} = await svcTrace([...asked, '--wait', '60s', '--from', bundle]);
    expect(unwrapped(stderr)).toContain('the bundle of --from does not change');
    expect({exitCode, stdout}).toEqual({exitCode: 2, stdout: ''});
  });

  test('shows its progress on standard error, and exits with 1 where a node is not in sync in time', async () => {
    const {exitCode, stderr, stdout} = await svcTrace([...asked, '--wait', '0']);
    expect(stderr).toBe('converged: 2 of 3 nodes; waiting for node-a');
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({wait: {limitSeconds: 0, clean: false}});
    expect((await svcTrace([...asked, '--wait', '0', '-q'])).stderr).toBe('');
  });

  test('prints its findings and exits with 130 if it is interrupted', async () => {
    const run = start([...asked, '--wait', '10m'], server);
    run.stderr.once('data', () => run.kill('SIGINT'));
    const {stdout, exitCode} = await run;
    expect(exitCode).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({summary: {verdict: 'findings', errors: 1}, wait: {limitSeconds: 600, clean: false}});
  });
});

test('an interrupted run prints its findings and exits with 130', async () => {
  const hanging = await startBundleCluster(bundle, {faults: [{kind: 'hang', match: /kube-proxy-node-b\/exec/}]});
  try {
    const run = start(['check', '-n', 'shop', 'web', '-o', 'json'], hanging);
    await until(() => hanging.requests.some(({path}) => path.includes('kube-proxy-node-b/exec')) && dumpsOf(hanging) >= 2);
    run.kill('SIGINT');
    const {stdout, exitCode} = await run;
    const {nodes}: {nodes: {name: string; status: string; reason?: string}[]} = JSON.parse(stdout);
    expect(nodes.find(({name}) => name === 'node-b')).toMatchObject({status: 'unread', reason: 'interrupted (SIGINT)'});
    expect(exitCode).toBe(130);
  } finally {
    await hanging.close();
  }
});

function dumpsOf({requests}: ApiServer): number {
  return requests.filter(({argv}) => argv.join(' ') === 'iptables-save').length;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(resolve => setTimeout(resolve, 20));
}
