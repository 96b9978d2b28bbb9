// `live-bundle.ts DIR [legacy]`: the cluster of a bundle behind an API server, in a process of its own, so that what it takes to serve is not
// counted. Its nodes have the nft backend of iptables unless told otherwise. It reports its address and, on request, the requests that it got.
import {existsSync, readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {iptablesOutput} from '../collect/node/fake-iptables.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {ExecCommand, ExecReply} from '../stand-in/exec.ts';

/** The message of the process when it is ready. */
export interface LiveBundleReady {
  readonly kubeconfig: string;
}

/** The response to each message: the totals since its start. */
export interface Asked {
  readonly requests: number;
  /** Those of them that run a command in a pod. */
  readonly sessions: number;
  readonly connections: number;
  /** Bytes on the wire, TLS included. */
  readonly received: number;
  readonly sent: number;
}

const isLegacy = process.argv[3] === 'legacy';

const dumps = new Map<string, Buffer>();
const texts = new Map<string, string>();
const anyPod = {namespace: 'kube-system', pod: 'kube-proxy', container: 'kube-proxy'};

if (process.send !== undefined) {
  const [folder = ''] = process.argv.slice(2);
  const exec = (command: ExecCommand) =>
    (isLegacy ? null : listing(folder, command)) ?? wholeDump(folder, command) ?? programOfImage(folder, command);
  const server = await startBundleCluster(folder, {certificate: 'server', exec});
  // To read a big dump and to find its chains takes seconds, for which the first command to be measured would wait.
  for (const node of readdirSync(join(folder, 'nodes')))
    exec({...anyPod, node, argv: isLegacy ? ['iptables-save'] : ['iptables', '-t', 'nat', '-S', 'INPUT']});
  process.on('disconnect', () => void server.close().then(() => process.exit()));
  process.on('message', () => {
    const {requests} = server;
    const sessions = requests.filter(({argv}) => argv.length > 0).length;
    process.send?.({requests: requests.length, sessions, connections: server.connections(), ...server.traffic()} satisfies Asked);
  });
  process.send({kubeconfig: server.kubeconfig} satisfies LiveBundleReady);
}

/** Of all rules, and what shows the backend; null for other commands. */
function wholeDump(folder: string, {node, argv}: ExecCommand): ExecReply | null {
  const command = argv.join(' ');
  if (command === 'iptables-save --version') return {stdout: `iptables-save v1.8.9 (${isLegacy ? 'legacy' : 'nf_tables'})\n`};
  return command === 'iptables-save' || command === 'ip6tables-save' ? {stdout: dumpOf(folder, node, command)} : null;
}

/** Images of kube-proxy have `grep`, `ip` and no `sysctl`: values are printed with the names of their files. Null for other commands. */
function programOfImage(folder: string, {node, argv}: ExecCommand): ExecReply | null {
  if (argv[0] === 'sysctl') return {exitCode: 127, stderr: 'sysctl: not found'};
  if (argv.includes('-batch')) {
    const addresses = readFileSync(join(folder, 'nodes', node, 'addresses.json'), 'utf8').replaceAll('\n', '');
    return {stdout: [addresses, netconf, policyRules, routes, ''].join('\n'), exitCode: 1, stderr: 'Command failed /proc/self/cmdline:1\n'};
  }
  const file = join(folder, 'nodes', node, 'sysctls');
  if (argv[0] !== 'grep' || !existsSync(file)) return null;
  const inFiles = (name: string) => `/proc/sys/${name.replaceAll('.', '/')}:`;
  const sysctls = readFileSync(file, 'latin1').replaceAll(/^(\S+) = /gm, (_, name: string) => inFiles(name));
  if (!argv.includes('-asHP')) return {stdout: sysctls};
  return {stdout: `${lost}${sysctls.trimEnd()}\n/proc/self/status:Uid:\t0\t0\t0\t0\n${lost}`};
}

const netconf = '[{"interface":"all","forwarding":true,"rp_filter":"off"}]';
const policyRules = '[{"priority":0,"src":"all","table":"local"},{"priority":32766,"src":"all","table":"main"}]';
const routes = '[{"dst":"default","gateway":"172.18.0.1","dev":"eth0","flags":[]}]';
const lost =
  '/proc/net/stat/nf_conntrack:entries insert_failed drop early_drop\n/proc/net/stat/nf_conntrack:00000010 00000000 00000000 00000000\n';

/** Of one chain, as the nft backend lists it; null for other commands. What iptables-nft-save itself takes on such a node is not in any figure. */
function listing(folder: string, {node, argv}: ExecCommand): ExecReply | null {
  const [program = ''] = argv;
  if (program !== 'iptables' && program !== 'ip6tables') return null;
  const stdout = iptablesOutput(textOf(folder, node, `${program}-save`), argv, {many: false});
  return stdout === null ? {exitCode: 1, stderr: `${program}: No chain/target/match by that name.\n`} : {stdout};
}

/** Read once: what is measured is not the file system. */
function dumpOf(folder: string, node: string, program: string): Buffer {
  const file = join(folder, 'nodes', node, program);
  const known = dumps.get(file);
  if (known !== undefined) return known;
  const content = readFileSync(file);
  const dump = isLegacy
    ? Buffer.from(content.toString('latin1').replaceAll(/^(# Generated by \S+ \S+) \(nf_tables\)/gm, '$1'), 'latin1')
    : content;
  dumps.set(file, dump);
  return dump;
}

/** The same string each time, by which its chains are found. */
function textOf(folder: string, node: string, program: string): string {
  const key = join(node, program);
  const text = texts.get(key) ?? dumpOf(folder, node, program).toString('latin1');
  texts.set(key, text);
  return text;
}
