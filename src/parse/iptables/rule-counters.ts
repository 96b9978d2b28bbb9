import {canonicalNftRule} from '../nftables/nft-rule.ts';
import {readListedLine} from './iptables-list.ts';
import {undecorate} from './undecorate.ts';

/** The kernel's counters of a rule. In table nat they count only the first packet of each connection. */
interface RuleCounters {
  readonly packets: number;
  readonly bytes: number;
  /** `iptables -L -v` without `-x` prints large numbers as `12K`. */
  readonly rounded?: true;
}

/**
 * The counters in a line of a dump: before a rule as `iptables-save -c` and `iptables -L -v` print them, in it as `iptables -S -v` and
 * nft do. Null when there are none, and when the line is not the rule with this text.
 */
export function ruleCounters(raw: string, text: string): RuleCounters | null {
  const line = undecorate(raw);
  if (/^[\s+]*\d+[KMGT]?\s+\d/.test(line)) return listedCounters(line, text);
  const found = before.exec(line) ?? within.exec(line.replace(quoted, '""'));
  if (found === null || (!line.includes(text) && canonicalNftRule(line) !== text)) return null;
  return {packets: Number(found[1]), bytes: Number(found[2])};
}

/** `12  720K KUBE-SVC-…`, after the number of the row with `--line-numbers`. Rows do not name their chain: the rule must be that of the text. */
function listedCounters(line: string, text: string): RuleCounters | null {
  const chain = /^-A (\S+)/.exec(text)?.[1] ?? null;
  for (const numbered of [false, true]) {
    const read = readListedLine(line, {chain, verbose: true, numbered});
    const found = read.kind === 'rule' && read.text === text ? (numbered ? afterNumber : atStart).exec(line) : null;
    if (found === null) continue;
    const [, packets, packetUnit = '', bytes, byteUnit = ''] = found;
    const counters = {packets: Number(packets) * (units[packetUnit] ?? 1), bytes: Number(bytes) * (units[byteUnit] ?? 1)};
    return packetUnit === '' && byteUnit === '' ? counters : {...counters, rounded: true};
  }
  return null;
}

const atStart = /^[\s+]*(\d+)([KMGT]?)\s+(\d+)([KMGT]?)\s/;
const afterNumber = /^[\s+]*\d+\s+(\d+)([KMGT]?)\s+(\d+)([KMGT]?)\s/;
const units: Readonly<Record<string, number>> = {'': 1, K: 1e3, M: 1e6, G: 1e9, T: 1e12};

const before = /^\s*\[(\d+):(\d+)\]/;
const within = /(?:\s-c|\bcounter packets) (\d+) (?:bytes )?(\d+)(?=\s|$)/;
const quoted = /"(?:[^"\\]|\\.)*"/g;

/** Whether a dump has counters at all; cheap if it has none. */
export function hasCounters(dump: Buffer): boolean {
  return ['\n[', ' -c ', 'counter packets ', 'pkts bytes '].some(sign => dump.includes(sign));
}

/** Lines of a dump by number, from 1, without parsing the others. */
export function pickLines(dump: Buffer, wanted: ReadonlySet<number>): ReadonlyMap<number, string> {
  const lines = new Map<number, string>();
  for (let line = 1, start = 0; start < dump.length && lines.size < wanted.size; line++) {
    const newline = dump.indexOf(10, start);
    const end = newline < 0 ? dump.length : newline;
    if (wanted.has(line)) lines.set(line, dump.toString('utf8', start, end));
    start = end + 1;
  }
  return lines;
}
