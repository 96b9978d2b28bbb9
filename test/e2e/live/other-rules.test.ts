import {execFileSync} from 'node:child_process';
import {mkdtempSync} from 'node:fs';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test} from 'vitest';
import {readDumps} from '../../../src/analyze/iptables/node-rulesets.ts';
import {allOf} from '../../../src/analyze/proxy-mode.ts';
import {readNft} from '../../../src/analyze/nftables/nft-rules.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {CommandFailed, type NodeShell, type Transport} from '../../../src/collect/node/transport.ts';
import {runProgram} from '../../../src/collect/transports/root-command.ts';
import type {EndpointSliceObject, ServiceObject} from '../../../src/model/api-objects.ts';
import type {NodeDump} from '../../../src/model/snapshot.ts';
import {requestedEntries} from '../../../src/run/diagnose-cluster.ts';
import {describeWith} from '../../require.ts';
import {nodeAt} from '../../collect/transports/sshd.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import type {LiveNode} from './live-node.ts';
import {svcTrace} from './svc-trace.ts';

/** So many other Services that a node is read chain by chain where one Service was asked for. */
const others = Array.from({length: 1100}, (_, index) => ({
  address: `100.64.${index >> 8}.${index & 255}`,
  chain: `KUBE-SVC-${index
    .toString(4)
    .padStart(16, 'A')
    .replaceAll(/\d/g, digit => 'BCDE'[Number(digit)] ?? '')}`,
  name: `svc-${index}`,
}));

const forwardDrop = ['-I', 'FORWARD', '-m', 'comment', '--comment', 'other', '-j', 'DROP'];
const nftDrop = 'table inet other {\n chain forward {\n  type filter hook forward priority 0; policy accept;\n  counter drop\n }\n}\n';
const drops = [
  {where: 'table filter of iptables-nft', drop: (node: LiveNode) => node.run('iptables-nft', ...forwardDrop)},
  {where: 'table filter of iptables-legacy', drop: (node: LiveNode) => node.run('iptables-legacy', ...forwardDrop)},
  {where: 'a table of nftables', drop: (node: LiveNode) => node.run('nft', nftDrop)},
];

/** In which of the three a rule of another program drops what is forwarded. */
function dropsIn(node: NodeDump): readonly string[] {
  const iptables = allOf(readDumps(node), 'IPv4').flatMap(({backend, tables}) => {
    const rules = tables.get('filter')?.chains.get('FORWARD')?.rules() ?? [];
    return rules.some(({text}) => text.includes('other') && text.includes('-j DROP')) ? [`table filter of iptables-${backend}`] : [];
  });
  const rules = readNft(node)?.tables.get('inet other')?.chain('forward')?.rules() ?? [];
  return [...iptables, ...(rules.some(({text}) => text.includes('drop')) ? ['a table of nftables'] : [])];
}

