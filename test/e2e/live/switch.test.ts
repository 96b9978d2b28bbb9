/** Two of six live nodes are switched to another mode, one after the other, under load: what the plan foretold comes, and nothing else. */
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import type {LoadCounts} from './connections.ts';
import type {LiveNode} from './live-node.ts';
import {NodePrograms} from './node-programs.ts';
import {type CheckReport, OnTerminal, svcTrace} from './svc-trace.ts';

const endpoints = ['10.244.11.4', '10.244.11.5', '10.244.11.6', '10.244.12.4'];

/** What clients on the first node connect to: cluster IPs, and a node port at the address of the node and on the loopback address. */
const targets = ['10.96.1.1:80', '10.96.1.3:80', '10.96.1.13:80', '172.18.0.11:30080', '127.0.0.1:30080', '127.0.0.1:30088'];

/** Three nodes beside the captured ones, without endpoints as the third of these. */
const furtherNodes = [14, 15, 16].map((number, index) => ({
  name: `node-${'def'[index]}`,
  like: 'node-c',
  replace: {'172.18.0.13': `172.18.0.${number}`, '10.244.13.': `10.244.${number}.`},
}));

const held = 8;

/**
 * As a network plugin's. Without a rule that needs tracked connections the kernel tracks and translates none while kube-proxy has removed
 * its own, and an answer that is on its way then breaks its connection.
 */
const ofPlugin = `table ip plugin {
  chain out {
    type nat hook postrouting priority 101
    ip saddr 10.244.0.0/16 ip daddr != 10.0.0.0/8 masquerade
  }
}`;

interface Plan {
  readonly changes: readonly {
    readonly node?: string;
    readonly effect: string;
    readonly source?: {readonly kind: string};
    readonly packet?: {readonly destination: string; readonly port: number};
  }[];
}

interface Mode {
  readonly mode: 'iptables' | 'nftables';
  readonly capture: string;
  /** Removes the rules of this mode, as kube-proxy does when it starts in another. */
  readonly clean: (node: LiveNode) => void;
  /** Loads what `rules` prints for a family. */
  readonly load: (node: LiveNode, file: string, family: 'IPv4' | 'IPv6') => void;
  /** How `rules` prints them. */
  readonly output: string;
}

const iptables: Mode = {
  mode: 'iptables',
  capture: 'healthy/1.36-iptables',
  clean: node => {
    for (const family of ['iptables', 'ip6tables'])
      for (const table of ['nat', 'filter', 'mangle']) for (const flag of ['-F', '-X']) node.run(`${family}-nft`, '-t', table, flag);
  },
  load: (node, file, family) => node.run(family === 'IPv4' ? 'iptables-nft-restore' : 'ip6tables-nft-restore', '--noflush', file),
  output: 'iptables-save',
};

const nftables: Mode = {
  mode: 'nftables',
  capture: 'nftables/1.36',
  clean: node => node.run('nft', 'delete table ip kube-proxy; delete table ip6 kube-proxy'),
  load: (node, file) => node.run('nft', '-f', file),
  output: 'nft',
};

/** Some clients are served in iptables mode alone. */
const switches = [
  {from: iptables, to: nftables, effect: 'lost'},
  {from: nftables, to: iptables, effect: 'gained'},
] as const;

