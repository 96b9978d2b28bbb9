import type {Severity} from '../model/finding.ts';
import type {Report} from '../model/report.ts';

export interface RenderOptions {
  readonly color: boolean;
  /** Columns of the terminal; infinite for other output, whose lines can have any length. */
  readonly width: number;
  /** Codes of findings are links (OSC 8). */
  readonly links?: boolean;
  /** Only what needs attention. */
  readonly quiet: boolean;
  /** Also settings and harmless findings. */
  readonly verbose: boolean;
  /** The lowest severity that fails a run, for formats with failures. */
  readonly failOn: Severity | 'never';
  /** When the run was, in seconds since 1970, for formats that contain it. */
  readonly unixTime?: number;
  /** The source of the report, for formats that contain it. */
  readonly provenance?: Provenance;
}

export interface Provenance {
  /** Without secrets. */
  readonly command: string;
  /** The context and the server, or the bundle, as text; left out if the report has it. */
  readonly source?: string;
  /** The API server's version, if it was requested. */
  readonly serverVersion?: string | undefined;
  /** When a bundle was captured (RFC 3339), if known. */
  readonly takenAt?: string | undefined;
  /** When the reading of a cluster began (RFC 3339). */
  readonly readAt?: string;
}

/** When the nodes were read (RFC 3339), if known. */
export function readTime(provenance: Provenance | undefined): string | undefined {
  const time = provenance?.readAt ?? provenance?.takenAt;
  return time === undefined || Number.isNaN(Date.parse(time)) ? undefined : time;
}

/** Turns a Report into the text of one output format, without a newline at its end. */
export type Renderer = (report: Report, options: RenderOptions) => string;

/** The same text in pieces, so that it is never in memory as a whole. */
export type PieceRenderer = (report: Report, options: RenderOptions) => Iterable<string>;

/** Where a report comes from, as JSON has it: when the cluster was read, from which, in which scope, by which command. */
interface ReportOrigin extends Omit<Provenance, 'takenAt'> {
  readonly scope?: string;
}

/** Null where nobody asked from a command line. */
export function originOf(scope: string | undefined, {provenance}: Pick<RenderOptions, 'provenance'>): ReportOrigin | null {
  if (provenance === undefined) return null;
  const {command, source, serverVersion, takenAt, readAt = takenAt} = provenance;
  // Versions and times come from a server or a bundle, and a context may have any name.
  return {
    readAt: readAt === undefined ? undefined : escapeText(readAt),
    source: source === undefined ? undefined : escapeText(source),
    serverVersion: serverVersion === undefined ? undefined : escapeText(serverVersion),
    scope: scope === undefined ? undefined : escapeText(scope),
    command: escapeText(command),
  };
}

/** The same for formats that list it for people. The command comes last. `text`: not escaped. */
export function provenanceRows(scope: string | undefined, options: Pick<RenderOptions, 'provenance'>) {
  const origin = originOf(scope, options);
  if (origin === null) return [];
  return labels.flatMap(([field, label]) => {
    const text = origin[field];
    return text === undefined ? [] : [{field, label, text}];
  });
}

const labels: readonly (readonly [field: keyof ReportOrigin, label: string])[] = [
  ['readAt', 'read at'],
  ['source', 'from'],
  ['serverVersion', 'Kubernetes'],
  ['scope', 'scope'],
  ['command', 'command'],
];

/**
 * Escapes text from the cluster for a terminal: control characters, escape sequences and bidirectional marks are spelled out. Names and
 * comments can contain anything.
 */
export function escapeText(text: string): string {
  return text.replace(unsafe, character => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : unicodeEscape(character);
  });
}

/** The same inside the double quotes of JSON and YAML, which escape all other characters themselves. Newlines stay: they are layout. */
export function escapeUnsafe(quoted: string): string {
  return quoted.replace(unsafeButNewline, unicodeEscape);
}

export function isUnsafe(text: string): boolean {
  return text.search(unsafe) >= 0;
}

