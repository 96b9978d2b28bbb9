import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {CiliumTables} from '../cilium-node.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from './api-server.ts';
import {usualCertificate} from './bundle-cluster.ts';
import type {ExecCommand, ExecReply} from './exec.ts';

/** The pod of a Cilium agent, as Helm makes it. */
export function agentPod(node: string, phase = 'Running'): object {
  return {
    metadata: {namespace: 'kube-system', name: `cilium-${node}`, labels: {'k8s-app': 'cilium'}},
    spec: {nodeName: node, hostNetwork: true, containers: [{name: 'cilium-agent', image: 'quay.io/cilium/cilium:v1.19.4'}]},
    status: {phase, conditions: [{type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]},
  };
}

/** A cluster of one node on which a stand-in agent prints tables, which a test changes at any time, before each command if it wants. */
export class CiliumCluster implements AsyncDisposable {
  tables = new CiliumTables();
  /** The name of the agent's program; null for a container without any. */
  program: string | null = 'cilium-dbg';
  /** Commands whose arguments begin so get no answer. */
  hangs = 'none';
  /** Runs before each reading of all tables. */
  onRead: (reading: number) => void = () => {};
  /** How often all tables were read. */
  readings = 0;
  server: ApiServer | null = null;
  #written = '';
  readonly #folder = mkdtempSync(join(tmpdir(), 'svc-trace-cilium-'));

  /** `more.exec` answers first. */
  async start({exec, objects = {}, ...more}: ApiServerOptions = {}): Promise<ApiServer> {
    const {services, endpointSlices, nodes, configMaps} = this.tables.api;
    const pods = objects['pods'] ?? [agentPod('node-a')];
    this.server = await startApiServer({
      certificate: usualCertificate,
      ...more,
      objects: {services: services ?? [], endpointslices: endpointSlices ?? [], nodes: nodes ?? [], configmaps: configMaps ?? [], pods},
      nodes: {'node-a': {path: `${this.#folder}:/usr/bin:/bin`}},
      exec: command => exec?.(command) ?? this.#run(command),
    });
    return this.server;
  }

  #run({argv, container, pod}: ExecCommand): ExecReply {
    const [program = ''] = argv;
    // Sessions of a shell are for the node's own tools, which it lacks.
    const isOfAgent = program === 'sh' ? argv.join(' ').includes('cilium-dbg') : program.startsWith('cilium');
    if (container !== 'cilium-agent' || !isOfAgent) return {exitCode: 127, stderr: `${program}: not found in ${pod}`};
    this.onRead(++this.readings);
    const files = Object.entries(this.tables.printed()).flatMap(([file, text]) => (text === undefined ? [] : [{file, text}]));
    // Commands run side by side: what one of them runs must not be written again meanwhile.
    const state = JSON.stringify([files, this.program, this.hangs]);
    if (state === this.#written) return {argv};
    this.#written = state;
    for (const {file, text} of files) writeFileSync(join(this.#folder, file), text);
    const names = new Set(files.map(({file}) => file));
    const cases = Object.entries(commands).map(([args, file]) => `"${args}") ${names.has(file) ? `cat ${this.#folder}/${file}` : fails};;`);
    const script = `#!/bin/sh\ncase "$*" in "${this.hangs}"*) exec sleep 30;; esac\ncase "$*" in ${cases.join(' ')} *) exit 64;; esac\n`;
    for (const name of ['cilium-dbg', 'cilium']) rmSync(join(this.#folder, name), {force: true});
    if (this.program !== null) writeFileSync(join(this.#folder, this.program), script, {mode: 0o755});
    // What hangs has as long as it takes to start it.
    const timeout = '#!/bin/sh\nshift\nexec /usr/bin/timeout 0.1 "$@"\n';
    if (this.hangs !== 'none') writeFileSync(join(this.#folder, 'timeout'), timeout, {mode: 0o755});
    return {argv};
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server?.close();
    rmSync(this.#folder, {recursive: true, force: true});
  }
}

const fails = '{ echo "Cannot connect to the agent" >&2; exit 1; }';

const commands: Readonly<Record<string, string>> = {
  'version -o json': 'version.json',
  'status -o json': 'status.json',
  'shell -- db/show node-addresses': 'db-show-node-addresses.txt',
  'bpf lb list -o json': 'bpf-lb-list.json',
  'bpf lb list --frontends -o json': 'bpf-lb-list-frontends.json',
  'bpf lb list --revnat -o json': 'bpf-lb-list-revnat.json',
  'bpf lb list --source-ranges -o json': 'bpf-lb-list-source-ranges.json',
  'service list -o json': 'service-list.json',
};
