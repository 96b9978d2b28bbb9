import {copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createConnection, createServer, type Server} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {capturePath} from '../../fixtures.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {bundleObjects} from '../../stand-in/bundle-objects.ts';
import type {ExecCommand, ExecReply, StandInNode} from '../../stand-in/exec.ts';
import type {StoredObject} from '../../stand-in/object-store.ts';
import {kubeProxyAnswer} from '../../stand-in/kube-proxy-answers.ts';
import {kubeProxyPods} from '../../stand-in/kube-proxy-pods.ts';
import {LiveNode} from './live-node.ts';
import {writeProgram} from './write-program.ts';
import {loginSettings, newKey, sshOptions} from '../../collect/transports/sshd.ts';

/** The requirements of tests with a cluster, for `describeWith`. */
export const clusterNeeds = [
  ...(['root', 'netns', 'nsenter', 'ip', 'sysctl', 'curl', 'conntrack', 'ssh', 'sshd', 'ssh-keygen'] as const),
  ...(['iptables-save', 'ip6tables-save'] as const),
] as const;

/** A captured cluster come to life: an API server, and nodes that are network namespaces of this machine. */
export class LiveCluster implements AsyncDisposable {
  /** Holds a folder for TMPDIR (`tmp`) and one with programs for PATH (`bin`). Gone with the cluster. */
  readonly folder: string;
  readonly nodes: readonly LiveNode[];
  readonly api: ApiServer;
  readonly ssh: SshAccess;
  readonly #capture: string;
  readonly #gate: Server;

  private constructor(parts: Pick<LiveCluster, 'folder' | 'nodes' | 'api' | 'ssh'> & {readonly capture: string; readonly gate: Server}) {
    this.folder = parts.folder;
    this.nodes = parts.nodes;
    this.api = parts.api;
    this.ssh = parts.ssh;
    this.#capture = parts.capture;
    this.#gate = parts.gate;
  }

  /** A capture of which each node's rules can be loaded into any kernel, with further nodes. */
  static async open(
    name = 'healthy/1.30-iptables',
    {furtherNodes = [], ...options}: ApiServerOptions & {readonly furtherNodes?: readonly FurtherNode[]} = {},
  ): Promise<LiveCluster> {
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-live-'));
    const capture = join(folder, 'capture');
    cpSync(capturePath(name), capture, {recursive: true});
    for (const node of furtherNodes) addNode(capture, node);
    for (const sub of ['bin', 'node-bin', 'tmp']) mkdirSync(join(folder, sub));
    const standIns: Record<string, StandInNode> = {};
    const proxy: ApiServerOptions['proxy'] = pod => ({socketPath: inwardOf(folder, (pod['spec'] as {nodeName: string}).nodeName).socket});
    const nodePage: ApiServerOptions['nodePage'] = (node, port, path) => kubeProxyAnswer(capture, node, port, path);
    const api = await startApiServer({...apiOptions(capture, standIns), proxy, nodePage, ...options});
    const forward = {port: Number(new URL(api.url).port), socket: join(folder, 'api')};
    const gate = await openGate(forward);
    const path = `${folder}/node-bin:${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
    const names = readdirSync(join(capture, 'nodes')).sort();
    const open = (node: string) => LiveNode.open(node, join(capture, 'nodes', node), {forward, inward: inwardOf(folder, node)});
    const nodes = await Promise.all(names.map(open));
    for (const {name: node, enter} of nodes) standIns[node] = {enter, path};
    const version = readFileSync(join(capture, 'nodes', names[0] ?? '', 'kube-proxy-version'), 'utf8').trim();
    writeProgram(join(folder, 'node-bin/kube-proxy'), `echo "Kubernetes ${version}"`);
    writeDocker(join(folder, 'bin'), nodes, path);
    const ssh = makeSshAccess(join(folder, 'ssh'), nodes, join(folder, 'node-bin'));
    return new LiveCluster({folder, nodes, api, ssh, capture, gate});
  }

  node(name: string): LiveNode {
    const found = this.nodes.find(node => node.name === name);
    if (found === undefined) throw new Error(`there is no node ${name}`);
    return found;
  }

  /** Every node holds the rules that were captured again. */
  heal(): void {
    for (const node of this.nodes) node.heal();
  }

  /** What `--from` reads, with the rules that the kernels hold now. */
  bundle(): string {
    const folder = mkdtempSync(join(this.folder, 'bundle-'));
    cpSync(this.#capture, folder, {recursive: true});
    for (const node of this.nodes) {
      for (const [file, dump] of Object.entries(node.dumps())) writeFileSync(join(folder, 'nodes', node.name, file), dump);
    }
    return folder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map(node => node[Symbol.asyncDispose]()));
    await this.api.close();
    await new Promise(resolve => this.#gate.close(resolve));
    rmSync(this.folder, {recursive: true, force: true});
  }
}

/** A node like a captured one, which has no endpoints: in all that was captured, these texts are replaced. */
export interface FurtherNode {
  readonly name: string;
  readonly like: string;
  readonly replace: Readonly<Record<string, string>>;
}

function addNode(capture: string, {name, like, replace}: FurtherNode): void {
  const own = (text: string): string =>
    Object.entries({[like]: name, ...replace}).reduce((changed, [was, is]) => changed.replaceAll(was, is), text);
  const folder = join(capture, 'nodes', name);
  cpSync(join(capture, 'nodes', like), folder, {recursive: true});
  for (const file of readdirSync(folder)) writeFileSync(join(folder, file), own(readFileSync(join(folder, file), 'utf8')));
  const nodes = join(capture, 'api/nodes.json');
  const list = JSON.parse(readFileSync(nodes, 'utf8')) as {items: StoredObject[]};
  const found = list.items.find(({metadata}) => metadata.name === like);
  list.items.push(JSON.parse(own(JSON.stringify(found))) as StoredObject);
  writeFileSync(nodes, JSON.stringify(list));
}

/** Where the port of an agent on a node is reached from here. */
function inwardOf(folder: string, node: string): {readonly socket: string; readonly port: number} {
  return {socket: join(folder, `agent-${node}`), port: agentPort};
}

export const agentPort = 10_270;

/** The API server of a capture, with a kube-proxy on every node, whose commands run there; so do those of debug pods. */
function apiOptions(capture: string, nodes: Readonly<Record<string, StandInNode>>): ApiServerOptions {
  const objects = bundleObjects(capture);
  const pods = [...(objects['pods'] ?? []), ...kubeProxyPods(objects['nodes'] as readonly StoredObject[])];
  return {objects: {...objects, pods}, nodes, exec: entered};
}

/** A debug pod enters the namespaces of the node's first process. Here every command of a node is on the node already. */
function entered({argv}: ExecCommand): ExecReply | null {
  return argv[0] === 'nsenter' ? {argv: argv.slice(argv.indexOf('--') + 1)} : null;
}

/** Where the nodes' way to the API server comes out. */
async function openGate({port, socket}: {readonly port: number; readonly socket: string}): Promise<Server> {
  const gate = createServer(incoming => {
    const outgoing = createConnection(port, '127.0.0.1');
    incoming.on('error', () => outgoing.destroy()).on('close', () => outgoing.destroy());
    outgoing.on('error', () => incoming.destroy()).on('close', () => incoming.destroy());
    incoming.pipe(outgoing).pipe(incoming);
  });
  await new Promise<void>(resolve => gate.listen(socket, resolve));
  return gate;
}

/** Writes a `docker` to a folder whose containers are the nodes of a cluster. `path` is the PATH inside of them. */
function writeDocker(folder: string, nodes: readonly LiveNode[], path: string): void {
  const cases = nodes.map(node => `    ${node.name}) enter="${node.enter.join(' ')}" ;;`);
  const script = `find_container() {
  case "$1" in
${cases.join('\n')}
    *) echo "Error response from daemon: No such container: $1" >&2; exit 1 ;;
  esac
}
case "$1 $2" in
  "container inspect") find_container "$5"; echo true ;;
  "exec --interactive")
    find_container "$5"; shift 5
    export PATH="${path}"
    if ! command -v "$1" >/dev/null; then
      echo "OCI runtime exec failed: exec failed: unable to start container process: exec: \\"$1\\": executable file not found in \\$PATH: unknown" >&2
      exit 127
    fi
    exec $enter "$@" ;;
  *) echo "docker: '$1' is not a docker command." >&2; exit 1 ;;
