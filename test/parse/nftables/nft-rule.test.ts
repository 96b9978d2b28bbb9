import {describe, expect, test} from 'vitest';
import {nftSeconds} from '../../../src/parse/nftables/nft-elements.ts';
import {mergeAddresses} from '../../../src/parse/nftables/address-list.ts';
import {nftPriority, priorityText} from '../../../src/parse/nftables/nft-dump-chain.ts';
import {canonicalNftRule, nftRule} from '../../../src/parse/nftables/nft-rule.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import {readFixture} from '../../fixtures.ts';

function statements(text: string) {
  return nftRule({table: 'ip x', chain: 'y', line: 1, text}).statements();
}

describe('the statements of a rule', () => {
  test('a dispatch by destination', () => {
    expect(statements('ip daddr . meta l4proto . th dport vmap @service-ips')).toEqual([
      {
        kind: 'vmap',
        key: {kind: 'concat', parts: ['ip daddr', 'meta l4proto', 'th dport'].map(text => ({kind: 'selector', text}))},
        map: {kind: 'reference', set: 'service-ips'},
      },
    ]);
  });

  test('a choice of endpoints', () => {
    expect(statements('meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : fd00::2 . 80 }')).toMatchObject([
      {kind: 'match', left: {text: 'meta l4proto'}, operator: '==', right: {kind: 'value', text: 'tcp'}},
      {
        kind: 'nat',
        action: 'dnat',
        to: {
          kind: 'map',
          key: {kind: 'selector', text: 'numgen random mod 2'},
          map: {
            elements: [
              {key: '0', value: '10.0.0.1 . 80'},
              {key: '1', value: 'fd00::2 . 80'},
            ],
          },
        },
        port: null,
      },
    ]);
  });

  test.each([
    ['dnat to 10.0.0.1:80', '10.0.0.1', '80'],
    ['dnat to [fd00::1]:80', 'fd00::1', '80'],
    ['dnat ip6 to fd00::1', 'fd00::1', null],
    ['redirect to :8080', null, '8080'],
    ['masquerade to :1024-2048 fully-random', null, '1024-2048'],
    ['snat ip to 10.0.0.1-10.0.0.9 random,persistent', '10.0.0.1-10.0.0.9', null],
    ['masquerade', null, null],
  ])('%s', (text, to, port) => {
    const value = (constant: string | null) => (constant === null ? null : {kind: 'value', text: constant});
    expect(statements(text)).toMatchObject([{kind: 'nat', to: value(to), port: value(port)}]);
  });

  test('marks', () => {
    expect(statements('meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random')).toMatchObject([
      {kind: 'match', left: {kind: 'binary', operator: '&'}, operator: '!=', right: {text: '0x00000000'}},
      {kind: 'assign', target: 'meta mark', value: {kind: 'binary', operator: '^', left: {text: 'meta mark'}}},
      {kind: 'nat', action: 'masquerade'},
    ]);
  });

  test('a protocol name before the next statement is a value', () => {
    expect(statements('meta l4proto tcp iifname "eth*" accept').map(({kind}) => kind)).toEqual(['match', 'match', 'verdict']);
  });

  test('text that is not understood is kept, and the verdict after it is read', () => {
    expect(statements('ct count over 10 drop')).toEqual([
      {kind: 'match', left: {kind: 'selector', text: 'ct count'}, operator: '==', right: {kind: 'value', text: 'over'}},
      {kind: 'unknown', text: '10'},
      {kind: 'verdict', text: 'drop'},
    ]);
    expect(statements('socket transparent 1 accept')).toEqual([
      {kind: 'unknown', text: 'socket transparent 1'},
      {kind: 'verdict', text: 'accept'},
    ]);
    expect(statements('limit rate 5/second burst 10 packets log prefix "accept" accept').map(({kind}) => kind)).toEqual([
      ...['unknown', 'passive', 'verdict'],
    ]);
  });

  test('every part of a listed rule is kept', () => {
    const ruleset = parseNftDump(readFixture('nft/many-statements.txt'));
    const rules = [...ruleset.tables.values()].flatMap(({chains}) => [...chains.values()].flatMap(chain => chain.rules()));
    const unknown = rules
      .filter(rule => rule.statements().some(({kind}) => kind === 'unknown'))
      .map(({text}) => text.split(' ').slice(0, 2).join(' '));
    expect(rules.every(rule => rule.statements().length > 0)).toBe(true);
    expect(new Set(unknown)).toEqual(
      new Set(['add @lim', 'ct count', 'icmp type', 'limit rate', 'meta hour', 'quota name', 'socket transparent', 'tcp dport']),
    );
  });
});

