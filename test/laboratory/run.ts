import {mkdirSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {writeBundle} from '../../src/collect/bundle/write-bundle.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {seededRandom} from '../bench/random.ts';
import {examineAll} from './examine.ts';
import {changesText, type Judgement} from './judge.ts';
import {type Flow, flows, type Mode, modes, type Seen} from './laboratory.ts';
import {randomScenario} from './random.ts';
import {type Scenario, scenarios, type Step} from './scenarios.ts';

// `node test/laboratory/run.ts`: sends packets through the kernel with the rules of each scenario, and says where the program is wrong.
// With `--random 100 --seed 7` the rules are random ones, so many for each mode.
const {values} = parseArgs({
  options: {
    only: {type: 'string', multiple: true},
    mode: {type: 'string', multiple: true},
    keep: {type: 'string'},
    random: {type: 'string'},
    seed: {type: 'string', default: '1'},
  },
});

const {only, mode, keep, random, seed} = values;
const isChosen = ({name}: Scenario) => only === undefined || only.some(text => name.includes(text));
const counts = {right: 0, wrong: 0, packets: 0};
await Promise.all(
  modes
    .filter(name => mode === undefined || mode.includes(name))
    .map(async name => {
      for await (const {scenario, judgement, snapshot, seen, healthy} of examineAll(name, scenariosOf(name).filter(isChosen))) {
        print(name, scenario, judgement);
        if (keep !== undefined)
          await write(join(keep, `${name}-${scenario.name}`), snapshot, {mode: name, seen, before: healthy.seen, judgement});
      }
    }),
);
process.stdout.write(`check: ${counts.right} right, ${counts.wrong} wrong; packet: wrong in ${counts.packets}\n`);

function scenariosOf(name: Mode): readonly Scenario[] {
  if (random === undefined) return scenarios;
  const source = seededRandom(Number(seed));
  return Array.from({length: Number(random)}, (_, index) => randomScenario(source, name, index));
}

function print(name: Mode, scenario: Scenario, {changes, findings, check, packet}: Judgement): void {
  counts[check.length === 0 ? 'right' : 'wrong'] += 1;
  counts.packets += packet.length === 0 ? 0 : 1;
  const said = [...new Set(findings.map(({severity, code}) => `${severity} ${code}`))].join(', ');
  const verdict = `${check.length === 0 ? 'right' : 'WRONG'} ${packet.length === 0 ? '     ' : `${packet.length} packets`.padEnd(10)}`;
  const cells = [name.padEnd(8), scenario.name.padEnd(30), (changesText(changes) || 'nothing changed').padEnd(50), said || 'silent'];
  const lines = [
    `${verdict.padEnd(17)} ${cells.join(' | ')}`,
    ...check.map(line => `        ${line}`),
    ...packet.slice(0, 1).map(line => `        ${line}`),
    ...(random === undefined || check.length + packet.length === 0 ? [] : scenario.load.map(loaded)),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

function loaded({backend = 'own', text}: Step): string {
  return `        (${backend}) ${text.trim().replaceAll(/\s*\n\s*/g, ' ')}`;
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
