import {readFileSync, statSync} from 'node:fs';
import {Args, Flags} from '@oclif/core';
import {type FailOn, reaches} from '../command/exit-code.ts';
import {judgingFlags, outputFlags} from '../command/flags.ts';
import {diagnose} from '../diagnose.ts';
import {diffBundles, type Side} from '../diff/diff-bundles.ts';
import {parseCheckReport} from '../parse/check-report.ts';
import {diffRenderers} from '../render/diff.ts';
import {BaseCommand} from './base-command.ts';

export default class Diff extends BaseCommand {
  static override summary = 'Show which Services, endpoints, rules and findings came, went and changed between two bundles';
  static override description = `Compares two bundles, or two reports of "check -o json", of which only nodes and findings can be compared.
Exit codes: 0 no finding came that reaches --fail-on, 1 one did, 2 wrong use.`;
  static override examples = ['<%= config.bin %> diff before.tgz after.tgz', '<%= config.bin %> diff yesterday.json today.json -o json'];
  static override args = {
    before: Args.string({description: 'the earlier bundle or report', required: true, ignoreStdin: true}),
    after: Args.string({description: 'the later one', required: true, ignoreStdin: true}),
  };
  static override flags = {
    ...outputFlags,
    'fail-on': judgingFlags['fail-on'],
    output: Flags.string({
      char: 'o',
      description: 'output format',
      options: Object.keys(diffRenderers),
      default: 'table',
      helpGroup: 'OUTPUT',
    }),
  };

  async run(): Promise<void> {
    const {args, flags} = await this.parse(Diff);
    const [before, after] = [await this.#side(args.before), await this.#side(args.after)];
    const diff = diffBundles(before, after);
    const render = diffRenderers[flags.output as keyof typeof diffRenderers];
    this.print(render(diff, this.renderOptions(flags)), flags['output-file']);
    const isWorse = diff.findings.some(({kind, finding}) => kind === 'came' && reaches(finding, flags['fail-on'] as FailOn));
    process.exitCode = isWorse ? 1 : 0;
  }

  async #side(path: string): Promise<Side> {
    const report =
      path.endsWith('.json') && statSync(path, {throwIfNoEntry: false})?.isFile() ? parseCheckReport(readFileSync(path, 'utf8')) : null;
    if (report !== null) return {snapshot: null, report};
    const snapshot = await this.snapshot(path);
    return {snapshot, report: diagnose(snapshot, {toolVersion: this.config.version})};
  }
}
