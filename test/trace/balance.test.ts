import {describe, expect, test} from 'vitest';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {parseIpvsadm} from '../../src/parse/ipvs/ipvsadm-save.ts';
import {environmentOf} from '../../src/analyze/outcomes/environment.ts';
import {sharesOf} from '../../src/trace/iptables/walk-packet.ts';
import {walkPacket} from './walks.ts';
import {nodeA} from '../kube-proxy.ts';
import {packetOf, type Sent} from './send.ts';

const server = '10.96.1.1:80';

function servers(scheduler: string, ...reals: readonly string[]) {
  return parseIpvsadm([`-A -t ${server} -s ${scheduler}`, ...reals.map(real => `-a -t ${server} -r ${real}`), ''].join('\n')).servers;
}

describe('a scheduler distributes new connections', () => {
  test.each<readonly [string, readonly string[], Record<string, number>]>([
    ['rr', ['10.0.0.1:80 -m -w 1', '10.0.0.2:80 -m -w 3'], {'10.0.0.1:80': 0.5, '10.0.0.2:80': 0.5}],
    ['wrr', ['10.0.0.1:80 -m -w 1', '10.0.0.2:80 -m -w 3'], {'10.0.0.1:80': 0.25, '10.0.0.2:80': 0.75}],
    ['rr', ['10.0.0.1:80 -m -w 0', '10.0.0.2:80 -m -w 3'], {'10.0.0.2:80': 1}],
    ['fo', ['10.0.0.1:80 -m -w 1', '10.0.0.2:80 -m -w 3'], {'10.0.0.2:80': 1}],
    ['lc', [], {}],
  ])('by %s among %j', (scheduler, reals, shares) => {
    const [only] = servers(scheduler, ...reals);
    if (only === undefined) throw new Error('no server');
    expect(Object.fromEntries(sharesOf(only).map(({real, share}) => [real.hostPort, share]))).toEqual(shares);
  });
});

const empty = '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n';

function walk(rules: string, given: Parameters<typeof servers>, sent: Partial<Sent> = {}, addresses: readonly string[] = ['10.96.1.1']) {
  const [ruleset] = parseDumps(rules);
  if (ruleset === undefined) throw new Error('no rules');
  const environment = environmentOf({...nodeA, addresses: [...nodeA.addresses, ...addresses]}, {servers: servers(...given)});
  return walkPacket(ruleset, packetOf({from: '10.244.1.5', to: '10.96.1.1', port: 80, ...sent}), environment);
}

const two = ['rr', '10.244.1.9:8080 -m -w 1', '10.244.2.9:8080 -m -w 1'] as const;

describe('a packet for a virtual server', () => {
  test('is forwarded to its real servers, with the lines that show it', () => {
    const outcomes = walk(empty, [...two]);
    expect(outcomes.map(({verdict, destination, probability}) => [verdict, destination, probability])).toEqual([
      ['accept', '10.244.1.9:8080', 0.5],
      ['accept', '10.244.2.9:8080', 0.5],
    ]);
    expect(outcomes[0]?.path.map(({table, line, text}) => `${table}:${line} ${text}`)).toEqual([
      'ipvs:1 -A -t 10.96.1.1:80 -s rr',
      'ipvs:2 -a -t 10.96.1.1:80 -r 10.244.1.9:8080 -m -w 1',
    ]);
  });

  test.each<readonly [string, readonly (readonly [string, string | null, number])[]]>([
    [
      'mh',
      [
        ['accept', '10.244.1.9:8080', 0.5],
        ['reject', null, 0.5],
      ],
    ],
    [
      'sh',
      [
        ['accept', '10.244.1.9:8080', 0.5],
        ['reject', null, 0.5],
      ],
    ],
    ['sh -b sh-fallback', [['accept', '10.244.1.9:8080', 1]]],
    ['rr', [['accept', '10.244.1.9:8080', 1]]],
  ])('of a server with the weight 0, %s', (scheduler, expected) => {
    const outcomes = walk(empty, [scheduler, '10.244.1.9:8080 -m -w 1', '10.244.2.9:8080 -m -w 0']);
    expect(outcomes.map(({verdict, destination, probability}) => [verdict, destination, probability])).toEqual(expected);
  });

  test('continues unchanged if it arrives for an address that the node does not have', () => {
    expect(walk(empty, [...two], {}, []).map(({destination}) => destination)).toEqual([null]);
  });

  test('is matched anyway if the node itself sends it', () => {
    expect(walk(empty, [...two], {from: '192.168.1.10'}, []).map(({destination}) => destination)).toEqual([
      '10.244.1.9:8080',
      '10.244.2.9:8080',
    ]);
  });

  test('is rejected if no real server accepts connections', () => {
    expect(walk(empty, ['rr', '10.244.1.9:8080 -m -w 0']).map(({verdict}) => verdict)).toEqual(['reject']);
  });

  test('is lost if it is forwarded by routing, because no pod has the address', () => {
    expect(walk(empty, ['rr', '10.244.1.9:8080 -g -w 1']).map(({verdict}) => verdict)).toEqual(['drop']);
  });

  test('is dropped before IPVS by a rule of filter INPUT, and after it by one of OUTPUT that matches the virtual address', () => {
    const drop = (rule: string): string => `*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n${rule}\nCOMMIT\n`;
    expect(walk(drop('-A INPUT -d 10.96.1.1/32 -j DROP'), [...two]).map(({verdict}) => verdict)).toEqual(['drop']);
    const asking = drop('-A OUTPUT -m ipvs --vproto 6 --vaddr 10.96.1.1 --vport 80 -j DROP');
    expect(walk(asking, [...two]).map(({verdict}) => verdict)).toEqual(['drop', 'drop']);
    expect(walk(asking.replace('--vport 80', '--vport 81'), [...two]).map(({verdict}) => verdict)).toEqual(['accept', 'accept']);
    expect(walk(asking, [...two], {to: '10.9.9.9'}).map(({verdict}) => verdict)).toEqual(['accept']);
  });

  test('is masqueraded behind the real server, but not if it arrives for one on the node itself', () => {
    const masquerade = '*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n';
    const outcomes = walk(masquerade, ['rr', '10.244.2.9:8080 -m -w 1', '192.168.1.10:9100 -m -w 1']);
    expect(outcomes.map(({destination, masquerade: hidden}) => [destination, hidden])).toEqual([
      ['10.244.2.9:8080', true],
      ['192.168.1.10:9100', false],
    ]);
  });
});
