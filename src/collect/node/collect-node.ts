import {Buffer} from 'node:buffer';
import {errorText, isAtLeast} from '../../model/text.ts';
import {type CounterScope, type NodeCommand, parallel, withCounters, type Run, otherBackends, beginningOf} from './node-command.ts';
import {firstCommands, furtherCommands, journal, mayHaveFailed, versionCommand} from './node-commands.ts';
import {ipv6LeftOut, nftAtOnce, nftNames} from './nft-tables.ts';
import {isBroken, NodeReader} from './node-reader.ts';
import {readChains, type RequestedEntries} from './read-chains.ts';
import {
  type CollectedNode,
  type NodeInfo,
  type NodeShell,
  type OpenCilium,
  type ReadLog,
  type Transport,
  Unreachable,
  CommandFailed,
} from './transport.ts';
import {partition, uniqueBy} from '../../model/lists.ts';
import {parseDumpHeader} from '../../parse/iptables/dump-chain.ts';
import {hasIPv6, jointOnly, kernelServers} from './joint-reads.ts';
import {misprintsOf} from '../../analyze/iptables/misprints.ts';
import {isMisprinted} from '../../analyze/nftables/nft-rules.ts';
import {families} from '../../model/address.ts';
import {parseDumps} from '../../parse/iptables/iptables-save.ts';

interface CollectOptions {
  readonly signal: AbortSignal;
  /** Timeout for one node, from the first connection to the last file, in milliseconds. */
  readonly timeoutMs: number;
  /** Whether to read a file, by its name in a bundle; all are read if left out. */
  readonly wants?: ((file: string) => boolean) | undefined;
  /** Also read the node's counters. */
  readonly counters?: CounterScope | undefined;
  /** Read only the chains that packets to these entries can reach, where that is faster. */
  readonly requested?: RequestedEntries | undefined;
  /** How the tables of the Cilium of a node are read, if it has one. */
  readonly cilium?: OpenCilium | undefined;
  /** Reads the log of kube-proxy: of each node, or of those that show that it may have failed. */
  readonly log?: {readonly read: ReadLog; readonly of: 'all' | 'failing'} | undefined;
}

/**
 * Reads one node. Never rejects: what could not be read is a problem, and files read before are kept. A broken connection is reopened once.
 * The shell is always disposed of.
 */
export async function collectNode(node: NodeInfo, transport: Transport, options: CollectOptions): Promise<CollectedNode> {
  const timer = new AbortController();
  const timeout = setTimeout(() => timer.abort(new Error(`no answer within ${options.timeoutMs / 1000} s`)), options.timeoutMs);
  const signal = AbortSignal.any([options.signal, timer.signal]);
  const reading = new NodeReader(node.name);
  const cilium = options.cilium?.(node) ?? null;
  try {
    const {wants = () => true, counters, requested} = options;
    const how = {reading, signal, wants, counters, requested};
    const readRules = async (): Promise<void> => {
      if (await attempt(node, transport, {...how, isLast: false})) await attempt(node, transport, {...how, isLast: true});
    };
    const readCilium = async (shell: NodeShell): Promise<void> => {
      // An agent that hangs takes no more than half of the time: the rules of a kube-proxy beside it are still reported.
      const half = AbortSignal.timeout(Math.ceil(options.timeoutMs / 2));
      await reading.readCilium({shell, signal: AbortSignal.any([signal, half])});
    };
    await Promise.all([readRules(), cilium === null ? null : readCilium(cilium)]);
    const {log} = options;
    if (log !== undefined && !signal.aborted && (log.of === 'all' || mayHaveFailed(reading.files)))
      await reading.readLog(() => log.read(node, signal));
  } finally {
    clearTimeout(timeout);
  }
  return reading.result();
}

interface ReadAttempt extends Pick<CollectOptions, 'signal' | 'counters' | 'requested'> {
  readonly reading: NodeReader;
  readonly wants: (file: string) => boolean;
  readonly isLast: boolean;
}