esac`;
  writeProgram(join(folder, 'docker'), script);
}

/** How the nodes of a cluster are reached by ssh: each has a real sshd of its own, which is started for a connection, on the node. */
interface SshAccess {
  /** Flags of the command line, for a key that the nodes take and host keys that are known, or for others. */
  flags(keys?: {readonly key?: 'user' | 'unknown'; readonly known?: 'known' | 'known-otherwise' | 'known-nobody'}): readonly string[];
}

/** `bin` comes first in the PATH of those who log in. All files go to `folder`. */
function makeSshAccess(folder: string, nodes: readonly LiveNode[], bin: string): SshAccess {
  mkdirSync('/run/sshd', {recursive: true});
  mkdirSync(folder);
  for (const name of ['host', 'user', 'unknown']) newKey(join(folder, name));
  copyFileSync(join(folder, 'user.pub'), join(folder, 'authorized'));
  for (const [file, key] of [
    ['known', 'host'],
    ['known-otherwise', 'unknown'],
  ] as const) {
    writeFileSync(join(folder, file), `* ${readFileSync(join(folder, `${key}.pub`), 'utf8')}`);
  }
  writeFileSync(join(folder, 'known-nobody'), '');
  writeFileSync(join(folder, 'config'), `${loginSettings(folder, bin).join('\n')}\n`);
  writeProgram(join(folder, 'reach'), reach(folder, nodes));
  return {
    flags({key = 'user', known = 'known'} = {}) {
      const options = [...sshOptions(folder, key, known), `ProxyCommand=${folder}/reach %h`];
      return ['--transport', 'ssh', '--ssh-user', 'root', ...options.flatMap(option => ['--ssh-option', option])];
    },
  };
}

/** Stands for the network between here and the nodes. */
function reach(folder: string, nodes: readonly LiveNode[]): string {
  const cases = nodes.map(node => {
    const [
      {
        addr_info: [{local} = {local: ''}],
      } = {addr_info: []},
    ] = JSON.parse(node.run('ip', '-j', '-4', 'addr', 'show', 'dev', 'eth0')) as {addr_info: {local: string}[]}[];
    return `  ${node.name}|${local}) exec ${node.enter.join(' ')} /usr/sbin/sshd -i -f ${folder}/config ;;`;
  });
  return `case "$1" in\n${cases.join('\n')}\n  *) echo "no route to $1" >&2; exit 1 ;;\nesac`;
}
