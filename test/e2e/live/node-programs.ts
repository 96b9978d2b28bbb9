import {type ChildProcess, spawn} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';
import type {ConnectionsOrder} from './connections.ts';
import type {LiveNode} from './live-node.ts';

/** Programs in the namespaces of nodes. All of them end with the test. */
export class NodePrograms {
  readonly #running = new Set<ChildProcess>();

  /** Resolves when the program has said a word; what it says later is taken. */
  async start(node: LiveNode, order: ConnectionsOrder, until: string, take: (line: string) => void = () => {}): Promise<void> {
    const [program, ...first] = [...node.enter, process.execPath, join(import.meta.dirname, 'connections.ts'), JSON.stringify(order)];
    const child = spawn(program ?? '', first, {stdio: ['pipe', 'pipe', 'inherit']});
    this.#running.add(child);
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`${order.kind} ended`)));
      child.stdout.on('data', (data: Buffer) => {
        for (const line of data.toString().trim().split('\n')) line === until ? resolve() : take(line);
      });
    });
  }

  async end(): Promise<void> {
    for (const child of this.#running) {
      const ended = new Promise(resolve => child.once('exit', resolve));
      if (child.exitCode === null) {
        child.stdin?.end();
        await ended;
      }
    }
    this.#running.clear();
  }
}
