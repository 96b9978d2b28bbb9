import {Buffer} from 'node:buffer';
import {randomBytes} from 'node:crypto';
import {performance} from 'node:perf_hooks';
import {CommandFailed, maxMessages, maxOutput, type NodeShell, outputLimit, type TakeOutput, TooMuchOutput} from '../node/transport.ts';
import {isProgramMissing, quoted} from './root-command.ts';

/** Starts `sh` on a node: `begin` gets what sends input to it. The promise ends with the shell. */
type StartShell = (session: {
  readonly signal: AbortSignal;
  readonly take: TakeOutput;
  readonly begin: (send: (text: string) => void) => void;
}) => Promise<unknown>;

/**
 * Runs all commands of a node in at most two sessions of a shell there, so that the large dumps of both families run side by side: each
 * session that is opened costs more than most commands. What hangs there is ended after the lifetime, and the shell with it: a session
 * gets no new commands after half of that. Resolves to null if there is no shell, or one that gets no input.
 */
export async function openShellSessions(plain: NodeShell, start: StartShell, lifetimeMs: number): Promise<NodeShell | null> {
  const sessions = [new ShellSession(start, lifetimeMs)];
  if (!(await sessions[0]?.started)) return null;
  let mostSessions = 2;
  let isDisposed = false;
  const choose = (): ShellSession | null => {
    for (const session of sessions) if (session.isOld && session.commands === 0) session.end();
    const open = sessions.filter(({isOpen, isOld}) => isOpen && !isOld).toSorted((a, b) => a.commands - b.commands);
    const [first] = open;
    if (first !== undefined && (first.commands === 0 || open.length >= mostSessions)) return first;
    if (mostSessions === 1 || isDisposed) return null;
    const added = new ShellSession(start, lifetimeMs);
    sessions.push(added);
    return added;
  };
  const run: NodeShell['run'] = async (argv, signal, take) => {
    const session = choose();
    if (session === null) return plain.run(argv, signal, take);
    try {
      return await session.run(argv, signal, take);
    } catch (error) {
      if (!(error instanceof NotBegun) || signal.aborted || isDisposed) throw error;
      if (!(await session.started)) mostSessions = 1;
      return run(argv, signal, take);
    }
  };
  return {
    description: plain.description,
    run,
    async [Symbol.asyncDispose]() {
      isDisposed = true;
      for (const session of sessions) session.end();
      await plain[Symbol.asyncDispose]();
    },
  };
}

/** There was no shell, or it ended because an earlier command was stopped. */
class NotBegun extends Error {
  override readonly name = 'NotBegun';
}

