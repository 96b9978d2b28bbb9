import {canonicalNftRule} from '../nftables/nft-rule.ts';

/** What the kernel counted at a rule. In the table nat only the first packet of a connection comes by. */
interface RuleCounters {
  readonly packets: number;
  readonly bytes: number;
}

/**
 * The counters in a line of a dump: before a rule as `iptables-save -c` prints them, in it as `iptables -S -v` and nft do. Null when
 * there are none, and when the line is not the rule with this text.
 */
export function ruleCounters(line: string, text: string): RuleCounters | null {
  const found = before.exec(line) ?? within.exec(line.replace(quoted, '""'));
  if (found === null || (!line.includes(text) && canonicalNftRule(line) !== text)) return null;
  return {packets: Number(found[1]), bytes: Number(found[2])};
}

const before = /^\s*\[(\d+):(\d+)\]/;
const within = /(?:\s-c|\bcounter packets) (\d+) (?:bytes )?(\d+)(?=\s|$)/;
const quoted = /"(?:[^"\\]|\\.)*"/g;

/** Whether a dump has counters at all; costs next to nothing where it has none. */
export function hasCounters(dump: Buffer): boolean {
  return ['\n[', ' -c ', 'counter packets '].some(sign => dump.includes(sign));
}

/** Lines of a dump by their numbers, counted from 1, without reading the others. */
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
