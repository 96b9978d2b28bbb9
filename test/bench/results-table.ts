import type {Stage} from './stages.ts';
import type {Row, SubjectResult} from './subject.ts';

/** Rows that cost so much more CPU time than on the page, in floors, are marked. */
const worse = 1.15;

/**
 * A row for each command: the medians, how many floors that is, and how it grows. Where `page` has a table of the same cluster, its floors of
 * CPU time stand beside those of each row.
 */
export function subjectTable({size, bytes, lines, rows}: SubjectResult, page = ''): string {
  const {services, endpoints, nodes, proxyMode} = size;
  const cluster = `${count(services)} Services x ${endpoints} endpoints, ${count(nodes)} ${nodes === 1 ? 'node' : 'nodes'}`;
  const known = floorsOnPage(page, cluster);
  const heading = `${cluster}: ${(bytes / 1_000_000).toFixed(1)} MB, ${count(lines)} ${proxyMode === 'nftables' ? 'objects of nft' : 'lines of dump'}`;
  const columns = ['CPU s', 'least', 'x floor', 'growth', 'wall s', 'x floor', 'MiB', 'x floor'];
  if (known.size === 0) return [heading, line('', columns), ...rows.map(row => rowText(row))].join('\n');
  return [heading, line('', [...columns, 'page']), ...rows.map(row => rowText(row, known.get(nameOf(row)) ?? Number.NaN))].join('\n');
}

function nameOf({program, command}: Row): string {
  return `${program}: ${command}`;
}

/** The floors of CPU time in the table of this cluster, by the names of its rows. */
function floorsOnPage(page: string, cluster: string): ReadonlyMap<string, number> {
  const [, after = ''] = page.split(`\n${cluster}: `);
  const [table = ''] = after.split('\n\n');
  return new Map([...table.matchAll(/^ {2}(\S.*?) {2,}\S+ +\S+ +(\d+\.\d+)/gm)].map(([, name = '', floors]) => [name, Number(floors)]));
}

function rowText(row: Row, known?: number): string {
  const {median, least, ratio, growth} = row;
  const text = line(nameOf(row), [
    ...[
      median.cpuSeconds.toFixed(2),
      least.cpuSeconds.toFixed(2),
      ratio.cpuSeconds.toFixed(2),
      growth === undefined ? '-' : `^${growth.cpu.toFixed(2)}`,
    ],
    ...[median.wallSeconds.toFixed(2), ratio.wallSeconds.toFixed(2), median.peakMebibytes.toFixed(0), ratio.peakMebibytes.toFixed(2)],
    ...(known === undefined ? [] : [known.toFixed(2)]),
  ]);
  return known !== undefined && ratio.cpuSeconds > worse * known ? `${text} worse` : text;
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
