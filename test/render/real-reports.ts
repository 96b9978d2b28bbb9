import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Report} from '../../src/model/report.ts';
import {diagnosed} from '../diagnosed.ts';
import {snapshotOf} from '../fixtures.ts';
import {hostile, numbered, plain, reportOf} from './report.ts';
import {reportFullOf} from './traces.ts';

/** What `check` says of a capture. */
export async function checked(capture: string, known: readonly Finding[] = []): Promise<Report> {
  const snapshot = await snapshotOf(capture);
  return known.length === 0 ? diagnosed(snapshot) : diagnose(snapshot, {toolVersion: '0.0.0', known});
}

/**
 * Reports for tests of formats with schemas and third-party parsers: healthy, faulty in each proxy mode, incomplete, with a
 * baseline, empty, and with hostile names.
 */
const makers: Readonly<Record<string, () => Promise<Report> | Report>> = {
  healthy: () => checked('healthy/1.36-iptables'),
  'faulty, iptables': () => checked('faults/frozen-node'),
  'faulty, with IPv6': () => checked('faults/nat-flushed'),
  'faulty, by third-party rules': () => checked('faults/hostport-hijack'),
  'faulty, by another mode': () => checked('faults/ipvs-leftovers'),
  incomplete: () => checked('ipvs/1.36'),
  'without API objects': async () => {
    const {api, ...snapshot} = await snapshotOf('healthy/1.36-iptables');
    return diagnose({...snapshot, api: {...api, services: null, endpointSlices: null}}, {toolVersion: '0.0.0'});
  },
  'known from a baseline': async () => {
    const {findings} = await checked('faults/frozen-node');
    return checked(
      'faults/frozen-node',
      findings.filter(({code}) => code === 'ST203'),
    );
  },
  empty: () => reportOf({nodes: [], services: []}),
  'waited for': () => ({
    ...reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web']}),
    wait: {
      ...{limitSeconds: 60, seconds: 60, looks: 9, clean: false},
      nodes: [{name: 'node-a', look: 2, seconds: 3.25}, {name: 'node-b'}],
    },
  }),
  'of long names': () => reportFullOf(numbered('long', 100).join('.')),
  ...Object.fromEntries(Object.entries(evilNames()).map(([what, name]) => [`of names with ${what}`, () => reportFullOf(name)])),
};

const made = new Map<string, Promise<Report> | Report>();

/** Each is made once in a process, since every format is tested with all of them. */
export const reports: typeof makers = Object.fromEntries(
  Object.entries(makers).map(([name, make]) => [
    name,
    () => {
      const report = made.get(name) ?? make();
      made.set(name, report);
      return report;
    },
  ]),
);

/** Everything shown and everything failing, as `-v --fail-on info` has it. */
export const loud = {...plain, verbose: true, failOn: 'info'} as const;

function evilNames(): Readonly<Record<string, string>> {
  return {
    ...hostile,
    markup: `"'><failure message="x"/>]]></failure><![CDATA[ &lt; &#0;`,
    'a lone surrogate': 'a\ud800b\udc00',
    'no characters of XML': 'a\u0000\u0001\u000b\u001f\ufffe\uffffb',
    'a path': '../../etc/passwd?x=1#y%00',
  };
}
