import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {readFixture, snapshotOf} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {scenario} from '../scenario.ts';
import type {Destination} from './kernel/questions.ts';
import {disagreements, pooledShares, type KernelComparison} from './kernel/compare.ts';
import {withPrintedRules} from './kernel/printed-rules.ts';
import {Experiment, type ExperimentSettings} from './kernel/experiment.ts';

type Case = Omit<ExperimentSettings, 'snapshot' | 'backend'> & {readonly capture: string};

const cases: readonly Case[] = [
  {capture: 'nftables/1.36', node: 'node-a', addresses: ['203.0.113.13']},
  {capture: 'nftables/1.33', node: 'node-b'},
  {capture: 'nftables/1.31', node: 'node-a', podInterface: 'veth7'},
];

const backend = 'nftables';

describeWith(['root', 'netns', 'nsenter', 'ip', 'nft', 'conntrack'], 'packet says what the kernel does with nftables', () => {
  describe.each(cases)('with the tables of $capture $node', given => {
    let experiment: Experiment;
    let once: readonly KernelComparison[];
    let twice: readonly (readonly [first: KernelComparison, second: KernelComparison])[];

    beforeAll(async () => {
      experiment = await Experiment.open({...given, backend, snapshot: await snapshotOf(given.capture)});
      twice = await experiment.tryTwice(experiment.questions.filter(({sticky}) => sticky));
      once = await experiment.try(experiment.questions.filter(({sticky}) => !sticky));
    });

    afterAll(() => experiment?.[Symbol.asyncDispose]());

    test('the listings of nft, as text and as JSON, are parsed to what was loaded', () => {
      for (const {given: loaded, held} of experiment.read) expect(held).toEqual(loaded);
    });

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
      expect(first.length).toBeGreaterThan(10);
      expect([...first.flatMap(disagreements), ...pooledShares(first)]).toEqual([]);
      expect(twice.flatMap(comparisons => experiment.strayed(comparisons))).toEqual([]);
    });
  });

  describe.each([
    {title: 'tables that are not of kube-proxy', file: 'nft.json', other: 'kernel/other-rules.nft'},
    {title: 'rules of iptables', file: 'iptables-save', other: 'kernel/beside-nft.iptables-save'},
  ])('beside $title', ({file, other}) => {
    test('every packet has the predicted outcome, with the predicted shares', async () => {
      const given = await scenario('nftables/1.36');
      const kubeProxy = readFixture('captures/nftables/1.36/nodes/node-a/nft.txt').toString('utf8');
      const text = readFileSync(join(import.meta.dirname, other), 'utf8');
      given.file('node-a', 'nft.json', file === 'nft.json' ? kubeProxy + text : kubeProxy);
      if (file !== 'nft.json') given.file('node-a', file, text);
      await using experiment = await Experiment.open({snapshot: given.snapshot(), node: 'node-a', backend, podInterface: 'cni0'});
      const services = experiment.questions.filter(({sticky, from, query}) => !sticky && (from !== 'node' || query.family === 'IPv4'));
      const comparisons = await experiment.try([...services, ...experiment.questionsAbout(otherDestinations)]);
      expect([...comparisons.flatMap(disagreements), ...pooledShares(comparisons)]).toEqual([]);
      expect(experiment.read.map(({held}) => held)).toEqual(experiment.read.map(({given: loaded}) => loaded));
    });
  });
});

describeWith(['root', 'netns', 'nsenter', 'ip', 'nft', 'conntrack'], 'node ports on loopback addresses of 1.37', () => {
  const gate = {KubeProxyNFTablesLocalhostNodePorts: true};

  test.each([
    // kube-proxy listens for TCP itself, for which the lab stands in; UDP is refused.
    {title: 'are answered or refused where kube-proxy listens', nodePortAddresses: ['primary', 'localhost'], refused: ['UDP']},
    {title: 'are refused where it does not', nodePortAddresses: ['primary'], refused: ['TCP', 'UDP']},
  ])('$title', async ({nodePortAddresses, refused}) => {
    const settings = {mode: 'nftables', version: 'v1.37.0', featureGates: gate, nodePortAddresses};
    const snapshot = withPrintedRules(await snapshotOf('nftables/1.36'), 'node-a', settings);
    await using experiment = await Experiment.open({snapshot, node: 'node-a', backend});
    for (const {given: loaded, held} of experiment.read) expect(held).toEqual(loaded);
    const isLocal = (destination: string): boolean => destination === '127.0.0.1' || destination === '::1';
    const questions = experiment.questions.filter(({from, query}) => from === 'node' && isLocal(query.destination));
    const comparisons = await experiment.try(questions);
    expect(comparisons.flatMap(disagreements)).toEqual([]);
    // Most Services are IPv4 only, and have no node port on ::1.
    const nodePorts = comparisons.filter(({question}) => question.service !== '' && question.query.family === 'IPv4');
    const ends = (protocol: string) =>
      new Set(nodePorts.filter(({question}) => question.query.protocol === protocol).flatMap(({sent}) => sent.map(one => one.pathOutcome)));
    for (const protocol of ['TCP', 'UDP'])
      expect([protocol, ...ends(protocol)]).toEqual([protocol, refused.includes(protocol) ? 'reject' : 'accept unchanged']);
  });
});

/** To what packets are sent to try the other rules. */
const otherDestinations: readonly Destination[] = [
  ...[32, 33, 35, 42].flatMap(host => [80, 443, 1001, 1002, 8000, 8010, 8011].map(port => ({address: `203.0.113.${host}`, port}))),
  {address: '203.0.113.35', port: 81, protocol: 'UDP'},
  {address: '172.18.0.11', port: 30_082},
];
