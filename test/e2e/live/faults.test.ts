import {copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {describe, expect, onTestFinished, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import {certificateFile} from '../../stand-in/certificates.ts';
import type {ExecCommand, ExecReply} from '../../stand-in/exec.ts';
import type {Fault} from '../../stand-in/faults.ts';
import type {ResourceRequest} from '../../stand-in/resources.ts';
import {type ReplayOptions, startReplay} from './replay.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';

// An endpoint of shop/web is missing on node-a; node-b and node-c are well.
const capture = 'faults/missing-endpoint';
const healthy = 'healthy/1.36-iptables';
const lostEndpoint = {code: 'ST202', node: 'node-a', endpoint: '10.244.11.5:8080'};

/** Where nothing listens. */
async function gone(): Promise<ApiServer> {
  const server = await startReplay(capture);
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-gone-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  const kubeconfig = join(folder, 'kubeconfig');
  copyFileSync(server.kubeconfig, kubeconfig);
  await server.close();
  return {...server, kubeconfig};
}

async function start(options: ReplayOptions = {}, name = capture): Promise<ApiServer> {
  const server = await startReplay(name, options);
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
  return {stdout, stderr, exitCode};
}

const check = (server: ApiServer, ...args: readonly string[]) => run(server, ['check', '-A', ...args]);

async function report(server: ApiServer, ...args: readonly string[]): Promise<CheckReport & Pick<Ran, 'exitCode'>> {
  const {stdout, stderr, exitCode} = await check(server, '-o', 'json', ...args);
  expect(stderr).toBe('');
  return {...(JSON.parse(stdout) as CheckReport), exitCode};
}

describe('an unusable API server ends the run with exit code 3 and a remedy', () => {
  test.each<{
    readonly what: string;
    readonly options?: ReplayOptions;
    readonly args?: readonly string[];
    readonly isGone?: boolean;
    readonly says: RegExp;
  }>([
    {
      what: 'it is unreachable',
      isGone: true,
      says: /nothing listens at 127\.0\.0\.1:\d+ \(ECONNREFUSED\)\. Is the cluster running.*context "stand-in"/,
    },
    {
      what: 'it does not respond in time',
      options: {faults: [{kind: 'hang', match: /services\?/}]},
      args: ['--request-timeout', '1s'],
      says: /cannot list services: 127\.0\.0\.1:\d+ did not answer in time.*--request-timeout/,
    },
    {
      what: 'it no longer accepts the token',
      options: {tokens: {old: {user: 'ann', expired: true}}},
      args: ['--token', 'old'],
      says: /401 Unauthorized.*The token has expired, was revoked/,
    },
    {
      what: 'its certificate is for another name',
      options: {certificate: 'elsewhere'},
      says: /certificate of 127\.0\.0\.1:\d+ is for DNS:elsewhere\.example, and not for 127\.0\.0\.1\..*--tls-server-name/,
    },
    {
      what: 'its certificate is signed by another authority',
      args: ['--certificate-authority', certificateFile('other-ca.crt')],
      says: /from an authority that the kubeconfig does not trust/,
    },
    {
      what: 'it is too busy forever',
      options: {faults: [{kind: 'status', status: 429, retryAfter: 0, match: /services\?/}]},
      says: /too much to do \(429 Too Many Requests.*--concurrency/,
    },
    {
      what: 'it lists no Services to this user',
      options: {allow: denied('list', 'services')},
      says: /not allowed to list services.*cannot list resource "services"/,
    },
    {
      what: 'it lists no EndpointSlices to this user',
      options: {allow: denied('list', 'endpointslices')},
      says: /not allowed to list endpointslices/,
    },
  ])('$what', async ({options, args = [], isGone, says}) => {
    const server = isGone ? await gone() : await start(options);
    const {stdout, stderr, exitCode} = await check(server, ...args);
    expect({exitCode, told: unwrapped(`${stdout}\n${stderr}`)}).toEqual({exitCode: 3, told: expect.stringMatching(says)});
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe('an API server that recovers causes no gap in the report', () => {
  test.each<{readonly what: string; readonly options: ReplayOptions}>([
    {
      what: 'it is too busy for some time',
      options: {faults: [{kind: 'status', status: 429, retryAfter: 1, times: 1, match: /services\?/}]},
    },
    {what: 'it is starting', options: {faults: [{kind: 'status', status: 503, times: 2, match: /nodes\?/}]}},
    {what: 'it truncates a response', options: {faults: [{kind: 'truncate', times: 1, match: /endpointslices\?/}]}},
    {what: 'a page expires', options: {faults: [{kind: 'expire-continue', times: 1}]}},
    {what: 'it closes a stream early', options: {faults: [{kind: 'cut-exec', after: 1000, times: 1, match: dumpOf('node-a')}]}},
    {
      what: 'it closes a stream early without an error',
      options: {faults: [{kind: 'cut-exec', after: 1000, clean: true, times: 1, match: dumpOf('node-a')}]},
    },
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

interface Right {
  readonly right: Parameters<typeof denied>;
  readonly transport?: string;
  readonly says: RegExp;
  readonly exitCode: number;
  readonly unread: number;
}

describe('a missing permission is named, and everything else is checked', () => {
  test.each<Right>([
    // The nodes are those that kube-proxy runs on then. There may be more.
    {right: ['list', 'nodes'], says: /not allowed to list nodes/, exitCode: 3, unread: 0},
    {right: ['list', 'pods'], says: /not allowed to list pods in namespace kube-system/, exitCode: 3, unread: 3},
    {right: ['get', 'configmaps'], says: /not allowed to get configmaps\/kube-proxy/, exitCode: 0, unread: 0},
    {right: ['create', 'pods', 'exec'], says: /not allowed to exec into .*the verbs get and create on pods\/exec/, exitCode: 3, unread: 3},
    {
      right: ['create', 'pods'],
      transport: 'debug',
      says: /not allowed to create pods.*the verbs create, get and delete/,
      exitCode: 3,
      unread: 3,
    },
    {right: ['get', 'pods'], transport: 'debug', says: /not allowed to get pods\/svc-trace-\S+/, exitCode: 3, unread: 3},
    {
      right: ['delete', 'pods'],
      transport: 'debug',
      says: /svc-trace-\S+: could not be cleaned up: not allowed to delete/,
      exitCode: 3,
      unread: 0,
    },
  ])('$right by $transport', async ({right, transport = 'exec', says, exitCode, unread}) => {
    const server = await start({allow: denied(...right), pods: {startDelay: 0}}, healthy);
    const lacking = await report(server, '--transport', transport);
    expect(lacking.findings.filter(({code, service}) => service !== undefined && !code.startsWith('ST1'))).toEqual([]);
    expect(lacking.findings.filter(({code}) => code === 'ST901').map(({message}) => message)).toContainEqual(expect.stringMatching(says));
    expect({exitCode: lacking.exitCode, unread: lacking.summary.nodesUnread}).toEqual({exitCode, unread});
  });
});

describe('an unreadable node does not affect the others', () => {
  const any = /node-b\/exec/;
  const noRoute = 'error dialing backend: dial tcp 172.18.0.12:10250: connect: no route to host';
  test.each<{
    readonly what: string;
    readonly faults?: readonly Fault[];
    readonly exec?: (command: ExecCommand) => ExecReply | null;
    readonly args?: readonly string[];
    readonly says: RegExp;
  }>([
    {
      what: 'it hangs forever when it is opened',
      faults: [{kind: 'hang', match: any}],
      args: ['--node-timeout', '20s'],
      says: /no answer within 20 s/,
    },
    {
      what: 'it hangs forever in the middle',
      faults: [{kind: 'hang', match: dumpOf('node-b')}],
      args: ['--node-timeout', '20s'],
      says: /no answer within 20 s: iptables-save not read/,
    },
    {
      what: 'its stream is always closed half way',
      faults: [{kind: 'cut-exec', after: 1000, match: dumpOf('node-b')}],
      says: /the connection was closed \(1006\).*not complete/,
    },
    {
      what: 'its kubelet is not reached',
      faults: [{kind: 'status', status: 502, message: noRoute, match: any}],
      says: /the API server does not reach the kubelet of that node: error dialing backend/,
    },
    {what: 'its dump is cut off', exec: cutDump, says: /iptables-save ended before its last COMMIT, twice/},
    {
      what: 'its kube-proxy has no iptables',
      exec: ({node}) => (node === 'node-b' ? {argv: ['no-such-program']} : null),
      says: /no iptables-save in kube-system\/kube-proxy-node-b.*--transport debug or --transport ssh/,
    },
    {
      what: 'its pod is gone meanwhile',
      faults: [{kind: 'status', status: 404, message: 'pods "kube-proxy-node-b" not found', match: any}],
      says: /no iptables-save in kube-system\/kube-proxy-node-b/,
    },
  ])('$what', async ({faults = [], exec = () => null, args = [], says}) => {
    const {findings, nodes, exitCode} = await report(await start({faults, exec}), ...args);
    expect(nodes.map(({status}) => status)).toEqual(['checked', 'unread', 'checked']);
    expect(findings.filter(({node}) => node === 'node-a')).toEqual([expect.objectContaining(lostEndpoint)]);
    expect(findings.filter(({node}) => node === 'node-c')).toEqual([]);
    const ofNode = findings.filter(({node}) => node === 'node-b');
    expect(ofNode.map(({message}) => message)).toContainEqual(expect.stringMatching(says));
    // Nothing but that it was not read.
    expect(ofNode.filter(({code}) => !/^ST9|^ST506$/.test(code))).toEqual([]);
    expect(exitCode).toBe(1);
  });

  test('sets the exit code if nothing else is wrong', async () => {
    const server = await start({faults: [{kind: 'hang', match: any}]}, healthy);
    const {exitCode, summary} = await report(server, '--node-timeout', '1s');
    expect({exitCode, verdict: summary.verdict}).toEqual({exitCode: 3, verdict: 'incomplete'});
  });
});

/** Half of what node-b holds, as a tool prints it that is killed. */
function cutDump({node, argv}: ExecCommand): {readonly stdout: Buffer} | null {
  if (node !== 'node-b' || argv.join(' ') !== 'iptables-save') return null;
  const dump = readFileSync(join(capturePath(capture), 'nodes/node-b/iptables-save'));
  return {stdout: dump.subarray(0, dump.length / 2)};
}

describe('nodes in nftables mode', () => {
  const nodes = join(capturePath('nftables/1.36'), 'nodes');
  const nft = (node: string): Buffer => readFileSync(join(nodes, node, 'nft.json'));
  /** nft is all they have: no iptables. The captured dump holds both of kube-proxy's tables, and no others are there. */
  const onlyNft =
    (table: (node: string) => Buffer = nft) =>
    ({node, argv}: ExecCommand): ExecReply | null => {
      if (argv[0] !== 'nft') return null;
      return {stdout: argv.includes('flowtables') ? 'table ip kube-proxy {\n}\n' : table(node)};
    };

  test('are read without iptables, which is reported', async () => {
    const {findings, nodes: all, exitCode} = await report(await start({exec: onlyNft()}, 'nftables/1.36'));
    expect(all.map(({status}) => status)).toEqual(['checked', 'checked', 'checked']);
    const ofNodes = findings.filter(({node}) => node !== undefined);
    expect(ofNodes.map(({code, node}) => `${code} ${node}`)).toEqual(['ST902 node-a', 'ST902 node-b', 'ST902 node-c']);
    expect(exitCode).toBe(0);
  });

  test('with truncated tables are checked up to their end, and count as unread', async () => {
    const half = (node: string) => (node === 'node-b' ? nft(node).subarray(0, nft(node).length / 2) : nft(node));
    const {findings, nodes: all, exitCode} = await report(await start({exec: onlyNft(half)}, 'nftables/1.36'), '--skip', 'ST902');
    expect(all.map(({status}) => status)).toEqual(['checked', 'unread', 'checked']);
    expect(findings.filter(({node}) => node !== undefined)).toEqual([expect.objectContaining({code: 'ST506', node: 'node-b'})]);
    expect(exitCode).toBe(3);
  });
});

describe('hostile names from a cluster', () => {
  const escapes = '\u001b]0;pwned\u0007\u001b[31m';

  test.each(['ssh', 'docker', 'debug'])('that look like an option are not passed to %s', async transport => {
    const server = await start();
    const pwned = join(tmpdir(), `svc-trace-pwned-${process.pid}`);
    const name = `-oProxyCommand=touch ${pwned}`;
    server.store.put('nodes', {metadata: {name, labels: {odd: 'yes'}}, status: {addresses: [{type: 'InternalIP', address: '127.0.0.1'}]}});
    const {nodes, exitCode} = await report(server, '--transport', transport, '--node-selector', 'odd=yes');
    expect(nodes).toEqual([
      expect.objectContaining({name, status: 'unread', reason: expect.stringContaining('none that Kubernetes allows')}),
    ]);
    expect(exitCode).toBe(3);
    expect(existsSync(pwned)).toBe(false);
    expect(server.requests.filter(({method}) => method === 'POST')).toEqual([]);
  });

  test('and messages full of escape sequences are escaped in every format', async () => {
    const server = await start({
      exec: ({node, argv}) => (node === 'node-b' && argv.join(' ') === 'iptables-save' ? {stderr: `${escapes}broken`, exitCode: 1} : null),
      allow: request => request.verb !== 'get' || request.resource !== 'configmaps',
      tokens: {odd: {user: `ann${escapes}`}},
    });
    server.store.put('nodes', {metadata: {name: `node-${escapes}`}});
    server.store.put('services', {
      metadata: {name: `web${escapes}`, namespace: 'shop'},
      spec: {
        type: 'ClusterIP',
        clusterIP: '10.96.7.7',
        clusterIPs: ['10.96.7.7'],
        ipFamilies: ['IPv4'],
        ports: [{name: `p${escapes}`, port: 80, protocol: 'TCP'}],
      },
    });
    // Side by side: each waits until the Service is no longer new.
    const formats = ['table', 'wide', 'json', 'yaml'];
    const printed = await Promise.all(formats.map(format => check(server, '-v', '-o', format, '--token', 'odd')));
    for (const {stdout, stderr} of printed) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
      expect(`${stdout}${stderr}`).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
      expect(`${stdout}${stderr}`).toMatch(/pwned/);
    }
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
