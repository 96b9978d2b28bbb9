import type {Cost} from './measure.ts';
import type {Stage} from './stages.ts';

/** What one bundle cost. Without the product's figures when only the floor was asked for. */
export interface SizeResult {
  services: number;
  endpoints: number;
  nodes: number;
  bytes: number;
  lines: number;
  floor: Cost;
  check?: Cost;
  /** How many floors a check is. */
  ratio?: {cpu: number; wall: number; memory: number};
}

export interface Results {
  large: SizeResult;
  small: SizeResult;
  /** What `--version` costs: starting, with no work. */
  startup?: Cost;
  /** The power of the input's size that each figure of check grows with. */
  growth?: {cpu: number; wall: number};
  stages: Stage[];
}

export function resultsTable(results: Results): string {
  const lines = [...sizeTable(results.large), '', ...sizeTable(results.small), ''];
  if (results.startup !== undefined) {
    const {cpuSeconds, wallSeconds} = results.startup;
    lines.push(`start-up: ${seconds(cpuSeconds)} CPU, ${seconds(wallSeconds)} wall`);
  }
  if (results.growth !== undefined) {
    const {cpu, wall} = results.growth;
    lines.push(`growth with the size of the input: CPU ^${cpu.toFixed(2)}, wall ^${wall.toFixed(2)}`);
  }
  for (const stage of results.stages) {
    lines.push(`${stage.name}: ${seconds(stage.seconds)} CPU, ${(stage.seconds / results.large.floor.cpuSeconds).toFixed(2)} x the floor`);
  }
  return lines.join('\n').trimEnd();
}

function sizeTable(size: SizeResult): string[] {
  const {bytes, check, endpoints, floor, lines, nodes, ratio, services} = size;
  const megabytes = (bytes / 1_000_000).toFixed(1);
  return [
    `${count(services)} Services x ${endpoints} endpoints, ${nodes} ${nodes === 1 ? 'node' : 'nodes'}: ${megabytes} MB, ${count(lines)} lines of dump`,
    cells('', 'floor', 'check', 'check/floor'),
    row('CPU', seconds, floor.cpuSeconds, check?.cpuSeconds, ratio?.cpu),
    row('wall', seconds, floor.wallSeconds, check?.wallSeconds, ratio?.wall),
    row('peak memory', mebibytes, floor.peakMebibytes, check?.peakMebibytes, ratio?.memory),
  ];
}

type Text = (value: number) => string;

function row(name: string, text: Text, floor: number, check: number | undefined, ratio: number | undefined): string {
  return cells(name, text(floor), check === undefined ? '-' : text(check), ratio?.toFixed(2) ?? '-');
}

function cells(name: string, ...figures: string[]): string {
  return `  ${name.padEnd(12)}${figures.map(figure => figure.padStart(12)).join('')}`;
}

function seconds(value: number): string {
  return `${value.toFixed(2)} s`;
}

function mebibytes(value: number): string {
  return `${value.toFixed(0)} MiB`;
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}
