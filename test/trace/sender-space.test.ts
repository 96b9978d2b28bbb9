import {describe, expect, test} from 'vitest';
import {formatAddress, parseAddress} from '../../src/model/address.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import type {Ruleset} from '../../src/model/ruleset.ts';
import type {Environment} from '../../src/trace/walked-packet.ts';
import {allPorts, SenderConditions, senderClasses} from '../../src/trace/sender-space.ts';
import {type Side, walkSide} from '../../src/trace/side.ts';
import {parseInterval} from '../../src/parse/nftables/address-list.ts';
import {isInSet} from '../../src/trace/iptables/match-set.ts';
import {parseIpsetSave} from '../../src/parse/ipvs/ipset-save.ts';
import {seededRandom} from '../bench/random.ts';
import {environment, packetOf, ruleset} from './send.ts';

const pods = '10.244.1.0/24';
const to = {to: '10.96.0.7', port: 80};

/** The classes of a network's senders, in short: `10.244.1.0-10.244.1.7 DROP`; with their ports where not all are in it. */
function classesOf(side: Pick<Side, 'iptables' | 'nft'>, network = pods, facts: Partial<Environment> = {}): readonly string[] {
  const range = parseInterval(network);
  if (range === null) throw new Error(`no network: ${network}`);
  const {classes, rest} = senderClasses({
    spaces: [{address: [[range.low, range.high]], port: allPorts}],
    pick: ({address: [[low] = [0n]], port: [[port] = [0n]]}) => ({address: low, port: Number(port)}),
    walk: ({address, port}, note) => {
      const packet = {...packetOf({from: formatAddress('IPv4', address), ...to}), sourcePort: port, client: 'source' as const};
      const outcomes = walkSide({...side, environment: {...environment(), ...facts, sender: new SenderConditions(note)}}, packet);
      return [
        ...new Set(outcomes.map(({verdict, destination}) => (verdict === 'accept' ? (destination ?? 'passes') : verdict.toUpperCase()))),
      ].join();
    },
  });
  expect(rest).toEqual([]);
  return classes
    .map(({space, result}) => {
      const ports =
        space.port === allPorts ? '' : ` ports ${space.port.map(([low, high]) => (low === high ? low : `${low}-${high}`)).join(', ')}`;
      const ranges = space.address.map(([low, high]) => [low, high].map(value => formatAddress('IPv4', value)).join('-'));
      return `${ranges.join(', ')}${ports} ${result}`;
    })
    .sort();
}

const iptables = (tables: Readonly<Record<string, string>>) => ({iptables: [ruleset(tables)] as readonly Ruleset[], nft: null});
const nft = (text: string) => ({iptables: [], nft: parseNftDump(Buffer.from(text))});

