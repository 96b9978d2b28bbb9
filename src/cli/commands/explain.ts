import process from 'node:process';
import {Args, Command} from '@oclif/core';
import {checks} from '../../checks/all-checks.ts';
import {findingCode} from '../../run/options/evaluation-options.ts';
import {pageText} from '../../render/explain/page-text.ts';
import {bySeverity, styleOf, wrap} from '../../render/renderer.ts';
import {wantsColor} from '../terminal.ts';
import {outputFlags} from '../options/flags.ts';
import {packageFile} from '../package-file.ts';

export default class ExplainCommand extends Command {
  static override summary = 'Explain a finding and what to do about it';
  static override description = 'On a terminal the page is laid out for it; elsewhere it is Markdown.';
  static override examples = [
    '<%= config.bin %> explain ST203',
    '<%= config.bin %> explain missing-endpoint',
    '<%= config.bin %> explain hairpin',
    '<%= config.bin %> explain',
  ];
  static override args = {
    code: Args.string({
      description: 'a finding code or name, or a cause or requirement that preview names; without it all are listed',
      required: false,
      ignoreStdin: true,
    }),
  };
  static override flags = {color: outputFlags.color};

  async run(): Promise<void> {
    const {args, flags} = await this.parse(ExplainCommand);
    const isTerminal = process.stdout.isTTY === true;
    const color = flags.color === 'auto' ? wantsColor(isTerminal) : flags.color === 'always';
    const width = process.stdout.columns || 80;
    if (args.code === undefined) process.stdout.write(listOf({color, width: isTerminal ? width : Infinity}));
    else {
      const page = causesOfPreview().get(args.code) ?? codePage(findingCode(args.code));
      process.stdout.write(isTerminal ? pageText(page, {color, width}) : page);
    }
  }
}

/** The page of a code; if it has commands with placeholders, with the section that says what they stand for. */
function codePage(code: string): string {
  const page = packageFile(`docs/checks/${code}.md`);
  const [, placeholders = ''] = packageFile('docs/checks/README.md').split(/^(?=## )/m);
  return /\b(?:NODE|SERVICE)\b|_POD\b/.test(page) ? `${page}\n${placeholders}` : page;
}

/** The sections of the page about `preview`, each as a page, by their names. */
function causesOfPreview(): ReadonlyMap<string, string> {
  const [, ...sections] = packageFile('docs/checks/preview.md').split(/^## /m);
  return new Map(sections.map(text => [text.split('\n', 1)[0] ?? '', `# ${text.trimEnd()}\n`]));
}

function listOf({color, width}: {readonly color: boolean; readonly width: number}): string {
  const style = styleOf(color);
  const longest = Math.max(...checks.map(({name}) => name.length));
  return checks
    .flatMap(({code, name, severity, summary}) => {
      const head = `${bySeverity(style, severity)(code)}  ${name.padEnd(longest)}  ${severity.padEnd(7)}  `;
      return wrap(summary, width, head);
    })
    .concat('', wrap([...causesOfPreview().keys()].join(', '), width, 'Causes and requirements in a preview: '))
    .map(line => `${line}\n`)
    .join('');
}
