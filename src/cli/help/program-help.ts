import {wrap} from '../../render/wrap.ts';
import {type HelpLayout, type HelpRow, helpWidth, rowLines} from './help-rows.ts';

/** What the help of the program shows. */
interface ProgramSpec {
  /** One line of summary, and perhaps more lines. */
  readonly description: string;
  readonly commands: readonly {readonly id: string; readonly summary?: string | undefined; readonly hidden?: boolean | undefined}[];
}

/** The help of the program: what it does, and its commands by name. */
export function programHelp({description, commands}: ProgramSpec, layout: HelpLayout): string {
  const width = helpWidth(layout);
  const [summary = '', ...more] = description.split('\n');
  const paragraph = (text: string): string => wrap(text, width, '').join('\n');
  const rows = commands
    .filter(({hidden}) => hidden !== true)
    .map(({id, summary: text = ''}): HelpRow => ({head: `  ${id}`, text}))
    .toSorted((a, b) => (a.head < b.head ? -1 : 1));
  return [
    paragraph(summary),
    `Usage: ${layout.bin} COMMAND [flags]`,
    ...more.map(paragraph),
    ['Commands:', ...rowLines(rows, width)].join('\n'),
    ['Flags:', ...rowLines(programFlags, width)].join('\n'),
  ].join('\n\n');
}

const programFlags: readonly HelpRow[] = [
  {head: '  -h, --help', text: 'show help; after a command, its examples and flags'},
  {head: '      --version', text: 'print the version'},
];
