import {isListing, type ListedLine, type Listing, noListing, readListedLine} from './iptables-list.ts';
import {parseListingCommand} from './listing-command.ts';
import {breaksLines, undecorate} from './undecorate.ts';

/** A line of pasted text as `iptables -S` would print it. */
export interface PastedLine {
  readonly text: string;
  /** How often `iptables -L` says that other rules jump to the chain; null where it does not say. */
  readonly references: number | null;
  /** The heading of a chain in `iptables -L`. */
  readonly heading: boolean;
  /** A line among the rows of a listing that is none: rows may be missing, or it is the rest of one. */
  readonly broken: boolean;
}

/**
 * Text as people paste it, in place of a dump: the output of `iptables -L`, rules broken over lines, marks of Markdown and HTML,
 * quotes and dashes that a word processor made of ASCII ones. Gives it back as `iptables -S` would print it, line for line, so that
 * numbers of lines stay. Null when the input is a dump with tables and nothing else, which is read as it is.
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

/** The same, with what a listing says beside its rules. */
export function pastedLines(bytes: Buffer): readonly PastedLine[] {
  const whole = bytes.toString('utf8');
  const text = breaksLines(whole) ? whole.replace(/<br\s*\/?>(?=[^\n])/gi, '\n') : whole;
  const lines = joinBroken(text.split('\n').map(undecorate));
  return isListing(text) ? asRules(lines) : lines.map(line => ({text: line, ...plain}));
}

/**
 * A dump has tables, and holds nothing else that a terminal printed. It may be large: it is searched for some words and not read line
 * by line.
 */
export function isPlainDump(bytes: Buffer): boolean {
  const start = bytes.toString('latin1', 0, 4096);
  const hasTable = tableLine.test(start) || tableNames.some(name => bytes.indexOf(`\n*${name}`) >= 0);
  if (!hasTable) return false;
  if (/^(?: |\t|>|```|<|[-*] |\d+[:.)]? )/m.test(start.split(tableLine)[0] ?? '')) return false;
  return !pastedSigns.some(sign => bytes.indexOf(sign) >= 0) && !/\n\S*[$#%>] +(?:sudo |\S*kubectl |\S*\/)?ip6?tables/.test(start);
}

const tableNames = ['nat', 'filter', 'mangle', 'raw', 'security'];
const tableLine = /^\*(?:nat|filter|mangle|raw|security)\s*$/m;
/** What stands in text that was pasted and in no dump. */
const pastedSigns = [
  '\nChain ',
  '\n```',
  '\n...',
  '\n\u2026',
  '\n-P ',
  '\n> ',
  '\n    -A ',
  '</',
  '\n$ ',
  '$ iptables',
  '# iptables',
  '$ ip6tables',
  '# ip6tables',
  '$ sudo',
  '# sudo',
  '$ kubectl',
];

/** Puts the rest of a rule that was broken over lines behind its beginning, and leaves empty lines in its place. */
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

/** The name of a chain of kube-proxy's ends with 16 characters: one that is shorter goes on in the next line. */
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

/** Lines after which no row of the chain before can come. */
function endsRows(text: string): boolean {
  return /^(?:```|-[ANP] |:[A-Z]|\*[a-z]+$|#{1,6} )/.test(text) || parseListingCommand(text) !== null;
}
