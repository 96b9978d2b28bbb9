import process from 'node:process';
import {Flags} from '@oclif/core';
import {captureOf} from '../command/capture.ts';
import {captureSummary} from '../command/capture-summary.ts';
import {selectNodes} from '../command/diagnose-options.ts';
import {outputFlags, sourceFlags} from '../command/flags.ts';
import {writeCapture} from '../command/write-capture.ts';
import {BaseCommand} from './base-command.ts';

export default class Capture extends BaseCommand {
  static override summary = 'Write all that a diagnosis needs to a bundle, which --from reads';
  static override description =
    `A bundle is a directory, or the same as an archive: API objects as kubectl prints them, what each node holds as its own tools print it, and in snapshot.json when it was taken and what could not be read. Secrets are not read. With --redact names and public addresses are replaced by others, so that the findings stay and nobody is named.
Exit codes: 0 written, 2 wrong use or the bundle cannot be written, 3 written, but something could not be read.`;
  static override examples = ['<%= config.bin %> capture --from bundle -o redacted.tgz --redact'];
  static override flags = {
    ...sourceFlags,
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
    const snapshot = await this.snapshot(flags.from);
    const {output: path, redact} = flags;
    const {record, redaction} = await writeCapture(captureOf(snapshot, selectNodes(flags, snapshot)), {
      path,
      redact,
      toolVersion: this.config.version,
    });
    if (!flags.quiet) process.stderr.write(captureSummary(path, record, redaction));
  }
}
