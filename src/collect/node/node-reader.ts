import {Buffer} from 'node:buffer';
import pLimit from 'p-limit';
import {
  type CollectedNode,
  CommandFailed,
  type MissingFile,
  type NodeShell,
  type TakeOutput,
  TooMuchOutput,
  Unreachable,
} from './transport.ts';
import {ApiError} from '../kube/kube-api.ts';
import {unlessAborted} from '../unless-aborted.ts';
import {ciliumAgentTable} from '../../model/proxy-config.ts';
import {ciliumCommand, ciliumPrograms, ciliumTables, splitCiliumTables} from './node-commands.ts';
import {jointReads} from './joint-reads.ts';
import {keptOf, pageOf} from './kube-proxy-pages.ts';
import {type CommandVariant, type JointCommand, type NodeCommand, parallel} from './node-command.ts';
import {partition} from '../../model/lists.ts';
import {kubeProxyLog} from '../../model/node/kube-proxy-failures.ts';
import {nothingInIt} from '../../model/snapshot.ts';
import {errorText} from '../../model/text.ts';
import {plainText} from '../../parse/lines.ts';
import {maxFile, maxSizeOf} from '../text-file.ts';

interface NodeConnection {
  readonly shell: NodeShell;
  readonly signal: AbortSignal;
  /** No other connection will be tried after this one. */
  readonly isLast: boolean;
}

/** The files read from one node so far. It outlives a connection. */
export class NodeReader {
  readonly files = new Map<string, Buffer>();
  /** How the node was reached, as text. */
  via: string | null = null;
  readonly #node: string;
  readonly #asked = new Map<string, NodeCommand>();
  readonly #done = new Set<string>();
  /** With the failure that showed it. */
  readonly #absentPrograms = new Map<string, unknown>();
  readonly #problems: string[] = [];
  /** Problems that only the user can resolve. */
  readonly #permanent = new Set<string>();
  /** Problems with required files that have no substitute. */
  readonly #unsupported: string[] = [];
  readonly #missing: MissingFile[] = [];
  #isCilium = false;
  readonly #limit = pLimit(parallel);

  constructor(node: string) {
    this.#node = node;
  }

  /** Whether a file was read, or will not be read by another attempt. */
  isDone(file: string): boolean {
    return this.#done.has(file);
  }

  /** Reads what has not been read yet. Rejects if the connection broke and another one can be tried, and when the signal was aborted. */
  async readAll(commands: readonly NodeCommand[], reader: NodeConnection): Promise<void> {
    for (const command of commands) this.#asked.set(command.file, command);
    let brokenBy: unknown;
    const one = async (read: () => Promise<void>): Promise<void> => {
      if (brokenBy !== undefined) return;
      try {
        await read();
      } catch (error) {
        brokenBy ??= error;
      }
    };
    const open = commands.filter(({file}) => !this.#done.has(file));
    const [joint, single] = jointReads(open, reader.shell);
    const together = joint.map(one => () => this.#readTogether(one, open, reader));
    // A page that the API server reads is no command on the node.
    const [asked, run] = partition(single, ({file}) => reader.shell.readPage !== undefined && pageOf(file) !== undefined);
    const readOne = (command: NodeCommand) => () => this.#readOne(command, reader);
    await Promise.all([...[...run.map(readOne), ...together].map(read => this.#limit(one, read)), ...asked.map(readOne).map(one)]);
    if (brokenBy !== undefined) throw brokenBy;
  }

  /**
   * Files that a joint command does not give are read by their own commands, one after another; if a program does not exist, only the first
   * is tried.
   */
  async #readTogether(joint: JointCommand, open: readonly NodeCommand[], reader: NodeConnection): Promise<void> {
    let failure: unknown;
    const fail = (error: unknown): ReadonlyMap<string, Buffer | null> => {
      if (reader.signal.aborted || (!reader.isLast && isBroken(error))) throw error;
      if (error instanceof CommandFailed && joint.isLast?.(error.exitCode ?? 0) === true) failure = error;
      return new Map();
    };
    const given = await this.#runInParts(joint.argv, {...joint, fail}, reader).then(
      output => joint.split(output, failure !== undefined),
      fail,
    );
    for (const command of open.filter(({file}) => joint.files.includes(file))) {
      const content = given.get(command.file);
      if (content !== undefined && (content?.length ?? 0) <= (command.maxBytes ?? Number.POSITIVE_INFINITY)) this.#keep(command, content);
      else if (failure !== undefined) this.#failed(command, failure);
      else if (command.variants.length > 0) await this.#readOne(command, reader);
    }
  }

  async #readOne(command: NodeCommand, reader: NodeConnection): Promise<void> {
    try {
      this.#keep(command, await this.#read(command, reader));
    } catch (error) {
      if (reader.signal.aborted || (!reader.isLast && isBroken(error))) throw error;
      this.#failed(command, error);
    }
  }

  #failed(command: NodeCommand, error: unknown): void {
    this.#unreadable(command, error);
    this.#done.add(command.file);
  }

  /** What another command has shown. */
  note(command: NodeCommand, content: Buffer): void {
    this.#asked.set(command.file, command);
    this.#keep(command, content);
  }

  #keep(command: NodeCommand, content: Buffer | null): void {
    const most = maxSizeOf(command.file);
    if (content === null) this.#miss(command, nothingInIt);
    else if (content.length > most) this.#miss(command, new TooMuchOutput([command.file], most).message);
    else this.files.set(command.file, plainText(content));
    this.#done.add(command.file);
  }

