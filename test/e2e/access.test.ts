import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {loadAll} from 'js-yaml';
import {afterAll, beforeAll, describe, expect, onTestFinished, test} from 'vitest';
import {allowedBy} from '../collect/access/roles.ts';
import {capturePath} from '../fixtures.ts';
import {type ApiServer, startApiServer} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import {svcTrace} from '../svc-trace.ts';
import type {ResourceRequest} from '../stand-in/resources.ts';

let server: ApiServer;
beforeAll(async () => {
  server = await startApiServer({
    tokens: {weak: {user: 'ann'}},
    allow: ({resource, subresource, namespace}, {name}) =>
      name === 'admin' || (resource !== 'nodes' && subresource !== 'exec' && namespace === 'shop'),
  });
});
afterAll(() => server.close());

function access(...args: readonly string[]) {
  return svcTrace(['access', ...args], {env: {KUBECONFIG: server.kubeconfig}});
}

describe('access', () => {
  test('exits with 0 for a user with all permissions, and only sends reviews', async () => {
    server.requests.length = 0;
    const {stdout, stderr, exitCode} = await access('-A');
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
    expect(stdout).toMatch(/^Allowed: \d+ required permissions for --transport exec \(context "stand-in" at /);
    expect(new Set(server.requests.map(({method, resource}) => `${method} ${resource?.resource}`))).toEqual(
      new Set(['POST selfsubjectaccessreviews']),
    );
  });

  test('exits with 1 if a permission is missing, in every format', async () => {
    const runs = await Promise.all(['table', 'json', 'yaml', 'role'].map(format => access('--token', 'weak', '-n', 'shop', '-o', format)));
    expect(runs.map(({exitCode}) => exitCode)).toEqual([1, 1, 1, 1]);
    expect(runs[0]?.stdout).toMatch(
      /^4 of 7 required permissions are missing for .*: list nodes, list pods, get pods\/exec, create pods\/exec\. \d of \d+ optional permissions are missing\.$/m,
    );
    expect(loadAll(runs[3]?.stdout ?? '')).toHaveLength(3);
  });

  test.each(['exec', 'debug', 'ssh', 'docker', 'local'])('lists what --transport %s needs', async transport => {
    const {stdout, exitCode} = await access('--transport', transport, '-o', 'json');
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({transport, allowed: true});
  });

  test('says for which nodes nodes/proxy is allowed by name', async () => {
    const byName = (names: readonly string[]) =>
      startBundleCluster(capturePath('healthy/1.36-iptables'), {
        allow: ({resource, subresource, name}) => resource !== 'nodes' || subresource !== 'proxy' || names.includes(name),
      });
    const names = ['node-a', 'node-b', 'node-c'].flatMap(node => [`${node}:10256`, `${node}:10249`]);
    const [all, some, none] = await Promise.all([names, names.slice(0, 2), []].map(byName));
    onTestFinished(() => Promise.all([all, some, none].map(each => each?.close())).then(() => {}));
    const rowOf = async (cluster: ApiServer | undefined) => {
      const {stdout} = await access('-A', '--kubeconfig', cluster?.kubeconfig ?? '');
      return stdout
        .split('\n')
        .find(line => line.includes('nodes/proxy'))
        ?.replaceAll(/ {2,}/g, ' | ');
    };
    const purpose = "get | nodes/proxy | (all) | yes | kube-proxy's health, metrics and settings";
    expect(await rowOf(all)).toBe(`${purpose}; allowed by name (6 of 6 names)`);
    const lost = 'ST505 does not know whether kube-proxy is healthy';
    expect(await rowOf(some)).toBe(
      `${purpose.replace('yes', 'in part')}; allowed for 2 of 6 names (node-a:10256, node-a:10249); without the others ${lost}`,
    );
    expect(await rowOf(none)).toBe(
      `${purpose.replace('yes', 'no')}; without it ${lost}; it opens the kubelets: whoever has it can run commands in every pod`,
    );
  });

  test('lists what check --agents needs', async () => {
    const {stdout, exitCode} = await access('--agents', '--agents-namespace', 'watchmen', '-A', '-o', 'json');
    expect(exitCode).toBe(0);
    const {transport, permissions} = JSON.parse(stdout) as {
      transport: string;
      permissions: {resource: string; subresource?: string; namespace: string | null}[];
    };
    expect(transport).toBe('agents');
    expect(permissions.filter(({subresource}) => subresource !== undefined)).toEqual([
      expect.objectContaining({verb: 'get', resource: 'pods', subresource: 'proxy', namespace: 'watchmen'}),
      expect.objectContaining({
        ...{verb: 'create', resource: 'serviceaccounts', name: 'svc-trace-reader', subresource: 'token', namespace: 'watchmen'},
      }),
    ]);
    expect((await access('--agents', '-A')).stdout).toMatch(/^Allowed: \d+ required permissions for --agents \(context "stand-in" at /);
  });

  test('without -n and -A is about the namespace of the context', async () => {
    expect(JSON.parse((await access('-o', 'json')).stdout).namespace).toBe('default');
  });

  test('-A overrides -n', async () => {
    const {stdout} = await access('-A', '-n', 'shop', '-o', 'json');
    expect(JSON.parse(stdout).namespace).toBeNull();
  });

  test('accepts the namespace for debug pods', async () => {
    const {stdout} = await access('-A', '--transport', 'debug', '--debug-namespace', 'tools', '-o', 'role');
    expect(loadAll(stdout).map(role => (role as {metadata: {namespace?: string}}).metadata.namespace)).toEqual([
      undefined,
      'kube-system',
      'tools',
    ]);
  });

  test.each([
    ['that is unreachable', ['--server', 'https://127.0.0.1:1', '--insecure-skip-tls-verify'], /nothing listens at/],
    ['that does not accept the credentials', ['--token', 'nonsense'], /does not accept the token/],
  ])('exits with 3 for an API server %s', async (_, args, message) => {
    const {stdout, stderr, exitCode} = await access(...args);
    expect(stderr.replaceAll(/\s*\n ›\s+/g, ' ')).toMatch(message);
    expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 3});
  });

  test('exits with 2 for wrong use', async () => {
    expect((await access('--context', 'nope')).exitCode).toBe(2);
    expect((await access('--transport', 'pigeon')).exitCode).toBe(2);
  });
});

