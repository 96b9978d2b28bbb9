import type {Random} from '../bench/random.ts';

/** Spoils a dump in one to five steps. The same random numbers give the same bytes. */
export function mangle(dump: string, random: Random): Buffer {
  let lines = dump.split('\n');
  for (let steps = 1 + random.below(5); steps > 0; steps--) lines = random.pick(lineManglers)(lines, random);
  const bytes = Buffer.from(lines.join(random.chance(0.03) ? '\r\n' : '\n'));
  return random.chance(0.5) ? bytes : random.pick(byteManglers)(bytes, random);
}

type LineMangler = (lines: string[], random: Random) => string[];
type ByteMangler = (bytes: Buffer, random: Random) => Buffer;

const lineManglers: readonly [LineMangler, ...LineMangler[]] = [
  deleteSome,
  doubleSome,
  shuffleSome,
  (lines, random) => random.shuffle(lines),
  (lines, random) => lines.slice(0, random.below(lines.length)),
  (lines, random) => lines.slice(random.below(lines.length)),
  (lines, random) => [...lines, ...lines.slice(random.below(lines.length))],
  deepJumps,
  loops,
  forks,
  unknownWords,
  unknownNumbers,
  negations,
  quotes,
  changeTargets,
  withCounters,
  asListing,
  endlessLine,
  unknownLines,
];

function deleteSome(lines: string[], random: Random): string[] {
  const rate = random.below(30) / 100;
  return lines.filter(() => !random.chance(rate));
}

function doubleSome(lines: string[], random: Random): string[] {
  const rate = random.below(20) / 100;
  return lines.flatMap(line => (random.chance(rate) ? [line, line] : [line]));
}

function shuffleSome(lines: string[], random: Random): string[] {
  const start = random.below(lines.length + 1);
  const end = Math.min(lines.length, start + random.below(60));
  return [...lines.slice(0, start), ...random.shuffle(lines.slice(start, end)), ...lines.slice(end)];
}

/** Puts lines into a table, behind its declarations or anywhere. */
function insert(lines: string[], random: Random, added: readonly string[]): string[] {
  const tables = lines.flatMap((line, at) => (line.startsWith('*') ? [at] : []));
  const at = tables.length === 0 || random.chance(0.2) ? random.below(lines.length + 1) : (tables[random.below(tables.length)] ?? 0) + 1;
  return [...lines.slice(0, at), ...added, ...lines.slice(at)];
}

const baseChains = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING', 'KUBE-SERVICES', 'KUBE-POSTROUTING'] as const;

/** A chain that calls a chain that calls a chain, far deeper than any kernel allows. */
function deepJumps(lines: string[], random: Random): string[] {
  const depth = 1 + random.below(3000);
  const chains = Array.from({length: depth}, (_, level) => `:DEEP-${level} - [0:0]`);
  const jumps = Array.from({length: depth}, (_, level) => `-A DEEP-${level} ${random.pick(['-j', '-g'])} DEEP-${level + 1}`);
  return insert(lines, random, [...chains, `-A ${random.pick(baseChains)} -j DEEP-0`, ...jumps]);
}

function loops(lines: string[], random: Random): string[] {
  const size = 1 + random.below(5);
  const chains = Array.from({length: size}, (_, index) => `:LOOP-${index} - [0:0]`);
  const jumps = Array.from(
    {length: size * 2},
    (_, index) => `-A LOOP-${index % size} ${randomMatch(random)} -j LOOP-${random.below(size)}`,
  );
  return insert(lines, random, [...chains, `-A ${random.pick(baseChains)} -j LOOP-0`, ...jumps]);
}

/** Chains in which a packet takes both branches at every rule, so that the number of paths doubles at each level. */
function forks(lines: string[], random: Random): string[] {
  const levels = 1 + random.below(40);
  const width = 1 + random.below(4);
  const chains = Array.from({length: levels + 1}, (_, level) => `:FORK-${level} - [0:0]`);
  const rules = Array.from({length: levels}, (_, level) =>
    Array.from(
      {length: width},
      () => `-A FORK-${level} ${randomMatch(random)} -j ${random.chance(0.3) ? randomTarget(random) : `FORK-${level + 1}`}`,
    ),
  );
  return insert(lines, random, [...chains, `-A ${random.pick(baseChains)} -j FORK-0`, ...rules.flat()]);
}

function randomMatch(random: Random): string {
  return random.pick([
    '',
    '-m statistic --mode random --probability 0.5',
    '-m statistic --mode nth --every 3 --packet 0',
    '-m bpf --bytecode "1,6 0 0 0"',
    '-m recent --rcheck --seconds 10 --name A --rsource',
    '-i cali+',
    '! -o lxc0',
    '-p tcp',
    '-m mark --mark 0x1/0x1',
    '-m set --match-set nobody src',
  ]);
}

function randomTarget(random: Random): string {
  return random.pick([
    'ACCEPT',
    'DROP',
    'RETURN',
    `MARK --set-xmark 0x${random.below(0x10000).toString(16)}/0xffff`,
    `MARK --or-mark 0x${(1 << random.below(31)).toString(16)}`,
    `DNAT --to-destination 10.0.${random.below(256)}.${random.below(256)}:${random.below(70_000)}`,
    'CONNMARK --restore-mark',
    'MASQUERADE',
    'REDIRECT --to-ports 1',
    'NOTRACK',
    'KUBE-SERVICES',
    'LARK --twist',
  ]);
}

