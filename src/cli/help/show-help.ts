import process from 'node:process';
import {wrap} from '../../render/renderer.ts';
import {asksForHelp} from '../command-line.ts';
import {packageJson} from '../built-manifest.ts';
import {type CommandSpec, commandSpecs, type FlagSpec} from '../complete/command-spec.ts';

/** Prints the help of the command at the beginning of the arguments, or of the program. False if the arguments do not ask for help. */
export async function showHelp(args: readonly string[], {root, bin}: {readonly root: string; readonly bin: string}): Promise<boolean> {
  if (args.length > 0 && !asksForHelp(args)) return false;
  const commands = await commandSpecs(root);
  const spec = commands.find(({id}) => id === args[0]);
  const layout = {bin, width: process.stdout.columns ?? 80};
  const text =
    spec === undefined
      ? programHelp({description: packageJson(root).oclif.description ?? '', commands}, layout)
      : commandHelp(spec, {...layout, all: args.includes('--help=all')});
  process.stdout.write(`${text}\n`);
  return true;
}

/**
 * The help of one command: usage in one line, examples, description, its own flags, and last the connection flags. Flags that many
 * commands share are only named, unless all are asked for.
 * @internal
 */
export function commandHelp(spec: CommandSpec, layout: HelpLayout & {readonly all: boolean}): string {
  const {summary = '', description = '', flags} = spec;
  const width = helpWidth(layout);
  const shown = Object.values(flags).filter(({hidden}) => hidden !== true);
  const groups = Map.groupBy(shown, ({helpGroup = 'OTHER'}) => helpGroup);
  const order = [...groups.keys()].toSorted((a, b) => Number(a === connection) - Number(b === connection));
  const isNamed = (group: string): boolean => !layout.all && sharedGroups.has(group) && ownGroups[spec.id]?.includes(group) !== true;
  return [
    wrap(summary, width, '').join('\n'),
    `Usage: ${layout.bin} ${spec.id}${argumentsText(spec)} [flags]`,
    ...examplesText(spec, layout.bin),
    description
      .split('\n')
      .flatMap(line => wrap(line, width, ''))
      .join('\n'),
    ...argumentLines(spec, width),
    ...order.filter(group => !isNamed(group)).map(group => groupText(group, groups.get(group) ?? [], width)),
    ...namedText(new Map(order.filter(isNamed).map(group => [group, groups.get(group) ?? []])), width),
  ]
    .filter(part => part !== '')
    .join('\n\n');
}

const connection = 'CLUSTER';

/** What the flags of many commands are about. */
const sharedGroups: ReadonlySet<string> = new Set(['TRANSPORT', 'AGENTS', 'KUBE-PROXY', connection]);

/** Such groups that are the subject of a command. */
const ownGroups: Readonly<Record<string, readonly string[]>> = {
  access: ['TRANSPORT', 'AGENTS'],
  agent: ['TRANSPORT'],
  preview: ['KUBE-PROXY'],
  rules: ['KUBE-PROXY'],
};

function namedText(groups: ReadonlyMap<string, readonly FlagSpec[]>, width: number): readonly string[] {
  if (groups.size === 0) return [];
  const rows = [...groups].map(([group, flags]) => ({
    head: `  ${titleOf(group).split(',', 1)[0]}`,
    text: flags
      .map(({name, char}) => `--${name}${char === undefined ? '' : ` (-${char})`}`)
      .sort()
      .join(' '),
  }));
  return [['More flags, described by --help=all:', ...rowLines(rows, width)].join('\n')];
}

function titleOf(group: string): string {
  if (group === connection) return 'Connection, as for kubectl';
  return group === 'KUBE-PROXY' ? 'kube-proxy' : `${group.charAt(0)}${group.slice(1).toLowerCase()}`;
}

function argumentsText({args = {}, strict}: CommandSpec): string {
  return Object.values(args)
    .map(({name, required}) => {
      const text = name.toUpperCase() + (strict === false ? '...' : '');
      return required === true ? ` ${text}` : ` [${text}]`;
    })
    .join('');
}

function examplesText({examples = []}: CommandSpec, bin: string): readonly string[] {
  const lines = examples.filter(example => typeof example === 'string').map(example => `  ${example.replaceAll('<%= config.bin %>', bin)}`);
  return lines.length === 0 ? [] : [['Examples:', ...lines].join('\n')];
}

function argumentLines({args = {}}: CommandSpec, width: number): readonly string[] {
  const rows = Object.values(args).map(({name, description = '', options}) => ({
    head: `  ${name.toUpperCase()}`,
    text: [description, ...oneOf(options)].join(': '),
  }));
  return rows.length === 0 ? [] : [['Arguments:', ...rowLines(rows, width)].join('\n')];
}