describe('the Role that access prints', () => {
  const bundle = capturePath('healthy/1.36-iptables');
  const scopes: readonly (readonly string[])[] = [['-A'], ['-n', 'shop']];
  const commands: readonly (readonly [only: string | null, ...args: string[]])[] = [
    [null, 'check', '-n', 'shop', '--skip', 'ST101'],
    [null, 'check', 'shop/web', 'shop/empty', '--skip', 'ST101'],
    [null, 'trace', 'shop/web'],
    [null, 'packet', '--source', 'shop/web-1', '--destination', 'shop/web', '--node', 'node-a'],
    ['-A', 'check', '-A', '--skip', 'ST101'],
    ['-A', 'capture', '--output', 'bundle.tgz'],
  ];

  // Whether the cluster is big: asked for one Service of a namespace too, and a refusal changes nothing but the speed.
  const countsSlices = 'list endpointslices/ in ';
  // It opens the kubelets, so that no Role has it.
  const pages = 'get nodes/proxy in ';

  test.each(scopes)('with %s is sufficient for its purpose', async (...scope) => {
    const refused: string[] = [];
    let allow: ReturnType<typeof allowedBy> = () => true;
    const decide = (request: ResourceRequest, {name}: {readonly name: string}): boolean => {
      const allowed = name === 'admin' || allow(request);
      const what = `${request.verb} ${request.resource}/${request.subresource} in ${request.namespace}`;
      if (!allowed && what !== countsSlices && what !== pages) refused.push(what);
      return allowed;
    };
    const cluster = await startBundleCluster(bundle, {tokens: {weak: {user: 'ann'}}, allow: decide});
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-access-'));
    onTestFinished(async () => {
      rmSync(folder, {recursive: true});
      await cluster.close();
    });
    const run = (...args: readonly string[]) => svcTrace(args, {cwd: folder, env: {KUBECONFIG: cluster.kubeconfig}});
    allow = allowedBy((await run('access', ...scope, '-o', 'role')).stdout);
    expect((await run('access', ...scope, '--token', 'weak')).exitCode).toBe(0);
    for (const [only, ...args] of commands) {
      if (only !== null && !scope.includes(only)) continue;
      const {stderr, exitCode} = await run(...args, '--token', 'weak', '--no-progress');
      expect({args, refused, exitCode, stderr: args[0] === 'capture' ? '' : stderr}).toEqual({args, refused: [], exitCode: 0, stderr: ''});
    }
  });
});
