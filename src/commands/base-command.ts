import {readFileSync, writeFileSync} from 'node:fs';
import {Command, Errors} from '@oclif/core';
import {ApiError} from '../collect/kube/kube-api.ts';
import {KubeconfigError} from '../collect/kube/kubeconfig.ts';
import {readBundle, UnreadableBundle} from '../collect/read-bundle.ts';
import {identityOf} from '../command/exit-code.ts';
import type {Finding} from '../model/finding.ts';
import type {Snapshot} from '../model/snapshot.ts';
import {escapeText} from '../render/escape.ts';
import type {RenderOptions} from '../render/renderer.ts';

/** What all commands share: reading, writing, and saying what went wrong. */
export abstract class BaseCommand extends Command {
  /** What cannot be connected to by these flags is wrong use (exit 2); an API server that does not answer could not be looked at (exit 3). */
  protected override async catch(error: Error): Promise<unknown> {
    if (error instanceof KubeconfigError) throw new Errors.CLIError(escapeText(error.message), {exit: 2});
    if (error instanceof ApiError) throw new Errors.CLIError(escapeText(error.message), {exit: 3});
    throw error;
  }

  /** Reads what `--from` names. Throws a CLIError (exit 2) when it cannot be used. */
  protected async snapshot(from: string | undefined): Promise<Snapshot> {
    if (from === undefined) {
      throw new Errors.CLIError('give a bundle with --from: this version does not read a live cluster yet', {
        exit: 2,
        suggestions: ['--from DIRECTORY', '--from bundle.tgz', 'iptables-save | svc-trace check --from -'],
      });
    }
    try {
      return await readBundle(from);
    } catch (error) {
      if (error instanceof UnreadableBundle) throw new Errors.CLIError(escapeText(error.message), {exit: 2});
      throw error;
    }
  }

  protected renderOptions(flags: {
    readonly color: string;
    readonly quiet: boolean;
    readonly verbose: boolean;
    readonly 'output-file'?: string | undefined;
    readonly 'fail-on'?: string | undefined;
  }): RenderOptions {
    const toFile = flags['output-file'] !== undefined;
    const toTerminal = !toFile && process.stdout.isTTY === true;
    return {
      color: flags.color === 'auto' ? !toFile && wantsColor(toTerminal) : flags.color === 'always',
      width: toTerminal ? (process.stdout.columns ?? 100) : Number(process.env['COLUMNS']) || Infinity,
      quiet: flags.quiet,
      verbose: flags.verbose,
      failOn: (flags['fail-on'] ?? 'error') as RenderOptions['failOn'],
    };
  }

  /** Throws a CLIError (exit 2) when the file cannot be written. */
  protected print(text: string, file: string | undefined): void {
    if (file === undefined) {
      process.stdout.write(`${text}\n`);
      return;
    }
    try {
      writeFileSync(file, `${text}\n`);
    } catch (error) {
      throw new Errors.CLIError(`cannot write the report: ${error instanceof Error ? error.message : String(error)}`, {exit: 2});
    }
  }

  /** The findings of an earlier `check -o json`. Throws a CLIError (exit 2) when the file is none. */
  protected baseline(file: string | undefined): ReadonlySet<string> {
    if (file === undefined) return new Set();
    try {
      const report = JSON.parse(readFileSync(file, 'utf8')) as {findings: readonly Finding[]};
      return new Set(
        report.findings.map(finding =>
          identityOf(
            finding.entry === undefined ? finding : {...finding, entry: {...finding.entry, address: finding.entry.address ?? null}},
          ),
        ),
      );
    } catch (error) {
      throw new Errors.CLIError(
        `cannot use ${file} as a baseline: ${error instanceof Error ? error.message : String(error)}. Make one with: check -o json --output-file ${file}`,
        {exit: 2},
      );
    }
  }
}

/** NO_COLOR and FORCE_COLOR, as https://no-color.org and Node itself read them. They are about terminals: a file gets no colour by them. */
function wantsColor(toTerminal: boolean): boolean {
  const {NO_COLOR, FORCE_COLOR} = process.env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return toTerminal && (NO_COLOR === undefined || NO_COLOR === '') && process.env['TERM'] !== 'dumb';
}
