import {describe, expect, test} from 'vitest';
import {ConntrackCounter, conntrackKey, type ConntrackOptions} from '../../src/parse/conntrack.ts';

const ports = new Map([
  [conntrackKey('TCP', '10.96.1.1', 80), 'web'],
  [conntrackKey('TCP', '172.18.0.11', 30080), 'web'],
  [conntrackKey('UDP', '10.96.0.10', 53), 'dns'],
  [conntrackKey('TCP', 'fd00:96::1', 80), 'web6'],
  [conntrackKey('TCP', 'fd00:0096:0000:0000:0000:0000:0000:0001', 80), 'web6'],
  [conntrackKey('SCTP', '10.96.2.2', 2905), 'sig'],
]);

function count(text: string, options: Partial<ConntrackOptions> = {}, size = text.length) {
  const counter = new ConntrackCounter({ports, identify: false, ...options});
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += size) counter.add(bytes.subarray(start, start + size));
  return counter.result();
}

const tcp = (state: string, sport = 40000, to = '10.244.11.4') =>
  `tcp      6 431999 ${state} src=10.244.13.7 dst=10.96.1.1 sport=${sport} dport=80 src=${to} dst=10.244.13.7 sport=8080 dport=${sport} [ASSURED] mark=0 use=1\n`;

const counts = {opening: 0, open: 0, closing: 0, clients: ['10.244.13.7'], oldest: null, identities: null};

describe('connections are counted by original destination and by replying endpoint', () => {
  test('with separate counts for the states of TCP', () => {
    const states = ['SYN_SENT', 'SYN_RECV', 'ESTABLISHED', 'ESTABLISHED', 'FIN_WAIT', 'CLOSE_WAIT', 'LAST_ACK', 'TIME_WAIT', 'CLOSE'];
    const found = count(states.map((state, index) => tcp(state, 40_000 + index)).join(''));
    expect(found.get('web')).toEqual({
      endpoints: new Map([['10.244.11.4:8080', {...counts, opening: 2, open: 2, closing: 5}]]),
      clients: 1,
    });
  });

  test('for node ports too, and for UDP without states', () => {
    const nodePort = tcp('ESTABLISHED').replace('dst=10.96.1.1', 'dst=172.18.0.11').replace('dport=80 ', 'dport=30080 ');
    const udp =
      'udp      17 29 src=10.244.13.7 dst=10.96.0.10 sport=5353 dport=53 [UNREPLIED] src=10.244.11.9 dst=10.244.13.7 sport=53 dport=5353 mark=0 use=1\n';
    const found = count(nodePort + udp);
    expect(found.get('web')?.endpoints.get('10.244.11.4:8080')?.open).toBe(1);
    expect(found.get('dns')?.endpoints.get('10.244.11.9:53')?.open).toBe(1);
  });

  test('of IPv6, as conntrack and as /proc print it', () => {
    const line = (virtual: string, to: string) =>
      `tcp      6 100 ESTABLISHED src=fd00:10::7 dst=${virtual} sport=4000 dport=80 src=${to} dst=fd00:10::7 sport=8080 dport=4000 [ASSURED] use=1\n`;
    const proc = `ipv6     10 ${line('fd00:0096:0000:0000:0000:0000:0000:0001', 'fd00:0010:0000:0000:0000:0000:0000:0005')}`;
    const found = count(line('fd00:96::1', 'fd00:10::5') + proc);
    expect([...(found.get('web6')?.endpoints ?? [])]).toEqual([['[fd00:10::5]:8080', {...counts, clients: ['fd00:10::7'], open: 2}]]);
  });

  test('of /proc/net/nf_conntrack', () => {
    const found = count(`ipv4     2 ${tcp('ESTABLISHED')}`);
    expect(found.get('web')?.endpoints.get('10.244.11.4:8080')?.open).toBe(1);
  });

  test('for SCTP, and for flows that the kernel has offloaded, which show no state', () => {
    const sctp =
      'sctp     132 9 ESTABLISHED src=10.1.1.1 dst=10.96.2.2 sport=1 dport=2905 src=10.244.1.1 dst=10.1.1.1 sport=2905 dport=1 [ASSURED] use=1\n';
    const offloaded =
      'tcp      6 src=10.1.1.1 dst=10.96.1.1 sport=1 dport=80 src=10.244.11.5 dst=10.1.1.1 sport=8080 dport=1 [OFFLOAD] mark=0 use=2\n';
    const found = count(sctp + offloaded);
    expect(found.get('sig')?.endpoints.get('10.244.1.1:2905')?.open).toBe(1);
    expect(found.get('web')?.endpoints.get('10.244.11.5:8080')?.open).toBe(1);
  });
});

test('open connections have the first clients, and the age of the oldest where the kernel notes it', () => {
  const from = (client: string, age: number) =>
    tcp('ESTABLISHED').replace('src=10.244.13.7', `src=${client}`).replace(' use=1', ` delta-time=${age} use=1`);
  const lines = ['10.244.1.1', '10.244.1.2', '10.244.1.1', '10.244.1.3', '10.244.1.4', '10.244.1.5'];
  const text = `${lines.map((client, index) => from(client, 10 * index)).join('')}${tcp('TIME_WAIT').replace(' use=1', ' delta-time=99 use=1')}`;
  const found = count(text).get('web')?.endpoints.get('10.244.11.4:8080');
  expect(found).toMatchObject({open: 6, closing: 1, clients: ['10.244.1.1', '10.244.1.2', '10.244.1.3', '10.244.1.4'], oldest: 50});
});

test('connections that were not translated belong to no endpoint', () => {
  const found = count(tcp('SYN_SENT', 40_000, '10.96.1.1'));
  expect(found.get('web')).toMatchObject({endpoints: new Map()});
});

test('other connections and invalid lines are not counted', () => {
  const other = tcp('ESTABLISHED').replaceAll('10.96.1.1', '1.1.1.1');
  const truncated = tcp('ESTABLISHED').slice(0, 80);
  expect(count(`${other}${tcp('NEW_STATE')}${truncated}`)).toEqual(new Map());
});

test('the boundaries between chunks of the output do not change the counts', () => {
  const text = [1, 2, 3].map(port => tcp('ESTABLISHED', port)).join('');
  for (const size of [1, 7, 100, 1000]) expect(count(text, {}, size)).toEqual(count(text));
});

test('connections are identified by their kernel ID, or else by addresses and ports', () => {
  const identities = (text: string) => count(text, {identify: true}).get('web')?.endpoints.get('10.244.11.4:8080')?.identities;
  expect(identities(tcp('ESTABLISHED').replace('use=1', 'use=1 id=4021'))).toEqual(Float64Array.of(4021));
  const [first] = identities(tcp('SYN_SENT').replace('[ASSURED] ', '')) ?? [];
  expect(identities(tcp('TIME_WAIT').replace('use=1', 'use=2'))).toEqual(Float64Array.of(first ?? 0));
  expect(identities(tcp('ESTABLISHED', 40_001))).not.toEqual(Float64Array.of(first ?? 0));
});
