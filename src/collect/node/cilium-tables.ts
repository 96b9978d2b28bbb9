import type {Buffer} from 'node:buffer';
import {ciliumAgentTable} from '../../model/node/cilium.ts';

/** A file of Cilium's tables in a bundle, and the arguments of `cilium-dbg` that print it. */
interface CiliumTable {
  readonly file: string;
  readonly args: readonly string[];
  /** The agent answers it by its socket; the others read the kernel's maps, and work while the agent hangs. */
  readonly asksAgent: boolean;
}

/** The map before the agent's table: what changes in between is then in the table at least. */
export const ciliumTables: readonly CiliumTable[] = [
  {file: 'version.json', args: ['version', '-o', 'json'], asksAgent: true},
  {file: 'status.json', args: ['status', '-o', 'json'], asksAgent: true},
  {file: 'db-show-node-addresses.txt', args: ['shell', '--', 'db/show', 'node-addresses'], asksAgent: true},
  {file: 'bpf-lb-list.json', args: ['bpf', 'lb', 'list', '-o', 'json'], asksAgent: false},
  {file: 'bpf-lb-list-frontends.json', args: ['bpf', 'lb', 'list', '--frontends', '-o', 'json'], asksAgent: false},
  {file: 'bpf-lb-list-source-ranges.json', args: ['bpf', 'lb', 'list', '--source-ranges', '-o', 'json'], asksAgent: false},
  {file: ciliumAgentTable, args: ['service', 'list', '-o', 'json'], asksAgent: true},
];

/** Up to 1.14 the program has the second name. */
export const ciliumPrograms = ['cilium-dbg', 'cilium'] as const;

/** Seconds that the agent may take to answer one command. */
const patience = 10;

/** Prints all tables in one exec. After an answer that does not come, the agent is asked nothing more. */
const script = [
  `c=${ciliumPrograms[0]}; command -v $c >/dev/null 2>&1 || c=${ciliumPrograms[1]}`,
  `t=; command -v timeout >/dev/null 2>&1 && t='timeout ${patience}'`,
  'h=; exec 3>&1',
  `mark() { printf '\\nsvc-trace %s %s %s %s\\n' "$1" "$2" "$c" "$(printf '%.400s' "$3" | tr '\\n' ' ')"; }`,
  'show() { f=$1; shift; e=$($t $c "$@" 2>&1 >&3 3>&-); s=$?; mark "$f" "$s" "$e"; }',
  'ask() { if [ -n "$h" ]; then mark "$1" 124; else show "$@"; case $s in 124|143) h=1;; esac; fi; }',
  ...ciliumTables.map(({file, args, asksAgent}) => `${asksAgent ? 'ask' : 'show'} ${[file, ...args].join(' ')}`),
  'exit 0',
].join('\n');

export const ciliumCommand: readonly string[] = ['sh', '-c', script];

/** What the script printed: each table, or why it is missing. Tables of which there is nothing, because the output ends before, are left out. */
export function splitCiliumTables(output: Buffer): ReadonlyMap<string, Buffer | {readonly reason: string}> {
  let start = 0;
  const found = [...output.toString('latin1').matchAll(/\nsvc-trace (\S+) (\d+) (\S+) (.*)\n/g)].map(
    (mark): [string, Buffer, RegExpExecArray] => {
      const body = output.subarray(start, mark.index);
      start = mark.index + mark[0].length;
      return [mark[1] ?? '', body, mark];
    },
  );
  return new Map(found.map(([file, body, mark]) => [file, mark[2] === '0' ? body : {reason: whyFailed(mark)}]));
}

function whyFailed({1: file, 2: code, 3: program = '', 4: said = ''}: RegExpExecArray): string {
  if (code === '124' || code === '143') return `the agent did not answer within ${patience} s`;
  if (code === '126' || code === '127') return `neither ${ciliumPrograms.join(' nor ')} is in its container`;
  const args = ciliumTables.find(table => table.file === file)?.args ?? [];
  return `${program} ${args.join(' ')} ended with exit code ${code}${said.trim() === '' ? '' : `: ${said.trim()}`}`;
}
