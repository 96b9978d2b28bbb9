import type {Random} from '../bench/random.ts';
import {mutate, mutationsOf} from '../mutants/mutations.ts';

type Change = (lines: readonly string[], random: Random) => readonly string[];

/** A dump of iptables-save in which something is wrong with one rule, one chain, or one that a third party wrote. */
export function changeRules(dump: string, random: Random): string {
  if (random.chance(0.4)) {
    const [first, ...rest] = mutationsOf(dump);
    return first === undefined ? dump : mutate(dump, random.pick([first, ...rest]));
  }
  return random.pick(changes)(dump.split('\n'), random).join('\n');
}

const changes: readonly [Change, ...Change[]] = [
  thirdPartyRule,
  thirdPartyRule,
  thirdPartyRule,
  thirdPartyRule,
  thirdPartyRule,
  thirdPartyRule,
  ruleInOwnChain,
  ruleInOwnChain,
  (lines, random) =>
    changeOne(lines, random, / --probability /, line =>
      line.replace(/ --probability \S+/, ` --probability 0.${1 + random.below(9)}0000000000`),
    ),
  (lines, random) => changeOne(lines, random, /0x4000/, line => line.replace(/0x4000/g, random.pick(['0x2000', '0x8000', '0xc000']))),
  (lines, random) =>
    changeOne(lines, random, / -j KUBE-/, line =>
      line.replace(/ -j KUBE-\S+/, random.pick([' -j ACCEPT', ' -j RETURN', ' -j DROP', ' -j KUBE-MARK-MASQ', ''])),
    ),
  (lines, random) => changeOne(lines, random, / --dport /, line => line.replace(/ -m comment --comment "[^"]*"/, '')),
  (lines, random) => withoutChain(lines, random, /^:KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-/, true),
  (lines, random) => withoutChain(lines, random, /^:KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-/, false),
  (lines, random) => withoutChain(lines, random, /^:KUBE-/, false),
  withoutEndpoint,
  withoutEndpoint,
  moveRule,
  (lines, random) => changeOne(lines, random, /^:(?:FORWARD|INPUT|OUTPUT) ACCEPT/, line => line.replace('ACCEPT', 'DROP')),
  (lines, random) => (random.chance(0.2) ? lines.slice(0, random.below(lines.length)) : lines),
];

function placesOf(lines: readonly string[], pattern: RegExp): readonly number[] {
  return lines.flatMap((line, at) => (pattern.test(line) ? [at] : []));
}

function pickFrom<T>(items: readonly T[], random: Random): T | undefined {
  return items[random.below(Math.max(1, items.length))];
}

function changeOne(lines: readonly string[], random: Random, pattern: RegExp, change: (line: string) => string): readonly string[] {
  const at = pickFrom(placesOf(lines, pattern), random);
  return at === undefined ? lines : lines.with(at, change(lines[at] ?? ''));
}

/** What a rule of a dump matches: addresses and ports of Services and of endpoints. */
function conditionOf(lines: readonly string[], random: Random): string {
  const isIPv6 = lines.some(line => line.includes('ip6tables'));
  const known = lines.flatMap(line => [...line.matchAll(/ (?:-[sd] \S+|--dport \d+|--to-destination \S+)/g)].map(([text]) => text));
  const own = pickFrom(known, random) ?? '';
  const destination = / --to-destination \[?([^\]]*?)\]?:(\d+)$/.exec(own);
  const flag = random.pick(['-s', '-d']);
  const mask = isIPv6 ? '/128' : '/32';
  const address = destination === null ? own : ` ${flag} ${destination[1]}${mask}`;
  const ofOwn = address.includes('--dport') ? ` -p tcp -m tcp${address}` : address;
  const networks = isIPv6
    ? (['fd00:10::/32', 'fd00:10:1::/64', 'fd00:96::/112', '2001:db8::/32', '::/1'] as const)
    : (['10.244.0.0/16', '10.244.1.0/24', '10.96.0.0/16', '203.0.113.0/24', '198.51.100.0/24', '192.168.1.0/24'] as const);
  return random.pick([
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    ofOwn,
    '',
    ` ${flag} ${random.pick(networks)}`,
    ` ! ${flag} ${random.pick(networks)}`,
    ' -m mark --mark 0x4000/0x4000',
    ' -m conntrack --ctstate NEW',
    ' -m addrtype --dst-type LOCAL',
    ' -m addrtype ! --src-type LOCAL',
    ' -i eth0',
    ' -o eth0',
    ' -p udp',
    ' -p tcp -m tcp --dport 30000:32767',
    ' -m set --match-set blocked src',
    ' -m statistic --mode random --probability 0.50000000000',
    ' -m string --string "x" --algo bm',
  ]);
}

