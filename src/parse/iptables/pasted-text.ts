import {UnreadableText} from '../../model/text.ts';
import type {Family} from '../../model/address.ts';
import type {Backend} from '../../model/ruleset.ts';
import {isListing, type ListedLine, type Listing, noListing, readListedLine} from './iptables-list.ts';

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
  if (isPlainDump(bytes)) return null;
  return Buffer.from(
    pastedLines(bytes)
      .map(({text}) => text)
      .join('\n'),
  );
}

/** The same, with what a listing shows beside its rules. */
export function pastedLines(bytes: Buffer): readonly PastedLine[] {
  refuseTooLong(bytes);
  const whole = bytes.toString('utf8');
  const text = breaksLines(whole) ? whole.replace(/<br\s*\/?>(?=[^\n])/gi, '\n') : whole;
  const lines = joinBroken(text.split('\n').map(undecorate));
  return isListing(text) || holdsRowsOfCommand(lines) ? asRules(lines) : lines.map(line => ({text: line, ...plain}));
}

/** Whether rows follow a command that names their chain: `grep` leaves the heading out. */
export function holdsRowsOfCommand(lines: readonly string[]): boolean {
  return lines.some((line, at) => {
    const listing = listingOf(line);
    return listing !== null && lines.slice(at + 1, at + 1 + maxBetween).some(row => readListedLine(row, listing).kind === 'rule');
  });
}

/** Lines between a command and its first row. */
const maxBetween = 4;

/** What a command shows of the rows below it; null if it does not name their chain. */
function listingOf(line: string): Listing | null {
  const chain = parseListingCommand(line)?.chain ?? null;
  if (chain === null) return null;
  const numbered = /\s--line(?:-num(?:ber(?:s)?)?)?(?=\s|$)/.test(line);
  return {chain, verbose: null, numbered, isOfCommand: true};
}

/** Each line becomes an object: a dump of this size has its tables, and is read as it is. Throws an UnreadableText. */
function refuseTooLong(bytes: Buffer): void {
  let lines = 0;
  for (let at = bytes.indexOf(0x0a); at >= 0 && lines <= maxLines; at = bytes.indexOf(0x0a, at + 1)) lines++;
  if (lines > maxLines || bytes.length > maxBytes)
    throw new UnreadableText(
      `text that is no whole dump of iptables-save was not read: it has more than ${lines > maxLines ? '1,000,000 lines' : '64 MiB'}`,
    );
}

const maxLines = 1_000_000;
const maxBytes = 64 << 20;

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
    listing = (read.kind === 'other' ? listingOf(line) : null) ?? listingAfter(read, line, listing);
    if (read.kind === 'chain') return headingOf(read);
    if (read.kind === 'other')
      return {
        ...plain,
        text: line,
        broken: before.chain !== null && before.isOfCommand !== true && line.trim() !== '' && !isWarning(line) && !endsRows(line.trim()),
      };
    return {...plain, text: read.kind === 'rule' ? read.text : ''};
  });
}

function headingOf({name, policy, references}: ListedLine & {readonly kind: 'chain'}): PastedLine {
  return {...plain, heading: true, references, text: policy === null ? `-N ${name}` : `-P ${name} ${policy}`};
}

function listingAfter(read: ListedLine, line: string, listing: Listing): Listing {
  if (read.kind === 'chain') return {...listing, chain: read.name, isOfCommand: false};
  if (read.kind === 'columns') return {...listing, verbose: read.verbose, numbered: read.numbered};
  const text = line.trim();
  if (read.kind === 'rule' || isWarning(text) || (text !== '' && !endsRows(text))) return listing;
  return {...listing, chain: null, verbose: text === '' ? listing.verbose : null, isOfCommand: false};
}

