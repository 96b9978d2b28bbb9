import {closeSync, openSync, readSync, statSync} from 'node:fs';
import {Args} from '@oclif/core';
import {type FailOn, reaches} from '../../run/options/wait-limit.ts';
import {archiveFlag, evaluationFlags, outputFlag, outputFlags, quietFlag, verboseFlag} from '../options/flags.ts';
import {diagnose} from '../../diagnose.ts';
import {diffBundles, type DiffSide, unreadSince} from '../../diff/diff-bundles.ts';
import type {BundleDiff} from '../../model/findings/bundle-diff.ts';
import {parseCheckReport, startsAsReport} from '../../parse/check-report.ts';
import {plainText} from '../../parse/lines.ts';
import {readTextFile} from '../../collect/text-file.ts';
import {diffRenderers} from '../../render/table/diff-report.ts';
import {type ArchiveFlag, BaseCommand} from './base-command.ts';
import {wrongUse} from '../../run/wrong-use.ts';

export default class DiffCommand extends BaseCommand {
  static override summary = 'Compare two bundles: what is new and resolved';
  static override description =
    `Shows which Services, endpoints, rules and findings are new, resolved or changed between two bundles, or two reports of "check -o json". Of reports only nodes and findings are compared. Two bundles of "capture --counters" also show the connections that endpoints got in between.
Exit codes: 0 no new finding reaches --fail-on, 1 a new finding does, 2 wrong use, 3 no new finding does, and no node was checked on one of the sides, or a node with earlier findings not this time.`;
  static override examples = ['<%= config.bin %> diff before.tgz after.tgz', '<%= config.bin %> diff yesterday.json today.json -o json'];
  static override args = {
    before: Args.string({description: 'the earlier bundle or report', required: true, ignoreStdin: true}),
    after: Args.string({description: 'the later one', required: true, ignoreStdin: true}),
  };
  static override flags = {
    ...archiveFlag,
    ...outputFlags,
    quiet: quietFlag('print the first line only'),
    verbose: verboseFlag('every line of rules that changed'),
    'fail-on': evaluationFlags['fail-on'],
    output: outputFlag(diffRenderers, 'table'),
  };

  async run(): Promise<void> {
    const {args, flags} = await this.parse(DiffCommand);
    if (args.before === '-' && args.after === '-') throw wrongUse('only one of the two can be read from standard input');
    const [before, after] = [await this.#side(args.before, flags), await this.#side(args.after, flags)];
    const diff = await this.#diff(before, after);
    const render = diffRenderers[flags.output as keyof typeof diffRenderers];
    this.print(render(diff, this.renderOptions(flags)), flags['output-file']);
    const isWorse = diff.findings.some(({kind, finding}) => kind === 'came' && reaches(finding, flags['fail-on'] as FailOn));
    const isIncomplete = diff.uncheckedSides !== undefined || unreadSince(before.report, after.report).length > 0;
    process.exitCode = isWorse ? 1 : isIncomplete ? 3 : 0;
  }

  /** With the connections between the two, where both bundles counted them. */
  async #diff(before: DiffSide, after: DiffSide): Promise<BundleDiff> {
    const diff = diffBundles(before, after);
    if (before.snapshot === null || after.snapshot === null) return diff;
    const {connectionsBetween} = await import('../../run/top/top-bundles.ts');
    const {notCompared, ...counted} = connectionsBetween(before.snapshot, after.snapshot, {toolVersion: this.config.version});
    return {...diff, ...counted, notCompared: [...diff.notCompared, ...notCompared]};
  }

  async #side(path: string, flags: ArchiveFlag): Promise<DiffSide> {
    const text = textOfReport(path);
    if (text === null) {
      const snapshot = await this.snapshot(path, flags);
      return {snapshot, report: diagnose(snapshot, {toolVersion: this.config.version})};
    }
    const report = parseCheckReport(text);
    if ('whyNot' in report) throw wrongUse(`cannot use the report ${path}: ${report.whyNot}`);
    return {snapshot: null, report};
  }
}

/** Null if it is not a report; readers of bundles report the error. */
function textOfReport(path: string): string | null {
  if (!statSync(path, {throwIfNoEntry: false})?.isFile()) return null;
  const start = Buffer.alloc(startLength);
  const file = openSync(path, 'r');
  try {
    readSync(file, start, 0, startLength, 0);
  } finally {
    closeSync(file);
  }
  return startsAsReport(plainText(start).toString('utf8')) ? readTextFile(path) : null;
}

/** How much of a file is read to find its type, in bytes. */
const startLength = 200;
