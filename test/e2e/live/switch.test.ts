/** A node of a live cluster is switched to another mode, with connections of clients before and after: what the plan foretold comes. */
import {type ChildProcess, spawn} from 'node:child_process';
import {cpSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import type {LiveNode} from './live-node.ts';
import {svcTrace} from './svc-trace.ts';

const name = 'node-a';
const endpoints = ['10.244.11.4', '10.244.11.5', '10.244.11.6', '10.244.12.4'];

/** What clients on the node connect to: cluster IPs, and a node port at the address of the node and on the loopback address. */
const targets = ['10.96.1.1:80', '10.96.1.3:80', '10.96.1.13:80', '172.18.0.11:30080', '127.0.0.1:30080', '127.0.0.1:30088'];

interface Plan {
  readonly changes: readonly {
    readonly node?: string;
    readonly effect: string;
    readonly source?: {readonly kind: string};
    readonly packet?: {readonly destination: string; readonly port: number};
  }[];
}

interface Switch {
  readonly mode: string;
  readonly capture: string;
  /** A capture of the other mode, for what its kube-proxy says of itself. */
  readonly switched: string;
  /** Removes the rules of the old mode, as kube-proxy does when it starts. */
  readonly clean: (node: LiveNode) => void;
  /** Loads what `rules` prints for a family. */
  readonly load: (node: LiveNode, file: string, family: 'IPv4' | 'IPv6') => void;
  /** Those of the targets whose clients are served in iptables mode alone. */
  readonly changes: 'lost' | 'gained';
}

const switches: readonly Switch[] = [
  {
    mode: 'nftables',
    capture: 'healthy/1.36-iptables',
    switched: 'nftables/1.36',
    clean: node => {
      for (const family of ['iptables', 'ip6tables'])
        for (const table of ['nat', 'filter', 'mangle']) for (const flag of ['-F', '-X']) node.run(`${family}-nft`, '-t', table, flag);
    },
    load: (node, file) => node.run('nft', '-f', file),
    changes: 'lost',
  },
  {
    mode: 'iptables',
    capture: 'nftables/1.36',
    switched: 'healthy/1.36-iptables',
    clean: node => node.run('nft', 'delete table ip kube-proxy; delete table ip6 kube-proxy'),
    load: (node, file, family) => node.run(family === 'IPv4' ? 'iptables-nft-restore' : 'ip6tables-nft-restore', '--noflush', file),
    changes: 'gained',
  },
];

describeWith([...clusterNeeds, 'nft', 'iptables-nft-restore'], 'a live node that is switched', () => {
  describe.each(switches)('to $mode mode', ({mode, capture, switched, clean, load, changes: effect}) => {
    let cluster: LiveCluster;
    let server: ChildProcess;

    beforeAll(async () => {
      cluster = await LiveCluster.open(capture);
      const node = cluster.node(name);
      for (const address of endpoints) node.run('ip', 'address', 'add', `${address}/32`, 'dev', 'lo');
      node.run('sysctl', '-q', '-w', 'net.ipv4.conf.all.route_localnet=1');
      const [program, ...first] = [...node.enter, process.execPath, join(import.meta.dirname, 'connections.ts')];
      server = spawn(program ?? '', [...first, JSON.stringify({kind: 'serve', port: 8080})], {stdio: ['pipe', 'pipe', 'inherit']});
      await new Promise(resolve => server.stdout?.once('data', resolve));
    });
    afterAll(async () => {
      server?.stdin?.end();
      await cluster?.[Symbol.asyncDispose]();
    });

    async function run(...args: readonly string[]): Promise<string> {
      const {stdout, exitCode, stderr} = await svcTrace(args, {kubeconfig: cluster.api.kubeconfig});
      if (exitCode === 2 || exitCode === 3) throw new Error(stderr);
      return stdout;
    }

    /** Whether a client on the node gets an answer. */
    function isServed(target: string): boolean {
      const [address, port] = target.split(':');
      const script = `timeout 3 bash -c '</dev/tcp/${address}/${port}' 2>/dev/null && echo served || true`;
      return cluster.node(name).run('sh', '-c', script) !== '';
    }

    /** What `--from` reads of the cluster with the switched node, which says so as its kube-proxy would. */
    function bundleAfter(): string {
      const folder = cluster.bundle();
      const files = join(folder, 'nodes', name);
      for (const file of ['proxy-mode', 'configz.json', 'kube-proxy-config.yaml'])
        cpSync(join(capturePath(switched), 'nodes', name, file), join(files, file));
      for (const file of ['nft.txt', 'nft.json']) rmSync(join(files, file), {force: true});
      writeFileSync(join(files, 'nft-ruleset.json'), cluster.node(name).run('nft', '-j', 'list', 'ruleset'));
      return folder;
    }

    test('serves and loses the clients that the plan says, and no others', async () => {
      const before = cluster.bundle();
      const plan = join(cluster.folder, 'plan.json');
      writeFileSync(plan, await run('preview', '-A', '--proxy-mode', mode, '--from', before, '-o', 'json'));
      const foretold = (JSON.parse(readFileSync(plan, 'utf8')) as Plan).changes.flatMap(({node, packet, source, ...change}) =>
        node === name && change.effect === effect && source?.kind === 'node' ? `${packet?.destination}:${packet?.port}` : [],
      );
      const changing = targets.filter(target => foretold.includes(target));
      expect(changing).toEqual(['127.0.0.1:30080', '127.0.0.1:30088']);
      const always = targets.filter(target => !changing.includes(target));
      expect(targets.filter(isServed)).toEqual(effect === 'lost' ? targets : always);

      const node = cluster.node(name);
      const rules = (family: string) =>
        run(
          'rules',
          '-A',
          '--for-node',
          name,
          '--proxy-mode',
          mode,
          '--from',
          before,
          '--family',
          family,
          '-o',
          mode === 'nftables' ? 'nft' : 'iptables-save',
        );
      const texts = [await rules('IPv4'), await rules('IPv6')];
      clean(node);
      expect(targets.filter(isServed)).toEqual([]);
      for (const [index, family] of (['IPv4', 'IPv6'] as const).entries()) {
        const file = join(cluster.folder, `rules-${family}`);
        writeFileSync(file, `${texts[index]}\n`);
        load(node, file, family);
      }

      expect(targets.filter(isServed)).toEqual(effect === 'lost' ? always : targets);
      const checked = JSON.parse(await run('check', '-A', '--plan', plan, '--from', bundleAfter(), '-o', 'json'));
      expect(checked.summary).toMatchObject({verdict: 'as-planned', nodesSwitched: 1, nodesNotSwitched: 2, besides: 0, didNotCome: 0});
      expect(checked.summary.came).toBeGreaterThan(10);
    });
  });
});
