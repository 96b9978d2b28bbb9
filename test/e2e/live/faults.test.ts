import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, onTestFinished, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import {certificateFile} from '../../stand-in/certificates.ts';
import type {ExecCommand} from '../../stand-in/exec.ts';
import type {ResourceRequest} from '../../stand-in/resources.ts';
import {startReplay} from './replay.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';

// An endpoint of shop/web is missing on node-a; node-b and node-c are well.
const capture = 'faults/missing-endpoint';
const lostEndpoint = {code: 'ST202', node: 'node-a', endpoint: '10.244.11.5:8080'};

async function start(options: Parameters<typeof startReplay>[1] = {}): Promise<ApiServer> {
  const server = await startReplay(capture, options);
  onTestFinished(() => server.close());
  return server;
}

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

async function run(server: ApiServer, args: readonly string[]): Promise<Ran> {
  const {stdout, stderr, exitCode} = await svcTrace(args, {kubeconfig: server.kubeconfig});
  if (process.env['SHOW']) {
    const t = expect.getState().currentTestName;
    console.log(t, exitCode, stderr, stdout.startsWith('{') ? JSON.stringify({s: JSON.parse(stdout).summary.verdict, n: JSON.parse(stdout).nodes?.map((n: {name: string; status: string; reason: string}) => [n.name, n.status, n.reason]), f: JSON.parse(stdout).findings.filter((f: {code: string}) => !/^ST1/.test(f.code)).map((f: {code: string; node: string; message: string; remedy: string}) => [f.code, f.node, f.message, f.remedy])}, null, 1) : stdout);
  }
  return {stdout, stderr, exitCode};
}

const check = (server: ApiServer, ...args: readonly string[]) => run(server, ['check', '-A', ...args]);

async function report(server: ApiServer, ...args: readonly string[]): Promise<CheckReport & Pick<Ran, 'exitCode'>> {
  const {stdout, stderr, exitCode} = await check(server, '-o', 'json', ...args);
  expect(stderr).toBe('');
  return {...(JSON.parse(stdout) as CheckReport), exitCode};
}