const places: readonly [readonly [string, string], ...(readonly [string, string])[]] = [
  ['nat', 'PREROUTING'],
  ['nat', 'OUTPUT'],
  ['nat', 'POSTROUTING'],
  ['nat', 'KUBE-SERVICES'],
  ['nat', 'KUBE-NODEPORTS'],
  ['nat', 'KUBE-MARK-MASQ'],
  ['nat', 'KUBE-POSTROUTING'],
  ['filter', 'FORWARD'],
  ['filter', 'INPUT'],
  ['filter', 'OUTPUT'],
  ['filter', 'KUBE-FORWARD'],
  ['filter', 'KUBE-SERVICES'],
  ['filter', 'KUBE-EXTERNAL-SERVICES'],
  ['filter', 'KUBE-PROXY-FIREWALL'],
  ['mangle', 'PREROUTING'],
  ['mangle', 'FORWARD'],
];

/** A rule at the start or the end of a chain that all Services share. */
function thirdPartyRule(lines: readonly string[], random: Random): readonly string[] {
  const [table, chain] = random.pick(places);
  return insertRule(lines, random, {table, rule: `-A ${chain}${conditionOf(lines, random)}${actionOf(lines, random, table, chain)}`});
}

/** A rule in a chain of one Service port. */
function ruleInOwnChain(lines: readonly string[], random: Random): readonly string[] {
  const chain = pickFrom(placesOf(lines, /^:KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-/), random);
  if (chain === undefined) return lines;
  const name = lines[chain]?.slice(1).split(' ')[0] ?? '';
  return insertRule(lines, random, {table: 'nat', rule: `-A ${name}${conditionOf(lines, random)}${actionOf(lines, random, 'nat', name)}`});
}

function actionOf(lines: readonly string[], random: Random, table: string, chain: string): string {
  if (table === 'filter') return random.pick([' -j ACCEPT', ' -j DROP', ' -j RETURN', ' -j REJECT']);
  if (table === 'mangle')
    return random.pick([' -j ACCEPT', ' -j DROP', ' -j MARK --set-xmark 0x4000/0x4000', ' -j MARK --set-xmark 0x0/0xffffffff']);
  const own = pickFrom(
    lines.flatMap(line => / (?:-j KUBE-(?:SVC|SVL|SEP|EXT)-\S+|-j DNAT .*)$/.exec(line)?.[0] ?? []),
    random,
  );
  const isSource = chain.includes('POSTROUTING');
  const rewrite = isSource ? ' -j MASQUERADE' : (own ?? ' -j ACCEPT');
  return random.pick([
    ' -j ACCEPT',
    ' -j RETURN',
    rewrite,
    ' -j MARK --set-xmark 0x4000/0x4000',
    isSource ? ' -j RETURN' : ' -j KUBE-MARK-MASQ',
    '',
  ]);
}

function insertRule(
  lines: readonly string[],
  random: Random,
  {table, rule}: {readonly table: string; readonly rule: string},
): readonly string[] {
  const start = lines.indexOf(`*${table}`);
  const end = lines.indexOf('COMMIT', start);
  if (start < 0 || end < 0) return lines;
  const chain = rule.split(' ')[1] ?? '';
  const own = placesOf(lines.slice(start, end), /^-A /).filter(at => lines[start + at]?.startsWith(`-A ${chain} `));
  const [first = end - start, last = end - start - 1] = [own[0], own.at(-1)];
  const at = start + random.pick([first, first, last + 1]);
  const isDeclared = lines.slice(start, end).some(line => line.startsWith(`:${chain} `));
  return isDeclared ? lines.toSpliced(at, 0, rule) : lines;
}

/** A chain without its rules, and perhaps without its declaration. */
function withoutChain(lines: readonly string[], random: Random, pattern: RegExp, whole: boolean): readonly string[] {
  const at = pickFrom(placesOf(lines, pattern), random);
  if (at === undefined) return lines;
  const name = lines[at]?.slice(1).split(' ')[0] ?? '';
  return lines.filter((line, index) => !line.startsWith(`-A ${name} `) && (!whole || index !== at));
}

/** All rules that pick an endpoint and send packets to it, or one part of them. */
function withoutEndpoint(lines: readonly string[], random: Random): readonly string[] {
  const at = pickFrom(placesOf(lines, /^:KUBE-SEP-/), random);
  if (at === undefined) return lines;
  const name = lines[at]?.slice(1).split(' ')[0] ?? '';
  const part = random.pick(['all', 'picks', 'own']);
  return lines.filter(line => !(part !== 'picks' && line.startsWith(`-A ${name} `)) && !(part !== 'own' && line.endsWith(` -j ${name}`)));
}

/** A rule at another position of its chain. */
function moveRule(lines: readonly string[], random: Random): readonly string[] {
  const from = pickFrom(placesOf(lines, /^-A KUBE-/), random);
  if (from === undefined) return lines;
  const rule = lines[from] ?? '';
  const to = pickFrom(placesOf(lines, new RegExp(`^${rule.split(' ', 2).join(' ')} `)), random) ?? from;
  return lines.toSpliced(from, 1).toSpliced(to, 0, rule);
}
