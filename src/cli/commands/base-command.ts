import {appendFileSync, statSync} from 'node:fs';
import {pipeline} from 'node:stream/promises';
import {Command, Errors} from '@oclif/core';
import {ApiError} from '../../collect/kube/kube-api.ts';
import {readServerVersion} from '../../collect/cluster/cluster-reader.ts';
import {KubeconfigError} from '../../collect/kube/kubeconfig.ts';
import {readTextFile} from '../../collect/text-file.ts';
import {readBundle, UnreadableBundle} from '../../collect/bundle/read-bundle.ts';
import type {ClusterFlags, ClusterRun} from '../../run/cluster-run.ts';
import {Interrupted, listenForInterruption, systemClock} from '../../run/clock.ts';
import type {ConnectionFlags} from '../../collect/kube/kubeconfig.ts';
import {commandText, diagnoseOptions, selectNodes} from '../options/diagnose-options.ts';
import type {WaitLimit} from '../../run/options/wait-limit.ts';
import {diagnose} from '../../diagnose.ts';
import type {Report} from '../../model/report.ts';
import type {Finding} from '../../model/finding.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {parseCheckReport} from '../../parse/check-report.ts';
import {parsePreviewPlan} from '../../parse/preview-plan.ts';
import type {PreviewPlan} from '../../model/preview-result.ts';
import {escapeText, type Provenance, type RenderOptions} from '../../render/renderer.ts';
import {cannotWrite, writeReport} from '../output-file.ts';
import {isClosedPipe, showsLinks, wantsColor} from '../terminal.ts';
import type {PreviewRunInput} from '../../preview/preview-run.ts';
import type {NodeSourceFlags} from '../../run/nodes/node-source.ts';
import type {NodeByNode} from '../../run/preview/preview-cluster.ts';
import {emptyNodeDump} from '../../run/rules/choose-rules-node.ts';
import type {NodeChoice} from '../../run/scope/choose-nodes.ts';
import {errorText, plural, shellWord, UnreadableText} from '../../model/text.ts';
import {wrongUse} from '../../run/wrong-use.ts';

/** The flags of a connection to a cluster. */
export type LiveFlags = ConnectionFlags & {readonly quiet: boolean; readonly 'no-progress': boolean};
export type ArchiveFlag = {readonly 'max-archive-size': number};
type ReportFlags = ArchiveFlag & ClusterFlags & LiveFlags & {readonly from?: string | undefined; readonly output?: string};
type ReportOptions = ClusterRun['options'];
type Live = Pick<ClusterRun, 'cluster' | 'progress' | 'signal'>;

/** The common parts of all commands: reading, writing, and error messages. */
export abstract class BaseCommand extends Command {
  /** The input of `--from` is read once: standard input cannot be read again. */
  #read: {readonly from: string; readonly snapshot: Promise<Snapshot>} | null = null;

  /** Where the report comes from, once there is one. */
  #source: Omit<Provenance, 'command'> = {};

