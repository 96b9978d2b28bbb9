import {spawnSync} from 'node:child_process';
import {rmSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {isMet, kubectl} from '../require.ts';
import type {ClusterSize} from './cluster-size.ts';
import type {LiveBundleReady} from './live-bundle.ts';
import {type Cost, type Measured, measure} from './measure.ts';
import {programs} from './programs.ts';
import {assertClean} from './right-report.ts';
import {say} from './say.ts';
import {startServer} from './server-process.ts';
import {measureFloor, writeCluster} from './subject.ts';
import type {WrittenBundles} from './written-bundles.ts';

/** One way to inspect the big node, and its cost. */
interface Alternative {
  readonly name: string;
  readonly cost: Cost;
}

export interface Alternatives {
  readonly size: ClusterSize;
  readonly floor: Cost;
  readonly rows: readonly Alternative[];
}

/** What one would do without the product, and beside it the product against the same API server. */
export async function measureAlternatives(size: ClusterSize, temp: string): Promise<Alternatives> {
  const dir = join(temp, 'alternatives');
  const {bundles} = await writeCluster(size, dir);
  const floor = await measureFloor([bundles.before], size.nodes, temp);
  const rows = [
    await followByGrep(bundles, temp),
    ...(await restoreTests(bundles, temp)),
    ...(await live(bundles, temp)),
    ...(await liveLegacy(bundles, temp)),
  ];
  rmSync(dir, {recursive: true});
  return {size, floor: costOf(floor), rows: rows.map(({name, cost}) => ({name, cost: costOf(cost)}))};
}

/** One Service in the dump, as troubleshooting pages describe it. */
async function followByGrep({before, target: {node, clusterIP, port, endpoints}}: WrittenBundles, temp: string): Promise<Alternative> {
  say('following one Service by grep');
  const cost = await measure(['bash', '-c', follow, 'bash', join(before, 'nodes', node, 'iptables-save'), clusterIP, String(port)], temp);
  const found = cost.stdout.trim().split('\n').sort();
  if (found.join() !== endpoints.join()) throw new Error(`grep finds ${found.length} endpoints and not ${endpoints.length}`);
  return {name: 'grep: one Service to its endpoints', cost};
}

const follow = `
service=$(grep -F -- "-d $2/32 " "$1" | grep -E -- "--dport $3 -j KUBE-SVC" | grep -oE 'KUBE-SVC-[A-Z2-7]+' | head -1)
endpoints=$(grep -E -- "^-A $service .*-j KUBE-SEP-" "$1" | grep -oE 'KUBE-SEP-[A-Z2-7]+')
grep -F "$endpoints" "$1" | grep -oP -- '--to-destination \\K\\S+'
`;

/** Whether the kernel would take the rules: it says nothing of whether they are right. In a network namespace, which takes root. */
async function restoreTests({before, target: {node}}: WrittenBundles, temp: string): Promise<readonly Alternative[]> {
  const rows: Alternative[] = [];
  const env = `PATH=${process.env['PATH']}:/usr/sbin:/sbin`;
  for (const backend of ['nft', 'legacy']) {
    const program = `iptables-${backend}-restore`;
    const inNamespace = ['env', env, 'unshare', '--net', program];
    const [command = '', ...args] = [...inNamespace, '--version'];
    if (spawnSync(command, args).status !== 0) continue;
    say(`${program} --test`);
    const cost = await measure([...inNamespace, '--test', join(before, 'nodes', node, 'iptables-save')], temp);
    const how = cost.exitCode === 0 ? '' : ` (ends with ${cost.exitCode})`;
    rows.push({name: `${program} --test${how}`, cost});
  }
  return rows;
}

/** The output of kubectl about the same Services, which is only the desired state; and a check of the node with the same API server. */
async function live({before, target: {node, service}}: WrittenBundles, temp: string): Promise<readonly Alternative[]> {
  say('serving the cluster');
  using server = await startServer<LiveBundleReady>('live-bundle.ts', [before]);
  const connection = ['--kubeconfig', server.ready.kubeconfig];
  const rows: Alternative[] = [];
  if (isMet('kubectl')) {
    say('kubectl get');
    const cost = await measure([kubectl, 'get', 'services,endpointslices', '-A', '-o', 'json', ...connection], temp);
    if (cost.exitCode !== 0) throw new Error(`kubectl get ended with exit code ${cost.exitCode}`);
    rows.push({name: 'kubectl get svc,endpointslices -A', cost});
    say('kubectl exec');
    const pod = ['-n', 'kube-system', `kube-proxy-${node}`];
    const dump = await measure([kubectl, 'exec', ...pod, ...connection, '--', 'iptables-save'], temp);
    if (dump.exitCode !== 0) throw new Error(`kubectl exec ended with exit code ${dump.exitCode}`);
    rows.push({name: 'kubectl exec iptables-save', cost: dump});
  }
  for (const {name, command} of programs()) {
    say(`a check by ${name}`);
    const cost = await measure([...command, 'check', '-A', '--node', node, '-o', 'json', ...connection], temp);
    assertClean(cost, 1);
    rows.push({name: `${name}: check -A, live`, cost});
    for (const full of [[], ['--full']]) {
      const one = await measure([...command, 'check', service, '--node', node, '-o', 'json', ...full, ...connection], temp);
      assertClean(one, 1);
      rows.push({name: `${name}: check SERVICE, live${full.length === 0 ? '' : ', --full'}`, cost: one});
    }
  }
  return rows;
}

/** One Service of the same node, where iptables has the legacy backend: all rules are read. */
async function liveLegacy({before, target: {node, service}}: WrittenBundles, temp: string): Promise<readonly Alternative[]> {
  say('serving the cluster, with the legacy backend');
  using server = await startServer<LiveBundleReady>('live-bundle.ts', [before, 'legacy']);
  const rows: Alternative[] = [];
  for (const {name, command} of programs()) {
    const args = ['check', service, '--node', node, '-o', 'json', '--kubeconfig', server.ready.kubeconfig];
    const cost = await measure([...command, ...args], temp);
    assertClean(cost, 1);
    rows.push({name: `${name}: check SERVICE, live, legacy`, cost});
  }
  return rows;
}

function costOf({cpuSeconds, wallSeconds, peakMebibytes}: Cost | Measured): Cost {
  return {cpuSeconds, wallSeconds, peakMebibytes};
}

export function alternativesTable({size, floor, rows}: Alternatives): string {
  const line = (name: string, figures: readonly string[]) => `  ${name.padEnd(44)}${figures.map(figure => figure.padStart(9)).join('')}`;
  const row = ({name, cost}: Alternative) =>
    line(name, [
      ...[cost.cpuSeconds.toFixed(2), (cost.cpuSeconds / floor.cpuSeconds).toFixed(2)],
      ...[
        cost.wallSeconds.toFixed(2),
        (cost.wallSeconds / floor.wallSeconds).toFixed(2),
        cost.peakMebibytes.toFixed(0).replace('NaN', '-'),
      ],
    ]);
  return [
    `beside it, ${size.services} Services x ${size.endpoints} endpoints, one node`,
    line('', ['CPU s', 'x floor', 'wall s', 'x floor', 'MiB']),
    ...[{name: 'floor', cost: floor}, ...rows].map(row),
  ].join('\n');
}
