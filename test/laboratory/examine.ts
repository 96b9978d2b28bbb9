import type {Snapshot} from '../../src/model/snapshot.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {findingsOf, type Healthy, judge, type Judgement} from './judge.ts';
import {type Flow, fairer, flows, Laboratory, type Mode, type Seen} from './laboratory.ts';
import type {Scenario} from './scenarios.ts';

export interface Examined {
  readonly scenario: Scenario;
  readonly healthy: Healthy;
  readonly seen: ReadonlyMap<Flow, Seen>;
  readonly snapshot: Snapshot;
  readonly judgement: Judgement;
}

/** Loads one scenario after the other, sends all flows through it, and judges what the program says. */
export async function* examineAll(mode: Mode, scenarios: readonly Scenario[]): AsyncGenerator<Examined> {
  let laboratory = await Laboratory.open(mode);
  try {
    laboratory.prepare({load: []});
    // Twice: where one of two endpoints is missed by chance, every scenario would seem to change that.
    const [once, twice] = [await laboratory.send(), await laboratory.send()];
    const seen = new Map(flows.map(flow => [flow, fairer(once.get(flow) ?? {}, twice.get(flow) ?? {})]));
    const snapshot = await laboratory.snapshot();
    const healthy = {seen, findings: findingsOf(snapshot)};
    const before = new Set(linesOf(snapshot));
    for (const scenario of scenarios.filter(({modes}) => modes === undefined || modes.includes(mode))) {
      laboratory.prepare(scenario);
      const after = await laboratory.send(seen);
      const read = await laboratory.snapshot();
      const added = linesOf(read).flatMap(line => (line === '' || before.has(line) ? [] : line.replace(/^(net\.\S+) = .*/, '$1')));
      yield {scenario, healthy, seen: after, snapshot: read, judgement: judge(healthy, {scenario, seen: after, snapshot: read, added})};
      // What is more than rules stays.
      if (!scenario.load.some(({tool, backend}) => tool === 'sh' || backend === 'other')) continue;
      await laboratory[Symbol.asyncDispose]();
      laboratory = await Laboratory.open(mode);
    }
  } finally {
    await laboratory[Symbol.asyncDispose]();
  }
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