test.each([
  ['mark and 0xff == 0x1 jump and', 'meta mark & 0x000000ff == 0x00000001 jump and'],
  ['dnat ip addr . port to 10.0.0.1 . 80', 'dnat ip to 10.0.0.1 . 80'],
  ['ip saddr { 10.0.1.0/24, 10.0.0.0/24, 10.0.2.7 } accept', 'ip saddr { 10.0.0.0/23, 10.0.2.7 } accept'],
  ['counter packets 1 bytes 2 drop comment "counter packets 1 bytes 2"', 'counter drop comment "counter packets 1 bytes 2"'],
  ['\tct  state new # handle 7', 'ct state new'],
  ['tcp flags & (fin | syn | rst | ack) == syn drop', 'tcp flags syn / fin,syn,rst,ack drop'],
  ['tcp flags & (fin|syn) != fin|syn drop', 'tcp flags != fin,syn / fin,syn drop'],
])('%s reads %s', (listed, canonical) => expect(canonicalNftRule(listed)).toBe(canonical));

test.each([
  [['203.0.113.0/29', '203.0.113.8/29'], ['203.0.113.0/28']],
  [['10.0.1.0/24', '10.0.2.0/24', '10.0.0.0/24'], ['10.0.0.0-10.0.2.255']],
  [['10.96.0.0/16', '10.97.0.0/16'], ['10.96.0.0/15']],
  [
    ['203.0.113.13/32', '10.0.0.0/24'],
    ['10.0.0.0/24', '203.0.113.13'],
  ],
  [['10.0.0.0/8', '10.1.0.0/16'], ['10.0.0.0/8']],
  [['fd00::/64', 'fd00:0:0:1::/64'], ['fd00::/63']],
  [['0.0.0.0/0'], ['0.0.0.0/0']],
])('the set of %j is listed as %j', (given, listed) => expect(mergeAddresses(given)).toEqual(listed));

test('a set with other elements is kept unchanged', () => expect(mergeAddresses(['10.0.0.1', 'eth0'])).toBeNull());

test.each([
  ['dstnat - 10', -110],
  ['filter', 0],
  ['-110', -110],
  ['srcnat + 5', 105],
  ['security', 50],
])('priority %s is %i', (text, priority) => expect(nftPriority(text, 'ip')).toBe(priority));

test('an invalid priority is null, and bridges have names of their own', () => {
  expect(nftPriority('late', 'ip')).toBeNull();
  expect(nftPriority('filter', 'bridge')).toBe(-200);
});

test.each([
  ['3h', 10_800],
  ['10m', 600],
  ['9m59s996ms', 599],
  ['1d2h3m4s', 93_784],
])('%s is %i seconds', (text, seconds) => expect(nftSeconds(text)).toBe(seconds));

// As `nft list ruleset` prints them: a name is only used at hooks that have it, and within 10 of it.
test.each([
  [-100, 'prerouting', 'dstnat'],
  [-110, 'prerouting', 'dstnat - 10'],
  [-90, 'prerouting', 'dstnat + 10'],
  [-111, 'prerouting', '-111'],
  [-100, 'output', '-100'],
  [0, 'input', 'filter'],
  [-5, 'forward', 'filter - 5'],
  [100, 'postrouting', 'srcnat'],
  [90, 'postrouting', 'srcnat - 10'],
  [100, 'output', '100'],
  [-300, 'output', 'raw'],
])('priority %i at hook %s is listed as %s', (priority, hook, text) => expect(priorityText(priority, hook)).toBe(text));