/** Resolves to whether the connection broke and a retry is useful. */
async function attempt(
  node: NodeInfo,
  transport: Transport,
  {reading, signal, wants, counters, requested, isLast}: ReadAttempt,
): Promise<boolean> {
  let shell: NodeShell | null = null;
  const wanted = (commands: readonly NodeCommand[]) => withCounters(commands, counters).filter(({file}) => wants(file));
  if (!wants('ip6tables-save')) reading.note(ipv6LeftOut, Buffer.alloc(0));
  const first = wanted(requested === undefined ? firstCommands : firstCommands.map(command => inParts(command, requested)));
  try {
    shell = await openUntil(transport, node, {signal, early: certainCommands(first.filter(({file}) => !reading.isDone(file)))});
    reading.via = shell.description;
    const reader = {shell, signal, isLast};
    const read = (commands: readonly NodeCommand[]) => reading.readAll(commands, reader);
    const readInOrder = shell.opensSessions ? readInFewSessions : readInManyCommands;
    await readInOrder(reading, {first, read, wants, wanted});
    await read(wanted(await misprintedCommands(reading.files, argv => reading.run(argv, reader))));
    // Without the tables of nftables, a node in that mode looks as if it had no rules.
    if (mayHaveFailed(reading.files)) await read(wanted([journal]));
    return false;
  } catch (error) {
    if (signal.aborted) reading.stopped(whyStopped(signal, error));
    else if (!isLast && isBroken(error)) return true;
    else reading.failed(error);
    return false;
  } finally {
    if (shell !== null) await dispose(shell, reading);
  }
}

interface NodeReads {
  /** The first commands that are wanted. */
  readonly first: readonly NodeCommand[];
  readonly read: (commands: readonly NodeCommand[]) => Promise<void>;
  readonly wants: (file: string) => boolean;
  /** Those that are wanted, with counters. */
  readonly wanted: (commands: readonly NodeCommand[]) => readonly NodeCommand[];
}

async function readInManyCommands({files}: NodeReader, {first, read, wanted}: NodeReads): Promise<void> {
  // A dump can take seconds. The version shows which other ones are needed before it has arrived.
  await allSettled([read(wanted([versionCommand])).then(() => read(wanted(otherBackends(files)))), read(first)]);
  await read(wanted(furtherCommands(files)));
}

/** The commands with which every read of a node begins. `byChain`: not all rules are read. `byName`: perhaps none of IPv6 are. */
export function earlyCommands(
  counters: CounterScope | undefined,
  {byChain, byName}: {readonly byChain: boolean; readonly byName: boolean},
): readonly (readonly string[])[] {
  const isSure = ({file, isRequired}: NodeCommand): boolean => !(byChain && isRequired === true) && !(byName && file.startsWith('ip6'));
  return certainCommands(withCounters(firstCommands, counters).filter(isSure));
}

/** The commands that run whatever others find, as far as they may run while the transport searches for the tools, which is a command itself. */
function certainCommands(commands: readonly NodeCommand[]): readonly (readonly string[])[] {
  const certain = commands.filter(({inParts, variants}) => inParts === undefined && variants.length === 1);
  return certain.flatMap(({variants}) => variants[0]?.commands.slice(0, 1) ?? []).slice(0, parallel - 1);
}

/** Rejects when all have ended: nothing runs on. */
async function allSettled(running: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(running);
  await Promise.all(running);
}

function inParts(command: NodeCommand, requested: RequestedEntries): NodeCommand {
  const tool = command.file === 'iptables-save' ? 'iptables' : command.file === 'ip6tables-save' ? 'ip6tables' : null;
  return tool === null ? command : {...command, inParts: run => readChains(tool, requested, run)};
}

/** The current activity explains more than a timeout. */
function whyStopped(signal: AbortSignal, error: unknown): string {
  return error instanceof Unreachable ? `${errorText(signal.reason)} (${error.message})` : errorText(signal.reason);
}

