import {largest} from '../../model/lists.ts';
import {servicePortText, someOf} from '../../model/text.ts';
import type {EndpointTraffic, PortTotals, PortTraffic, TrafficReport} from '../../model/traffic/traffic-report.ts';
import {escapeText} from '../terminal-text.ts';
import {percent} from '../trace-words.ts';

/** The first line: which endpoints get the connections, in a sentence. Escaped. */
export function answerLine(report: TrafficReport): string {
  const {ports, nodes} = report;
  const [only] = ports;
  if (only === undefined) return nothingMeasured(nodes);
  return ports.length === 1 ? `${portLabel(only)}: ${portSentence(only, report.interval)}` : manyPorts(report);
}

function nothingMeasured(nodes: TrafficReport['nodes']): string {
  if (nodes.length === 0) return 'No node is known';
  const unread = nodes.filter(({status}) => status === 'unread').length;
  const others = nodes.filter(({status}) => status === 'unsupported').length;
  if (others === nodes.length) return `Not measured: nothing counts the connections of ${counted(others, 'node')}`;
  if (unread === 0) return 'No node serves these Services';
  const rest = unread === nodes.length ? '' : '; no other node serves these Services';
  return `Not measured: ${unread} of ${counted(nodes.length, 'node')} could not be read${rest}`;
}

/** `shop/web:http`, with the family unless it is IPv4. Escaped. */
export function portLabel({service, port, family}: PortTraffic): string {
  return escapeText(`${servicePortText(service, port)}${family === 'IPv6' ? ' (IPv6)' : ''}`);
}

/** The sentence about one Service port. Escaped. */
export function portSentence(port: PortTraffic, interval: number | null): string {
  if (port.endpoints.length === 0) return 'it has no endpoints';
  return [`${amount(port.totals, interval)}${spread(port)}`, ...leftOver(port), ...openText(port.totals)].join('; ');
}

function amount({newPerSecond, totalConnections, measuredNodes, nodes}: PortTotals, interval: number | null): string {
  const where = measuredNodes === nodes ? counted(nodes, 'node') : `${measuredNodes} of ${counted(nodes, 'node')}`;
  if (interval === null) {
    if (totalConnections === null) return 'the connections so far were not counted';
    return `${counted(totalConnections, 'connection')} since kube-proxy wrote the rules, on ${where}`;
  }
  if (newPerSecond === null) return `new connections were not measured on ${nodes === 1 ? 'the node' : `any of ${counted(nodes, 'node')}`}`;
  if (newPerSecond === 0) return `no new connections in ${rateText(interval)} s on ${where}`;
  return `${rateText(newPerSecond)} new connections/s on ${where}`;
}

function spread({endpoints}: PortTraffic): string {
  const gone = endpoints.filter(({state, totals}) => state === 'stale' && (totals.share ?? 0) > 0);
  const lost = gone.reduce((sum, {totals}) => sum + (totals.share ?? 0), 0);
  if (gone.length > 0)
    return `, ${percent(lost)} of them to ${gone.length === 1 ? gone[0]?.hostPort : counted(gone.length, 'address', 'addresses')} no longer serving`;
  const odd = endpoints.find(({totals}) => isOdd(totals.deviation));
  if (odd !== undefined) {
    const {share, expectedShare} = odd.totals;
    return `, uneven: ${odd.hostPort} gets ${percent(share ?? 0)} where the rules give it ${percent(expectedShare ?? 0)}`;
  }
  const served = endpoints.filter(({totals}) => (totals.expectedShare ?? 0) > 0);
  const getting = endpoints.filter(({totals}) => (totals.share ?? 0) > 0);
  if (getting.length === 0) return '';
  const wrong = endpoints.find(
    ({totals: {dueShare: due, expectedShare: given}}) => due !== null && given !== null && Math.abs(due - given) > 0.005,
  );
  if (wrong !== undefined) {
    const {dueShare, expectedShare} = wrong.totals;
    return `, not spread as kube-proxy should: the rules give ${wrong.hostPort} ${percent(expectedShare ?? 0)}, not ${percent(dueShare ?? 0)}`;
  }
  if (served.length === 1 && getting.length === 1) return ', all to its only endpoint';
  const isDecided = served.length > 0 && served.every(({totals}) => totals.deviation !== null);
  if (isDecided) return `, spread over ${counted(served.length, 'endpoint')} as expected`;
  return getting.length === 1
    ? `, all to one of ${counted(served.length, 'endpoint')}`
    : `, spread over ${counted(getting.length, 'endpoint')}`;
}

/** A larger deviation is not random. In standard deviations. */
export function isOdd(deviation: number | null): boolean {
  return Math.abs(deviation ?? 0) >= 4.5;
}

function leftOver({endpoints}: PortTraffic): readonly string[] {
  return (['stale', 'terminating'] as const).flatMap(state => {
    const those = endpoints.filter(endpoint => endpoint.state === state);
    const open = those.reduce((sum, {totals}) => sum + (totals.openConnections ?? 0), 0);
    if (open === 0) return [];
    const what = state === 'stale' ? `${counted(those.length, 'address', 'addresses')} no longer serving` : `${those.length} terminating`;
    return [`${numberText(open)} open to ${what}`];
  });
}

function openText({openConnections}: PortTotals): readonly string[] {
  return openConnections === null ? [] : [`${numberText(openConnections)} open`];
}

function manyPorts({ports, nodes, interval}: TrafficReport): string {
  const sum = (value: (totals: PortTotals) => number | null): number | null => {
    const known = ports.map(({totals}) => value(totals)).filter(one => one !== null);
    return known.length === 0 ? null : known.reduce((total, one) => total + one, 0);
  };
  const measured = largest(ports.map(({totals: {measuredNodes}}) => measuredNodes));
  const where = measured === nodes.length ? counted(nodes.length, 'node') : `${measured} of ${counted(nodes.length, 'node')}`;
  const rate = interval === null ? sum(({totalConnections}) => totalConnections) : sum(({newPerSecond}) => newPerSecond);
  const open = sum(({openConnections}) => openConnections);
  const amounts = [
    ...(rate === null ? [] : [interval === null ? `${counted(rate, 'connection')} so far` : `${rateText(rate)} new connections/s`]),
    ...(open === null ? [] : [`${numberText(open)} open`]),
  ];
  const odd = ports.filter(({endpoints}) => endpoints.some(isOddEndpoint)).map(portLabel);
  const oddText = odd.length === 0 ? '' : `; look at ${someOf(odd, {max: 3})}`;
  return `${counted(ports.length, 'Service port')} on ${where}: ${amounts.length === 0 ? 'nothing was measured' : amounts.join(', ')}${oddText}`;
}

/** It is stale and still gets connections, or it gets another share than its rules give it. */
export function isOddEndpoint({state, totals}: EndpointTraffic): boolean {
  const gets = (totals.newPerSecond ?? 0) > 0 || (totals.openConnections ?? 0) > 0;
  return (state === 'stale' && gets) || isOdd(totals.deviation);
}

/** Null is "not measured", which is not 0. */
export function numberText(value: number | null): string {
  return value === null ? notMeasured : value.toLocaleString('en-US');
}

export function rateText(value: number | null): string {
  return value === null ? notMeasured : value.toLocaleString('en-US', {minimumFractionDigits: 1, maximumFractionDigits: 1});
}

export function shareText(value: number | null): string {
  return value === null ? notMeasured : `${(value * 100).toFixed(1)}%`;
}

function counted(number: number, one: string, many = `${one}s`): string {
  return `${numberText(number)} ${number === 1 ? one : many}`;
}

const notMeasured = '-';