/** Replaces one word of some rules. */
function replaceWords(lines: string[], random: Random, word: (old: string) => string): string[] {
  const rate = 0.02 + random.below(20) / 100;
  return lines.map(line => {
    if (!line.startsWith('-A ') || !random.chance(rate)) return line;
    const words = line.split(' ');
    const at = 1 + random.below(words.length - 1);
    words[at] = word(words[at] ?? '');
    return words.join(' ');
  });
}

function unknownWords(lines: string[], random: Random): string[] {
  return replaceWords(lines, random, () =>
    random.pick([
      '',
      '!',
      '-',
      '--',
      '-j',
      '-m',
      '-s',
      '-A',
      '-c',
      '\u0000',
      '\ufeff',
      'ß'.repeat(40),
      '10.0.0.0/33',
      '::/0',
      '0.0.0.0/0',
      '__proto__',
      'constructor',
      'toString',
    ]),
  );
}

function unknownNumbers(lines: string[], random: Random): string[] {
  const numbers = [
    '-1',
    '0',
    '00',
    '65536',
    '99999999999999999999',
    '1e308',
    '1e999',
    'NaN',
    'Infinity',
    '0x',
    '0xffffffffffffffff',
    '1:',
    ':1',
    '9:1',
    '1.5',
    '-0',
  ] as const;
  return lines.map(line => (line.startsWith('-A ') && random.chance(0.1) ? line.replace(/\d[\d.]*(?=\D*$)/, random.pick(numbers)) : line));
}

function negations(lines: string[], random: Random): string[] {
  return lines.map(line =>
    line.startsWith('-A ') && random.chance(0.1) ? line.replace(/ (-[a-z]|--[a-z-]+) /, random.chance(0.5) ? ' ! $1 ' : ' $1 ! ') : line,
  );
}

function quotes(lines: string[], random: Random): string[] {
  const signs = ['"', '\\"', "'", '\\', '“', '""'] as const;
  return lines.map(line => {
    if (!line.startsWith('-A ') || !random.chance(0.1)) return line;
    const at = random.below(line.length);
    return line.slice(0, at) + random.pick(signs) + line.slice(at);
  });
}

function changeTargets(lines: string[], random: Random): string[] {
  const chains = lines.flatMap(line => /^:(\S+)/.exec(line)?.[1] ?? []);
  return lines.map(line => {
    if (!line.startsWith('-A ') || !random.chance(0.05)) return line;
    const target = chains.length > 0 && random.chance(0.7) ? (chains[random.below(chains.length)] ?? '') : randomTarget(random);
    return line.replace(/ -[jg] .*$/, ` ${random.pick(['-j', '-g'])} ${target}`);
  });
}

/** As `iptables-save -c` prints it. */
function withCounters(lines: string[], random: Random): string[] {
  return lines.map(line => (line.startsWith('-A ') ? `[${random.below(1000)}:${random.below(1_000_000)}] ${line}` : line));
}

/** As `iptables -S` prints it. */
function asListing(lines: string[]): string[] {
  return lines.flatMap(line => {
    const chain = /^:(\S+) (\S+)/.exec(line);
    if (chain !== null) return [chain[2] === '-' ? `-N ${chain[1]}` : `-P ${chain[1]} ${chain[2]}`];
    return line.startsWith('-A ') ? [line] : [];
  });
}

function endlessLine(lines: string[], random: Random): string[] {
  const long = `-A KUBE-SERVICES -m comment --comment ${'x'.repeat(random.below(300_000))} -j RETURN`;
  return insert(lines, random, [random.chance(0.5) ? long : long.slice(3)]);
}

function unknownLines(lines: string[], random: Random): string[] {
  const hostile = [
    '*',
    '*nat',
    ':',
    ':X',
    ': - [0:0]',
    'COMMIT',
    ' COMMIT ',
    '-A',
    '-A ',
    '-A  -j X',
    '-N',
    '-P X',
    '#',
    '# Generated by ip6tables-save v1',
    '[',
    '[1:2]',
    '[1:2] -A X',
    '\t-A INPUT -j DROP',
    '  ',
    '-D INPUT -j X',
    '*\u0000',
    'iptables-save: command not found',
  ] as const;
  return Array.from({length: 1 + random.below(20)}).reduce<string[]>(all => {
    const at = random.below(all.length + 1);
    return [...all.slice(0, at), random.pick(hostile), ...all.slice(at)];
  }, lines);
}

const byteManglers: readonly [ByteMangler, ...ByteMangler[]] = [
  (bytes, random) => bytes.subarray(0, random.below(bytes.length + 1)),
  (bytes, random) => {
    const flipped = Buffer.from(bytes);
    for (let count = 1 + random.below(50); count > 0 && flipped.length > 0; count--)
      flipped[random.below(flipped.length)] = random.below(256);
    return flipped;
  },
  (bytes, random) => {
    const at = random.below(bytes.length + 1);
    const noise = Buffer.from(Array.from({length: random.below(200)}, () => random.below(256)));
    return Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)]);
  },
  (bytes, random) => {
    const at = random.below(bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(bytes.length, at + random.below(400)))]);
  },
];
