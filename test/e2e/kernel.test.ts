import {cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import type {PacketAnswer} from '../../src/analyze/packet-query.ts';
import {svcTraceCommand} from '../executable.ts';
import {capturePath, snapshotOf} from '../fixtures.ts';
import {describeWith, isMet} from '../require.ts';
import {scenario} from '../scenario.ts';
import {disagreements, type KernelComparison, pooledShares, predictionOf} from './kernel/compare.ts';
import {Experiment, type ExperimentSettings} from './kernel/experiment.ts';
import type {BackendName} from './kernel/load-rules.ts';
import type {Destination, Question} from './kernel/questions.ts';

/** To what packets are sent to try the rules of other-rules.iptables-save. */
const otherDestinations: readonly Destination[] = [
  // Marks, distinguished by the port of the endpoint; goto and return.
  ...to('203.0.113.32', 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010),
  ...to('203.0.113.33', 80, 443, 444, 8000, 8005, 8010, 8011),
  ...[34, 35, 37, 41, 42, 43, 44, 46, 50, 51, 70].flatMap(host => to(`203.0.113.${host}`, 80)),
  ...to('203.0.113.36', 80, 81),
  ...to('203.0.113.38', 79, 80, 90, 91),
  ...to('203.0.113.39', 39, 30_085),
  ...to('203.0.113.40', 53),
  // By chance and in turn.
  ...to('203.0.113.45', 80),
  ...[36, 40, 46, 50].map(host => ({address: `203.0.113.${host}`, port: 81, protocol: 'UDP' as const})),
  // To the node: untracked, refused, dropped on the way in or on the loopback interface.
  ...['172.18.0.11', '10.244.11.1', '127.0.0.1'].flatMap(address => to(address, 30_080, 30_081, 30_082, 30_083, 30_084, 30_085)),
];

function to(address: string, ...ports: readonly number[]): readonly Destination[] {
  return ports.map(port => ({address, port}));
}

/** REDIRECT sends to the address of the interface by which a packet came in, and `packet` knows only the node's own address. */
function isRedirectedElsewhere({from, query}: Question): boolean {
  return query.destination === '203.0.113.43' && from === 'pods';
}

type Case = Omit<ExperimentSettings, 'snapshot' | 'backend'> & {readonly capture: string; readonly backend: BackendName};

const all: readonly Case[] = [
  {capture: 'healthy/1.36-iptables', node: 'node-a', backend: 'nft'},
  // Some clouds put the address of a load balancer on the nodes. This one is that of a Service with source ranges.
  {capture: 'healthy/1.36-iptables', node: 'node-a', backend: 'legacy', addresses: ['203.0.113.13']},
  {capture: 'healthy/1.23-iptables', node: 'node-a', backend: 'legacy'},
  // No endpoint of a Service with traffic policy Local is on it.
  {capture: 'healthy/1.23-iptables', node: 'node-c', backend: 'nft'},
  {capture: 'settings/masquerade-all', node: 'node-b', backend: 'legacy'},
  {capture: 'settings/detect-node-cidr', node: 'node-b', backend: 'nft'},
  {capture: 'settings/detect-interface-prefix', node: 'node-a', backend: 'legacy', podInterface: 'veth7'},
  // The one with Services that are refused over IPv6.
  {capture: 'eras/1.21-endpoints', node: 'node-a', backend: 'nft'},
  {capture: 'faults/skewed-balance', node: 'node-a', backend: 'legacy'},
];

// Kernels come without the tables of iptables-legacy by now.
const backends = (['nft', 'legacy'] as const).filter(backend => process.env['SVC_TRACE_NO_SKIP'] === '1' || isMet(`iptables-${backend}`));
const cases = all.filter(({backend}) => backends.includes(backend));

const tools = (['iptables', 'ip6tables'] as const).flatMap(tool => [`${tool}-nft-restore`, `${tool}-legacy-restore`] as const);

describeWith(['root', 'netns', 'nsenter', 'ip', 'ipset', 'conntrack', ...tools], 'packet says what the kernel does', () => {
  process.stderr.write('left out: packets over SCTP, which Node.js cannot send\n');
  if (cases.length < all.length) process.stderr.write(`left out: all that this kernel has no tables for; it has those of: ${backends}\n`);

  describe.each(cases)('with the rules of $capture $node loaded by iptables-$backend', given => {
    let experiment: Experiment;
    let once: readonly KernelComparison[];
    let twice: readonly (readonly [first: KernelComparison, second: KernelComparison])[];

    beforeAll(async () => {
      experiment = await Experiment.open({...given, snapshot: await snapshotOf(given.capture)});
      twice = experiment.leftOut.includes('recent') ? [] : await experiment.tryTwice(experiment.questions.filter(({sticky}) => sticky));
      once = await experiment.try(experiment.questions.filter(({sticky}) => !sticky));
    });

    afterAll(() => experiment?.[Symbol.asyncDispose]());

    test('the output of iptables-save is parsed to what was loaded', () => expectSameRules(experiment));

    test('every packet has the outcome that packet predicts, masquerading included', () => {
      expect(once.flatMap(disagreements)).toEqual([]);
      expect(once.length).toBeGreaterThan(700);
      expect(new Set(once.flatMap(({sent}) => sent.map(({pathOutcome}) => pathOutcome.split(' ')[0])))).toEqual(
        new Set(['accept', 'reject', 'drop']),
      );
    });

    test('endpoints get the shares that packet predicts', () => expect(pooledShares(once)).toEqual([]));

    test('a client returns to its endpoint if a Service has session affinity, as packet predicts', () => {
      const first = twice.map(([comparison]) => comparison);
      expect([...first.flatMap(disagreements), ...pooledShares(first)]).toEqual([]);
      expect(twice.flatMap(comparisons => experiment.strayed(comparisons))).toEqual([]);
    });

    if (given !== cases[0]) return;

    test('the executable prints the behavior of the kernel', async () => {
      const bundle = mkdtempSync(join(tmpdir(), 'svc-trace-kernel-'));
      try {
        cpSync(capturePath(given.capture), bundle, {recursive: true});
        writeFileSync(join(bundle, 'nodes', given.node, 'addresses.json'), experiment.addresses);
        // Of a packet that no rule sends to an endpoint, the report says that another host may answer, which one does here.
        const isSentOn = ({sent}: (typeof once)[number]) => sent.every(({pathOutcome}) => pathOutcome !== 'accept unchanged');
        const some = once.filter((one, at) => at % 80 === 7 && isSentOn(one));
        expect(
          (await Promise.all(some.map(comparison => printed(comparison, ['--from', bundle, '--node', given.node])))).flatMap(disagreements),
        ).toEqual([]);
        const dump = join(bundle, 'nodes', given.node, 'iptables-save');
        const fromDump = some.filter(({question}) => question.query.family === 'IPv4').slice(0, 4);
        const own = ['--from', dump, '--local-address', '172.18.0.11', '--local-address', '10.244.11.1'];
        expect((await Promise.all(fromDump.map(comparison => printed(comparison, own)))).flatMap(disagreements)).toEqual([]);
      } finally {
        rmSync(bundle, {recursive: true});
      }
    });
  });

  describe.each(backends)('with rules unlike any of kube-proxy loaded by iptables-%s', backend => {
    test('every packet has the predicted outcome, with the predicted shares', async () => {
      const given = await scenario();
      for (const file of ['iptables-save', 'ipset-save'])
        given.file('node-a', file, readFileSync(join(import.meta.dirname, `kernel/other-rules.${file}`), 'utf8'));
      await using experiment = await Experiment.open({snapshot: given.snapshot(), node: 'node-a', backend});
      expectSameRules(experiment);
      const comparisons = await experiment.try(
        experiment.questionsAbout(otherDestinations).filter(question => !isRedirectedElsewhere(question)),
      );
      expect([...comparisons.flatMap(disagreements), ...pooledShares(comparisons)]).toEqual([]);
    });
  });
});

/** But for what was left out, because this kernel cannot do it. */
function expectSameRules({read, leftOut}: Experiment): void {
  if (leftOut.length > 0) {
    process.stderr.write(`left out: rules with ${leftOut.join(' and ')}, which this kernel does not have\n`);
    return;
  }
  for (const {given, held} of read) expect(held).toEqual(given);
}

/** The same comparison with what the built executable says in the place of what the library says. */
async function printed(comparison: KernelComparison, args: readonly string[]): Promise<KernelComparison> {
  const {source, destination, port, protocol} = comparison.question.query;
  const packet = ['--source', source, '--destination', destination, '--port', String(port), '--protocol', protocol];
  const {stdout} = await execa(...svcTraceCommand(['packet', ...args, ...packet, '-o', 'json']));
  return {...comparison, prediction: predictionOf(JSON.parse(stdout) as Pick<PacketAnswer, 'outcomes'>)};
}
