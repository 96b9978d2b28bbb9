import {fromPastedText} from '../parse/iptables/pasted-text.ts';
import {learnDump} from './learn-dump.ts';
import type {Replacements} from './replacements.ts';
import {redactRuleLine} from './rule-line.ts';
import {sortedOrder} from './sorted-order.ts';

/**
 * A dump of `iptables-save` or `iptables -S`; a listing of `iptables -L` is converted to one. Two passes: chain names can only be derived
 * from all of its rules.
 */
export function redactDump(given: Buffer, replacements: Replacements): Buffer {
  const dump = fromPastedText(given) ?? given;
  learnDump(linesOf(dump), replacements.chains);
  const out: Buffer[] = [];
  let part: string[] = [];
  let size = 0;
  for (const line of redactLines(linesOf(dump), replacements)) {
    part.push(line);
    size += line.length;
    if (size < partSize) continue;
    out.push(Buffer.from(`${part.join('\n')}\n`, 'latin1'));
    part = [];
    size = 0;
  }
  out.push(Buffer.from(part.join('\n'), 'latin1'));
  return Buffer.concat(out);
}

/** A dump can be larger than the longest possible string. */
const partSize = 1 << 20;

function* linesOf(dump: Buffer): Iterable<string> {
  for (let start = 0; start <= dump.length; ) {
    const end = dump.indexOf('\n', Math.min(start + partSize, dump.length));
    const until = end < 0 ? dump.length : end;
    yield* dump.toString('latin1', start, until).split('\n');
    start = until + 1;
  }
}

/** A rule of a balancing chain that jumps to the chain of an endpoint. */
interface Pick {
  readonly line: string;
  readonly chain: string;
  readonly target: string;
}

function* redactLines(lines: Iterable<string>, replacements: Replacements): Iterable<string> {
  let run: Pick[] = [];
  for (const line of lines) {
    const pick = pickOf(line);
    if (run[0] !== undefined && (pick === null || !belongsTogether(run[0], pick))) {
      yield* redactPicks(run, replacements);
      run = [];
    }
    if (pick === null) yield redactRuleLine(line, replacements);
    else run.push(pick);
  }
  yield* redactPicks(run, replacements);
}

function pickOf(line: string): Pick | null {
  const found = line.includes('-j KUBE-SEP-') ? /-A (KUBE-(?:SVC|SVL|XLB)-\S+) .*-j (KUBE-SEP-\S+)/.exec(line) : null;
  return found === null ? null : {line, chain: found[1] ?? '', target: found[2] ?? ''};
}

/** Rules for returning clients precede the balancing rules; each group lists all endpoints. */
function belongsTogether(a: Pick, b: Pick): boolean {
  return a.chain === b.chain && a.line.includes('--rcheck') === b.line.includes('--rcheck');
}

/** Endpoints swap positions, the probabilities stay in place. */
function redactPicks(run: readonly Pick[], replacements: Replacements): readonly string[] {
  const {chains, text} = replacements;
  const lines = run.map(({line}) => redactRuleLine(line, replacements));
  const before = run.map(({target}) => chains.endpointOf(target));
  if (before.some(endpoint => endpoint === null)) return lines;
  const old = before.map(endpoint => endpoint ?? '');
  const fresh = old.map(endpoint => text.replace(endpoint));
  const order = sortedOrder(old, fresh);
  if (order === null) return lines;
  return lines.map((line, place) => {
    const [from, to] = [place, order[place] ?? place];
    const rename = (name: string) => chains.replace(run[name === 'from' ? from : to]?.target ?? '');
    return line.replaceAll(rename('from'), rename('to')).replace(` -> ${fresh[from]}"`, ` -> ${fresh[to]}"`);
  });
}
