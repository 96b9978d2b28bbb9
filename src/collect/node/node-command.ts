import {Buffer} from 'node:buffer';
import type {Backend} from '../../model/ruleset.ts';
import {parseDumpHeader} from '../../parse/iptables/dump-chain.ts';

/** How many commands run on a node at a time. */
export const parallel = 6;

/** Runs a command on the node and resolves to its stdout; rejects with a CommandFailed. */
export type Run = (argv: readonly string[]) => Promise<Buffer>;

/** How one file of a bundle is read from a node. */
export interface NodeCommand {
  /** The name in a bundle, such as `iptables-save`. */
  readonly file: string;
  /** The file that commands after it make of it: no file of a bundle itself. */
  readonly partOf?: string;
  /** The ways to read it, the best first: the next is tried if the program of one does not exist. */
  readonly variants: readonly CommandVariant[];
  /** Tried before the variants: null if they should be. `lacks` notes why something is not in it. */
  readonly inParts?: (run: Run, lacks: (reason: string) => void) => Promise<Buffer | null>;
  /** A dump of rules, which ends with COMMIT unless it is truncated. */
  readonly isDump?: boolean;
  /** A failure to read it is a problem, unless the node lacks the program or the family and has another dump. */
  readonly isRequired?: boolean;
  /** The file is missing if the output is longer, and the command is stopped. */
  readonly maxBytes?: number;
}

export interface CommandVariant {
  /** Run one after another. It is enough if one of them succeeds. */
  readonly commands: readonly (readonly string[])[];
  /** The part of the output to keep; null for none. By default all, concatenated. */
  readonly join?: (outputs: readonly Buffer[]) => Buffer | null;
  /** What it printed before it failed is kept; the next variant is tried if that is nothing. */
  readonly keepsPart?: boolean;
}

/** Files that one run of a program may give. Those that it does not give are read one by one. */
export interface JointCommand {
  readonly files: readonly string[];
  readonly argv: readonly string[];
  /** It fails where one of the things that it prints does not exist: what it printed is used. */
  readonly keepsPart?: boolean;
  /** If it prints more, it is stopped. */
  readonly maxBytes?: number;
  /** Whether a failure with this exit code would be that of each file that it did not give. */
  readonly isLast?: (exitCode: number) => boolean;
  /** The part of each file to keep; null for none. */
  readonly split: (output: Buffer, isPart: boolean) => ReadonlyMap<string, Buffer | null>;
}

/** What stands before each mark of an output, with the mark. */
export function markedParts(output: Buffer, mark: RegExp): readonly (readonly [part: Buffer, mark: RegExpExecArray])[] {
  let start = 0;
  return [...output.toString('latin1').matchAll(mark)].map(found => {
    const part = output.subarray(start, found.index);
    start = found.index + found[0].length;
    return [part, found];
  });
}

// Commands that read a node's counters. All of them only list: nothing is reset, and no accounting is switched on.

/** The table nat with its counters, by the program that prints the rules, such as `iptables-save`. */
export function natCommand(program: string): readonly string[] {
  return [program, '-c', '-t', 'nat'];
}

export const ipvsTotalsCommand: readonly string[] = ['ipvsadm', '-Ln', '--stats', '--exact'];
export const ipvsListCommand: readonly string[] = ['ipvsadm', '-Ln'];

/** The tracked connections of a family with their kernel IDs: all, or those to one original destination. */
export function conntrackCommand(family: 'ipv4' | 'ipv6', destination?: string): readonly string[] {
  return ['conntrack', '-L', '-f', family, '-o', 'id', ...(destination === undefined ? [] : ['--orig-dst', destination])];
}

/** Both families, if the program is missing and the kernel provides the file. */
export const conntrackFile: readonly string[] = ['cat', '/proc/net/nf_conntrack'];

/** `rules`: counters of rules. `all`: also all of conntrack, and the counters of IPVS. */
export type CounterScope = 'rules' | 'all';

/** The commands of a node, with counters. */
export function withCounters(commands: readonly NodeCommand[], counters: CounterScope | undefined): readonly NodeCommand[] {
  if (counters === undefined) return commands;
  const counted = commands.map(command => {
    if (command.isDump === true) return withRuleCounters(command);
    return command.file === 'conntrack' && counters === 'all' ? allConnections : command;
  });
  if (counters === 'rules' || !commands.some(({file}) => file === 'ipvsadm-save')) return counted;
  const ipvs = {'ipvsadm-stats': ipvsTotalsCommand, 'ipvsadm-list': ipvsListCommand};
  return [...counted, ...Object.entries(ipvs).map(([file, argv]): NodeCommand => ({file, variants: [{commands: [argv]}]}))];
}

function withRuleCounters(command: NodeCommand): NodeCommand {
  return {...command, variants: command.variants.map(variant => ({...variant, commands: variant.commands.map(argv => [...argv, '-c'])}))};
}

const allConnections: NodeCommand = {
  file: 'conntrack',
  variants: [{commands: [conntrackCommand('ipv4'), conntrackCommand('ipv6')]}, {commands: [conntrackFile]}],
};

/** The dumps of the backend that the default tools do not read, by their version; none if that is not known. */
export function otherBackends(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  return read.has('iptables-version') ? tools.flatMap(tool => backendsBut(tool, backendOf(beginningOf(read, 'iptables-version')))) : [];
}

export const tools = ['iptables', 'ip6tables'] as const;
type Tool = (typeof tools)[number];

/** The backend that the default tool reads; null if that is not known, or nothing was read with it. */
export function defaultBackend(tool: Tool, read: ReadonlyMap<string, Buffer>): Backend | null {
  const header = beginningOf(read, `${tool}-save`);
  // The headers of 1.8.4 to 1.8.7 do not name it.
  const isNamed = header !== '' && parseDumpHeader(header.split('\n', 1)[0] ?? '')?.backend !== null;
  const said = isNamed ? header : beginningOf(read, 'iptables-version') || header;
  return read.has(`${tool}-save`) && said !== '' ? backendOf(said) : null;
}

function backendOf(said: string): Backend {
  return said.includes('nf_tables') ? 'nft' : 'legacy';
}

/** The beginning of a file; empty if it was not read. */
export function beginningOf(read: ReadonlyMap<string, Buffer>, file: string): string {
  return read.get(file)?.toString('latin1', 0, 200) ?? '';
}

export function backendsBut(tool: Tool, current: Backend | null): readonly NodeCommand[] {
  return (['legacy', 'nft'] as const)
    .filter(backend => backend !== current)
    .map(backend => ({
      file: `${tool}-${backend}-save`,
      variants: [{commands: [[`${tool}-${backend}-save`]], join: onlyWithTables}],
      isDump: true,
    }));
}

/** A backend without tables is not in use. */
function onlyWithTables(outputs: readonly Buffer[]): Buffer | null {
  const dump = Buffer.concat(outputs);
  return dump.includes('\n*') || dump[0] === 0x2a ? dump : null;
}