  #miss({file, partOf = file}: NodeCommand, reason: string): void {
    if (!this.#missing.some(known => known.file === partOf && known.reason === reason)) this.#missing.push({file: partOf, reason});
  }

  async #read(command: NodeCommand, reader: NodeConnection): Promise<Buffer | null> {
    const {shell, signal} = reader;
    const page = pageOf(command.file);
    if (page === undefined || shell.readPage === undefined) return this.#tryVariants(command, reader);
    return keptOf(page, await unlessAborted(shell.readPage(page, signal), signal));
  }

  async #tryVariants(command: NodeCommand, reader: NodeConnection): Promise<Buffer | null> {
    const lacks = (reason: string) => this.#miss(command, reason);
    const parts = await command.inParts?.(argv => this.run(argv, reader), lacks);
    if (parts !== undefined && parts !== null) return parts;
    let failure: unknown;
    for (const variant of command.variants) {
      try {
        const outputs = await this.#runVariant(variant, command, reader);
        return variant.join === undefined ? joined(outputs) : variant.join(outputs);
      } catch (error) {
        if (!isAbsent(error) && !(variant.keepsPart && isFailure(error))) throw error;
        failure ??= error;
      }
    }
    throw failure;
  }

  /** The output of the commands that succeeded; the failure of the first if none did. */
  async #runVariant(
    {commands, keepsPart = false}: CommandVariant,
    {isDump, maxBytes}: NodeCommand,
    reader: NodeConnection,
  ): Promise<readonly Buffer[]> {
    const outputs: Buffer[] = [];
    let failure: unknown;
    for (const argv of commands) {
      try {
        if (isDump) outputs.push(await this.#runDump(argv, reader));
        else if (keepsPart || maxBytes !== undefined) outputs.push(await this.#runInParts(argv, {keepsPart, maxBytes}, reader));
        else outputs.push(await this.run(argv, reader));
      } catch (error) {
        if (reader.signal.aborted || isBroken(error)) throw error;
        failure ??= error;
      }
    }
    if (outputs.length === 0) throw failure;
    return outputs;
  }

  /** A truncated dump is read once more; if that is truncated too, the longer one is kept. */
  async #runDump(argv: readonly string[], reader: NodeConnection): Promise<Buffer> {
    const first = await this.run(argv, reader);
    if (!isTruncated(first)) return first;
    const second = await this.run(argv, reader).catch(() => Buffer.alloc(0));
    if (second.length > 0 && !isTruncated(second)) return second;
    this.#problems.push(`${argv.join(' ')} ended before its last COMMIT, twice${this.#where()}`);
    return second.length > first.length ? second : first;
  }

  async #runInParts(
    argv: readonly string[],
    {
      keepsPart = false,
      maxBytes = Number.POSITIVE_INFINITY,
      fail,
    }: {readonly keepsPart?: boolean; readonly maxBytes?: number | undefined; readonly fail?: (error: unknown) => unknown},
    reader: NodeConnection,
  ): Promise<Buffer> {
    const tooMuch = new AbortController();
    const parts: Buffer[] = [];
    let size = 0;
    const take = (part: Buffer): void => {
      size += part.length;
      if (size > maxBytes) tooMuch.abort();
      else parts.push(part);
    };
    try {
      take(await this.run(argv, {...reader, signal: AbortSignal.any([reader.signal, tooMuch.signal])}, take));
    } catch (error) {
      const isKept = keepsPart && size > 0 && isFailure(error);
      if (isKept) fail?.(error);
      else if (!tooMuch.signal.aborted) throw error;
    }
    reader.signal.throwIfAborted();
    if (tooMuch.signal.aborted) throw new Error(`${argv.join(' ')} prints more than ${maxBytes / 1_000_000} MB`);
    return Buffer.concat(parts);
  }

  /** The output of a command that is no file. */
  async run(argv: readonly string[], {shell, signal}: NodeConnection, take?: TakeOutput): Promise<Buffer> {
    const program = argv[0] ?? '';
    if (this.#absentPrograms.has(program)) throw this.#absentPrograms.get(program);
    try {
      return await unlessAborted(shell.run(argv, signal, take), signal);
    } catch (error) {
      if (isAbsent(error)) this.#absentPrograms.set(program, error);
      throw error;
    }
  }

  #unreadable(command: NodeCommand, error: unknown): void {
    const {file, isRequired} = command;
    const reason = errorText(error);
    if (isRequired !== true) this.#miss(command, reason);
    else if (isAbsent(error) || isUnsupported(error)) this.#unsupported.push(this.#inWords(file, reason));
    else this.#problems.push(this.#inWords(file, reason));
  }

  #inWords(file: string, reason: string): string {
    return `${reason.startsWith(`${file} `) ? '' : `${file}: `}${reason}${this.#where()}`;
  }

  #where(): string {
    return this.via === null ? '' : ` (${this.via})`;
  }

  /** Like any optional file; a log that the node itself has printed is kept. */
  async readLog(read: () => Promise<Buffer | null>): Promise<void> {
    const file = kubeProxyLog;
    try {
      const content = await read();
      if (content !== null) this.files.set(file, plainText(content));
    } catch (error) {
      if (!this.files.has(file)) this.#missing.push({file, reason: errorText(error)});
    }
  }

  /** The tables of the node's Cilium, in one command where its container has a shell. What cannot be read is missing, with the reason. */
  async readCilium({shell, signal}: Pick<NodeConnection, 'shell' | 'signal'>): Promise<void> {
    const connection = {shell, signal, isLast: true};
    this.#isCilium = true;
    try {
      const output = await this.#runInParts(ciliumCommand, {keepsPart: true, maxBytes: 4 * maxFile}, connection).catch((error: unknown) => {
        if (!isFailure(error) && !isAbsent(error)) throw error;
        return Buffer.alloc(0);
      });
      const tables = splitCiliumTables(output);
      if (tables.size === 0) return await this.#readCiliumOneByOne(connection);
      for (const {file} of ciliumTables) {
        const content = tables.get(file) ?? {reason: 'the agent ended before it was printed'};
        if (!Buffer.isBuffer(content)) this.#missing.push({file, reason: content.reason});
        else if (content.length > maxFile) this.#missing.push({file, reason: new TooMuchOutput([file], maxFile).message});
        else this.files.set(file, plainText(content));
      }
    } catch (error) {
      this.#missing.push({file: ciliumAgentTable, reason: errorText(signal.aborted ? signal.reason : error)});
    }
  }

  /** An image without a shell. */
  async #readCiliumOneByOne(connection: NodeConnection): Promise<void> {
    const commands = ciliumTables.map(
      ({file, args}): NodeCommand => ({file, variants: ciliumPrograms.map(program => ({commands: [[program, ...args]]}))}),
    );
    await Promise.all(commands.map(command => this.#limit(() => this.#readOne(command, connection))));
  }

  /** The node could not be reached. */
  failed(error: unknown): void {
    const message = errorText(error);
    this.#problems.push(message);
    if (isPermanent(error)) this.#permanent.add(message);
  }

  /** Reading was interrupted before everything was read. */
  stopped(reason: string): void {
    const open = [...this.#asked.values()].flatMap(({file, variants}) => (this.#done.has(file) || variants.length === 0 ? [] : [file]));
    for (const file of open) if (this.#asked.get(file)?.isDump === true) this.#missing.push({file, reason});
    const what =
      this.via === null ? '' : open.length === 0 ? ', so that not all was read' : `: ${open.join(', ')} not read${this.#where()}`;
    this.#problems.push(`${reason}${what}${this.#isRestarting(open) ? restarting : ''}`);
  }

  /** A small file of the node has arrived, and a dump that iptables reads from nf_tables has not. */
  #isRestarting(open: readonly string[]): boolean {
    const isOfNft = this.files.get('iptables-version')?.includes('nf_tables') === true;
    return isOfNft && open.some(file => /^ip6?tables(?:-nft)?-save$/.test(file));
  }

  result(): CollectedNode {
    const dumps = [...this.#asked.values()].filter(({isDump}) => isDump === true);
    // A node whose kube-proxy uses nftables may have no iptables at all.
    const hasDump = this.files.get('nft.json')?.includes('"kube-proxy"') === true || dumps.some(({file}) => this.files.has(file));
    const problems = hasDump ? this.#problems : [...this.#problems, ...this.#unsupported];
    // The evaluation says whether a node of Cilium needs rules.
    const needsRules = hasDump || !this.#isCilium;
    if (!needsRules) for (const reason of problems) this.#missing.push({file: 'iptables-save', reason});
    const messages = needsRules ? problems : [];
    const isUnread = needsRules && (this.via === null || (dumps.length > 0 && !hasDump));
    const {files} = this;
    return {
      name: this.#node,
      files: [...files.keys()].filter(file => this.#asked.get(file)?.partOf === undefined).sort(),
      read: file => files.get(file) ?? null,
      status: isUnread ? 'unread' : messages.length > 0 ? 'partial' : 'read',
      via: this.via,
      problems: messages.map(message => ({
        node: this.#node,
        message,
        ...(this.#permanent.has(message) ? {isPermanent: true as const} : {}),
      })),
      missing: this.#missing,
    };
  }
}

/** `__nft_build_cache` discards what it has read and begins again if another program changed rules in between. */
const restarting =
  '. iptables-save of nf_tables begins again each time that rules change while it reads them: perhaps many Services change. Try again later, or use --node-timeout';

/** Whether the connection failed, and not the command. */
export function isBroken(error: unknown): boolean {
  if (error instanceof Unreachable) return isBroken(error.cause);
  if (error instanceof CommandFailed) return error.exitCode === null && !error.notFound;
  if (error instanceof ApiError) return error.status === null || error.status >= 500;
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('E');
}

/** Whether every further attempt would fail the same way. */
function isPermanent(error: unknown): boolean {
  if (error instanceof Unreachable) return error.isPermanent || isPermanent(error.cause);
  return error instanceof ApiError && error.status === 403;
}

function isAbsent(error: unknown): boolean {
  return error instanceof CommandFailed && error.notFound;
}

/** The program ended, with an exit code that says that it failed. */
function isFailure(error: unknown): boolean {
  return error instanceof CommandFailed && error.exitCode !== null;
}

/** The kernel lacks the family or the backend: ip6tables-save fails if IPv6 is turned off. */
function isUnsupported(error: unknown): boolean {
  return (
    error instanceof CommandFailed && /not supported|does not exist|protocol not available|(?:can't|cannot) initialize/i.test(error.stderr)
  );
}

/** A dump with tables whose last line is not COMMIT. */
function isTruncated(dump: Buffer): boolean {
  const lines = dump.toString('latin1', Math.max(0, dump.length - 4096)).split('\n');
  const last = lines.findLast(line => line.trim() !== '' && !line.startsWith('#'));
  return last !== undefined && last.trim() !== 'COMMIT';
}

/** A single output is not copied, because it can be large. */
function joined(outputs: readonly Buffer[]): Buffer {
  return outputs.length === 1 && outputs[0] !== undefined ? outputs[0] : Buffer.concat(outputs);
}
