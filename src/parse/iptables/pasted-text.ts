import {isListing, type ListedLine, type Listing, noListing, readListedLine} from './iptables-list.ts';
import {parseListingCommand} from './listing-command.ts';
import {breaksLines, undecorate} from './undecorate.ts';

/** A line of pasted text as `iptables -S` would print it. */
export interface PastedLine {
  readonly text: string;
  /** How many rules jump to the chain according to `iptables -L`; null if it does not show it. */
  readonly references: number | null;
  /** The heading of a chain in `iptables -L`. */
  readonly heading: boolean;
  /** A line among the rows of a listing that is not a row: rows may be missing, or it continues one. */
  readonly broken: boolean;
}

/**
 * Converts text as people paste it to the form of `iptables -S`: the output of `iptables -L`, wrapped rules, marks of Markdown and HTML,
 * typographic quotes and dashes. Line numbers stay the same. Null if the input is a plain dump, which is read as it is.
 */
export function fromPastedText(bytes: Buffer): Buffer | null {
  return isPlainDump(bytes)
    ? null
    : Buffer.from(
        pastedLines(bytes)
          .map(({text}) => text)
          .join('\n'),
      );
}

/** The same, with what a listing shows beside its rules. */
export function pastedLines(bytes: Buffer): readonly PastedLine[] {
  const whole = bytes.toString('utf8');
  const text = breaksLines(whole) ? whole.replace(/<br\s*\/?>(?=[^\n])/gi, '\n') : whole;
  const lines = joinBroken(text.split('\n').map(undecorate));
  return isListing(text) ? asRules(lines) : lines.map(line => ({text: line, ...plain}));
}

/** A dump has tables, and no other output of a terminal. It may be large: it is searched for some words and not read line by line. */
export function isPlainDump(bytes: Buffer): boolean {
  return mayBePlainDump(bytes) && !beginnings.some(sign => bytes.indexOf(`\n${sign}`) >= 0);
}

/** The same for who reads the lines anyway, and gives up at one that `beginsPastedLine`: searching for what many lines begin with takes long. */
export function mayBePlainDump(bytes: Buffer): boolean {
  const start = bytes.toString('latin1', 0, 4096);
  const hasTable = tableLine.test(start) || tableNames.some(name => bytes.indexOf(`\n*${name}`) >= 0);
  if (!hasTable) return false;
  if (/^(?: |\t|>|```|<|[-*] |\d+[:.)]? )/m.test(start.split(tableLine)[0] ?? '')) return false;
  return !holdsPastedSign(bytes) && !/\n\S*[$#%>] +(?:sudo |\S*kubectl |\S*\/)?ip6?tables/.test(start);
}

/** Bytes are found many times faster than words, and those that the words begin with are rare in dumps. */
function holdsPastedSign(bytes: Buffer): boolean {
  for (const [byte, signs] of pastedSigns)
    for (let at = bytes.indexOf(byte); at >= 0; at = bytes.indexOf(byte, at + 1)) if (beginsWithAny(bytes, at, signs)) return true;
  return false;
}

/** Whether the line from `start` on, which is not the first one, occurs in pasted text and not in dumps. */
export function beginsPastedLine(bytes: Buffer, start: number): boolean {
  return beginsWithAny(bytes, start, beginningBytes);
}

function beginsWithAny(bytes: Buffer, start: number, signs: readonly (readonly number[])[]): boolean {
  return signs.some(sign => sign.every((byte, at) => bytes[start + at] === byte));
}

const tableNames = ['nat', 'filter', 'mangle', 'raw', 'security'];
const tableLine = /^\*(?:nat|filter|mangle|raw|security)\s*$/m;
/** What lines of pasted text begin with, and no lines of dumps. */
const beginnings = ['Chain ', '```', '...', '\u2026', '-P ', '> ', '    -A ', '$ '];
const beginningBytes = beginnings.map(sign => [...Buffer.from(sign)]);
/** Words that occur in pasted text and not in dumps, by their first byte. */
const pastedSigns = Map.groupBy(
  ['</', '$ iptables', '# iptables', '$ ip6tables', '# ip6tables', '$ sudo', '# sudo', '$ kubectl'].map(sign => [...Buffer.from(sign)]),
  ([first = 0]) => first,
);

/** Joins the lines of a wrapped rule, and leaves empty lines in their place. */
function joinBroken(lines: readonly string[]): readonly string[] {
  const joined = [...lines];
  let open = -1;
  for (const [at, line] of lines.entries()) {
    const start = open < 0 ? '' : (joined[open] ?? '');
    if (open >= 0 && continues(start, line)) {
      joined[open] = `${start.trimEnd()}${breaksWord(start, line) ? '' : ' '}${line.trim()}`;
      joined[at] = '';
    } else {
      open = /^\s*(?:\[\d+:\d+\] )?-A \S/.test(line) ? at : -1;
    }
  }
  return joined;
}

function continues(rule: string, line: string): boolean {
  const text = line.trim();
  if (text === '' || /^(?:-[AIDNP] |:|#|\*|\[\d+:\d+\] |COMMIT|Chain |```)/.test(text) || parseListingCommand(text) !== null) return false;
  return (
    hasOpenQuote(rule) || breaksWord(rule, line) || (!/ -[jg] \S/.test(rule) && /^!? ?--?[a-z]|^\S+$/.test(text)) || /^--[a-z]/.test(text)
  );
}

function hasOpenQuote(rule: string): boolean {
  return (rule.replace(/\\./g, '').match(/"/g)?.length ?? 0) % 2 === 1;
}

/** The name of a kube-proxy chain ends with 16 characters: a shorter one continues on the next line. */
function breaksWord(rule: string, line: string): boolean {
  const part = /KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-([A-Z2-7]{0,15})$/.exec(rule.trimEnd())?.[1];
  const rest = /^[A-Z2-7]+(?=\s|$)/.exec(line.trim())?.[0];
  return part !== undefined && rest !== undefined && part.length + rest.length === 16;
}

const plain = {references: null, heading: false, broken: false} as const;

function asRules(lines: readonly string[]): readonly PastedLine[] {
  let listing: Listing = noListing;
  return lines.map(line => {
    const read = readListedLine(line, listing);
    const before = listing;
    listing = listingAfter(read, line, listing);
    if (read.kind === 'chain') return headingOf(read);
    if (read.kind === 'other') return {...plain, text: line, broken: before.chain !== null && line.trim() !== '' && !endsRows(line.trim())};
    return {...plain, text: read.kind === 'rule' ? read.text : ''};
  });
}

function headingOf({name, policy, references}: ListedLine & {readonly kind: 'chain'}): PastedLine {
  return {...plain, heading: true, references, text: policy === null ? `-N ${name}` : `-P ${name} ${policy}`};
}

function listingAfter(read: ListedLine, line: string, listing: Listing): Listing {
  if (read.kind === 'chain') return {...listing, chain: read.name};
  if (read.kind === 'columns') return {...listing, verbose: read.verbose, numbered: read.numbered};
  const text = line.trim();
  if (read.kind === 'rule' || (text !== '' && !endsRows(text))) return listing;
  return {...listing, chain: null, verbose: text === '' ? listing.verbose : null};
}

/** Lines after which the previous chain has no more rows. */
function endsRows(text: string): boolean {
  return /^(?:```|-[ANP] |:[A-Z]|\*[a-z]+$|#{1,6} )/.test(text) || parseListingCommand(text) !== null;
}
