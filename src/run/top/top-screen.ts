import process from 'node:process';
import type {EndpointTraffic, PortTraffic, TrafficReport} from '../../model/traffic/traffic-report.ts';
import {styleOf, visibleLength} from '../../render/renderer.ts';
import {topTable, answerLine, portLabel} from '../../render/top/top-table.ts';
import {FilterField, liveScreen, type ScreenSize} from '../live-screen.ts';

interface TopScreenOptions {
  readonly color: boolean;
  readonly wide: boolean;
  /** The counted Services and nodes as text, escaped. */
  readonly what: string;
  readonly stream?: NodeJS.WriteStream;
}

interface TopScreen {
  show(report: TrafficReport): void;
  say(text: string): void;
  /** `/` filters, `s` sorts. True if the key was for one of them. */
  take(key: string): boolean;
  close(): void;
}

/** A live screen of the traffic. */
export function topScreen({color, wide, what, stream = process.stdout}: TopScreenOptions): TopScreen {
  let report: TrafficReport | null = null;
  let doing = '';
  let sort = 0;
  const filter = new FilterField();
  const {draw, close} = liveScreen(stream, size => {
    const [order = 'unusual', key] = orders[sort] ?? [];
    const keys = ['q quits', filter.shown === '' ? '/ filters' : filter.shown, `s sorts: ${order} first`].join('  ');
    // What is filtered out still counts for the answer.
    const rowsOf = (port: PortTraffic) => chosen(port, {filter: filter.text, key});
    return screenLines({report, rowsOf, doing, what, keys}, {...size, color, wide});
  });
  return {
    show: next => {
      report = next;
      doing = '';
      draw();
    },
    say: text => {
      doing = text;
      if (report === null) draw();
    },
    take: key => {
      const isSort = key === 's' && !filter.isOpen;
      if (isSort) sort = (sort + 1) % orders.length;
      else if (!filter.take(key)) return false;
      draw();
      return true;
    },
    close: () => close(report === null ? null : answerLine(report)),
  };
}

type Order = readonly [name: string, key?: (endpoint: EndpointTraffic) => number | null];

/** Of the endpoints of a port; the first is that of the report. */
const orders: readonly Order[] = [
  ['unusual'],
  ['largest share', ({totals}) => totals.share],
  ['most new', ({totals}) => totals.newPerSecond ?? totals.totalConnections],
  ['most open', ({totals}) => totals.openConnections],
];

interface Choice {
  /** In lower case: a part of the Service port, or of the address, pod or node of an endpoint. */
  readonly filter: string;
  readonly key?: NonNullable<Order[1]>;
}

function chosen(port: PortTraffic, {filter, key}: Choice): readonly EndpointTraffic[] | null {
  const has = (text: string | null): boolean => text?.toLowerCase().includes(filter) === true;
  const isWhole = has(portLabel(port));
  const kept = port.endpoints.filter(({hostPort, pod, podNode}) => isWhole || has(hostPort) || has(pod) || has(podNode));
  if (kept.length === 0 && !isWhole) return null;
  // What is not measured comes last.
  return key === undefined ? kept : kept.toSorted((a, b) => (key(b) ?? -1) - (key(a) ?? -1));
}

interface ScreenState {
  readonly report: TrafficReport | null;
  readonly rowsOf: (port: PortTraffic) => readonly EndpointTraffic[] | null;
  readonly doing: string;
  readonly what: string;
  /** The keys and what they do now. */
  readonly keys: string;
}

interface TopScreenSize extends ScreenSize {
  readonly color: boolean;
  readonly wide: boolean;
}

/** The lines of a screen, truncated to its size; the last line tells how many are left out. */
function screenLines({report, rowsOf, doing, what, keys}: ScreenState, {columns, rows, color, wide}: TopScreenSize): readonly string[] {
  const style = styleOf(color);
  const head = style.dim(truncate(`${keys}  ${what}`, columns - 1));
  if (report === null) return [head, truncate(`${doing}…`, columns - 1)];
  const lines = [head, ...topTable(report, {color, width: columns - 1, quiet: false, wide, rowsOf}).split('\n')];
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, rows - 1), style.dim(`… ${lines.length - rows + 1} more lines: a higher terminal, or --once, shows them`)];
}

function truncate(text: string, columns: number): string {
  return visibleLength(text) <= columns ? text : `${text.slice(0, columns - 1)}…`;
}
