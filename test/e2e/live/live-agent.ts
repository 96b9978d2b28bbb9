import http from 'node:http';
import https from 'node:https';
import {text} from 'node:stream/consumers';
import {setTimeout as sleep} from 'node:timers/promises';
import {join} from 'node:path';
import {agentPort, type LiveCluster} from './cluster.ts';
import {svcTrace} from './svc-trace.ts';

export interface LiveAgentOptions {
  readonly args?: readonly string[];
  /** One second unless said otherwise, and so is the grace period. */
  readonly interval?: string;
  readonly settle?: string;
  /** What goes before the command on the node. */
  readonly confine?: readonly string[];
  /** The name of its port. */
  readonly port?: 'http' | 'https';
}

/** The token of the request: by default that of the administrator, and none for null. */
export interface Asking {
  readonly token?: string | null;
}

/** As the DaemonSet runs it: nothing can be written, and there are two capabilities. */
export const confined = [
  ...['unshare', '--mount', 'sh', '-c', 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"', 'sh'],
  ...['setpriv', '--no-new-privs', '--bounding-set=-all,+net_admin,+net_raw', '--inh-caps=-all,+net_admin,+net_raw'],
];

/** An agent on a node of a live cluster, with its pod. It checks every second, with a grace period of one second. */
export class LiveAgent implements AsyncDisposable {
  readonly process: ReturnType<typeof svcTrace>;
  readonly #cluster: LiveCluster;
  readonly #node: string;
  readonly #port: string;
  readonly #client: typeof http | typeof https;

  constructor(
    cluster: LiveCluster,
    node: string,
    {args = [], confine = [], port = 'https', interval = '1s', settle = '1s'}: LiveAgentOptions = {},
  ) {
    const flags = [
      '--node',
      node,
      '--listen',
      `127.0.0.1:${agentPort}`,
      '--interval',
      interval,
      '--settle',
      settle,
      '--token',
      'agent-token',
    ];
    this.#cluster = cluster;
    this.#node = node;
    this.#port = port;
    this.#client = args.includes('--insecure-http') ? http : https;
    this.process = svcTrace(['agent', ...flags, ...args], {
      kubeconfig: cluster.api.kubeconfig,
      enter: [...cluster.node(node).enter, ...confine],
    });
    cluster.api.store.put('pods', this.pod);
  }

  get pod() {
    return {
      metadata: {namespace: 'svc-trace', name: `agent-${this.#node}`, labels: {'app.kubernetes.io/name': 'svc-trace-agent'}},
      spec: {nodeName: this.#node, containers: [{name: 'agent', ports: [{name: this.#port, containerPort: agentPort}]}]},
      status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
    };
  }

  /** The response; status 0 if there is none. */
  async ask(path: string, {token = 'admin-token'}: Asking = {}): Promise<{readonly status: number; readonly text: string}> {
    const request = this.#client.get({
      ...{socketPath: join(this.#cluster.folder, `agent-${this.#node}`), path, agent: false, timeout: 600_000, rejectUnauthorized: false},
      headers: token === null ? {} : {authorization: `Bearer ${token}`},
    });
    request.on('timeout', () => request.destroy(new Error('timeout')));
    try {
      const response = await new Promise<http.IncomingMessage>((resolve, reject) => request.on('response', resolve).on('error', reject));
      return {status: response.statusCode ?? 0, text: await text(response)};
    } catch {
      return {status: 0, text: ''};
    }
  }

  async metric(name: string): Promise<number> {
    const {text: all} = await this.ask('/metrics');
    const line = all.split('\n').find(one => one.startsWith(`${name} `) || one.startsWith(`${name}{`));
    return Number(line?.split(' ').at(-1) ?? Number.NaN);
  }

  /** Resolves when it has judged the node by what it holds now. */
  async rechecked(): Promise<void> {
    const now = Date.now() / 1000;
    await until(async () => (await this.metric('svc_trace_agent_last_judged_timestamp_seconds')) > now);
  }

  async ready(): Promise<void> {
    await until(async () => (await this.ask('/readyz')).status === 200);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill('SIGKILL');
    await this.process;
    this.#cluster.api.store.remove('pods', 'svc-trace', this.pod.metadata.name);
  }
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 6000; tries++) {
    if (await isSo()) return;
    await sleep(100);
  }
  throw new Error('it did not come to that in ten minutes');
}
