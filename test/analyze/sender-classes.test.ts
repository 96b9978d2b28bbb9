/** Random rules of random width in random places: what `packet` says of a sender holds for the class that it names. */
import {describe, expect, test} from 'vitest';
import {askPacket} from '../../src/analyze/packet-query.ts';
import type {PacketRules} from '../../src/analyze/packet-rules.ts';
import {formatAddress, parseAddress} from '../../src/model/address.ts';
import {holds, type Intervals, intervalsOf} from '../../src/model/intervals.ts';
import {parseInterval} from '../../src/parse/nftables/address-list.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {nodeFacts} from '../../src/expect/node-facts.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {withRule} from '../editable-dump.ts';
import {snapshotOf} from '../fixtures.ts';

const count = 150;

/** A source that a rule asks for: hosts, networks, a range, or all but one of them. */
function source(random: Random, isNft: boolean): string {
  const host = (): string => `10.244.${random.pick([11, 12])}.${random.below(256)}`;
  const network = `${host()}/${random.pick([24, 25, 27, 29, 32])}`;
  const not = random.chance(0.2);
  if (isNft) return `ip saddr ${not ? '!= ' : ''}${random.chance(0.3) ? `{ ${host()}, 10.244.11.128/26 }` : network}`;
  if (random.chance(0.2))
    return `-m iprange ${not ? '! ' : ''}--src-range 10.244.11.${random.below(100)}-10.244.11.${100 + random.below(100)}`;
  return `${not ? '! ' : ''}-s ${network}`;
}

function sport(random: Random, isNft: boolean): string {
  const low = random.below(60_000);
  if (!random.chance(0.3)) return '';
  return isNft ? `tcp sport ${low}-${low + 5000} ` : `-p tcp -m tcp --sport ${low}:${low + 5000} `;
}

function iptablesRule(random: Random, dump: string): string {
  const chains = [...dump.matchAll(/^:(KUBE-(?:SERVICES|NODEPORTS|SVC-\w+|SEP-\w+)) /gm)].map(([, name = '']) => ['nat', name] as const);
  const places = [['filter', 'FORWARD'], ['nat', 'PREROUTING'], ['nat', 'POSTROUTING'], ...chains] as [
    readonly [string, string],
    ...(readonly [string, string])[],
  ];
  const [table, chain] = random.pick(places);
  const action = random.pick(table === 'filter' ? ['DROP', 'ACCEPT', 'REJECT'] : ['RETURN', 'ACCEPT', 'MARK --set-xmark 0x4000/0x4000']);
  const text = `-A ${chain} ${source(random, false)} ${sport(random, false)}-j ${action}`.replace(/ {2}/g, ' ');
  return withRule(table, text)(dump);
}

function nftRule(random: Random, dump: string): string {
  const rule = `${source(random, true)} ${sport(random, true)}${random.pick(['drop', 'accept', 'meta mark set 0x4000'])}`;
  const chains = [...dump.matchAll(/^\tchain ((?:service|endpoint|services|nodeport)\S*|forward|output) \{\n/gm)].map(([line]) => line);
  if (random.chance(0.4) || chains[0] === undefined)
    return `${dump}table inet other {\n\tchain ${random.pick(['forward', 'prerouting'])} {\n\t\ttype filter hook ${random.pick(['forward', 'prerouting'])} priority ${random.pick([-10, 0, 10])}; policy accept;\n\t\t${rule}\n\t}\n}\n`;
  const line = random.pick(chains as [string, ...string[]]);
  return dump.replace(line, `${line}\t\t${rule}\n`);
}

/** `10.244.11.0/24, 10.0.0.1-10.0.0.9, source port 1-5`; null where the text leaves ranges out. */
function spaceOf(text: string): {readonly address: Intervals; readonly port: Intervals} | null {
  if (text.includes(' more')) return null;
  const [who = '', ports] = text.split(', source port ');
  const ranges = who === 'any sender' ? ['0.0.0.0/0'] : who.split(', ');
  const address = intervalsOf(ranges.flatMap(one => parseInterval(one) ?? []).map(({low, high}) => [low, high] as const));
  const port = (ports ?? '0-65535').split(', ').map(one => one.split('-').map(BigInt) as [bigint, bigint?]);
  return {address, port: intervalsOf(port.map(([low, high = low]) => [low, high] as const))};
}

describe.each(['iptables', 'nftables'] as const)('in %s mode', mode => {
  test(`members of the classes of ${count} random rules get the answer of their class`, async () => {
    const snapshot = await snapshotOf(mode === 'iptables' ? 'healthy/1.36-iptables' : 'nftables/1.36');
    const [node] = snapshot.nodes;
    if (node === undefined) throw new Error('no node');
    const facts = nodeFacts(node, snapshot.api);
    const random = seededRandom(29);
    const dump = (node.read(mode === 'iptables' ? 'iptables-save' : 'nft.txt') ?? Buffer.alloc(0)).toString();
    let compared = 0;
    for (let at = 0; at < count; at++) {
      const text = mode === 'iptables' ? iptablesRule(random, dump) : nftRule(random, dump);
      const [ruleset] = parseDumps(text, 'IPv4');
      const nft = parseNftDump(Buffer.from(mode === 'nftables' ? text : ''));
      const rules: PacketRules = mode === 'iptables' && ruleset !== undefined ? {iptables: ruleset, nft: null} : {iptables: null, nft};
      const ask = (from: string, sourcePort: number) => {
        const {outcomes, senders} = askPacket(
          {family: 'IPv4', source: from, destination: '10.96.1.1', port: 80, protocol: 'TCP', inInterface: 'eth0', sourcePort},
          {node, facts, rules},
        );
        const said = outcomes.map(({verdict, destination, masquerade, probability, lost}) => [
          verdict,
          destination,
          masquerade,
          probability.toFixed(6),
          lost,
        ]);
        return {said: JSON.stringify(said), senders: senders ?? ''};
      };
      const port = random.below(65_536);
      const first = ask(`10.244.${random.pick([11, 12])}.${random.below(256)}`, port);
      const space = spaceOf(first.senders);
      if (space === null) continue;
      for (const [low, high] of space.address) {
        for (const value of [low, high, low + (high - low) / 3n]) {
          const from = formatAddress('IPv4', value);
          if (!holds(space.address, parseAddress(from)?.value ?? -1n) || facts.addresses.includes(from)) continue;
          const [[lowPort, highPort] = [0n, 0n]] = space.port;
          expect([text === dump, from, ask(from, Number(random.pick([lowPort, highPort]))).said]).toEqual([false, from, first.said]);
          compared++;
        }
      }
    }
    expect(compared).toBeGreaterThan(count);
  });
});
