import type {ArgumentParts, CommandParts, FlagParts} from '../command-parts.ts';
import {wrap} from '../../render/wrap.ts';
import {type HelpLayout, helpWidth, rowLines} from './help-rows.ts';

/** What help shows of a command. */
export interface HelpSpec extends CommandParts<HelpFlag, HelpArgument> {
  readonly description?: string | undefined;
  readonly examples?: readonly unknown[] | undefined;
}

interface HelpFlag extends FlagParts {
  readonly default?: unknown;
  readonly required?: boolean | undefined;
  readonly helpGroup?: string | undefined;
}

interface HelpArgument extends ArgumentParts {
  readonly description?: string | undefined;
  readonly required?: boolean | undefined;
}

/** The help of one command: usage in one line, examples, description, its own flags, and last the connection flags. */
export function commandHelp(spec: HelpSpec, layout: HelpLayout): string {
  const {summary = '', description = '', flags} = spec;
  const width = helpWidth(layout);
  const shown = Object.values(flags).filter(({hidden}) => hidden !== true);
  const groups = Map.groupBy(shown, ({helpGroup = 'OTHER'}) => helpGroup);
  const order = [...groups.keys()].toSorted((a, b) => Number(a === connection) - Number(b === connection));
  return [
    wrap(summary, width, '').join('\n'),
    `Usage: ${layout.bin} ${spec.id}${argumentsText(spec)} [flags]`,
    ...examplesText(spec, layout.bin),
    description
      .split('\n')
      .flatMap(line => wrap(line, width, ''))
      .join('\n'),
    ...argumentLines(spec, width),
    ...order.map(group => groupText(group, groups.get(group) ?? [], width)),
  ]
    .filter(part => part !== '')
    .join('\n\n');
}

const connection = 'CLUSTER';

function argumentsText({args = {}, strict}: HelpSpec): string {
  return Object.values(args)
    .map(({name, required}) => {
      const text = name.toUpperCase() + (strict === false ? '...' : '');
      return required === true ? ` ${text}` : ` [${text}]`;
    })
    .join('');
}

function examplesText({examples = []}: HelpSpec, bin: string): readonly string[] {
  const lines = examples.filter(example => typeof example === 'string').map(example => `  ${example.replaceAll('<%= config.bin %>', bin)}`);
  return lines.length === 0 ? [] : [['Examples:', ...lines].join('\n')];
}

function argumentLines({args = {}}: HelpSpec, width: number): readonly string[] {
  const rows = Object.values(args).map(({name, description = '', options}) => ({
    head: `  ${name.toUpperCase()}`,
    text: [description, ...oneOf(options)].join(': '),
  }));
  return rows.length === 0 ? [] : [['Arguments:', ...rowLines(rows, width)].join('\n')];
}

function groupText(group: string, flags: readonly HelpFlag[], width: number): string {
  const title = group === connection ? 'Connection, as for kubectl:' : `${group.charAt(0)}${group.slice(1).toLowerCase()}:`;
  const rows = flags
    .toSorted((a, b) => Number(a.char === undefined) - Number(b.char === undefined) || (a.name < b.name ? -1 : 1))
    .map(flag => ({head: headOf(flag), text: textOf(flag)}));
  return [title, ...rowLines(rows, width)].join('\n');
}

function headOf({name, char, type, allowNo, helpValue, options}: HelpFlag): string {
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

function textOf({description = '', options, default: given, required, type}: HelpFlag): string {
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