describe('an API server that cannot be used ends the run with exit code 3, with what to do', () => {
  test.each<{readonly what: string; readonly options?: Parameters<typeof startReplay>[1]; readonly args?: readonly string[]; readonly isGone?: boolean; readonly says: RegExp}>([
    {what: 'it is not there', isGone: true, says: /nothing listens at 127\.0\.0\.1:\d+ \(ECONNREFUSED\)\. Is the cluster running.*context "stand-in"/},
    {what: 'it does not answer in time', options: {faults: [{kind: 'hang', match: /services\?/}]}, args: ['--request-timeout', '1s'], says: /cannot list services: 127\.0\.0\.1:\d+ did not answer in time.*--request-timeout/},
    {what: 'it does not accept the token any more', options: {tokens: {old: {user: 'ann', expired: true}}}, args: ['--token', 'old'], says: /401 Unauthorized.*The token has expired, was revoked/},
    {what: 'its certificate is for another name', options: {certificate: 'elsewhere'}, says: /certificate of 127\.0\.0\.1:\d+ is for another name.*--tls-server-name/},
    {what: 'its certificate is of another authority', args: ['--certificate-authority', certificateFile('other-ca.crt')], says: /from an authority that the kubeconfig does not trust/},
    {what: 'it has too much to do for ever', options: {faults: [{kind: 'status', status: 429, retryAfter: 0, match: /services\?/}]}, says: /too much to do \(429 Too Many Requests.*--concurrency/},
    {what: 'it lists no Services to this user', options: {allow: denied('list', 'services')}, says: /not allowed to list services.*cannot list resource "services"/},
    {what: 'it lists no EndpointSlices to this user', options: {allow: denied('list', 'endpointslices')}, says: /not allowed to list endpointslices/},
  ])('$what', async ({options, args = [], isGone, says}) => {
    const server = await start(options);
    if (isGone) await server.close();
    const {stdout, stderr, exitCode} = await check(server, ...args);
    expect({exitCode, told: unwrapped(`${stdout}\n${stderr}`)}).toEqual({exitCode: 3, told: expect.stringMatching(says)});
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe('an API server that can be used in the end loses nothing', () => {
  test.each<{readonly what: string; readonly options: Parameters<typeof startReplay>[1]}>([
    {what: 'it has too much to do for now', options: {faults: [{kind: 'status', status: 429, retryAfter: 1, times: 1, match: /services\?/}]}},
    {what: 'it is starting', options: {faults: [{kind: 'status', status: 503, times: 2, match: /nodes\?/}]}},
    {what: 'it breaks an answer off', options: {faults: [{kind: 'truncate', times: 1, match: /endpointslices\?/}]}},
    {what: 'a page expires', options: {faults: [{kind: 'expire-continue', times: 1}]}},
    {what: 'it closes a stream half way', options: {faults: [{kind: 'cut-exec', after: 1000, times: 1, match: dumpOf('node-a')}]}},
    {what: 'it closes a stream half way as if it were well', options: {faults: [{kind: 'cut-exec', after: 1000, clean: true, times: 1, match: dumpOf('node-a')}]}},
  ])('$what', async ({options}) => {
    const server = await start(options);
    // So many that they do not fit on a page.
    for (let index = 0; index < 501; index++) server.store.put('services', headless(index));
    const {findings, exitCode, summary} = await report(server);
    expect(findings.filter(({node}) => node !== undefined)).toEqual([expect.objectContaining(lostEndpoint)]);
    expect({exitCode, nodesUnread: summary.nodesUnread}).toEqual({exitCode: 1, nodesUnread: 0});
    // The fault was there.
    expect(server.faults.map(({times}) => times)).toEqual([0]);
  });
});

describe('rights that are lacking are said, and what can be looked at is', () => {
  test('list nodes: the nodes are those that kube-proxy runs on', async () => {
    await report(await start({allow: denied('list', 'nodes')}));
  });
  test('list pods', async () => {
    await report(await start({allow: denied('list', 'pods')}));
  });
  test('get configmaps', async () => {
    await report(await start({allow: denied('get', 'configmaps')}));
  });
  test('create pods/exec', async () => {
    await report(await start({allow: denied('create', 'pods', 'exec')}));
  });
  test('create pods', async () => {
    await report(await start({allow: denied('create', 'pods')}), '--transport', 'debug');
  });
  test('delete pods', async () => {
    await report(await start({allow: denied('delete', 'pods')}), '--transport', 'debug');
  });
});

describe('a node that cannot be read takes nothing from the others', () => {
  test.each<{readonly what: string; readonly options: Parameters<typeof startReplay>[1]; readonly args?: readonly string[]}>([
    {what: 'it hangs for ever when it is opened', options: {faults: [{kind: 'hang', match: /node-b\/exec.*command=--version/}]}, args: ['--node-timeout', '2s']},
    {what: 'it hangs for ever in the middle', options: {faults: [{kind: 'hang', match: dumpOf('node-b')}]}, args: ['--node-timeout', '2s']},
    {what: 'its stream is always closed half way', options: {faults: [{kind: 'cut-exec', after: 1000, match: dumpOf('node-b')}]}},
    {what: 'its kubelet is not reached', options: {faults: [{kind: 'status', status: 502, message: 'error dialing backend: dial tcp 172.18.0.12:10250: connect: no route to host', match: /node-b\/exec/}]}},
    {what: 'its dump is cut off', options: {exec: cutDump}},
    {what: 'its kube-proxy has no iptables', options: {exec: ({node}) => (node === 'node-b' ? {argv: ['no-such-program']} : null)}},
    {what: 'its pod is gone meanwhile', options: {faults: [{kind: 'status', status: 404, message: 'pods "kube-proxy-node-b" not found', match: /node-b\/exec/}]}},
  ])('$what', async ({options, args = []}) => {
    await report(await start(options), ...args);
  });
});

/** Half of what node-b holds, as a tool prints it that is killed. */
function cutDump({node, argv}: ExecCommand): {readonly stdout: Buffer} | null {
  if (node !== 'node-b' || argv.join(' ') !== 'iptables-save') return null;
  const dump = readFileSync(join(capturePath(capture), 'nodes/node-b/iptables-save'));
  return {stdout: dump.subarray(0, dump.length / 2)};
}

describe('what a cluster says of itself is not believed', () => {
  const escapes = '\u001b]0;pwned\u0007\u001b[31m';

  test.each(['ssh', 'docker', 'debug', 'exec'])('a node whose name is an option is not given to %s', async transport => {
    const server = await start();
    const pwned = join('/tmp', `svc-trace-pwned-${process.pid}`);
    server.store.put('nodes', {metadata: {name: `-oProxyCommand=touch ${pwned}`}, status: {addresses: [{type: 'InternalIP', address: '-oProxyCommand=x'}]}});
    await report(server, '--transport', transport, '--node', `-oProxyCommand=touch ${pwned}`);
    expect(existsSync(pwned)).toBe(false);
  });

  test.each(['table', 'wide', 'json', 'yaml'])('names and messages full of escape codes are harmless in %s', async format => {
    const server = await start({
      exec: ({node, argv}) => (node === 'node-b' && argv.join(' ') === 'iptables-save' ? {stderr: `${escapes}broken`, exitCode: 1} : null),
      allow: request => request.verb !== 'get' || request.resource !== 'configmaps',
      tokens: {odd: {user: `ann${escapes}`}},
    });
    server.store.put('nodes', {metadata: {name: `node-${escapes}`}});
    server.store.put('services', {metadata: {name: `web${escapes}`, namespace: 'shop'}, spec: {type: 'ClusterIP', clusterIP: '10.96.7.7', clusterIPs: ['10.96.7.7'], ipFamilies: ['IPv4'], ports: [{name: `p${escapes}`, port: 80, protocol: 'TCP'}]}});
    const {stdout, stderr} = await check(server, '-v', '-o', format, '--token', 'odd');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
    expect(`${stdout}${stderr}`).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(`${stdout}${stderr}`).toMatch(/pwned/);
  });
});

function denied(verb: ResourceRequest['verb'], resource: string, subresource = ''): (request: ResourceRequest) => boolean {
  return request => request.verb !== verb || request.resource !== resource || request.subresource !== subresource;
}

function dumpOf(node: string): RegExp {
  return new RegExp(`${node}/exec.*command=iptables-save$`);
}

function headless(index: number): {metadata: {name: string; namespace: string}; spec: object} {
  const spec = {type: 'ClusterIP', clusterIP: 'None', clusterIPs: ['None'], ipFamilies: ['IPv4'], ports: []};
  return {metadata: {name: `headless-${String(index).padStart(4, '0')}`, namespace: 'many'}, spec};
}

/** Without what oclif puts at the beginning of lines when it breaks them. */
function unwrapped(text: string): string {
  return text.replace(/\n ›? */g, ' ').replace(/\s+/g, ' ');
}
