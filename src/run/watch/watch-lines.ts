import type {Report} from '../../model/report.ts';
import {blockSentence} from '../../render/block-texts.ts';
import {nodeList} from '../../render/names-of-nodes.ts';
import {bySeverity, escapeText, type Style, styleOf} from '../../render/terminal-text.ts';
import {secondsText, verdictLine} from '../../render/verdict-line.ts';
import type {TimedChange} from './finding-changes.ts';

/** Where `watch` shows its results. */
export interface WatchView {
  /** Another report, and its changes. `at` is when the check ended, in milliseconds since 1970. */
  show(report: Report, changes: readonly TimedChange[], at: number): void;
  /** A check failed. */
  trouble(message: string): void;
  /** The current activity. */
  say(text: string): void;
  /** Restores the terminal. */
  close(): void;
}

interface LinesOutput {
  readonly color: boolean;
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
}

/** Without a terminal: one line for each new or resolved cause, and one whenever the verdict changes. */
export function watchLines({color, out, error}: LinesOutput): WatchView {
  const style = styleOf(color);
  let verdict = '';
  let trouble = '';
  return {
    show: (report: Report, changes: readonly TimedChange[], at: number) => {
      trouble = '';
      for (const change of changes) out(`${timeOf(change.at)} ${changeLine(change, style)}\n`);
      const line = verdictLine(report, style);
      if (line !== verdict) out(`${timeOf(at)} ${line}\n`);
      verdict = line;
    },
    trouble: message => {
      if (message !== trouble) error(`${message}\n`);
      trouble = message;
    },
    say: () => {},
    close: () => {},
  };
}

function timeOf(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** A change in one line, without its time: `new ST202 node-a shop/web:http: endpoint …`. */
export function changeLine(change: TimedChange, style: Style): string {
  if (change.kind === 'passed') {
    const seconds = secondsText((change.deletedAt - change.createdAt) / 1000);
    return `new and deleted Service ${escapeText(change.service)} (existed for ${seconds})`;
  }
  if (!('block' in change)) return `${change.kind === 'came' ? 'new' : 'deleted'} Service ${escapeText(change.service)}`;
  const {kind, block} = change;
  const {code, severity, known} = block.finding;
  const color = kind === 'went' ? style.green : bySeverity(style, severity);
  const where = block.nodes.length === 0 ? '-' : nodeList(block.nodes);
  return `${color(`${words[kind]} ${code}`)}${known ? ' (known)' : ''} ${where} ${escapeText(blockSentence(block))}`;
}

const words = {came: 'new', went: 'resolved', stood: 'present'} as const;
