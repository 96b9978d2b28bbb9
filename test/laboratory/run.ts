import {mkdirSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {writeBundle} from '../../src/collect/bundle/write-bundle.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {examineAll} from './examine.ts';
import {changesText, type Judgement} from './judge.ts';
import {type Flow, flows, type Mode, modes, type Seen} from './laboratory.ts';
import {scenarios} from './scenarios.ts';

// `node test/laboratory/run.ts`: sends packets through the kernel with the rules of each scenario, and says where the program is wrong.
const {values} = parseArgs({
  options: {
    only: {type: 'string', multiple: true},
    mode: {type: 'string', multiple: true},
    keep: {type: 'string'},
  },
});

const {only, mode, keep} = values;
const chosen = scenarios.filter(({name}) => only === undefined || only.some(text => name.includes(text)));
const counts = {right: 0, wrong: 0, packets: 0};
await Promise.all(
  modes
    .filter(name => mode === undefined || mode.includes(name))
    .map(async name => {
      for await (const {scenario, judgement, snapshot, seen, healthy} of examineAll(name, chosen)) {
        print(name, scenario.name, judgement);
        if (keep !== undefined)
          await write(join(keep, `${name}-${scenario.name}`), snapshot, {mode: name, seen, before: healthy.seen, judgement});
      }
    }),
);
process.stdout.write(`check: ${counts.right} right, ${counts.wrong} wrong; packet: wrong in ${counts.packets}\n`);

function print(name: Mode, scenario: string, {changes, findings, check, packet}: Judgement): void {
  counts[check.length === 0 ? 'right' : 'wrong'] += 1;
  counts.packets += packet.length === 0 ? 0 : 1;
  const said = [...new Set(findings.map(({severity, code}) => `${severity} ${code}`))].join(', ');
  const verdict = `${check.length === 0 ? 'right' : 'WRONG'} ${packet.length === 0 ? '     ' : `${packet.length} packets`.padEnd(10)}`;
  const cells = [name.padEnd(8), scenario.padEnd(30), (changesText(changes) || 'nothing changed').padEnd(50), said || 'silent'];
  const lines = [
    `${verdict.padEnd(17)} ${cells.join(' | ')}`,
    ...check.map(line => `        ${line}`),
    ...packet.slice(0, 1).map(line => `        ${line}`),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

interface Truth {
  readonly mode: Mode;
  readonly before: ReadonlyMap<Flow, Seen>;
  readonly seen: ReadonlyMap<Flow, Seen>;
  readonly judgement: Judgement;
}

async function write(path: string, snapshot: Snapshot, {mode: name, before, seen, judgement}: Truth): Promise<void> {
  rmSync(path, {recursive: true, force: true});
  mkdirSync(dirname(path), {recursive: true});
  const record = {tool: {name: 'kubectl-svc-trace', version: '0.0.0'}, takenAt: null, origin: null, redacted: false};
  await writeBundle(path, {record, api: snapshot.api, nodes: snapshot.nodes, problems: []});
  const changed = new Map(judgement.changes.map(({flow, change}) => [flow, change]));
  const sent = flows.map(flow => ({...flow, change: changed.get(flow) ?? null, before: before.get(flow), after: seen.get(flow)}));
  writeFileSync(
    join(path, 'truth.json'),
    JSON.stringify({mode: name, check: judgement.check, packet: judgement.packet, flows: sent}, null, 1),
  );
}