  /** Flags without a usable connection are wrong use (exit 2); an API server that does not answer was not checked (exit 3). */
  protected override async catch(error: Error): Promise<unknown> {
    if (error instanceof KubeconfigError) throw wrongUse(error.message);
    if (error instanceof Interrupted) return process.stderr.write(`${error.message}\n`);
    if (error instanceof ApiError) throw new Errors.CLIError(escapeText(error.message), {exit: 3});
    if (error instanceof UnreadableText) throw new Errors.CLIError(escapeText(error.message), {exit: this.#read === null ? 3 : 2});
    throw error;
  }

  /**
   * The report of `check` and `trace`: of the bundle that `--from` names, otherwise of the cluster. Sets the exit code when interrupted.
   */
  protected async report(flags: ReportFlags, names: readonly string[], options: ReportOptions, wait?: WaitLimit): Promise<Report> {
    if (flags.from !== undefined) {
      const snapshot = await this.snapshot(flags.from, flags);
      return diagnose(snapshot, {...diagnoseOptions(flags, names, snapshot), ...options});
    }
    // Loaded only for a cluster, because it takes time.
    const {diagnoseCluster} = await import('../../run/diagnose-cluster.ts');
    return this.withCluster(flags, live =>
      this.withSource(live, flags.output, () => diagnoseCluster({flags, names, options, wait, clock: systemClock, ...live})),
    );
  }

  /** Adds the chosen nodes of the bundle that `--from` names, otherwise of the cluster, to a run, one by one. */
  protected async nodeByNode<T>(
    flags: LiveFlags & ArchiveFlag & NodeSourceFlags & NodeChoice & {readonly from?: string | undefined; readonly output: string},
    input: (snapshot: Snapshot) => PreviewRunInput,
    start: (input: PreviewRunInput) => NodeByNode<T>,
  ): Promise<T> {
    if (flags.from === undefined) {
      const {previewCluster} = await import('../../run/preview/preview-cluster.ts');
      const chooses = (snapshot: Snapshot) => selectNodes(flags, snapshot);
      return this.withCluster(flags, live =>
        this.withSource(live, flags.output, () => previewCluster({flags, input, start, chooses, ...live})),
      );
    }
    const snapshot = await this.snapshot(flags.from, flags);
    const isChosen = selectNodes(flags, snapshot);
    const dumped = new Set(snapshot.nodes.map(({name}) => name));
    const others = (snapshot.api.nodes ?? [])
      .filter(({metadata}) => !dumped.has(metadata.name))
      .map(({metadata}) => emptyNodeDump(metadata.name));
    const run = start(input(snapshot));
    for (const node of [...snapshot.nodes, ...others]) if (isChosen(node.name)) run.add(node);
    return run.result();
  }

  /** Runs the work, and finds out meanwhile what its report says about where it comes from. */
  protected async withSource<T>({cluster, signal}: Live, output: string | undefined, work: () => Promise<T>): Promise<T> {
    // RFC 3339, to the second.
    const readAt = new Date(systemClock.now()).toISOString().replace(/\.\d+Z$/, 'Z');
    const [result, version] = await Promise.all([work(), tellsVersion.has(output ?? '') ? readServerVersion(cluster.api, signal) : null]);
    this.#source = {source: cluster.description, readAt, serverVersion: version ?? undefined};
    return result;
  }

  /** Runs the work with a connection to the chosen cluster, until it is done or interrupted. */
  protected async withCluster<T>(flags: LiveFlags, work: (live: Live) => Promise<T>): Promise<T> {
    const {openCluster} = await import('../../run/open-cluster.ts');
    const {progressLine} = await import('../../run/nodes/node-intake.ts');
    const cluster = openCluster(flags, `svc-trace/${this.config.version}`);
    const progress = progressLine(!flags.quiet && !flags['no-progress']);
    try {
      return await this.untilInterrupted(signal => work({cluster, progress, signal}));
    } finally {
      progress.close();
      cluster[Symbol.dispose]();
    }
  }

  /** Runs work that a signal ends in an orderly way. */
  protected async untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const {signal, close} = listenForInterruption();
    try {
      return await work(signal);
    } finally {
      close();
      if (signal.reason instanceof Interrupted) process.exitCode ??= signal.reason.exitCode;
    }
  }

  /** Reads the input of `--from`. Throws a CLIError (exit 2) if it cannot be used. */
  protected async snapshot(from: string, flags: ArchiveFlag): Promise<Snapshot> {
    try {
      if (this.#read?.from !== from) this.#read = {from, snapshot: readBundle(from, {archiveLimit: flags['max-archive-size']})};
      const snapshot = await this.#read.snapshot;
      this.#source = bundleSource(snapshot);
      return snapshot;
    } catch (error) {
      if (error instanceof UnreadableBundle) throw wrongUse(error.message);
      throw error;
    }
  }

  protected renderOptions(flags: {
    readonly color: string;
    readonly quiet: boolean;
    readonly verbose?: boolean;
    readonly 'output-file'?: string | undefined;
    readonly 'fail-on'?: string | undefined;
  }): RenderOptions {
    const toFile = flags['output-file'] !== undefined;
    const toTerminal = !toFile && process.stdout.isTTY === true;
    return {
      color: flags.color === 'auto' ? !toFile && wantsColor(toTerminal) : flags.color === 'always',
      links: toTerminal && showsLinks(),
      width: toTerminal ? (process.stdout.columns ?? 100) : Number(process.env['COLUMNS']) || Infinity,
      quiet: flags.quiet,
      verbose: flags.verbose === true,
      failOn: (flags['fail-on'] ?? 'error') as RenderOptions['failOn'],
      unixTime: systemClock.now() / 1000,
      provenance: {...this.#source, command: commandText(process.argv.slice(2))},
    };
  }

  /**
   * Prints the report, or writes it to the file and says so on stderr, with its first line.
   * Throws a CLIError (exit 2) if the file cannot be written.
   */
  protected print(text: string, file: string | undefined, verdict?: string): void {
    if (file === undefined) {
      for (const piece of piecesOf(text)) process.stdout.write(piece);
      // A list of names may have none.
      if (text !== '') process.stdout.write('\n');
      return;
    }
    writeReport(file, [text, '\n']);
    sayWritten(file, verdict);
  }

  /** Throws as `print` does. */
  protected append(text: string, file: string): void {
    try {
      appendFileSync(file, `${text}\n`);
    } catch (error) {
      throw cannotWrite(file, error);
    }
  }

  /** Writes a report that is made piece by piece, each when the reader has taken the one before. Throws as `print` does. */
  protected async printPieces(pieces: Iterable<string>, file: string | undefined, verdict?: string): Promise<void> {
    if (file === undefined) {
      await pipeline(withNewline(pieces), process.stdout, {end: false}).catch(exceptClosedPipe);
      return;
    }
    writeReport(file, withNewline(pieces));
    sayWritten(file, verdict);
  }

  /** The findings of an earlier `check -o json`. Throws a CLIError (exit 2) if the file is not one. */
  protected baseline(file: string | undefined): readonly Finding[] {
    if (file === undefined) return [];
    const report = parseCheckReport(this.#readBaseline(file));
    if (!('whyNot' in report)) return report.findings;
    throw notABaseline(file, report.whyNot, `kubectl svc-trace check -A -o json --output-file ${shellWord(file)}`);
  }

  /** The plan of an earlier `preview -o json`. Throws a CLIError (exit 2) if the file is not one. */
  protected previewPlan(file: string): PreviewPlan {
    const plan = parsePreviewPlan(this.#readText(file));
    if (!('whyNot' in plan)) return plan;
    const command = `kubectl svc-trace preview -A --proxy-mode nftables -o json --output-file ${shellWord(file)}`;
    throw wrongUse(`cannot use ${file} as a plan: ${plan.whyNot}. Make one with: ${command}`);
  }

  #readBaseline(file: string): string {
    if (statSync(file, {throwIfNoEntry: false})?.isDirectory())
      throw notABaseline(
        file,
        'it is a directory',
        `kubectl svc-trace check -A --from ${shellWord(file)} -o json --output-file baseline.json`,
      );
    return this.#readText(file);
  }

  #readText(file: string): string {
    try {
      return readTextFile(file);
    } catch (error) {
      throw wrongUse(`cannot read ${file}: ${errorText(error)}`);
    }
  }
}

/** A report may be hundreds of megabytes: written at once, it would be in memory twice. A piece ends with a line. */
function* piecesOf(text: string): Iterable<string> {
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf('\n', start + pieceLength);
    const end = newline < 0 ? text.length : newline + 1;
    yield text.slice(start, end);
    start = end;
  }
}

const pieceLength = 1 << 20;

function* withNewline(pieces: Iterable<string>): Iterable<string> {
  yield* pieces;
  yield '\n';
}

/** A reader that closes the pipe (`| head`) is no error. */
function exceptClosedPipe(error: unknown): void {
  if (!isClosedPipe(error)) throw error;
}

/** A pipe or device, such as /dev/null, is no file to look for. */
function sayWritten(file: string, verdict: string | undefined): void {
  const found = statSync(file);
  if (found.isFile())
    process.stderr.write(`wrote ${escapeText(file)} (${sizeText(found.size)})${verdict === undefined ? '' : `: ${verdict}`}\n`);
}

function sizeText(bytes: number): string {
  return bytes < 10_000 ? plural(bytes, 'byte') : `${Math.round(bytes / 1000)} kB`;
}

/** Formats that say where a report comes from. For the others, nothing more is asked of the API server. */
const tellsVersion: ReadonlySet<string> = new Set(['html', 'json', 'yaml', 'markdown', 'junit']);

function bundleSource({origin, takenAt, serverVersion}: Snapshot): Omit<Provenance, 'command'> {
  return {source: origin === '-' ? 'standard input' : origin, takenAt, serverVersion};
}

function notABaseline(file: string, why: string, command: string): Error {
  return wrongUse(`cannot use ${file} as a baseline: ${why}. Make one with: ${command}`);
}