describe('senders that no rule tells apart are one class', () => {
  test('without a rule about senders there is one', () => {
    expect(classesOf(iptables({filter: '-A FORWARD -d 10.96.0.7/32 -j DROP'}))).toEqual(['10.244.1.0-10.244.1.255 DROP']);
  });

  test('a network and the rest of the pods are two, and rules about other destinations make none', () => {
    const rules = '-A FORWARD -s 10.244.1.32/27 -j DROP\n-A FORWARD -s 10.244.1.128/25 -d 10.96.0.8/32 -j DROP';
    expect(classesOf(iptables({filter: rules}))).toEqual([
      '10.244.1.0-10.244.1.31, 10.244.1.64-10.244.1.255 passes',
      '10.244.1.32-10.244.1.63 DROP',
    ]);
  });

  test('a negated source, a range and a source port', () => {
    expect(classesOf(iptables({filter: '-A FORWARD ! -s 10.244.1.0/25 -j DROP'}))).toEqual([
      '10.244.1.0-10.244.1.127 passes',
      '10.244.1.128-10.244.1.255 DROP',
    ]);
    expect(classesOf(iptables({filter: '-A FORWARD -m iprange --src-range 10.244.1.7-10.244.1.9 -j DROP'}))).toContain(
      '10.244.1.7-10.244.1.9 DROP',
    );
    expect(classesOf(iptables({raw: '-A PREROUTING -p tcp -m tcp --sport 1000:1999 -j DROP'}))).toEqual([
      '10.244.1.0-10.244.1.255 ports 0-999, 2000-65535 passes',
      '10.244.1.0-10.244.1.255 ports 1000-1999 DROP',
    ]);
  });

  test('a thousand banned hosts in rules alike are one class, and one that is told apart is another', () => {
    const banned = Array.from({length: 200}, (_, host) => `-A FORWARD -s 10.244.1.${host}/32 -j ${host === 7 ? 'REJECT' : 'DROP'}`);
    expect(classesOf(iptables({filter: banned.join('\n')}))).toEqual([
      '10.244.1.0-10.244.1.6, 10.244.1.8-10.244.1.199 DROP',
      '10.244.1.200-10.244.1.255 passes',
      '10.244.1.7-10.244.1.7 REJECT',
    ]);
  });

  test('ranges in long chains that overlap, are negated, or stand beside networks: each sender gets what its class gets', () => {
    const {below, pick} = seededRandom(7);
    const range = () => {
      const low = below(200);
      return `10.244.1.${low}-10.244.1.${low + below(56)}`;
    };
    const network = () => `10.244.1.${16 * below(16)}/28`;
    const condition = () =>
      pick([
        `-m iprange --src-range ${range()}`,
        `-m iprange --src-range ${range()}`,
        `-m iprange ! --src-range ${range()}`,
        `-s ${network()} -m iprange --src-range ${range()}`,
        `! -s ${network()} -m iprange --src-range ${range()}`,
        `-m iprange --src-range ${range()} --dst-range 10.96.0.${below(10)}-10.96.0.9`,
        `-s ${network()}`,
      ]);
    const target = () => pick(['ACCEPT', 'DROP', 'REJECT', 'RETURN']);
    for (let round = 0; round < 20; round++) {
      const chains = ['FORWARD', 'A', 'B'].map(name => Array.from({length: 12}, () => `-A ${name} ${condition()} -j ${target()}`));
      const calls = ['-A FORWARD -j A', `-A FORWARD ${condition()} -j B`];
      const side = iptables({filter: [...(chains[0] ?? []).slice(0, 4), ...calls, ...chains.flat().slice(4)].join('\n')});
      const classes = classesOf(side);
      for (let host = 0; host < 256; host++) {
        const address = `10.244.1.${host}`;
        const [own = ''] = classesOf(side, `${address}/32`);
        const inside = classes.filter(text =>
          text
            .replace(/ \S+$/, '')
            .split(', ')
            .some(part => {
              const [low = 0, high = 0] = part.split('-').map(value => Number(value.split('.')[3]));
              return low <= host && host <= high;
            }),
        );
        expect(inside.map(text => [round, address, text.split(' ').at(-1)])).toEqual([[round, address, own.split(' ').at(-1)]]);
      }
    }
  });

  test('the same hosts before and after a rule that accepts some of them are told apart', () => {
    const drop = (from: number) => Array.from({length: 20}, (_, host) => `-A FORWARD -s 10.244.1.${from + host}/32 -j DROP`);
    const rules = [...drop(0), '-A FORWARD -s 10.244.1.16/28 -j ACCEPT', ...drop(20)];
    expect(classesOf(iptables({filter: rules.join('\n')}), '10.244.1.0/26')).toEqual([
      '10.244.1.0-10.244.1.15, 10.244.1.32-10.244.1.39 DROP',
      '10.244.1.16-10.244.1.19 DROP',
      '10.244.1.20-10.244.1.31 passes',
      '10.244.1.40-10.244.1.63 passes',
    ]);
  });

  test('members of an ipset, also where the set names ports or excludes networks', () => {
    const {sets} = parseIpsetSave(
      [
        'create plain hash:ip family inet',
        'add plain 10.244.1.9',
        'add plain 10.244.1.7',
        'create ports hash:ip,port family inet',
        'add ports 10.244.1.4,tcp:80',
        'add ports 10.244.1.5,tcp:443',
        'create nets hash:net family inet',
        'add nets 10.244.1.0/24',
        'add nets 10.244.1.128/25 nomatch',
      ].join('\n'),
    );
    const facts: Partial<Environment> = {
      inSet: (name, packet, directions, questions) => isInSet(sets, name, packet, directions, questions),
    };
    const dropped = (match: string) =>
      classesOf(iptables({filter: `-A FORWARD -m set --match-set ${match} -j DROP`}), pods, facts).filter(text => text.endsWith('DROP'));
    expect(dropped('plain src')).toEqual(['10.244.1.7-10.244.1.7, 10.244.1.9-10.244.1.9 DROP']);
    expect(dropped('ports src,dst')).toEqual(['10.244.1.4-10.244.1.4 DROP']);
    expect(dropped('nets src')).toEqual(['10.244.1.0-10.244.1.127 DROP']);
  });

  test('the interface follows from the address where routes are known', () => {
    const veth = 0x0af40109n;
    const facts: Partial<Environment> = {
      interfaceOf: ({value}) => (value === veth ? 'cali9' : 'eth0'),
      arrivesBy: ({source}, {interfaceOf}) => interfaceOf?.(source) ?? null,
      behind: pattern => (pattern === 'cali+' || pattern === 'cali9' ? [[veth, veth]] : []),
    };
    expect(classesOf(iptables({filter: '-A FORWARD -i cali+ -j DROP'}), pods, facts)).toEqual([
      '10.244.1.0-10.244.1.8, 10.244.1.10-10.244.1.255 passes',
      '10.244.1.9-10.244.1.9 DROP',
    ]);
    expect(parseAddress('10.244.1.9')?.value).toBe(veth);
  });

  test('in nftables: a network, a set, a map of verdicts, and a concatenation', () => {
    const table = (rule: string, more = '') =>
      nft(`table inet other {\n${more}\n\tchain forward {\n\t\ttype filter hook forward priority 0; policy accept;\n\t\t${rule}\n\t}\n}\n`);
    const banned =
      '\tset banned {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 10.244.1.8/29, 10.244.1.100-10.244.1.101 }\n\t}';
    expect(classesOf(table('ip saddr 10.244.1.0/26 drop'))).toContain('10.244.1.0-10.244.1.63 DROP');
    expect(classesOf(table('ip saddr 10.244.1.0/26 tcp dport 443 drop'))).toEqual(['10.244.1.0-10.244.1.255 passes']);
    expect(classesOf(table('ip saddr @banned drop', banned))).toContain('10.244.1.8-10.244.1.15, 10.244.1.100-10.244.1.101 DROP');
    expect(classesOf(table('ip saddr vmap { 10.244.1.1 : drop, 10.244.1.2 : accept, 10.244.1.3 : drop }'))).toContain(
      '10.244.1.1-10.244.1.1, 10.244.1.3-10.244.1.3 DROP',
    );
    expect(classesOf(table('ip saddr . tcp dport { 10.244.1.1 . 80, 10.244.1.2 . 443 } drop'))).toEqual([
      '10.244.1.0-10.244.1.0, 10.244.1.2-10.244.1.255 passes',
      '10.244.1.1-10.244.1.1 DROP',
    ]);
    expect(classesOf(table('tcp sport >= 1024 drop'))).toContain('10.244.1.0-10.244.1.255 ports 1024-65535 DROP');
  });
});

test('a space of too many classes is cut off, and what was not walked is said', () => {
  const {classes, rest} = senderClasses({
    spaces: [{address: [[0n, 99n]], port: allPorts}],
    pick: ({address: [[low] = [0n]]}) => ({address: low, port: 0}),
    walk: ({address}, note) => note('address', [[address, address]]),
    most: 10,
  });
  expect(classes).toHaveLength(10);
  expect(rest.flatMap(({address}) => address)).toEqual([[10n, 99n]]);
});

test('walks that asked too many questions end, and what was not walked is said', () => {
  let questions = 0;
  const {classes, rest} = senderClasses({
    spaces: [{address: [[0n, 99n]], port: allPorts}],
    pick: ({address: [[low] = [0n]], port: [[port] = [0n]]}) => ({address: low, port: Number(port)}),
    walk: ({address}, note) => {
      questions++;
      note('address', [[address, address]]);
      return address;
    },
    isOver: () => questions >= 3,
  });
  expect(classes.map(({result}) => result)).toEqual([0n, 1n, 2n]);
  expect(rest).toEqual([{address: [[3n, 99n]], port: allPorts}]);
});
