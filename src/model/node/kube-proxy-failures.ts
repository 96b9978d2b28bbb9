import {isStarted, type KnownFailure, knownFailures, lesserFailures} from './known-failures.ts';

/** The name of the log of kube-proxy in a bundle. */
export const kubeProxyLog = 'kube-proxy.log';

/** Of a page that one node does not give: no firewall between the API server and all nodes. */
export const othersAnswer = 'while other nodes answer there';

interface FoundFailure {
  readonly line: string;
  /** When klog wrote the line, as month, day and time of some year: `1006 21:29:03`. Null if it does not say. */
  readonly when: string | null;
  readonly failure: KnownFailure;
  /** Hardly a line follows it. */
  readonly isAtEnd?: boolean;
}

/**
 * The last failure that a log shows; null if it shows none that is known. Where kube-proxy only says that its rules are refused, the line
 * near it that says why. `nodes` are the names of all Nodes: one that is there is no failure.
 */
export function failureIn(log: string, nodes: ReadonlySet<string> = new Set()): FoundFailure | null {
  const lines = wholeEntries(log.split('\n'));
  for (let at = lines.length - 1; at >= 0; at--) {
    const line = lineOf(lines[at] ?? '');
    const failure = knownFailures.find(({pattern}) => pattern.test(line));
    if (failure === undefined || isOver(failure, line, {after: lines.slice(at + 1), nodes})) continue;
    const telling = failure.explainedBy === undefined ? null : tellingNear(lines, at, failure.explainedBy);
    const isAtEnd = lines.slice(at + 1).filter(text => text.trim() !== '').length < maxAfter;
    return {...(telling ?? foundIn(line, failure)), isAtEnd};
  }
  return null;
}

/** Of what kube-proxy writes within some minutes. */
const maxAfter = 10;

function foundIn(line: string, failure: KnownFailure): FoundFailure {
  return {line: withoutHead(line), when: /(?:^|[ |\]])[EWF](\d{4} \d\d:\d\d:\d\d)/.exec(line)?.[1] ?? null, failure};
}

/** Of a log that somebody pasted by itself: the failure, something lesser, or the last error, of which no cause is known. */
export function troubleIn(log: string): FoundFailure | string {
  const found = failureIn(log);
  if (found !== null) return found;
  const lines = wholeEntries(log.split('\n')).map(lineOf);
  return lastKnown(lines, lesserFailures) ?? withoutHead(lines.findLast(line => hasErrorHead.test(line)) ?? '');
}

const hasErrorHead = /(?:^|[ |\]])[EF]\d{4} \d\d:/;

/**
 * Each line with the rest of its entry: errors of iptables have several lines, nft prints the rule that it could not process on the next one,
 * and a terminal breaks long ones.
 */
function wholeEntries(lines: readonly string[]): readonly string[] {
  return lines.map((line, at) => {
    if (!hasHead.test(line.slice(0, maxTested)) && !line.trimEnd().endsWith('Could not process rule: No such file or directory'))
      return line;
    const next = lines.slice(at + 1, at + 1 + maxContinued);
    const end = next.findIndex(text => text.trim() === '' || hasHead.test(text.slice(0, maxTested)));
    return [line, ...next.slice(0, end < 0 ? next.length : end)]
      .map(text => text.trim())
      .join(' ')
      .replaceAll(/\s+\)/g, ')');
  });
}

const hasHead = /(?:^|[ |\]])[IWEF]\d{4} \d\d:|^\w+\.go:\d+\] |(?:^|\s)kube-proxy\S*: |^\S+ std(?:err|out) [FP] /;
const maxContinued = 4;

/**
 * Lines of klog begin with the severity and the time, after what journald writes before them: what is only information is no failure, nor that
 * rules which kube-proxy wants to remove are not there.
 */
function lineOf(line: string): string {
  // klog escapes quotes in values of one line. The beginning says what failed; the patterns would take long for a line of megabytes.
  const text = line.slice(0, maxTested).replaceAll('\\"', '"');
  const isHarmless =
    /Error removing .*Couldn't (?:load|find) target [`']KUBE-|You can ignore this message|configuration may be incomplete/.test(text);
  return isHarmless || /^(?:.{0,100}?kube-proxy\S*: |\S+ std(?:err|out) [FP] )?I\d{4} \d\d:/.test(text) ? '' : text;
}

/** The reason stands before or after the line that says that rules are refused, or that nothing was read. */
function tellingNear(lines: readonly string[], at: number, failures: readonly KnownFailure[]): FoundFailure | null {
  return lastKnown(lines.slice(Math.max(0, at - nearLines), at + nearLines).map(lineOf), failures);
}

function lastKnown(lines: readonly string[], failures: readonly KnownFailure[]): FoundFailure | null {
  for (const line of lines.toReversed()) {
    const failure = failures.find(({pattern}) => pattern.test(line));
    if (failure !== undefined) return foundIn(line, failure);
  }
  return null;
}

const nearLines = 30;

/** A Node that is there by now, or that kube-proxy did without, is no cause, nor is a server that answered later. */
function isOver(
  {endedBy}: KnownFailure,
  line: string,
  {after, nodes}: {readonly after: readonly string[]; readonly nodes: ReadonlySet<string>},
): boolean {
  if (endedBy === undefined) return false;
  const name = endedBy === isStarted ? /nodes? \\?"([^"\\]*)\\?" not found/i.exec(line)?.[1] : undefined;
  return (name !== undefined && nodes.has(name)) || after.some(text => endedBy.test(text));
}

/** Without the time, the process and the place in the source. */
function withoutHead(line: string): string {
  const text = line.replace(/^(?:.*?[EWF]\d{4} [\d:.]+ +\d+ )?\w+\.go:\d+\] /, '').trim();
  return text.length > maxQuoted ? `${text.slice(0, maxQuoted)}…` : text;
}

const maxQuoted = 200;
const maxTested = 2000;