/** A tag character is two UTF-16 units, of which JSON escapes each. */
function unicodeEscape(character: string): string {
  return character.replace(/[\s\S]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** What a terminal interprets, what turns the direction of text, and what it shows nothing for: two names may differ by it alone. */
const invisible =
  '\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb';
const invisiblePairs = '[\\udb40-\\udb43][\\udc00-\\udfff]|\\ud834[\\udd73-\\udd7a]|\\ud82f[\\udca0-\\udca3]';
const unsafe = new RegExp(`[\\u0000-\\u001f${invisible}]|${invisiblePairs}`, 'g');

/** JSON of a large report has millions of lines, and each match takes time and memory. */
const unsafeButNewline = new RegExp(`[\\u0000-\\u0009\\u000b-\\u001f${invisible}]|${invisiblePairs}`, 'g');

/** Colors text, or leaves it unchanged. */
export interface Style {
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  readonly red: (text: string) => string;
  readonly yellow: (text: string) => string;
  readonly green: (text: string) => string;
  readonly cyan: (text: string) => string;
  /** A link (OSC 8), or the text alone. */
  readonly link: (text: string, url: string) => string;
}

export function styleOf(color: boolean, links = false): Style {
  const code = (open: number, close: number) => (text: string) => (color && text !== '' ? `\u001b[${open}m${text}\u001b[${close}m` : text);
  return {
    bold: code(1, 22),
    dim: code(2, 22),
    red: code(31, 39),
    yellow: code(33, 39),
    green: code(32, 39),
    cyan: code(36, 39),
    link: (text, url) => (links ? `\u001b]8;;${url}\u001b\\${text}\u001b]8;;\u001b\\` : text),
  };
}

export function bySeverity(style: Style, severity: Severity): (text: string) => string {
  return severity === 'error' ? style.red : severity === 'warning' ? style.yellow : style.cyan;
}

/** Breaks text at blanks, with color codes in words, so that no line is wider than `width`; a word that is wider stands alone. Later lines hang under the first. */
export function wrap(text: string, width: number, first: string): readonly string[] {
  const hanging = ' '.repeat(visibleLength(first));
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && hanging.length + visibleLength(line) + 1 + visibleLength(word) > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  lines.push(line);
  return lines.map((text, index) => (index === 0 ? first : hanging) + text);
}

/** Text of several lines, each broken at blanks where it is wider than `width`; what is broken off keeps the indentation of its line. */
export function wrapLines(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap(line => {
      const [indentation = ''] = /^ */.exec(line) ?? [];
      return wrap(line.slice(indentation.length), width, indentation);
    })
    .join('\n');
}

/** Sentences keep to a readable width on wide terminals, unlike rules. Without a terminal nothing is wrapped. */
export function proseWidth(width: number): number {
  return width === Infinity ? Infinity : Math.min(width, 120);
}

/** Length without color codes and the targets of links. */
export function visibleLength(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes and links begin with one
  return text.replace(/\u001b(?:\[\d+m|\]8;;[^\u001b]*\u001b\\)/g, '').length;
}

/** With blanks behind it, up to so many columns. */
export function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(width - visibleLength(text), 0));
}

/**
 * Columns like kubectl's: no lines, two spaces between. Cells may contain color codes; they are already escaped. The last column is broken
 * at blanks where the table is wider than `width`.
 */
export function plainTable(head: readonly string[], rows: readonly (readonly string[])[], width = Infinity): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => lines.reduce((width, cells) => Math.max(width, visibleLength(cells[column] ?? '')), 0));
  const last = head.length - 1;
  const before = widths.slice(0, last).reduce((sum, one) => sum + one + 2, 0);
  return lines
    .flatMap(cells => {
      const own = cells.slice(0, last).map((cell, column) => `${padded(cell, widths[column] ?? 0)}  `);
      const [first = '', ...others] = fitted(cells[last] ?? '', Math.max(width - before, minLastWidth));
      return [own.join('') + first, ...others.map(text => ' '.repeat(before) + text)].map(line => line.trimEnd());
    })
    .join('\n');
}

const minLastWidth = 20;

function fitted(cell: string, width: number): readonly string[] {
  return visibleLength(cell) <= width ? [cell] : wrap(cell, width, '');
}
