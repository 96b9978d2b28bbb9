import {expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import type {CollectedNode} from '../../../src/collect/node/transport.ts';
import {execTransport} from '../../../src/collect/transports/exec.ts';
import {type ApiServer, startApiServer} from '../../stand-in/api-server.ts';
import type {ExecReply} from '../../stand-in/exec.ts';
import type {Fault} from '../../stand-in/faults.ts';
import {kubeProxyPods} from '../../stand-in/kube-proxy-pods.ts';
import {hostPod} from '../transports/fake-kube-api.ts';

const dump = '*nat\nCOMMIT\n';

/** A node of iptables mode: its image of kube-proxy has `nft` and `grep`, and neither `sysctl` nor a shell. */
const outputs: Readonly<Record<string, string>> = {
  'iptables-save --version': 'iptables-save v1.8.11 (legacy)\n',
  ...{'iptables-save': dump, 'ip6tables-save': dump, 'ip -j addr': '[]', 'kube-proxy --version': 'Kubernetes v1.36.2\n'},
};

function reply(argv: readonly string[]): ExecReply {
  const stdout = outputs[argv.join(' ')];
  if (stdout !== undefined) return {stdout};
  if (argv[0] === 'grep') return {stdout: '/proc/sys/net/ipv4/ip_forward:1\n'};
  return argv[0] === 'nft' ? {exitCode: 1, stderr: 'Error: No such file or directory'} : {argv: ['no-such-program']};
}

interface Read {
  readonly node: CollectedNode;
  readonly server: ApiServer;
  /** What was asked of the node before the program that shows whether the tools are there had ended. */
  readonly early: readonly string[];
}

/** The program that shows whether the tools are there starts when so many others (`ahead`) have. */
async function read(faults: readonly Fault[] = [], {ahead = 6, timeoutMs = 600_000} = {}): Promise<Read> {
  const nodes = [{metadata: {name: 'node-a'}}];
  const begun: string[] = [];
  const started = Promise.withResolvers<void>();
  const server = await startApiServer({
    ...{objects: {nodes, pods: kubeProxyPods(nodes)}, nodePage: () => null},
    faults: [...faults, {kind: 'wait', match: /command=iptables-save&command=--version/, until: started.promise, times: 1}],
    exec: ({argv}) => {
      begun.push(argv.join(' '));
      if (begun.length === ahead) started.resolve();
      return reply(argv);
    },
  });
  onTestFinished(() => server.close());
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  onTestFinished(() => api.close());
  const info = {name: 'node-a', addresses: [], labels: {}, pods: [hostPod('kube-proxy-node-a', {containers: ['kube-proxy']})]};
  const wants = (file: string) => !file.startsWith('conntrack');
  const node = await collectNode(info, execTransport(api), {signal: new AbortController().signal, timeoutMs, wants});
  return {node, server, early: begun.slice(0, begun.indexOf('iptables-save --version')).sort()};
}

const argvs = ({requests}: ApiServer) => requests.flatMap(({argv}) => (argv.length === 0 ? [] : [argv.join(' ')]));

test('commands that no other one decides about run while the tools are searched for, and none twice', async () => {
  const {node, server, early} = await read();
  expect(early).toEqual(['ip -j addr', 'ip6tables-save', 'iptables-save', 'kube-proxy --version', 'nft list flowtables', 'sh'].sort());
  expect(node).toMatchObject({status: 'read', problems: []});
  expect(node.files).toEqual(['addresses.json', 'ip6tables-save', 'iptables-save', 'iptables-version', 'kube-proxy-version', 'sysctls']);
  expect(argvs(server).toSorted()).toEqual([...new Set(argvs(server))].sort());
});

test('one that the API server refuses is missing with the reason, and all others are read', async () => {
  const {node} = await read([{kind: 'status', status: 403, message: 'forbidden by a policy', match: /command=ip&command=-j/}], {ahead: 5});
  expect(node).toMatchObject({status: 'read', problems: []});
  expect(node.missing).toContainEqual({file: 'addresses.json', reason: expect.stringContaining('forbidden by a policy') as string});
  expect(node.files).toEqual(['ip6tables-save', 'iptables-save', 'iptables-version', 'kube-proxy-version', 'sysctls']);
});

test('one that an overloaded API server postpones is read later', async () => {
  const {node} = await read([{kind: 'status', status: 429, match: /command=ip&command=-j/, times: 2}], {ahead: 5});
  expect(node).toMatchObject({status: 'read', problems: []});
  expect(node.files).toContain('addresses.json');
});

test('one that hangs costs its own file, and the report names it', async () => {
  const {node} = await read([{kind: 'hang', match: /command=ip&command=-j&command=addr/}], {ahead: 4, timeoutMs: 3000});
  expect(node.status).toBe('partial');
  expect(node.problems.map(({message}) => message)).toEqual([
    'no answer within 3 s: addresses.json not read (exec into kube-system/kube-proxy-node-a)',
  ]);
  expect(node.files).toEqual(['ip6tables-save', 'iptables-save', 'iptables-version', 'kube-proxy-version', 'sysctls']);
});

test('one whose stream is closed without its end is read again, and those that were read are not', async () => {
  const {node, server} = await read([{kind: 'cut-exec', after: 1, clean: true, match: /command=ip&command=-j/, times: 1}]);
  expect(node).toMatchObject({status: 'read', problems: []});
  expect(node.files).toContain('addresses.json');
  const count = (command: string) => argvs(server).filter(argv => argv === command).length;
  expect([count('ip -j addr'), count('iptables-save'), count('ip6tables-save')]).toEqual([2, 1, 1]);
});
