/** Random rules of random width in random places: what `packet` says of a sender holds for the class that it names. */
import {describe, expect, test} from 'vitest';
import {formatAddress, parseAddress} from '../../src/model/address.ts';
import {holds} from '../../src/model/intervals.ts';
import {seededRandom} from '../bench/random.ts';
import {cases} from '../cases.ts';
import {answerTo, narrowModes, narrowRules} from '../narrow-rules.ts';

const count = Number(process.env['SVC_TRACE_NARROW_RULES'] ?? cases({usual: 20, long: 150}));
const own = new Set(['172.18.0.11', '127.0.0.1']);

describe.each(narrowModes)('in %s mode', mode => {
  test(`members of the classes of ${count} random rules get the answer of their class`, async () => {
    const random = seededRandom(29);
    const {next} = await narrowRules(mode, random);
    let compared = 0;
    for (let at = 0; at < count; at++) {
      const {rule, snapshot} = next();
      const ask = (source: string, sourcePort: number) =>
        answerTo(snapshot, {
          source,
          destination: '10.96.1.1',
          port: '80',
          protocol: 'tcp',
          'in-interface': 'eth0',
          'source-port': sourcePort,
        });
      const first = ask(`10.244.${random.pick([11, 12])}.${random.below(256)}`, 1 + random.below(65_535));
      const {space} = first;
      if (space === null) continue;
      for (const [low, high] of space.address) {
        for (const value of [low, high, low + (high - low) / 3n]) {
          const from = formatAddress('IPv4', value);
          if (!holds(space.address, parseAddress(from)?.value ?? -1n) || own.has(from)) continue;
          const [[lowPort, highPort] = [0n, 0n]] = space.port;
          expect([rule, from, ask(from, Number(random.pick([lowPort, highPort]))).said]).toEqual([rule, from, first.said]);
          compared++;
        }
      }
    }
    expect(compared).toBeGreaterThan(count);
  });
});
