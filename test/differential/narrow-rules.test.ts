/** Random rules of random width in random places: `check` names each that changes what happens to a packet of somebody who is there. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {seededRandom} from '../bench/random.ts';
import {answerTo, hosts, narrowModes, narrowRules} from '../narrow-rules.ts';

const count = Number(process.env['SVC_TRACE_NARROW_RULES'] ?? 150);
const entries = [
  ['10.96.1.1', '80'],
  ['10.96.0.10', '53'],
  ['172.18.0.11', '30080'],
] as const;

describe.each(narrowModes)('in %s mode', mode => {
  test(`of ${count} random rules, none that changes an outcome is silent`, async () => {
    const {healthy, next} = await narrowRules(mode, seededRandom(7));
    const flows = hosts.flatMap(source =>
      // Other nodes and their pods use their own rules for cluster IPs.
      entries
        .filter(([address]) => address === '172.18.0.11' || !/^10\.244\.12|^172\.18\.0\.12/.test(source))
        .map(([destination, port]) => ({source, destination, port, protocol: 'tcp', 'source-port': 40_000})),
    );
    const before = flows.map(flow => answerTo(healthy, flow).said);
    const silent: string[] = [];
    let changed = 0;
    for (let at = 0; at < count; at++) {
      const {rule, snapshot} = next();
      const hit = flows.find((flow, index) => answerTo(snapshot, flow).said !== before[index]);
      if (hit === undefined) continue;
      changed++;
      const findings = diagnose(snapshot, {toolVersion: '0'}).findings.filter(({actual = []}) =>
        actual.some(({text}) => text.includes(rule)),
      );
      const unaffected = findings.filter(({message}) => message.includes('no traffic is affected'));
      if (findings.length === 0 || unaffected.length > 0)
        silent.push(`${rule}: ${hit.source} to ${hit.destination}:${hit.port}: ${unaffected[0]?.message ?? 'no finding'}`);
    }
    expect(changed).toBeGreaterThan(count / 10);
    expect(silent).toEqual([]);
  });
});