describeWith([...clusterNeeds, 'nft', 'iptables-nft-restore', 'script'], 'six live nodes under load, two of which are switched', () => {
  // Side by side, since they mostly wait.
  describe.concurrent.each(switches)('to $to.mode mode', ({from, to, effect}) => {
    let cluster: LiveCluster;
    const programs = new NodePrograms();
    const loads = new Map<string, LoadCounts>();

    beforeAll(async () => {
      cluster = await LiveCluster.open(from.capture, {furtherNodes});
      await Promise.all(
        cluster.nodes.map(async node => {
          for (const address of endpoints) node.run('ip', 'address', 'add', `${address}/32`, 'dev', 'lo');
          node.run('sysctl', '-q', '-w', 'net.ipv4.conf.all.route_localnet=1');
          node.run('nft', ofPlugin);
          await programs.start(node, {kind: 'serve', port: 8080}, 'ready');
          const counts = (line: string) => loads.set(node.name, JSON.parse(line) as LoadCounts);
          await programs.start(node, {kind: 'load', targets: ['10.96.1.1:80', '10.96.1.3:80'], interval: 100, hold: held}, 'ready', counts);
        }),
      );
    });
    afterAll(async () => {
      await programs.end();
      await cluster?.[Symbol.asyncDispose]();
    });

    async function run(...args: readonly string[]): Promise<string> {
      const {stdout, exitCode, stderr} = await svcTrace(args, {kubeconfig: cluster.api.kubeconfig});
      if (exitCode === 2 || exitCode === 3) throw new Error(stderr);
      return stdout;
    }

    /** At which of the targets a client on the first node gets an answer. Its port may be that of a try which nothing translated. */
    function served(): readonly string[] {
      const tries = targets.map(target => {
        const once = `timeout 3 bash -c '</dev/tcp/${target.replace(':', '/')}' 2>/dev/null`;
        return `{ ${once} || ${once}; } && echo ${target} &`;
      });
      const answered = cluster
        .node('node-a')
        .run('sh', '-c', `${tries.join('\n')}\nwait`)
        .split('\n');
      return targets.filter(target => answered.includes(target));
    }

    /** As kube-proxy does when it starts in the other mode: it removes its old rules, and writes the new ones. */
    async function switchNode(name: string, inBetween: () => void = () => {}): Promise<void> {
      const node = cluster.node(name);
      const asked = ['rules', '-A', '--for-node', name, '--proxy-mode', to.mode, '--from', cluster.bundle(), '-o', to.output];
      const texts = await Promise.all(['IPv4', 'IPv6'].map(family => run(...asked, '--family', family)));
      from.clean(node);
      inBetween();
      for (const [index, family] of (['IPv4', 'IPv6'] as const).entries()) {
        const file = join(cluster.folder, `rules-${family}`);
        writeFileSync(file, `${texts[index]}\n`);
        to.load(node, file, family);
      }
      node.answerAs(join(capturePath(to.capture), 'nodes', 'node-c'));
    }

    /** A busy machine may lose a read: then the check says that it is incomplete, and is tried once more. */
    async function checkPlan(plan: string, ...args: readonly string[]): Promise<object> {
      const tried = async () => svcTrace(['check', '-A', '--plan', plan, '-o', 'json', ...args], {kubeconfig: cluster.api.kubeconfig});
      const first = await tried();
      const {stdout} = first.exitCode === 3 ? await tried() : first;
      return (JSON.parse(stdout) as {readonly summary: object}).summary;
    }

    test('serves and loses the clients that the plan says and no others, and keeps connections', async ({expect}) => {
      const plan = join(cluster.folder, 'plan.json');
      await run('preview', '-A', '--proxy-mode', to.mode, '-o', 'json', '--output-file', plan);
      const foretold = (JSON.parse(readFileSync(plan, 'utf8')) as Plan).changes.flatMap(({node, packet, source, ...change}) =>
        node === 'node-a' && change.effect === effect && source?.kind === 'node' ? `${packet?.destination}:${packet?.port}` : [],
      );
      const changing = targets.filter(target => foretold.includes(target));
      expect(changing).toEqual(['127.0.0.1:30080', '127.0.0.1:30088']);
      const always = targets.filter(target => !changing.includes(target));
      expect(served()).toEqual(effect === 'lost' ? targets : always);
      expect(await checkPlan(plan)).toMatchObject({nodesSwitched: 0, nodesNotSwitched: 6, came: 0, besides: 0});

      using top = new OnTerminal(['top', '-A', '--interval', '1s'], cluster.api.kubeconfig);
      await expect.poll(() => top.output).toMatch(/Service ports on 6 nodes: \d/);
      await switchNode('node-a', () => expect(served()).toEqual([]));
      expect(served()).toEqual(effect === 'lost' ? always : targets);
      expect(await checkPlan(plan)).toMatchObject({
        verdict: 'as-planned',
        nodesSwitched: 1,
        nodesNotSwitched: 5,
        besides: 0,
        didNotCome: 0,
      });
      await switchNode('node-e');
      const summary = {verdict: 'as-planned', nodesSwitched: 2, nodesNotSwitched: 4, besides: 0, didNotCome: 0};
      expect(await checkPlan(plan)).toMatchObject(summary);
      expect(await checkPlan(plan, '--node', 'node-e')).toMatchObject({verdict: 'as-planned', nodesSwitched: 1, nodesNotSwitched: 0});

      const checked = JSON.parse(await run('check', '-A', '-o', 'json')) as CheckReport;
      expect(checked.summary).toMatchObject({nodesChecked: 6, nodesUnread: 0});
      // The tracked connections of clients that tried in between are left over for two minutes, and each node has all endpoints itself.
      const found = checked.findings.filter(({node, severity}) => node !== undefined && severity !== 'info');
      expect(found.filter(({code}) => code !== 'ST508' && code !== 'ST611')).toEqual([]);

      // By then it has read the rules of each node again.
      const since = top.output.length;
      const screens = () => top.output.slice(since).split('q quits').slice(1, -1);
      await expect.poll(() => screens().length).toBeGreaterThan(20);
      // A busy machine may lose a read.
      const isWhole = (screen: string) => /Service ports on 6 nodes: \d/.test(screen) && !/Not measured|of 6 nodes/.test(screen);
      await expect
        .poll(() =>
          screens()
            .slice(-3)
            .filter(screen => !isWhole(screen)),
        )
        .toEqual([]);
      top.press('q');

      for (const {name} of cluster.nodes) {
        const {broken, open, failed} = loads.get(name) ?? {};
        expect({name, broken, open}).toEqual({name, broken: 0, open: held});
        if (name !== 'node-a' && name !== 'node-e') expect({name, failed}).toEqual({name, failed: 0});
      }
    });
  });
});
