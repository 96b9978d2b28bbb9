import process from 'node:process';
import {Flags} from '@oclif/core';
import {
  type Capture as CapturedBundle,
  captureCluster,
  captureOf,
  captureSummary,
  isComplete,
  writableTarget,
  writeCapture,
} from '../../run/capture/capture-cluster.ts';
import {connectionFlags, transportFlags} from '../options/cluster-flags.ts';
import {selectNodes} from '../options/diagnose-options.ts';
import {outputFlags, sourceFlags} from '../options/flags.ts';
import {type ArchiveFlag, BaseCommand} from './base-command.ts';

export default class CaptureCommand extends BaseCommand {
  static override summary = 'Write a bundle with everything that --from needs';
  static override description =
    `A bundle is a directory or a .tgz archive: the API objects as kubectl prints them, each node's rules as its own tools print them, and snapshot.json with the time, the scope and what could not be read. Secrets are not read. --redact replaces names and public addresses consistently: the findings stay the same.
Exit codes: 0 written, 2 wrong use or the bundle cannot be written, 3 written, but part of the scope could not be read.`;
  static override examples = [
    '<%= config.bin %> capture -o bundle.tgz',
    '<%= config.bin %> capture --from bundle.tgz -o redacted.tgz --redact',
  ];
  static override flags = {
    ...sourceFlags,
    ...connectionFlags,
    ...transportFlags,
    output: Flags.string({
      char: 'o',
      description: 'the bundle: a directory, or a file that ends in .tgz; existing files are never overwritten',
      required: true,
      parse: writableTarget,
      helpValue: 'DIR|FILE.tgz',
      helpGroup: 'OUTPUT',
    }),
    counters: Flags.boolean({
      description:
        'write counters of rules, all of conntrack, and totals of IPVS too, as "top --from" needs them; tables of conntrack can be big',
      default: false,
      helpGroup: 'OUTPUT',
    }),
    redact: Flags.boolean({description: 'replace names and public addresses consistently', default: false, helpGroup: 'OUTPUT'}),
    quiet: Flags.boolean({char: 'q', description: 'print nothing on standard error', helpGroup: 'OUTPUT'}),
    'no-progress': outputFlags['no-progress'],
  };

  async run(): Promise<void> {
    const {flags} = await this.parse(CaptureCommand);
    const {output: path, redact, from} = flags;
    const options = {path, redact, toolVersion: this.config.version};
    const {record, redaction} =
      from === undefined
        ? await this.withCluster(flags, async live =>
            writeCapture(await captureCluster({flags, ...live}), {...options, signal: live.signal}),
          )
        : await this.untilInterrupted(async signal => writeCapture(await this.#again(from, flags), {...options, signal}));
    if (!flags.quiet) process.stderr.write(captureSummary(path, record, redaction));
    if (from === undefined ? !isComplete(record) : Object.keys(record.nodes).length === 0) process.exitCode = 3;
  }

  /** An existing bundle. */
  async #again(from: string, choice: Parameters<typeof selectNodes>[0] & ArchiveFlag): Promise<CapturedBundle> {
    const snapshot = await this.snapshot(from, choice);
    return captureOf(snapshot, selectNodes(choice, snapshot));
  }
}
