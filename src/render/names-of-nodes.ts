import {plural} from '../model/text.ts';
import {escapeText} from './terminal-text.ts';
import {groupBy} from '../model/lists.ts';

/** Names of nodes for a sentence, escaped: consecutive names as ranges such as `node-[a-c]`; `200 nodes, such as node-a`, where these do not fit on a line. */
export function nodeList(nodes: readonly string[]): string {
  if (nodes.length <= maxNames) return nodes.map(escapeText).join(', ');
  const ranges = nodeRanges(nodes);
  const isShort = ranges.length <= maxNames && ranges.reduce((sum, {text}) => sum + text.length + 2, 0) <= maxLength;
  if (isShort || ranges.length === 1) return ranges.map(({text}) => escapeText(text)).join(', ');
  return `${nodes.length} nodes, such as ${escapeText(nodes[0] ?? '')}`;
}

/** As many ranges as fit into so many characters, at least one, and the number of the other nodes. Escaped. */
export function rangesText(ranges: readonly NodeRange[], maxCharacters: number): string {
  let length = 0;
  const tooMany = ranges.findIndex(({text}, index) => {
    length += text.length + 2;
    return index > 0 && length > maxCharacters;
  });
  const shown = tooMany < 0 ? ranges : ranges.slice(0, tooMany);
  const rest = ranges.slice(shown.length).reduce((sum, {size}) => sum + size, 0);
  return `${shown.map(({text}) => escapeText(text)).join(', ')}${rest === 0 ? '' : ` and ${plural(rest, 'more node')}`}`;
}

const maxNames = 5;
/** About a line. */
const maxLength = 72;

/** Names of nodes that differ in only one number or last letter. */
interface NodeRange {
  /** `node-[a-c]`, `worker-[01-12,15]`, `ip-10-0-3-[17-19].ec2.internal`, or a name. Not escaped. */
  readonly text: string;
  /** How many nodes it stands for. */
  readonly size: number;
}

/** Consecutive names of nodes as ranges, in the order of the given names. */
export function nodeRanges(names: readonly string[]): readonly NodeRange[] {
  const families = groupBy(names.map(memberOf), ({before, after, kind}) => JSON.stringify([before, after, kind]));
  return families.flatMap(sameLength).flatMap(rangesOf);
}

interface Member {
  readonly name: string;
  readonly before: string;
  readonly after: string;
  readonly kind: 'number' | 'letter' | 'name';
  /** How many digits the number has. */
  readonly digits: number;
  readonly value: number;
}

/**
 * The last number in the host name is counted, or a single letter at its end. The domain is the same for many nodes, although it can
 * contain numbers too (`ip-10-0-3-17.eu-central-1.compute.internal`): it is counted only where the host name has neither.
 */
function memberOf(name: string): Member {
  if (/[[\]]/.test(name)) return {name, before: name, after: '', kind: 'name', digits: 0, value: 0};
  const [, host = '', domain = ''] = isIPv4(name) ? [name, name, ''] : (/^([^.]*)(.*)$/s.exec(name) ?? []);
  const found = numberIn(host) ?? letterOf(host);
  if (found !== null) return {...found, name, after: `${found.after}${domain}`};
  const inName = numberIn(name) ?? letterOf(name);
  return inName === null ? {name, before: name, after: '', kind: 'name', digits: 0, value: 0} : {...inName, name};
}

type Counted = Omit<Member, 'name'>;

function numberIn(text: string): Counted | null {
  const [, before = '', digits = '', after = ''] = /^(.*?)(\d{1,9})(\D*)$/s.exec(text) ?? [];
  return digits === '' ? null : {before, after, kind: 'number', digits: digits.length, value: Number(digits)};
}

function letterOf(text: string): Counted | null {
  const [, before = '', letter = ''] = /^(.*[-.])([a-z])$/s.exec(text) ?? [];
  return letter === '' ? null : {before, after: '', kind: 'letter', digits: 0, value: letter.charCodeAt(0)};
}

/** Some platforms name nodes by their address. */
export function isIPv4(name: string): boolean {
  return /^\d+(\.\d+){3}$/.test(name);
}

/** If any number has leading zeros, only numbers of the same length form a range. */
function sameLength(members: readonly Member[]): readonly (readonly Member[])[] {
  const isPadded = members.some(({digits, value}) => digits > String(value).length);
  return isPadded ? [...Map.groupBy(members, ({digits}) => digits).values()] : [members];
}

/** A range names a few runs of consecutive nodes: addresses in names are seldom consecutive, and a long list of them is hard to read. */
function rangesOf(members: readonly Member[]): readonly NodeRange[] {
  const runs: Member[][] = [];
  for (const member of members.toSorted((a, b) => a.value - b.value)) {
    const run = runs.at(-1);
    if (run !== undefined && member.value === (run.at(-1)?.value ?? 0) + 1) run.push(member);
    else runs.push([member]);
  }
  const parts: Member[][][] = [];
  let length = 0;
  for (const run of runs) {
    const own = run.length > 1 ? 2 * label(run[0]).length + 2 : label(run[0]).length + 1;
    const part = parts.at(-1);
    length += own;
    if (part !== undefined && part.length < maxRuns && length <= maxRunsLength) part.push(run);
    else {
      parts.push([run]);
      length = own;
    }
  }
  return parts.map(rangeOf);
}

const maxRuns = 8;
/** So that a range fits into a line of 80 characters. */
const maxRunsLength = 48;

function rangeOf(runs: readonly (readonly Member[])[]): NodeRange {
  const [first, ...others] = runs.flat();
  if (first === undefined || others.length === 0) return {text: first?.name ?? '', size: 1};
  const parts = runs.map(run => [...new Set([run[0], run.at(-1)])].map(label).join('-'));
  return {text: `${first.before}[${parts.join(',')}]${first.after}`, size: others.length + 1};
}

function label(member: Member | undefined): string {
  if (member === undefined) return '';
  const {kind, value, digits} = member;
  return kind === 'letter' ? String.fromCharCode(value) : String(value).padStart(digits, '0');
}
