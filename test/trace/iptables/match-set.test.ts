import {describe, expect, test} from 'vitest';
import {parseAddress} from '../../../src/model/address.ts';
import type {Intervals} from '../../../src/model/intervals.ts';
import {parseIpsetSave} from '../../../src/parse/ipvs/ipset-save.ts';
import {isInSet} from '../../../src/trace/iptables/match-set.ts';
import type {Packet} from '../../../src/trace/walked-packet.ts';
import {allPorts, senderClasses, SenderConditions} from '../../../src/trace/sender-space.ts';
import {packetOf, type Sent} from '../send.ts';

const sent: Sent = {from: '10.244.1.5', to: '10.96.1.1', port: 80};

function inSet(save: string, directions: string, packet: Partial<Sent> = {}): boolean | null {
  const {sets} = parseIpsetSave(save);
  if (!sets.has('s')) throw new Error('no set');
  return isInSet(sets, 's', packetOf({...sent, ...packet}), directions);
}

/** More than a set has that is searched from end to end. */
const many = Array.from({length: 40}, (_, index) => `add s 10.97.0.${index},tcp:80\n`).join('');

describe('a packet is in an ipset', () => {
  test.each<readonly [string, string, Partial<Sent>, boolean]>([
    ['create s hash:ip\nadd s 10.96.1.1', 'dst', {}, true],
    ['create s hash:ip\nadd s 10.96.1.1', 'src', {}, false],
    ['create s hash:ip\nadd s 10.96.1.0-10.96.1.9', 'dst', {}, true],
    ['create s hash:net\nadd s 10.244.0.0/16', 'src', {}, true],
    ['create s hash:net\nadd s 10.244.0.0/16', 'dst', {}, false],
    ['create s hash:net,iface\nadd s 10.244.0.0/16,cali5', 'src,src', {inInterface: 'cali5'}, true],
    ['create s hash:net,iface\nadd s 10.244.0.0/16,cali5', 'src,src', {inInterface: 'cali4'}, false],
    ['create a hash:ip\nadd a 10.244.1.5\ncreate s list:set\nadd s a', 'src', {}, true],
    ['create a hash:ip\nadd a 10.244.1.5\ncreate s list:set\nadd s a', 'dst', {}, false],
    ['create a hash:ip\ncreate b hash:ip\nadd b 10.244.1.5\ncreate s list:set\nadd s a\nadd s b', 'src', {}, true],
    [
      'create a hash:ip\ncreate b hash:net\nadd b 10.244.1.5 nomatch\nadd b 10.244.0.0/16\ncreate s list:set\nadd s a\nadd s b',
      'src',
      {},
      false,
    ],
    ['create s hash:ip,port\nadd s 10.96.1.1,tcp:80', 'dst,dst', {}, true],
    ['create s hash:ip,port\nadd s 10.96.1.1,tcp:81', 'dst,dst', {}, false],
    ['create s hash:ip,port\nadd s 10.96.1.1,udp:80', 'dst,dst', {}, false],
    ['create s hash:ip,port\nadd s 10.96.1.1,udp:80', 'dst,dst', {protocol: 'udp'}, true],
    ['create s bitmap:port range 0-65535\nadd s 30080', 'dst', {port: 30080}, true],
    ['create s bitmap:port range 0-65535\nadd s 30000-30100', 'dst', {port: 30080}, true],
    ['create s hash:ip,port,ip\nadd s 10.244.1.5,tcp:80,10.244.1.5', 'dst,dst,src', {to: '10.244.1.5'}, true],
    ['create s hash:ip,port,ip\nadd s 10.244.1.5,tcp:80,10.244.1.5', 'dst,dst,src', {}, false],
    ['create s hash:ip,port,net\nadd s 10.96.1.1,tcp:80,10.244.0.0/16', 'dst,dst,src', {}, true],
    ['create s hash:ip family inet6\nadd s fd00:96::1', 'dst', {from: 'fd00:10::1', to: 'fd00:96::1'}, true],
    ['create s hash:ip', 'dst', {}, false],
    ['create s hash:net\nadd s 10.0.0.0/8\nadd s 10.96.0.0/16 nomatch', 'dst', {}, false],
    ['create s hash:net\nadd s 10.0.0.0/8\nadd s 10.96.0.0/16 nomatch', 'src', {}, true],
    ['create s hash:net\nadd s 10.96.1.0/24\nadd s 10.96.0.0/16 nomatch', 'dst', {}, true],
    [`create s hash:ip,port\n${many}add s 10.96.1.1,tcp:80`, 'dst,dst', {}, true],
    [`create s hash:ip,port\n${many}add s 10.96.1.0/30,tcp:80`, 'dst,dst', {}, true],
    [`create s hash:ip,port\n${many}`, 'dst,dst', {}, false],
  ])('%j %s %j: %s', (save, directions, packet, member) => {
    expect(inSet(save, directions, packet)).toBe(member);
  });

  test.each([
    ['10.7.0.127', true],
    ['10.7.0.128', false],
    ['10.8.200.1', true],
    ['10.41.0.1', false],
    ['10.200.0.9', true],
    ['10.200.0.10', false],
    ['10.250.0.1', true],
  ])('many networks, which may hold each other, with %s: %s', (from, member) => {
    const networks = Array.from({length: 40}, (_, index) => `add s 10.${index + 1}.0.0/25\n`).join('');
    expect(inSet(`create s hash:net\n${networks}add s 10.8.0.0/16\nadd s 10.200.0.0-10.200.0.9\nadd s 10.250.0.1`, 'src', {from})).toBe(
      member,
    );
  });

  test('of many ports, by that of the side that is asked about', () => {
    const ports = Array.from({length: 40}, (_, index) => `add s ${50_000 + index}\n`).join('');
    const save = `create s bitmap:port range 0-65535\n${ports}`;
    const {sets} = parseIpsetSave(save);
    expect(isInSet(sets, 's', {...packetOf(sent), sourcePort: 50_007}, 'src')).toBe(true);
    expect(isInSet(sets, 's', {...packetOf(sent), sourcePort: 80}, 'src')).toBe(false);
    expect([inSet(save, 'src'), inSet(save, 'dst'), inSet(save, 'dst', {port: 50_007})]).toEqual([null, false, true]);
  });

  test('of a list, whose sets of one type are asked about at once', () => {
    const sets = Array.from({length: 30}, (_, index) => `create m${index} hash:ip\nadd m${index} 10.244.1.${index}\nadd s m${index}`);
    const {sets: read} = parseIpsetSave(`create s list:set\n${sets.join('\n')}`);
    const asked: Intervals[] = [];
    const sender = new SenderConditions((_, alike) => void asked.push(alike));
    expect(isInSet(read, 's', {...packetOf(sent), client: 'source'}, 'src', {sender})).toBe(true);
    sender.commitAdded();
    const [low, high] = ['10.244.1.0', '10.244.1.29'].map(text => parseAddress(text)?.value ?? 0n);
    expect(asked).toEqual([[[low, high]]]);
  });

  test('a list with a set that was not read is unknown where no other holds the packet', () => {
    expect(inSet('create a hash:ip\ncreate s list:set\nadd s a\nadd s gone', 'src')).toBeNull();
    expect(inSet('create a hash:ip\nadd a 10.244.1.5\ncreate s list:set\nadd s gone\nadd s a', 'src')).toBe(true);
  });

  test('or unknown, because of an unknown address', () => {
    expect(inSet('create s hash:ip,port\nadd s 10.244.1.5,tcp:80', 'src,src')).toBeNull();
    expect(inSet('create s hash:mac\nadd s 01:02:03:04:05:06', 'src')).toBeNull();
    expect(inSet('create s hash:net,iface\nadd s 10.244.0.0/16,eth0', 'src,src')).toBeNull();
    // What fails for certain is certain.
    expect(inSet('create s hash:ip,port\nadd s 10.244.1.6,tcp:80', 'src,src')).toBe(false);
    expect(inSet('create s hash:net,iface\nadd s 10.9.0.0/16,eth0\nadd s 10.244.0.0/16,eth0', 'src,src')).toBeNull();
  });
});