/** Does not wait for a transport that ignores the signal; a shell that it opens later is disposed of. */
async function openUntil(
  transport: Transport,
  node: NodeInfo,
  {signal, early}: {readonly signal: AbortSignal; readonly early: readonly (readonly string[])[]},
): Promise<NodeShell> {
  signal.throwIfAborted();
  const {promise: tooLate, reject} = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  // A transport that honors the signal cleans up, and gets time for that.
  const onAbort = () => {
    timer = setTimeout(() => reject(signal.reason), cleanUpMs);
  };
  signal.addEventListener('abort', onAbort, {once: true});
  const opening = transport.open(node, signal, early);
  try {
    return await Promise.race([opening, tooLate]);
  } catch (error) {
    opening.then(late => late[Symbol.asyncDispose]()).catch(() => {});
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(timer);
  }
}

/** The time for a transport to clean up, in milliseconds. */
const cleanUpMs = 10_000;

async function dispose(shell: NodeShell, reading: NodeReader): Promise<void> {
  try {
    await shell[Symbol.asyncDispose]();
  } catch (error) {
    reading.failed(`${shell.description}: could not be cleaned up: ${errorText(error)}`);
  }
}

interface CollectNodesOptions extends CollectOptions {
  /** How many nodes may be in progress at a time: being read, or read and not consumed yet. */
  readonly concurrency?: number;
  /** Called whenever a number changes. */
  readonly onProgress?: (progress: CollectProgress) => void;
}

export interface CollectProgress {
  readonly total: number;
  /** Nodes that were read, including failed ones. */
  readonly done: number;
  /** Nodes that were read in part or not at all. */
  readonly failed: number;
  readonly inProgress: number;
}

/**
 * Reads many nodes and yields each when it is done, in no particular order. A node is in progress until the next one is requested, so at
 * most `concurrency` dumps are in memory if the caller drops each after use. Rejects with the signal's reason when it is aborted. When it
 * ends, also by `break`, all shells have been disposed of.
 */
export async function* collectNodes(
  nodes: readonly NodeInfo[],
  transport: Transport,
  options: CollectNodesOptions,
): AsyncGenerator<CollectedNode, void, void> {
  const {concurrency = 16, onProgress} = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const waiting = nodes.values();
  const inProgress = new Map<NodeInfo, Promise<readonly [NodeInfo, CollectedNode]>>();
  let done = 0;
  let failed = 0;
  const report = () => onProgress?.({total: nodes.length, done, failed, inProgress: inProgress.size});
  const fill = () => {
    while (inProgress.size < concurrency && !signal.aborted) {
      const {value: node} = waiting.next();
      if (node === undefined) return;
      inProgress.set(
        node,
        collectNode(node, transport, {...options, signal}).then(collected => [node, collected]),
      );
      report();
    }
  };
  try {
    for (fill(); inProgress.size > 0; fill()) {
      const [node, collected] = await Promise.race(inProgress.values());
      options.signal.throwIfAborted();
      inProgress.delete(node);
      done++;
      if (collected.status !== 'read') failed++;
      report();
      yield collected;
    }
    options.signal.throwIfAborted();
  } finally {
    stop.abort(new Error('stopped'));
    await Promise.all(inProgress.values());
  }
}

/**
 * Reads a node on which each command is a connection of its own, as by exec into an image without a shell: what one program can tell at once
 * is asked at once, and what others have told already is not asked.
 */
async function readInFewSessions(reading: NodeReader, {first, read, wants, wanted}: NodeReads): Promise<void> {
  const {files} = reading;
  await read([...first.filter(({file}) => !later.has(file)), ...wanted(jointOnly)]);
  const version = versionIn(beginningOf(files, 'iptables-save'));
  if (version === null) await read(wanted([versionCommand]));
  else if (wants(versionCommand.file)) reading.note(versionCommand, version);
  const ipv6Rules = hasIPv6(files.get('addresses.json')) ? first.filter(({file}) => file === 'ip6-rules.json') : [];
  const nft = nftAtOnce(files, names => reading.note(nftNames, names));
  const needless = (file: string): boolean =>
    [nft.file, 'kube-ipvs0.json'].includes(file) || (file.endsWith('-legacy-save') && files.get('legacy-tables')?.length === 0);
  const all = uniqueBy([...otherBackends(files), ...furtherCommands(files)], ({file}) => file).filter(({file}) => !needless(file));
  const [command, servers] = [all.find(({file}) => file === 'ipvsadm-save'), files.get(kernelServers.file)];
  if (command !== undefined && servers !== undefined) reading.note(command, servers);
  const [afterNft, others] = partition(wanted(all), ({file}) => file.endsWith('-nft-save'));
  await read([...wanted([nft]), ...ipv6Rules, ...others]);
  const names = files.get(nftNames.file)?.toString('utf8');
  await read(names === undefined || /^ip6? (?:raw|mangle|nat|filter|security)$/m.test(names) ? afterNft : []);
}

