import {fromPastedText, type ListingCommand, parseListingCommand} from '../parse/iptables/pasted-text.ts';
import {type ChainNames, servicePortPattern} from './redact-chain-names.ts';
import {isKnownText, wordSet} from './known-words.ts';
import type {Replacements} from './replacements.ts';
import {sortedOrder} from './addresses.ts';

/**
 * A dump of `iptables-save` or `iptables -S`; a listing of `iptables -L` is converted to one. Two passes: chain names can only be derived
 * from all of its rules.
 */
export function redactDump(bytes: Buffer, replacements: Replacements): Buffer {
  const dump = fromPastedText(bytes) ?? bytes;
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

/**
 * Learns from the rules of a dump what their chain names are derived from: the Service ports in comments, and the endpoints of DNAT rules.
 * This includes Services and endpoints that are no longer in the API.
 */
function learnDump(lines: Iterable<string>, chains: ChainNames): void {
  const rewrites: string[] = [];
  const picks: string[] = [];
  const seen = new Set<string>();
  for (const line of lines) {
    if (!line.includes('KUBE-')) continue;
    const comment = flagValue(line, '--comment');
    if (comment?.includes('/') && !seen.has(comment)) {
      seen.add(comment);
      for (const word of comment.replaceAll('"', '').split(' ')) if (servicePortPattern.test(word)) chains.learn(word);
    }
    if (line.includes('-j KUBE-SEP-')) picks.push(line);
    else if (line.includes('--to-destination ')) rewrites.push(line);
  }
  const pickedBy = new Map<string, string>();
  for (const line of picks) learnPick(line, chains, pickedBy);
  for (const line of rewrites) learnRewrite(line, chains, pickedBy);
}

/** `-A KUBE-SVC-… --comment "shop/web:http -> 10.244.1.5:8080" … -j KUBE-SEP-…` */
function learnPick(line: string, chains: ChainNames, pickedBy: Map<string, string>): void {
  const [, from = '', to = ''] = /-A (\S+) .*-j (\S+)/.exec(line) ?? [];
  pickedBy.set(to, from);
  const port = chains.portOf(from);
  const [, endpoint] = / -> (\S+?)"/.exec(line) ?? [];
  if (port !== null && endpoint !== undefined) chains.learnEndpoint(port.name, port.protocol, endpoint);
}

/** The DNAT rule of an endpoint. Its Service port is in its comment, or is that of the chain that jumps to it. */
function learnRewrite(line: string, chains: ChainNames, pickedBy: ReadonlyMap<string, string>): void {
  const chain = /-A (\S+)/.exec(line)?.[1] ?? '';
  const target = flagValue(line, '--to-destination');
  if (target === null || chains.knows(chain)) return;
  const named = flagValue(line, '--comment')?.replaceAll('"', '');
  const protocol = flagValue(line, '-p');
  if (named !== undefined && protocol !== null) chains.learnEndpoint(named, protocol, target);
  const port = chains.portOf(pickedBy.get(chain) ?? '');
  if (port !== null) chains.learnEndpoint(port.name, port.protocol, target);
}

/** The kind of value of an iptables flag. Of other values, only the words of iptables are kept. */
const flagKinds = new Map<string, string>(
  Object.entries({
    chain: '-A -N -I -D -P -E -j -g --jump --goto',
    set: '--name --match-set --add-set --del-set --map-set --hashlimit-name --label',
    comment: `
      --comment --log-prefix --nflog-prefix --ulog-prefix --string --hex-string --path --helper --selctx --tls-host --tls-hostset
      --condition --rateest --rateest1 --rateest2 --rateest-name --led-trigger-id --object-pinned`,
    interface: '-i -o --in-interface --out-interface --physdev-in --physdev-out --oif',
  }).flatMap(([kind, flags]) => [...wordSet(flags)].map(flag => [flag, kind] as const)),
);

const beforeRule = /^\s*(?:\[\d+:\d+\] )?/;

/**
 * One line of `iptables-save` or `iptables -S`. Matches, targets, ports and marks stay; chains, comments, sets, interfaces, addresses and
 * all words that are not of iptables are replaced. Any other line is treated as a comment.
 */
function redactRuleLine(line: string, replacements: Replacements): string {
  if (line === 'COMMIT' || /^[.…\s]*$/.test(line)) return line;
  if (/^\*\S+$/.test(line)) return `*${tableName(line.slice(1), replacements)}`;
  if (line.startsWith(':')) return redactDeclaration(line, replacements);
  const command = parseListingCommand(line);
  if (command !== null) return printedCommand(command, replacements);
  if (line.startsWith('#')) return isHeader(line) ? line : `# ${replacements.comment(line.slice(1).trim())}`;
  const begin = beforeRule.exec(line)?.[0] ?? '';
  const rule = line.slice(begin.length);
  return /^-[ANIDPE] /.test(rule) ? begin + redactRule(rule, replacements) : replacements.comment(line);
}

/** The values of a flag in a line, such as the comment, with their quotes. Null if the line does not have the flag. */
function flagValue(line: string, flag: string): string | null {
  const at = line.indexOf(` ${flag} `);
  if (at < 0) return null;
  return /^(?:"(?:[^"\\]|\\.)*"|\S+)/.exec(line.slice(at + flag.length + 2))?.[0] ?? null;
}

function isHeader(line: string): boolean {
  return (
    /^# (?:Generated by ip6?tables(?:-nft|-legacy)?-save v[\d.]+(?: \((?:nf_tables|legacy)\))?|Completed) on \w{3} \w{3} [ \d]\d [\d:]{8} \d{4}$/.test(
      line,
    ) || /^# Warning: ip6?tables(?:-legacy)? tables present, use ip6?tables(?:-legacy)?-save to see them$/.test(line)
  );
}

/** The command line above a listing, without search terms. */
function printedCommand({family, table, filtered}: ListingCommand, replacements: Replacements): string {
  const tool = family === 'IPv6' ? 'ip6tables' : 'iptables';
  return `# ${table === null ? `${tool}-save` : `${tool} -t ${tableName(table, replacements)} -S`}${filtered ? ' | grep' : ''}`;
}

function tableName(name: string, {hash}: Replacements): string {
  return /^(?:filter|nat|mangle|raw|security|broute)$/.test(name) ? name : hash.letters('table', name, 8);
}

/** `:KUBE-SERVICES - [0:0]`. */
function redactDeclaration(line: string, replacements: Replacements): string {
  const [, name = '', rest = ''] = /^:(\S+)(.*)$/.exec(line) ?? [];
  return `:${replacements.chains.replace(name)}${rest.replace(/\S+/g, word => replacements.token(word))}`;
}

function redactRule(rule: string, replacements: Replacements): string {
  let flag = '';
  return rule.replace(/"(?:[^"\\]|\\.)*"?|[^\s"]+/g, word => {
    const before = flag;
    if (word !== '!') flag = word;
    if (/^-[A-Za-z46]$|^--[a-z]/.test(word)) return word.length === 2 || isKnownText(word) ? word : `--${replacements.names.replace(word)}`;
    return redactValue(before, word, replacements);
  });
}

function redactValue(flag: string, word: string, replacements: Replacements): string {
  const kind = flagKinds.get(flag);
  if (word === '!') return word;
  if (kind === 'chain') return replacements.chains.replace(word);
  if (kind === 'set') return replacements.setName(word);
  if (kind === 'interface') return replacements.interfaces.replace(word);
  if (kind === 'comment') return replacements.comment(word);
  return word.startsWith('"') ? word.replace(/[^\s"\\]+/g, text => replacements.token(text)) : replacements.token(word);
}
