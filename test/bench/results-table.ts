import type {Stage} from './stages.ts';
import type {Row, SubjectResult} from './subject.ts';

/** A row for each command: the medians, how many floors that is, and how it grows. */
export function subjectTable({size, bytes, lines, rows}: SubjectResult): string {
  const {services, endpoints, nodes, proxyMode} = size;
  const heading = `${count(services)} Services x ${endpoints} endpoints, ${count(nodes)} ${nodes === 1 ? 'node' : 'nodes'}: ${(bytes / 1_000_000).toFixed(1)} MB, ${count(lines)} ${proxyMode === 'nftables' ? 'objects of nft' : 'lines of dump'}`;
  const columns = ['CPU s', 'least', 'x floor', 'growth', 'wall s', 'x floor', 'MiB', 'x floor'];
  return [heading, line('', columns), ...rows.map(rowText)].join('\n');
}

function rowText({program, command, median, least, ratio, growth}: Row): string {
  return line(`${program}: ${command}`, [
    ...[
      median.cpuSeconds.toFixed(2),
      least.cpuSeconds.toFixed(2),
      ratio.cpuSeconds.toFixed(2),
      growth === undefined ? '-' : `^${growth.cpu.toFixed(2)}`,
    ],
    ...[median.wallSeconds.toFixed(2), ratio.wallSeconds.toFixed(2), median.peakMebibytes.toFixed(0), ratio.peakMebibytes.toFixed(2)],
  ]);
}

function line(name: string, figures: readonly string[]): string {
  return `  ${name.padEnd(32)}${figures.map(figure => figure.replace('NaN', '-').padStart(9)).join('')}`;
}

/** Where the time of a check under Node.js goes. */
export function stagesTable(stages: readonly Stage[]): string {
  return stages.map(({name, seconds}) => `${name}: ${seconds.toFixed(2)} s CPU`).join('\n');
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}