const later: ReadonlySet<string> = new Set(['ip6-rules.json', nftNames.file]);

/** As `iptables-save --version` prints it; null where the header of a dump does not name the backend. */
function versionIn(dump: string): Buffer | null {
  const header = parseDumpHeader(dump.split('\n', 1)[0] ?? '');
  if (header === null || header.backend === null) return null;
  return Buffer.from(`iptables-save v${header.version} (${header.backend === 'nft' ? 'nf_tables' : 'legacy'})\n`);
}

/**
 * Reads with the programs of kube-proxy's image what those of the host misprinted: in the mount namespace of kube-proxy, where the node has
 * a process of it. None where the host printed all rules as they are, which most versions do without a look at them.
 */
async function misprintedCommands(read: ReadonlyMap<string, Buffer>, run: Run): Promise<readonly NodeCommand[]> {
  const commands = [...iptablesCommands(read), ...nftCommands(read)];
  const process = commands.length === 0 ? null : await proxyProcess(run);
  if (process === null) return [];
  return commands.map(({file, argv, isDump}) => ({
    file,
    isDump,
    variants: [{commands: [['nsenter', '-t', process, '-m', '--', ...argv]]}],
  }));
}

interface ProxyCommand {
  /** A file that the programs of the host did not give. */
  readonly file: string;
  readonly argv: readonly string[];
  readonly isDump: boolean;
}

function iptablesCommands(read: ReadonlyMap<string, Buffer>): readonly ProxyCommand[] {
  return families.flatMap(family => {
    const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
    const dump = read.get(`${tool}-save`);
    const header = dump === undefined ? null : parseDumpHeader(dump.toString('latin1', 0, 200).split('\n', 1)[0] ?? '');
    if (dump === undefined || header === null) return [];
    if (isAtLeast(header.version, [1, 8, 9]) && !dump.includes('[unsupported revision]')) return [];
    if (misprintsOf(new Map(parseDumps(dump, family).map(ruleset => [ruleset.family, ruleset]))).size === 0) return [];
    return [{file: `${tool}-${header.backend ?? 'nft'}-save`, argv: [`${tool}-save`], isDump: true}];
  });
}

/** Also where nft crashed. */
function nftCommands(read: ReadonlyMap<string, Buffer>): readonly ProxyCommand[] {
  const dump = read.get('nft.json');
  const isInUse = read.get('proxy-mode')?.includes('nftables') === true || read.get('nft-tables')?.includes('kube-proxy') === true;
  const isWrong = dump === undefined ? isInUse : isMisprinted(dump);
  return isWrong ? [{file: 'nft-ruleset.json', argv: ['nft', '-j', 'list', 'ruleset'], isDump: false}] : [];
}

/** The process ID of kube-proxy; null if there is none, or nothing that finds it. */
async function proxyProcess(run: Run): Promise<string | null> {
  for (const argv of [
    ['pidof', 'kube-proxy'],
    ['pgrep', '-x', 'kube-proxy'],
  ]) {
    try {
      const found = /^\d+/.exec((await run(argv)).toString('latin1').trim())?.[0];
      if (found !== undefined) return found;
    } catch (error) {
      if (!(error instanceof CommandFailed) || (error.exitCode === null && !error.notFound)) throw error;
    }
  }
  return null;
}
