import {setTimeout} from 'node:timers/promises';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {findingsOf, type Healthy, judge, type Judgement} from './judge.ts';
import {type Cluster, endpointsOf, failures, type Flow, Laboratory, type Seen} from './laboratory.ts';
import type {Scenario} from './steps.ts';

interface Examined {
  readonly seen: ReadonlyMap<Flow, Seen>;
  readonly snapshot: Snapshot;
  readonly judgement: Judgement;
}

/** Loads one scenario after the other, sends all flows through it, and judges what the program says. */
export class Examination implements AsyncDisposable {
  readonly healthy: Healthy;
  readonly #known: ReadonlySet<string>;
  #laboratory: Laboratory;

  private constructor(laboratory: Laboratory, healthy: Healthy, known: ReadonlySet<string>) {
    this.#laboratory = laboratory;
    this.healthy = healthy;
    this.#known = known;
  }

  static async open(cluster: Cluster): Promise<Examination> {
    const laboratory = await Laboratory.open(cluster);
    laboratory.prepare({load: []});
    const seen = await servedFlows(laboratory);
    const snapshot = await laboratory.snapshot();
    return new Examination(laboratory, {flows: laboratory.flows, seen, findings: findingsOf(snapshot)}, new Set(linesOf(snapshot)));
  }

  async examine(scenario: Scenario): Promise<Examined> {
    this.#laboratory.prepare(scenario);
    const seen = await this.#laboratory.send(this.healthy.seen);
    const snapshot = await this.#laboratory.snapshot();
    const added = linesOf(snapshot).flatMap(line => (line === '' || this.#known.has(line) ? [] : line.replace(/^(net\.\S+) = .*/, '$1')));
    const judgement = judge(this.healthy, {scenario, seen, snapshot, added});
    // What is more than rules stays.
    if (scenario.load.some(({tool, backend}) => tool === 'sh' || backend === 'other')) {
      await this.#laboratory[Symbol.asyncDispose]();
      this.#laboratory = await Laboratory.open(this.#laboratory.cluster);
    }
    return {seen, snapshot, judgement};
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#laboratory[Symbol.asyncDispose]();
  }
}

const maxRounds = 12;

/**
 * What a healthy node does to each flow, in two rounds in a row that lose nothing: where one of two endpoints is missed by chance, every
 * scenario would seem to change that. Packets are late on a busy machine, so flows that lost something are asked again.
 */
async function servedFlows(laboratory: Laboratory): Promise<ReadonlyMap<Flow, Seen>> {
  const rounds = new Map(laboratory.flows.map(flow => [flow, [] as Seen[]]));
  let open = laboratory.flows;
  let last: ReadonlyMap<Flow, Seen> = new Map();
  for (let round = 0; round < maxRounds && open.length > 0; round++) {
    if (round > 1) await setTimeout(250 * round);
    last = await laboratory.sendOnce(open);
    for (const flow of open) {
      const seen = last.get(flow) ?? {};
      const isServed = failures(seen) === 0 && endpointsOf(seen).size > 0;
      rounds.set(flow, isServed ? [...(rounds.get(flow) ?? []), seen] : []);
    }
    open = open.filter(flow => (rounds.get(flow)?.length ?? 0) < 2);
  }
  if (open.length > 0)
    throw new Error(`lost on a healthy node, in ${maxRounds} rounds: ${JSON.stringify(open.map(flow => [flow, last.get(flow)]))}`);
  return new Map([...rounds].map(([flow, seen]) => [flow, Object.assign({}, ...seen) as Seen]));
}

/** The scenarios that a cluster can have. */
export function possibleIn({mode, family, hasNoPodCIDRs}: Cluster, scenarios: readonly Scenario[]): readonly Scenario[] {
  return scenarios.filter(
    ({modes, isIPv4Only, isIPv6Only, isAboutPods}) =>
      modes?.includes(mode) !== false &&
      (family === 'IPv4' ? isIPv6Only : isIPv4Only) !== true &&
      (hasNoPodCIDRs !== true || isAboutPods === true),
  );
}

/** The rules, policies and switches of node-a, one a line, without counters; of nftables the names of tables and chains too. */
function linesOf({nodes: [node]}: Snapshot): readonly string[] {
  return (node?.files ?? []).flatMap(file => {
    const bytes = node?.read(file) ?? Buffer.from('');
    const lines = bytes.toString().split('\n');
    if (file === 'nft.json') {
      const tables = [...parseNftDump(bytes).tables.values()];
      return tables.flatMap(({id, chains}) => [
        id,
        ...[...chains.values()].flatMap(chain => [
          chain.name,
          ...chain
            .text()
            .split('\n')
            .map(line => line.trim()),
        ]),
      ]);
    }
    if (file.endsWith('-save')) return lines.filter(line => /^[-:]/.test(line)).map(line => line.replace(/^:(\S+) (\S+).*/, '$1 is $2'));
    return file === 'sysctls' ? lines : [];
  });
}
