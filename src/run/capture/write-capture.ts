import {randomBytes} from 'node:crypto';
import {Errors} from '@oclif/core';
import {UnwritableTarget} from '../../collect/bundle/open-target.ts';
import type {SnapshotRecord} from '../../collect/bundle/snapshot-record.ts';
import {writeBundle} from '../../collect/bundle/write-bundle.ts';
import {Redaction, type RedactionSummary} from '../../redact/redaction.ts';
import {escapeText} from '../../render/escape.ts';
import type {Capture} from './capture.ts';
import {redactCapture} from './redact-capture.ts';

interface WriteOptions {
  /** A directory, or a file that ends in `.tgz`. */
  readonly path: string;
  readonly redact: boolean;
  readonly toolVersion: string;
  readonly signal: AbortSignal;
}

interface WrittenCapture {
  readonly record: SnapshotRecord;
  /** Null when nothing was redacted. */
  readonly redaction: RedactionSummary | null;
}

/**
 * Writes a bundle. The redaction key is random and is discarded after the run. Throws a CLIError (exit 2) if the bundle cannot be written.
 */
export async function writeCapture(capture: Capture, {path, redact, toolVersion, signal}: WriteOptions): Promise<WrittenCapture> {
  const redaction = redact ? new Redaction(randomBytes(32)) : null;
  const {origin, takenAt, serverVersion, ...content} = redaction === null ? capture : redactCapture(capture, redaction);
  try {
    const record = await writeBundle(path, {
      ...content,
      signal,
      record: {
        ...{tool: {name: 'svc-trace', version: toolVersion}, takenAt, origin: redact ? null : origin},
        ...(serverVersion === undefined ? {} : {serverVersion}),
        redacted: redact,
      },
    });
    return {record, redaction: redaction?.summary() ?? null};
  } catch (error) {
    if (error instanceof UnwritableTarget) throw new Errors.CLIError(escapeText(error.message), {exit: 2});
    throw error;
  }
}

/** Whether everything requested could be read. */
export function isComplete({nodes, problems}: SnapshotRecord): boolean {
  return Object.values(nodes).every(({status}) => status === 'read') && problems.every(({isMinor}) => isMinor);
}