describe('a set of networks at interfaces tells senders apart by what is behind these interfaces', () => {
  const range = (low: number, high: number): Intervals => [[(10n << 24n) + BigInt(low), (10n << 24n) + BigInt(high)]];
  const behind = (name: unknown): Intervals | null => (name === 'cali4' ? range(4, 4) : name === 'eth0' ? range(100, 199) : null);

  /** The answer for each class of senders, of which 10.0.0.4 is behind cali4, and 10.0.0.100 to 10.0.0.199 behind eth0. */
  function classesOf(save: string): readonly string[] {
    const {sets} = parseIpsetSave(save);
    const {classes} = senderClasses({
      spaces: [{address: range(0, 255), port: allPorts}],
      pick: ({address}) => ({address: address[0]?.[0] ?? 0n, port: 40_000}),
      most: 20,
      walk: ({address}, note) => {
        const last = Number(address & 255n);
        const sender = new SenderConditions(note);
        const inInterface = last === 4 ? 'cali4' : last >= 100 && last < 200 ? 'eth0' : 'cni0';
        const packet: Packet = {...packetOf({...sent, from: `10.0.0.${last}`, inInterface}), client: 'source'};
        const answer = isInSet(sets, 's', packet, 'src,src', {sender, behind});
        sender.commitAdded();
        return answer;
      },
    });
    const text = (space: Intervals): string => space.map(([low, high]) => `${low & 255n}-${high & 255n}`).join();
    return classes.map(({space, result}) => `${text(space.address)} ${result}`).sort();
  }

  test('two classes for one element, whatever the size of its network', () => {
    expect(classesOf('create s hash:net,iface\nadd s 10.0.0.0/8,cali4')).toEqual(['0-3,5-255 false', '4-4 true']);
  });

  test('members are those that are in the network of an element and behind its interface', () => {
    expect(classesOf('create s hash:net,iface\nadd s 10.0.0.128/25,eth0\nadd s 10.0.0.0/24,cali4')).toEqual([
      '0-3,5-127,200-255 false',
      '4-4,128-199 true',
    ]);
  });

  test('each sender is walked by itself where what is behind an interface is not known', () => {
    expect(classesOf('create s hash:net,iface\nadd s 10.0.0.0/8,cni0')).toHaveLength(20);
  });
});
