import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {loadAll} from 'js-yaml';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {type ApiServer, startApiServer} from '../stand-in/api-server.ts';

const executable = join(import.meta.dirname, '../../bin/run.js');

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
  const env = {NO_COLOR: undefined, FORCE_COLOR: undefined, KUBECONFIG: server.kubeconfig};
  return execa(process.execPath, [executable, 'access', ...args], {reject: false, stdin: 'ignore', env});
}

describe('access', () => {
  test('ends with 0 for somebody who may do everything, and asks for nothing but reviews', async () => {
    server.requests.length = 0;
    const {stdout, stderr, exitCode} = await access();
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
    expect(stdout).toMatch(/^You may do everything that is needed for --transport exec \(context "stand-in" at /);
    expect(new Set(server.requests.map(({method, resource}) => `${method} ${resource?.resource}`))).toEqual(
      new Set(['POST selfsubjectaccessreviews']),
    );
  });

  test('ends with 1 where something is missing, in every format', async () => {
    const runs = await Promise.all(['table', 'json', 'yaml', 'role'].map(format => access('--token', 'weak', '-n', 'shop', '-o', format)));
    expect(runs.map(({exitCode}) => exitCode)).toEqual([1, 1, 1, 1]);
    expect(runs[0]?.stdout).toMatch(
      /^4 of 10 permissions are missing for .*: list nodes, list pods, get pods\/exec, create pods\/exec\.$/m,
    );
    expect(loadAll(runs[3]?.stdout ?? '')).toHaveLength(3);
  });

  test.each(['exec', 'debug', 'ssh', 'docker', 'local'])('knows what --transport %s needs', async transport => {
    const {stdout, exitCode} = await access('--transport', transport, '-o', 'json');
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({transport, allowed: true});
  });

  test('-A goes before -n', async () => {
    const {stdout} = await access('-A', '-n', 'shop', '-o', 'json');
    expect(JSON.parse(stdout).namespace).toBeNull();
  });

  test('takes the namespace for debug pods', async () => {
    const {stdout} = await access('--transport', 'debug', '--debug-namespace', 'tools', '-o', 'role');
    expect(loadAll(stdout).map(role => (role as {metadata: {namespace?: string}}).metadata.namespace)).toEqual([
      undefined,
      'kube-system',
      'tools',
    ]);
  });

  test.each([
    ['that is not there', ['--server', 'https://127.0.0.1:1', '--insecure-skip-tls-verify'], /nothing listens at/],
    ['that does not know who asks', ['--token', 'nonsense'], /does not accept the token/],
  ])('ends with 3 for an API server %s', async (_, args, message) => {
    const {stdout, stderr, exitCode} = await access(...args);
    expect(stderr.replaceAll(/\s*\n ›\s+/g, ' ')).toMatch(message);
    expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 3});
  });

  test('ends with 2 for wrong use', async () => {
    expect((await access('--context', 'nope')).exitCode).toBe(2);
    expect((await access('--transport', 'pigeon')).exitCode).toBe(2);
  });
});
