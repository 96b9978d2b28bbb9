import {describe, expect, test} from 'vitest';
import type {Ruleset} from '../../../src/model/ruleset.ts';
import {candidateRules} from '../../../src/trace/iptables/chain-index.ts';
import type {Intervals} from '../../../src/model/intervals.ts';
import type {Packet} from '../../../src/trace/walked-packet.ts';
import {SenderConditions} from '../../../src/trace/sender-space.ts';
import {environment, outcomes, packetOf, ruleset, type Sent} from '../send.ts';

const sent: Sent = {from: '10.244.1.5', to: '10.96.0.7', port: 80};

/** A chain of `count` Services and, among them, these rules. */
function big(...rules: readonly string[]): Ruleset {
  const services = Array.from(
    {length: 100},
    (_, index) => `-A PREROUTING -d 10.96.0.${index}/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.${index}:80`,
  );
  const nodePorts = Array.from(
    {length: 100},
    (_, index) => `-A PREROUTING -p tcp -m tcp --dport ${30000 + index} -j DNAT --to-destination 10.0.1.${index}:80`,
  );
  return ruleset({
    nat: [...services.slice(0, 50), ...rules.map(rule => `-A PREROUTING ${rule}`), ...services.slice(50), ...nodePorts].join('\n'),
  });
}

const candidates = (rules: Ruleset, packet: Sent) => {
  const chain = rules.chain('nat', 'PREROUTING');
  return chain === undefined
    ? []
    : (candidateRules({rules}, chain, packetOf(packet), environment()) ?? chain.rules()).map(({text}) =>
        text.slice('-A PREROUTING '.length),
      );
};

describe('in a large chain only rules that may match a packet are evaluated', () => {
  test('by its destination', () => {
    expect(candidates(big(), sent)).toEqual(['-d 10.96.0.7/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.7:80']);
    expect(candidates(big(), {...sent, to: '10.97.0.7'})).toEqual([]);
  });

  test('by its port', () => {
    expect(candidates(big(), {...sent, to: '192.168.1.10', port: 30005})).toEqual([
      '-p tcp -m tcp --dport 30005 -j DNAT --to-destination 10.0.1.5:80',
    ]);
    expect(candidates(big(), {...sent, to: '192.168.1.10', port: 30005, protocol: 'udp'})).toEqual([]);
  });

  test.each([
    '-j LOG',
    '-d 10.96.0.0/16 -j LOG',
    '! -d 10.96.0.1/32 -j LOG',
    '-d 10.96.0.256/32 -j LOG',
    '-p tcp -m tcp ! --dport 443 -j LOG',
    '-p tcp -m tcp --dport 1:100 -j LOG',
    '-p tcp -m multiport --dports 80,443 -j LOG',
    '-s 10.244.0.0/16 -j LOG',
    '! -p udp -m tcp --dport 80 -j LOG',
    '-m comment --comment "-A PREROUTING -d 10.96.0.1/32 " -j LOG',
    '-s 10.244.1.5/32 ! -d 10.96.0.1/32 -j LOG',
  ])('with all rules that have neither: %s', rule => {
    expect(candidates(big(rule), sent)).toContain(rule);
  });

  test.each(['-s 10.244.0.0/16', '! -s 10.0.0.0/8'])('by its destination after a source: %s', source => {
    const rules = big(`${source} -d 10.96.0.200/32 -j LOG`);
    expect(candidates(rules, {...sent, to: '10.96.0.200'})).toEqual([`${source} -d 10.96.0.200/32 -j LOG`]);
    expect(candidates(rules, {...sent, to: '10.96.0.201'})).toEqual([]);
  });

  test('in the order of the chain', () => {
    const first = candidates(big('-j LOG --log-prefix a', '-d 10.96.0.60/32 -j LOG --log-prefix b', '-j LOG --log-prefix c'), {
      ...sent,
      to: '10.96.0.60',
    });
    expect(first.map(rule => rule.split(' ').at(-1))).toEqual(['a', 'b', 'c', '10.0.0.60:80']);
  });

  test('in IPv6 in any spelling', () => {
    const rules = Array.from(
      {length: 50},
      (_, index) => `-A PREROUTING -d FD00:96:0::${index.toString(16)}/128 -j DNAT --to-destination [fd00:10::1]:${index}`,
    );
    expect(outcomes(ruleset({nat: rules.join('\n')}), {from: 'fd00:10::9', to: 'fd00:96::1f', port: 80})[0]?.destination).toBe(
      '[fd00:10::1]:31',
    );
  });
});

test('all rules of a small chain are evaluated', () => {
  const rules = ruleset({nat: '-A PREROUTING -d 10.0.0.1/32 -j LOG\n-A PREROUTING -p udp -m udp --dport 53 -j LOG'});
  expect(candidates(rules, sent)).toHaveLength(2);
});

test('senders of whom a chain of ten rules says the same are one class', () => {
  const lines = Array.from({length: 10}, (_, index) => `-A PREROUTING -s 10.50.0.${index}/32 -j DROP`);
  const rules = ruleset({nat: lines.join('\n')});
  const chain = rules.chain('nat', 'PREROUTING');
  if (chain === undefined) throw new Error('no chain');
  const noted: Intervals[] = [];
  const sender = new SenderConditions((_, alike) => noted.push(alike));
  const packet: Packet = {...packetOf({...sent, from: '10.50.0.3'}), client: 'source'};
  expect(candidateRules({rules}, chain, packet, {...environment(), sender})).toHaveLength(1);
  const first = (10n << 24n) + (50n << 16n);
  expect(noted).toEqual([[[first, first + 9n]]]);
});

test('a walk through a large chain has the outcome of a walk through all its rules', () => {
  for (const to of ['10.96.0.0', '10.96.0.49', '10.96.0.50', '10.96.0.99']) {
    expect(outcomes(big('-s 10.244.0.0/16 -j LOG'), {...sent, to})[0]?.destination).toBe(`10.0.0.${to.split('.')[3]}:80`);
  }
  expect(outcomes(big(), {...sent, to: '192.168.1.10', port: 30099})[0]?.destination).toBe('10.0.1.99:80');
});
