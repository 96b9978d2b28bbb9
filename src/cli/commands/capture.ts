import process from 'node:process';
import {Flags} from '@oclif/core';
import {type Capture as CapturedBundle, captureOf} from '../../run/capture/capture.ts';
import {captureCluster} from '../../run/capture/capture-cluster.ts';
import {connectionFlags} from '../options/connection-flags.ts';
import {captureSummary} from '../../run/capture/capture-summary.ts';
import {selectNodes} from '../options/diagnose-options.ts';
import {outputFlags, sourceFlags} from '../options/flags.ts';
import {transportFlags} from '../options/transport-flags.ts';
import {isComplete, writeCapture} from '../../run/capture/write-capture.ts';
import {BaseCommand} from './base-command.ts';

export default class Capture extends BaseCommand {
  static override summary = 'Write all that a diagnosis needs to a bundle, which --from reads';
  static override description =
    `A bundle is a directory, or the same as an archive: API objects as kubectl prints them, what each node holds as its own tools print it, and in snapshot.json when it was taken and what could not be read. Secrets are not read. With --redact names and public addresses are replaced by others, so that the findings stay and nobody is named.
Exit codes: 0 written, 2 wrong use or the bundle cannot be written, 3 written, but something could not be read.`;
  static override examples = ['<%= config.bin %> capture --from bundle -o redacted.tgz --redact'];
  static override flags = {
    ...sourceFlags,
    ...connectionFlags,
    ...transportFlags,
    output: Flags.string({
      char: 'o',
      description: 'where to: a directory, or a file that ends in .tgz; what is there is never overwritten',
      required: true,
      helpValue: 'DIR|FILE.tgz',
      helpGroup: 'OUTPUT',
    }),
    redact: Flags.boolean({description: 'replace names and public addresses consistently', default: false, helpGroup: 'OUTPUT'}),
    quiet: Flags.boolean({char: 'q', description: 'say nothing on standard error', helpGroup: 'OUTPUT'}),
    'no-progress': outputFlags['no-progress'],
  };

  async run(): Promise<void> {
    const {flags} = await this.parse(Capture);
    const {output: path, redact, from} = flags;
    const options = {path, redact, toolVersion: this.config.version};
    const {record, redaction} =
      from === undefined
        ? await this.withCluster(flags, async live => writeCapture(await captureCluster({flags, ...live}), options))
        : await writeCapture(await this.#again(from, flags), options);
    if (!flags.quiet) process.stderr.write(captureSummary(path, record, redaction));
    if (from === undefined && !isComplete(record)) process.exitCode = 3;
  }

  /** A bundle that is there. */
  async #again(from: string, choice: Parameters<typeof selectNodes>[0]): Promise<CapturedBundle> {
    const snapshot = await this.snapshot(from);
    return captureOf(snapshot, selectNodes(choice, snapshot));
  }
}
