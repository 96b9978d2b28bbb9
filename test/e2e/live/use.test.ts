import {existsSync, readdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {afterAll, afterEach, beforeAll, expect, onTestFinished, test} from 'vitest';
import {startSvcTrace} from '../../executable.ts';
import {capturePath} from '../../fixtures.ts';
import {commandLines} from '../../processes.ts';
import {describeWith, kubectl, testWith} from '../../require.ts';
import {chainOf, deleteRules} from './breakages.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';
import {writeProgram} from './write-program.ts';

const capture = 'healthy/1.30-iptables';

describeWith(clusterNeeds, 'a live cluster', () => {
  let cluster: LiveCluster;
  beforeAll(async () => {
    cluster = await LiveCluster.open(capture);
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());
  afterEach(() => {
    cluster.heal();
    cluster.api.requests.length = 0;
    cluster.api.commands.length = 0;
  });

  const run = (...args: readonly string[]) => svcTrace(args, {kubeconfig: cluster.api.kubeconfig});
  /** The nodes whose rules were read. */
  const nodesRead = () => new Set(cluster.api.commands.filter(({argv}) => argv.join(' ') === 'iptables-save').map(({node}) => node)).size;
  const loseEndpoint = (node: string) =>
    deleteRules(cluster.node(node), chainOf(cluster.node(node), 'shop/web:http'), rule => rule.includes('-> 10.244.11.5:8080'));

  test('packet follows the current rules in the kernel of a node', async () => {
    const question = ['packet', '--node', 'node-a', '--source', '10.244.12.20', '--destination', 'shop/web', '-o', 'json'];
    const whole = JSON.parse((await run(...question)).stdout);
    expect(whole).toEqual(JSON.parse((await run(...question, '--from', capturePath(capture))).stdout));
    expect(nodesRead()).toBe(1);
    loseEndpoint('node-a');
    const {outcomes} = JSON.parse((await run(...question)).stdout) as {outcomes: readonly {destination: string}[]};
    expect(outcomes.map(({destination}) => destination)).toEqual(['10.244.11.4:8080', '10.244.12.4:8080']);
  });

  test('trace shows where rules are missing', async () => {
    loseEndpoint('node-c');
    const {stdout, stderr, exitCode} = await run('trace', 'web', '-n', 'shop');
    expect(stdout).toMatch(/0% 10\.244\.11\.5:8080 {2}shop\/web-2 on node-a, ready {2}missing$/m);
    expect(stdout).toMatch(/^ST202 error {2}missing-endpoint {2}node-c$/m);
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 1});
  });

  test.each<[readonly string[], readonly string[]]>([
    [['--node', 'node-b'], ['node-b']],
    [
      ['--node', 'node-a', '--node', 'node-c'],
      ['node-a', 'node-c'],
    ],
    [['--node-selector', 'topology.kubernetes.io/zone=zone-1'], ['node-a']],
  ])('%j reads these nodes and no others', async (flags, nodes) => {
    const {stdout, exitCode} = await run('check', '-A', '-o', 'json', ...flags);
    const report = JSON.parse(stdout) as CheckReport;
    expect(report.nodes.map(({name}) => name)).toEqual(nodes);
    expect(nodesRead()).toBe(nodes.length);
    expect(exitCode).toBe(0);
  });

  test('--sample reads the given number of nodes', async () => {
    const {stdout, exitCode} = await run('check', '-A', '-o', 'json', '--sample', '2');
    expect((JSON.parse(stdout) as CheckReport).summary).toMatchObject({nodesChecked: 2, nodesUnread: 0});
    expect(nodesRead()).toBe(2);
    expect(exitCode).toBe(0);
  });

  test.each([
    ['a key that no node accepts', {key: 'unknown'}, /Permission denied.*none of your keys; choose the user with --ssh-user/],
    ['a changed host key', {known: 'known-otherwise'}, /host key differs from the known one.*ssh-keygen -R 172\.18\.0\.11/],
    ['an unknown host key', {known: 'known-nobody'}, /host key is not known here.*accept-new/],
  ] as const)('%s is reported for every node, and no node counts as in sync', async (_, keys, says) => {
    const {stdout, exitCode} = await run('check', '-A', '-o', 'json', ...cluster.ssh.flags(keys));
    const {nodes} = JSON.parse(stdout) as CheckReport;
    expect(nodes.map(({status}) => status)).toEqual(['unread', 'unread', 'unread']);
    expect(nodes[0]?.reason).toMatch(says);
    expect(exitCode).toBe(3);
  });

  test('Ctrl-C while nodes are read by ssh leaves no connection behind', async () => {
    const program = join(cluster.folder, 'node-bin/ip6tables-save');
    const reached = join(cluster.folder, 'reached');
    const temporary = join(cluster.folder, 'tmp');
    writeProgram(program, `touch ${reached}; exec sleep 30`);
    onTestFinished(() => rmSync(program));
    const running = svcTrace(['check', '-A', '-o', 'json', ...cluster.ssh.flags()], {kubeconfig: cluster.api.kubeconfig, temporary});
    await expect.poll(() => existsSync(reached)).toBe(true);
    running.kill('SIGINT');
    const {exitCode, stdout} = await running;
    expect(exitCode).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({summary: {verdict: 'incomplete', nodesUnread: 3}});
    expect(readdirSync(temporary)).toEqual([]);
    await expect.poll(() => commandLines().filter(line => line.includes(temporary))).toEqual([]);
  });

  testWith(['kubectl'], 'kubectl runs it as a plugin, with the same kubeconfig, output and exit code', async () => {
    loseEndpoint('node-b');
    const bin = join(cluster.folder, 'bin');
    writeProgram(join(bin, 'kubectl-svc_trace'), `exec ${startSvcTrace.join(' ')} "$@"`);
    const env = {PATH: `${bin}:${process.env['PATH']}`, KUBECONFIG: cluster.api.kubeconfig, HOME: '/nonexistent'};
    const plugin = await execa(kubectl, ['svc-trace', 'web', '-n', 'shop'], {env, extendEnv: false, reject: false, stdin: 'ignore'});
    const own = await run('web', '-n', 'shop');
    expect(plugin.stdout).toContain('ST202');
    expect({stdout: plugin.stdout, exitCode: plugin.exitCode}).toEqual({stdout: own.stdout, exitCode: 1});
  });
});