interface Waiting {
  readonly argv: readonly string[];
  readonly take: TakeOutput;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** One shell, which runs one command after another. A mark that no output can contain ends what each printed. */
class ShellSession {
  /** Whether it answers. */
  readonly started: Promise<boolean>;
  /** How many have not ended. */
  commands = 0;
  readonly #oldAt: number;
  readonly #mark = randomBytes(16).toString('hex');
  readonly #stop = new AbortController();
  readonly #waiting: Waiting[] = [];
  #isOpen = true;
  #send: (text: string) => void = () => {};
  #hasAnswered: (answers: boolean) => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(start: StartShell, lifetimeMs: number) {
    const {promise, resolve} = Promise.withResolvers<boolean>();
    this.started = promise;
    this.#oldAt = performance.now() + lifetimeMs / 2;
    this.#hasAnswered = resolve;
    const timer = setTimeout(() => this.#stop.abort(), startMs);
    promise.finally(() => clearTimeout(timer));
    const begin = (send: (text: string) => void): void => {
      this.#send = send;
      send(`${endingAfter(Math.ceil(lifetimeMs / 1000))}printf '\\n%s 0\\n\\n%s\\n' ${this.#mark} ${this.#mark}\n`);
    };
    this.#waiting.push({argv: ['sh'], take: () => {}, resolve: () => this.#hasAnswered(true), reject: () => this.#hasAnswered(false)});
    start({signal: this.#stop.signal, take: part => this.#take(part), begin}).then(
      () => this.#ended(),
      (error: unknown) => this.#ended(error),
    );
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The shell may be ended before a command that begins now. */
  get isOld(): boolean {
    return performance.now() >= this.#oldAt;
  }

  async run(argv: readonly string[], signal: AbortSignal, take?: TakeOutput): Promise<Buffer> {
    this.commands++;
    try {
      if (!(await this.started) || !this.#isOpen) throw new NotBegun();
      return await this.#run(argv, signal, take);
    } finally {
      this.commands--;
    }
  }

  async #run(argv: readonly string[], signal: AbortSignal, take?: TakeOutput): Promise<Buffer> {
    const interrupted = () => new CommandFailed(argv, {exitCode: null, stderr: '', cause: signal.reason});
    if (signal.aborted) throw interrupted();
    const {promise, resolve, reject} = Promise.withResolvers<void>();
    const parts: Buffer[] = [];
    const count = outputLimit(argv, maxOutput);
    const keep = (part: Buffer): void => {
      count(part);
      if (take === undefined) parts.push(part);
      else take(part);
    };
    const waiting: Waiting = {argv, take: keep, resolve, reject};
    this.#waiting.push(waiting);
    const onAbort = () => {
      reject(interrupted());
      // What has not begun prints nothing that is kept, and the others go on.
      if (this.#waiting[0] === waiting) this.end();
    };
    signal.addEventListener('abort', onAbort, {once: true});
    this.#send(lineOf(argv, this.#mark));
    await promise.finally(() => signal.removeEventListener('abort', onAbort));
    return Buffer.concat(parts);
  }

  /** A command that still runs ends when it writes, or with the lifetime. */
  end(): void {
    if (!this.#isOpen) return;
    if (this.#waiting.length > 0) this.#stop.abort();
    else this.#send('exit\n');
    this.#ended();
  }

  #take(part: Buffer): void {
    if (!this.#isOpen) return;
    try {
      this.#read(this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part]));
    } catch (error) {
      this.#waiting.shift()?.reject(error);
      this.end();
    }
  }

  /** Output up to a mark, then the exit code and the messages up to the next one. */
  #read(data: Buffer): void {
    const mark = Buffer.from(`\n${this.#mark} `);
    let left = data;
    for (;;) {
      const at = left.indexOf(mark);
      const [command] = this.#waiting;
      const output = left.subarray(0, at === -1 ? Math.max(0, left.length - mark.length) : at);
      if (output.length > 0) command?.take(output);
      left = left.subarray(output.length);
      const end = at === -1 ? -1 : left.indexOf(`\n${this.#mark}\n`, mark.length);
      if (at !== -1 && (end === -1 ? left.length : end) > maxMessages && command !== undefined)
        throw new TooMuchOutput(command.argv, maxMessages, ' of error messages');
      if (end === -1) {
        // A copy: the part that arrived need not stay in memory.
        this.#rest = Buffer.from(left);
        return;
      }
      const [code = '', ...messages] = left.toString('utf8', mark.length, end).split('\n');
      left = left.subarray(end + mark.length);
      this.#waiting.shift();
      if (command !== undefined) settle(command, Number(code), messages.join('\n'));
    }
  }

  #ended(error?: unknown): void {
    this.#isOpen = false;
    this.#hasAnswered(false);
    const isOfShell = error === undefined || error instanceof CommandFailed;
    for (const {argv, reject} of this.#waiting.splice(0))
      reject(this.#stop.signal.aborted ? new NotBegun() : isOfShell ? lost(argv, error) : error);
  }
}

/** In milliseconds. A shell that gets no input says nothing. */
const startMs = 5000;

/**
 * No container engine ends a program that hangs when its client is gone. Engines start each exec in a process group of its own; without
 * that, or without `sleep`, nothing is ended.
 */
function endingAfter(seconds: number): string {
  const watch = `trap 'kill $s' TERM; sleep ${seconds} & s=$!; wait $s && kill -s KILL -- -$$`;
  return `( ${watch} ) >/dev/null 2>&1 & w=$!; trap 'kill $w' EXIT; `;
}

/** What a command prints goes on as it is; its messages are kept until its end. */
function lineOf(argv: readonly string[], mark: string): string {
  return `{ e=$({ ${argv.map(quoted).join(' ')} </dev/null 2>&1 >&3 3>&-; }); s=$?; } 3>&1; printf '\\n%s %s\\n%s\\n%s\\n' ${mark} "$s" "$e" ${mark}\n`;
}

function settle({argv, resolve, reject}: Waiting, exitCode: number, stderr: string): void {
  if (exitCode === 0) return resolve();
  const notFound = isProgramMissing({exitCode, stderr});
  // It is the shell that says so, and where in its input.
  reject(new CommandFailed(argv, {exitCode, stderr: /^\S*sh: (?:line )?\d+: /.test(stderr) ? '' : stderr, notFound}));
}

function lost(argv: readonly string[], cause: unknown): CommandFailed {
  return new CommandFailed(argv, {exitCode: null, stderr: 'the connection was lost', cause});
}