/** Written beside the rows, at any place among them. */
function isWarning(line: string): boolean {
  return /^\s*(?:# )?Warning: ip6?tables-legacy tables present/.test(line);
}

/** Lines after which the previous chain has no more rows. */
function endsRows(text: string): boolean {
  return /^(?:```|-[ANP] |:[A-Z]|\*[a-z]+$|#{1,6} )/.test(text) || parseListingCommand(text) !== null;
}

/**
 * A line as the terminal printed it, before it was pasted into a chat, an issue, a blog post or a document: without colors, Markdown, HTML
 * tags and line numbers of an editor, and with ASCII quotes and dashes.
 */
export function undecorate(line: string): string {
  let text = isPlain(line) ? line : withPlainCharacters(line);
  if (text.includes('<') || text.includes('&')) text = withoutTags(text);
  return withoutMarks(text);
}

/** Whether a line contains an HTML tag for a line break. */
export function breaksLines(text: string): boolean {
  return /<br\s*\/?>/i.test(text);
}

function isPlain(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

/** Full-width letters, spaces of other widths, typographic quotes, dashes that replace two hyphens, and frames. */
function withPlainCharacters(line: string): string {
  const narrow = line
    .replace(/[\uff01-\uff5e]/g, letter => String.fromCharCode(letter.charCodeAt(0) - 0xfee0))
    .replace(/[\u00a0\u2000-\u200a\u202f\u3000]/g, ' ')
    .replace(/\u200b|\u200c|\u200d|\ufeff/g, '')
    .replace(/^\s*[\u2500-\u257f]\s?|\s*[\u2500-\u257f]\s*$/g, '');
  const straight = narrow.includes('"') ? narrow : narrow.replace(/[\u201c\u201d\u201e\u201f]/g, '"');
  return straight.replace(/^(\s*)[\u2010-\u2015\u2212](?=[AIDNP] )/, '$1-').replace(/(?<=\s)[\u2012-\u2015\u2212](?=[a-z])/g, '--');
}

const tags =
  /<\/?(?:pre|code|samp|kbd|tt|p|div|span|li|ul|ol|td|tr|th|table|tbody|b|i|em|strong|mark|blockquote|a|font|h[1-6]|br)\b[^>]*>/gi;
const entities: Readonly<Record<string, string>> = {lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ', '#39': "'", '#34': '"'};

function withoutTags(text: string): string {
  // An arrow at the end of a line points to it.
  return text
    .replace(/\s+<-{2,}\s*$/, '')
    .replace(tags, '')
    .replace(/&(lt|gt|amp|quot|apos|nbsp|#39|#34);/g, (whole, name: string) => entities[name] ?? whole);
}

/** The beginnings of relevant lines: a rule, a declaration, a table, a heading, a counter. */
const begins = String.raw`(?:-[APN] \S|:[A-Za-z][\w-]* [A-Z-]|\*(?:nat|filter|mangle|raw|security)\s*$|\[\d+:\d+\] -A |Chain \S+ \()`;
const quoteMark = /^\s*(?:>\s?)+/;
/** Of a list, and of a line that a diff adds. */
const listMark = new RegExp(`^\\s*(?:(?:[-*+\u2022]|\\d+[.)])\\s+\`?|\\+)(?=${begins})`);
const lineNumber = new RegExp(`^\\s*\\d+(?:[:|]|\\s|\t)\\s*(?=${begins})`);
/** `Nov 14 11:06:11 node-a kube-proxy[12085]: `, which logs put before what kube-proxy gives to iptables-restore. */
const logMark = new RegExp(`^[A-Z0-9]\\S*\\s[^"]{0,80}?\\S\\[\\d+\\]: (?=${begins})`);
/** What listings have, besides: headings of columns, and rows. */
const row = String.raw`(?: *(?:num +)?(?:pkts bytes )?target +prot opt | *(?:\d+ +)?(?:\d+[KMGT]? +\d+[KMGT]? +)?[A-Za-z][\w-]* +(?:all|tcp|udp|sctp|icmp|\d+) +(?:--|-f|!f) )`;
/** A time, `node-a | `, `node-a: `, `root@node-a:~# `, `[root@node-a ~]$ `: what tools and people put before each line. */
const rowMark = new RegExp(
  `^\\s*(?:\\[ *\\d+\\.\\d+\\] :? ?|\\[?(?:\\d{4}-\\d\\d-\\d\\d[T ])?\\d\\d:\\d\\d:\\d\\d(?:[.,]\\d+)?(?:Z|[+-]\\d\\d:?\\d\\d)?\\]?\\s|[\\w.-]{1,60}: |(?:[\\w.-]{1,60}\\s+)?\\|\\s+|(?:\\[[^\\]]{1,60}@[^\\]]{1,60}\\]|[\\w.-]{1,60}@[\\w.-]{1,60}:\\S{1,40})[$#]\\s*)(?=${begins}|${row})`,
);
function withoutRowMark(text: string): string {
  return /^\s*[|\w[]/.test(text) && / (?:-A|:[A-Z]|Chain|\*[a-z]|-- |!?-?f |target )/.test(text) ? text.replace(rowMark, '') : text;
}

function withoutMarks(line: string): string {
  let text = withoutRowMark(line);
  if (/^\s*>/.test(text)) text = text.replace(quoteMark, '');
  if (/^\s*[-*+\u2022\d]/.test(text)) text = text.replace(listMark, '').replace(lineNumber, '');
  if (text.includes(']: ')) text = text.replace(logMark, '');
  if (text.includes('**')) text = text.replace(/^(\s*)\*\*(?=\S)/, '$1').replace(/(?<=\S)\*\*(\s*)$/, '$1');
  return text.includes('`') ? text.replace(/^\s*`{1,3}(?=[^`])/, '').replace(/(?<=[^`])`{1,3}\s*$/, '') : text;
}

/** A row of a table in Markdown, or in a frame of bars, with spaces between its cells. */
export function withoutFrame(line: string): string {
  return /^\s*\|.*\|.*\|\s*$/.test(line)
    ? line
        .split('|')
        .slice(1, -1)
        .map(cell => cell.trim())
        .join('   ')
    : line;
}

/** A command line above its output, as people paste both: what it shows about the output. */
export interface ListingCommand {
  readonly family: Family;
  /** Null if the name of the command does not show it. */
  readonly backend: Backend | null;
  /** Null for `iptables-save` without `-t`, whose output names its tables. */
  readonly table: string | null;
  /** The one chain that was listed; null for all. */
  readonly chain: string | null;
  /** Its output was piped through a filter such as grep, so rules may be missing. */
  readonly filtered: boolean;
}

/** Reads `user@node:~$ sudo iptables -S -t nat | grep web`; null if the line is not such a command. */
export function parseListingCommand(text: string): ListingCommand | null {
  if (text.length > 500 || !text.includes('tables')) return null;
  const found = command.exec(text.trim());
  if (found === null) return null;
  const [, tool, backend, save, rest = ''] = found;
  const [options = '', ...filters] = rest.split('|');
  const list = listOption.exec(options);
  if (save === undefined && list === null) return null;
  const table = /\s(?:-t|--table)[\s=]*(\w+)/.exec(options)?.[1] ?? (save === undefined ? 'filter' : null);
  const chain = save === undefined ? (list?.[1] ?? null) : null;
  return {
    family: tool === 'ip6' ? 'IPv6' : 'IPv4',
    backend: backend === undefined ? null : backend === '-nft' ? 'nft' : 'legacy',
    table,
    chain,
    filtered: filters.length > 0,
  };
}

/** Whether a line is a command at a prompt whose output is not a known listing, or is a filtered one. */
export function isPrompt(text: string): boolean {
  return /^(?:\[[^\]]*@[^\]]*\][$#]|[\w.-]+@[\w.-]+[^$#%>]{0,60}[$#%>]|[$%\u276f\u279c])\s+\S/.test(text);
}

const prompt = String.raw`(?:\[[^\]]*\]\s*[$#]\s*|[\w.-]+@[^$#%>]{0,80}[$#%>]\s*|[^\s$#%>]{0,40}\s?[$#%>\u276f\u279c]\s*|\+{1,2}\s+|\u279c\s+\S+\s+)?`;
const wrapper = String.raw`(?:(?:sudo|kubectl|k|oc|docker|podman|crictl|nerdctl|ssh|nsenter|gcloud|minikube|kind|vagrant|multipass|lxc|time|watch|chroot|bash|sh)\s(?:.*?\s)?["']?)?`;
const command = new RegExp(`^${prompt}${wrapper}(?:\\S*/)?(ip6?)tables(-legacy|-nft)?(-save)?((?:\\s[^]*)?)$`);
/** `-S`, `-nvL`, `-L CHAIN`, `--list-rules CHAIN`. */
const listOption = /\s(?:-[a-zA-Z]*[SL](?![a-zA-Z]*[ADIN]\b)[a-zA-Z]*|--list(?:-rules)?)(?=\s|$|["'])(?:\s+([A-Za-z][\w.:-]*))?/;
