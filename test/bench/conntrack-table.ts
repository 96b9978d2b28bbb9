import {execFile} from 'node:child_process';
import process from 'node:process';
import {promisify} from 'node:util';
import {ConntrackCounter, conntrackKey} from '../../src/parse/conntrack.ts';

/** What it takes to count a table of tracked connections, a tenth of which belong to the Service that is counted. */
export interface TableFigures {
  readonly entries: number;
  readonly counted: number;
  /** CPU time of counting alone. */
  readonly seconds: number;
  /** The largest resident set of the process. */
  readonly megabytes: number;
}

/** Counts a table in a process of its own, whose heap holds no more than this many megabytes. */
export async function measureTable(entries: number, maxHeapMegabytes: number): Promise<TableFigures> {
  const args = [`--max-old-space-size=${maxHeapMegabytes}`, import.meta.filename, String(entries)];
  const {stdout} = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as TableFigures;
}

export function tableText({entries, counted, seconds, megabytes}: TableFigures): string {
  const each = ((seconds / entries) * 1e6).toFixed(2);
  return `conntrack: ${entries.toLocaleString('en-US')} entries, ${counted.toLocaleString('en-US')} of the Service: ${seconds.toFixed(2)} s CPU (${each} µs an entry), ${megabytes} MB`;
}

/** About what comes through a pipe at a time. */
const partSize = 400;

// This file is the program of that process, too.
if (process.argv[1] === import.meta.filename) process.stdout.write(JSON.stringify(count(Number(process.argv[2]))));

function count(entries: number): TableFigures {
  const counter = new ConntrackCounter({ports: new Map([[conntrackKey('TCP', '10.96.1.1', 80), 'web']]), identify: true});
  let micros = 0;
  for (let start = 0; start < entries; start += partSize) {
    const part = Buffer.from(tablePart(start, Math.min(start + partSize, entries)));
    const began = process.cpuUsage();
    counter.add(part);
    const {user, system} = process.cpuUsage(began);
    micros += user + system;
  }
  const counted = [...(counter.result().get('web')?.endpoints.values() ?? [])].reduce((sum, {open}) => sum + open, 0);
  return {entries, counted, seconds: micros / 1e6, megabytes: Math.round(process.resourceUsage().maxRSS / 1024)};
}

function tablePart(from: number, to: number): string {
  let text = '';
  for (let number = from; number < to; number++) {
    const destination = number % 10 === 0 ? '10.96.1.1' : `10.96.3.${number % 250}`;
    const [client, sport] = [`10.244.${(number >> 8) % 250}.${number % 250}`, 1024 + (number % 60_000)];
    text += `tcp      6 431999 ESTABLISHED src=${client} dst=${destination} sport=${sport} dport=80 src=10.244.1.${number % 50} dst=${client} sport=8080 dport=${sport} [ASSURED] mark=0 use=1 id=${number}\n`;
  }
  return text;
}
