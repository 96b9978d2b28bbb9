import {rmSync} from 'node:fs';
import {join} from 'node:path';
import type {ClusterSize} from './cluster-size.ts';
import {type Cost, measure} from './measure.ts';
import {type Program, programs} from './programs.ts';
import {assertClean} from './right-report.ts';
import {say} from './say.ts';
import {measureFloor, writeCluster} from './subject.ts';

/** The cost to check some of the nodes of one bundle. */
interface NodeCount {
  readonly program: Program['name'] | 'floor';
  readonly nodes: number;
  readonly cost: Cost;
}

export interface NodeCounts {
  readonly size: ClusterSize;
  readonly rows: readonly NodeCount[];
}

/** One node, some and all of the same bundle: what is the same for all nodes is worked out once. */
export async function measureNodeCounts(size: ClusterSize, temp: string): Promise<NodeCounts> {
  const {bundles} = await writeCluster(size, join(temp, 'nodes'));
  const rows: NodeCount[] = [];
  for (const nodes of [1, Math.round(size.nodes / 10), size.nodes]) {
    say(`${nodes} of ${size.nodes} nodes`);
    rows.push({program: 'floor', nodes, cost: await measureFloor([bundles.before], nodes, temp)});
    const chosen = bundles.nodes.slice(0, nodes).flatMap(name => ['--node', name]);
    for (const {name, command} of programs()) {
      const measured = await measure([...command, 'check', '-A', ...chosen, '--from', bundles.before, '-o', 'json'], temp);
      assertClean(measured, nodes);
      rows.push({program: name, nodes, cost: measured});
    }
  }
  rmSync(join(temp, 'nodes'), {recursive: true});
  return {
    size,
    rows: rows.map(({cost: {cpuSeconds, wallSeconds, peakMebibytes}, ...row}) => ({
      ...row,
      cost: {cpuSeconds, wallSeconds, peakMebibytes},
    })),
  };
}

export function nodeCountsTable({size, rows}: NodeCounts): string {
  const heading = `check -A of some nodes of one bundle of ${size.nodes}, ${size.services} Services x ${size.endpoints} endpoints`;
  return [
    heading,
    line('', ['CPU s', 'x floor', 'x one node', 'ms a node', 'MiB', 'x floor']),
    ...rows.map(row => rowText(row, rows)),
  ].join('\n');
}

function rowText({program, nodes, cost}: NodeCount, rows: readonly NodeCount[]): string {
  const floor = rows.find(row => row.program === 'floor' && row.nodes === nodes)?.cost;
  const one = rows.find(row => row.program === program && row.nodes === 1)?.cost;
  const times = (figure: 'cpuSeconds' | 'peakMebibytes', unit: Cost | undefined) =>
    (cost[figure] / (unit?.[figure] ?? Number.NaN)).toFixed(2);
  return line(`${program}: ${nodes} ${nodes === 1 ? 'node' : 'nodes'}`, [
    ...[cost.cpuSeconds.toFixed(2), times('cpuSeconds', floor), times('cpuSeconds', one), ((cost.cpuSeconds / nodes) * 1000).toFixed(1)],
    ...[cost.peakMebibytes.toFixed(0), times('peakMebibytes', floor)],
  ]);
}

function line(name: string, figures: readonly string[]): string {
  return `  ${name.padEnd(32)}${figures.map(figure => figure.replace('NaN', '-').padStart(12)).join('')}`;
}
