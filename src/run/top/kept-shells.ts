import {CommandFailed, type NodeInfo, type NodeShell, type Transport} from '../../collect/node/transport.ts';

/** Opens one shell a node and keeps it, so that repeated reads need no new connection or pod. */
export class KeptShells implements Transport, AsyncDisposable {
  readonly name: string;
  readonly #transport: Transport;
  readonly #kept = new Map<string, NodeShell>();

  constructor(transport: Transport) {
    this.#transport = transport;
    this.name = transport.name;
  }

  async open(node: NodeInfo, signal: AbortSignal): Promise<NodeShell> {
    const known = this.#kept.get(node.name);
    if (known !== undefined) return this.#lent(node, known);
    const shell = await this.#transport.open(node, signal);
    this.#kept.set(node.name, shell);
    return this.#lent(node, shell);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const shells = [...this.#kept.values()];
    this.#kept.clear();
    await Promise.allSettled(shells.map(shell => shell[Symbol.asyncDispose]()));
  }

  /** A borrower does not close the shell. A shell whose connection failed is not lent again. */
  #lent(node: NodeInfo, shell: NodeShell): NodeShell {
    return {
      description: shell.description,
      run: async (argv, signal, take) => {
        try {
          return await shell.run(argv, signal, take);
        } catch (error) {
          if (!(error instanceof CommandFailed && (error.notFound || error.exitCode !== null))) await this.#drop(node, shell);
          throw error;
        }
      },
      [Symbol.asyncDispose]: async () => {},
    };
  }

  async #drop(node: NodeInfo, shell: NodeShell): Promise<void> {
    if (this.#kept.get(node.name) !== shell) return;
    this.#kept.delete(node.name);
    await Promise.allSettled([shell[Symbol.asyncDispose]()]);
  }
}