function groupText(group: string, flags: readonly FlagSpec[], width: number): string {
  const rows = flags
    .toSorted((a, b) => Number(a.char === undefined) - Number(b.char === undefined) || (a.name < b.name ? -1 : 1))
    .map(flag => ({head: headOf(flag), text: flagText(flag)}));
  return [`${titleOf(group)}:`, ...rowLines(rows, width)].join('\n');
}

function headOf({name, char, type, allowNo, helpValue, options}: FlagSpec): string {
  const value = typeof helpValue === 'string' ? helpValue : options === undefined ? 'VALUE' : (valueNames[name] ?? 'VALUE');
  return `  ${char === undefined ? '   ' : `-${char},`} --${allowNo === true ? '[no-]' : ''}${name}${type === 'option' ? ` ${value}` : ''}`;
}

/** The placeholder of a value from a list. */
const valueNames: Readonly<Record<string, string>> = {
  output: 'FORMAT',
  transport: 'NAME',
  color: 'WHEN',
  'fail-on': 'SEVERITY',
  'ssh-address': 'TYPE',
  'detect-local-mode': 'MODE',
  'proxy-mode': 'MODE',
  protocol: 'PROTOCOL',
};

function flagText({description = '', options, default: given, required, type}: FlagSpec): string {
  const isShown = type === 'option' && (typeof given === 'string' || typeof given === 'number');
  return [
    [description, ...oneOf(options)].join(': '),
    ...(isShown ? [`(default ${String(given)})`] : []),
    ...(required === true ? ['(required)'] : []),
  ].join(' ');
}

function oneOf(options: readonly string[] | undefined): readonly string[] {
  return options === undefined ? [] : [options.join(', ')];
}

interface HelpLayout {
  /** The program as users call it. */
  readonly bin: string;
  /** Columns of the terminal. */
  readonly width: number;
}

/** A flag, argument or command, indented, and what is said about it. */
interface HelpRow {
  readonly head: string;
  readonly text: string;
}

/** In columns. Longer lines are hard to read. */
function helpWidth({width}: HelpLayout): number {
  return Math.min(width, 100);
}

/** Two columns. If a head is too long for the first, its text starts on the next line. */
function rowLines(rows: readonly HelpRow[], width: number, most = maxHead): readonly string[] {
  const column = Math.min(Math.max(...rows.map(({head}) => head.length)) + 2, most);
  return rows.flatMap(({head, text}) => {
    if (head.length + 2 <= column) return wrap(text, width, head.padEnd(column));
    return [head, ...wrap(text, width, ' '.repeat(column))];
  });
}

const maxHead = 34;

/**
 * The help of the program on one screen of 80 columns and 24 rows: examples, and the commands by purpose.
 * @internal
 */
export function programHelp(
  {description, commands}: {readonly description: string; readonly commands: readonly Pick<CommandSpec, 'id' | 'summary' | 'hidden'>[]},
  layout: HelpLayout,
): string {
  const width = helpWidth(layout);
  const shown = new Map(commands.filter(({hidden}) => hidden !== true).map(({id, summary = ''}) => [id, summary]));
  const column = Math.max(...Object.keys(purposes).map(title => title.length)) + 2;
  const rows = Object.entries(purposes).flatMap(([title, ids]) =>
    ids
      .filter(id => shown.has(id))
      .map((id, index): HelpRow => ({head: `${(index === 0 ? title : '').padEnd(column)}${id}`, text: shown.get(id) ?? ''})),
  );
  return [
    wrap(description, width, '').join('\n'),
    [`Usage: ${layout.bin} COMMAND [flags]`, ...rowLines(programExamples(layout.bin), width, 40)].join('\n'),
    rowLines(rows, width).join('\n'),
    wrap('COMMAND --help shows examples and flags, --version prints the version.', width, '').join('\n'),
  ].join('\n\n');
}

function programExamples(bin: string): readonly HelpRow[] {
  return [
    {head: `  ${bin} web -n shop`, text: 'trace one Service on every node'},
    {head: `  ${bin} check -A`, text: 'check all Services on all nodes'},
    {head: `  ${bin} explain ST202`, text: 'what a finding means'},
  ];
}

/** Every command, by what it is for. */
const purposes: Readonly<Record<string, readonly string[]>> = {
  Diagnose: ['check', 'trace', 'packet', 'top', 'watch', 'explain'],
  'Plan a change': ['preview', 'rules'],
  Collect: ['capture', 'diff'],
  'In the cluster': ['agent', 'access'],
  Shell: ['completion'],
};
