import {type ChildProcess, spawn, spawnSync} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import {type CollectedNode, CommandFailed, type Transport} from '../../../src/collect/node/transport.ts';
import type {Flow, Order, Sight} from './agent.ts';

/** Debian keeps what only root runs where a plain user's `PATH` does not look. */
const environment = {...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`};

/**
 * A network namespace, with a program in it that sends packets. It has no name: it is there as long as that program is, and the
 * program ends with the test, however the test ends. So nothing is ever left behind.
 */
export class Namespace implements AsyncDisposable {
  readonly #agent: ChildProcess;

  private constructor(agent: ChildProcess) {
    this.#agent = agent;
  }

  /** `program` is what runs inside, given to Node.js: it sends a message when it is ready, and ends when it is let go of. */
  static async open(program: readonly string[] = [join(import.meta.dirname, 'agent.ts')]): Promise<Namespace> {
    const agent = spawn('unshare', ['--net', process.execPath, ...program], {
      env: environment,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const namespace = new Namespace(agent);
    await namespace.#answer();
    return namespace;
  }

  /** By which `ip link … netns` knows it. */
  get pid(): number {
    return this.#agent.pid ?? 0;
  }

  /** What goes before a command that is to run inside. */
  get enter(): readonly [string, ...string[]] {
    return ['nsenter', `--net=/proc/${this.pid}/ns/net`];
  }

  /** Runs a command inside and gives what it prints. Throws with what it said when it fails. */
  run(command: string, args: readonly string[], input = ''): string {
    const [nsenter, ...options] = this.enter;
    const {status, stdout, stderr, error} = spawnSync(nsenter, [...options, command, ...args], {
      ...{input, env: environment, encoding: 'utf8'},
      maxBuffer: 1 << 28,
    });
    if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
    return stdout;
  }

  /** Runs `ip` commands, one a line. */
  ip(lines: string): void {
    this.run('ip', ['-batch', '-'], lines);
  }

  async write(files: Readonly<Record<string, string>>): Promise<void> {
    await this.#order({kind: 'write', files});
  }

  async listen(ports: readonly number[]): Promise<void> {
    await this.#order({kind: 'listen', ports});
  }

  async forgetClients(): Promise<void> {
    await this.#order({kind: 'forget'});
  }

  /** Sends the first packet of each flow and gives, in their order, what the sender saw within some milliseconds. */
  async send(flows: readonly Flow[], patience: number): Promise<readonly Sight[]> {
    return (await this.#order({kind: 'send', flows, patience})) as readonly Sight[];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#agent.exitCode !== null || !this.#agent.connected) return;
    const ended = new Promise(resolve => this.#agent.once('exit', resolve));
    this.#agent.disconnect();
    await ended;
  }

  #order(order: Order): Promise<unknown> {
    const answer = this.#answer();
    this.#agent.send(order);
    return answer;
  }

  #answer(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const exited = (code: number | null): void => reject(new Error(`the sender in the namespace ended with ${code}`));
      this.#agent.once('error', reject);
      this.#agent.once('exit', exited);
      this.#agent.once('message', (message: {readonly done: unknown; readonly error?: string}) => {
        this.#agent.off('error', reject);
        this.#agent.off('exit', exited);
        if (message.error === undefined) resolve(message.done);
        else reject(new Error(message.error));
      });
    });
  }
}

/** Reads a namespace as a node is read. */
export async function readNode(namespace: Namespace): Promise<CollectedNode> {
  const transport: Transport = {
    name: 'namespace',
    open: async () => ({
      description: 'in a namespace',
      run: async argv => {
        try {
          return Buffer.from(namespace.run(argv[0] ?? '', argv.slice(1)));
        } catch (error) {
          throw new CommandFailed(argv, {exitCode: 1, stderr: String(error)});
        }
      },
      [Symbol.asyncDispose]: async () => {},
    }),
  };
  const node = {name: 'node-a', addresses: [], labels: {}, pods: []};
  return collectNode(node, transport, {signal: new AbortController().signal, timeoutMs: 600_000});
}