describeWith([...clusterNeeds, 'nft', 'iptables-legacy', 'tar'], 'rules of other programs in any rule system', () => {
  let cluster: LiveCluster;
  let node: LiveNode;
  let usual = '';
  beforeAll(async () => {
    cluster = await LiveCluster.open();
    node = cluster.node('node-a');
    usual = node.run('iptables-save');
    for (const {name} of others)
      cluster.api.store.put('endpointslices', {
        ...{metadata: {namespace: 'other', name, labels: {'kubernetes.io/service-name': name}}},
        ...{addressType: 'IPv4', endpoints: [], ports: []},
      });
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  const clean = (): void => {
    node.run('nft', 'flush', 'ruleset');
    node.run('iptables-legacy', '-F');
    node.heal();
    node.load('IPv4', withOthers(usual));
  };
  const run = (...args: readonly string[]) => {
    const {api, folder} = cluster;
    return svcTrace(args, {kubeconfig: api.kubeconfig, bin: join(folder, 'bin'), temporary: join(folder, 'tmp')});
  };

  const readForWeb = () => {
    const web = cluster.api.store.find('services', 'shop', 'web') as unknown as ServiceObject;
    const slices = cluster.api.store.all('endpointslices') as unknown as readonly EndpointSliceObject[];
    return collectNode(nodeAt(), entering(node), {
      ...{signal: new AbortController().signal, timeoutMs: 600_000},
      requested: requestedEntries([web], slices, 6),
    });
  };

  test.each(drops)('in $where are seen when the node is read chain by chain', async ({where, drop}) => {
    clean();
    drop(node);
    const read = await readForWeb();
    expect(readDumps(read).current.get('IPv4')).toMatchObject({isByChain: true, backend: 'nft'});
    expect(dropsIn(read)).toEqual([where]);
  });

  test.each(['filter', 'nat'])('in a base chain that nft added to table %s of iptables are seen', async table => {
    clean();
    node.run('nft', `add chain ip ${table} other { type filter hook forward priority 1; policy drop; }`);
    const read = await readForWeb();
    const {base} = readNft(read)?.tables.get(`ip ${table}`)?.chain('other') ?? {};
    expect(base).toMatchObject({hook: 'forward', policy: 'drop'});
  });

  test.each(drops)('in $where are found by check and trace of one Service', async ({drop}) => {
    clean();
    const asked = ['web', '-n', 'shop', '--node', 'node-a', '-o', 'json'];
    expect(JSON.parse((await run('check', ...asked)).stdout)).toMatchObject({summary: {verdict: 'ok'}, nodes: [{read: 'reachable'}]});
    drop(node);
    for (const command of ['check', 'trace']) {
      const {findings} = JSON.parse((await run(command, ...asked)).stdout) as {readonly findings: readonly object[]};
      expect(findings).toContainEqual(expect.objectContaining({code: 'ST303', severity: 'error', node: 'node-a'}));
    }
  });

  test.each(['exec', 'debug', 'ssh', 'docker'])('are in a bundle that is captured by %s, redacted or not', async way => {
    clean();
    for (const {drop} of drops) drop(node);
    const flags = way === 'ssh' ? cluster.ssh.flags() : ['--transport', way];
    for (const redact of [[], ['--redact']]) {
      const folder = mkdtempSync(join(cluster.folder, 'captured-'));
      const {exitCode, stderr} = await run('capture', '-o', `${folder}/bundle.tgz`, '--node', 'node-a', ...flags, ...redact);
      expect({exitCode, stderr}).toMatchObject({exitCode: 0});
      execFileSync('tar', ['-xzf', `${folder}/bundle.tgz`, '-C', folder, '--strip-components=1']);
      expect(forwardHooksIn(folder)).toEqual(['iptables-legacy-save', 'iptables-save', 'nft.json']);
    }
  });
});

/** The files of the bundle's only node with a rule that drops what is forwarded. Other names are in a redacted one. */
function forwardHooksIn(folder: string): readonly string[] {
  const lines = execFileSync('grep', ['-rlE', '^-A FORWARD .*-j DROP|"drop": ?null', `${folder}/nodes`], {encoding: 'utf8'});
  return lines
    .trim()
    .split('\n')
    .map(path => path.slice(path.lastIndexOf('/') + 1))
    .sort();
}

/** Runs commands on the node, without a cluster. */
function entering({enter: [program, ...args]}: LiveNode): Transport {
  const run: NodeShell['run'] = async (argv, signal) => {
    const result = await runProgram(program, [...args, ...argv], {signal});
    if (result.exitCode !== 0) throw new CommandFailed(argv, result);
    return result.stdout;
  };
  return {name: 'entered', open: async () => ({description: 'entered', run, [Symbol.asyncDispose]: async () => {}})};
}

/** With the rules of other Services in table nat, and their chains. */
function withOthers(dump: string): string {
  const chains = others.map(({chain}) => `:${chain} - [0:0]\n`).join('');
  const rules = others.map(
    ({address, chain, name}) =>
      `-A KUBE-SERVICES -d ${address}/32 -p tcp -m comment --comment "other/${name} cluster IP" -m tcp --dport 80 -j ${chain}\n`,
  );
  const [before = '', nat = ''] = dump.split('*nat\n');
  return `${before}*nat\n${chains}${nat.replace('COMMIT\n', `${rules.join('')}COMMIT\n`)}`;
}
