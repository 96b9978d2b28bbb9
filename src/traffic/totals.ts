import type {CellTraffic, EndpointTotals, PortTotals} from '../model/traffic/traffic-report.ts';

/** The cells of one Service port on one node, by `ip:port`. */
type NodeCells = ReadonlyMap<string, CellTraffic>;

export function portTotals(nodes: readonly NodeCells[], isRate: boolean): Omit<PortTotals, 'nodes'> {
  const all = nodes.flatMap(cells => [...cells.values()]);
  return {
    newPerSecond: sumOf(all, perSecond),
    totalConnections: sumOf(all, ({totalConnections}) => totalConnections),
    openConnections: sumOf(all, ({openConnections}) => openConnections),
    measuredNodes: nodes.filter(cells => [...cells.values()].some(cell => countOf(cell, isRate) !== null)).length,
  };
}

interface TotalsOptions {
  /** There were two reads. */
  readonly isRate: boolean;
  /** Each connection is assigned to an endpoint at random. */
  readonly isRandom: boolean;
}

export function endpointTotals(name: string, nodes: readonly NodeCells[], {isRate, isRandom}: TotalsOptions): EndpointTotals {
  const own = nodes.flatMap(cells => cells.get(name) ?? []);
  const count = (cell: CellTraffic): number | null => countOf(cell, isRate);
  // A node that did not count this endpoint is left out of the total, too.
  const counted = nodes.filter(cells => cells.has(name) && [...cells.values()].every(cell => count(cell) !== null));
  const perNode = counted.map(cells => ({
    all: [...cells.values()].reduce((sum, cell) => sum + (count(cell) ?? 0), 0),
    part: count(cells.get(name) ?? noCell) ?? 0,
    share: cells.get(name)?.expectedShare ?? null,
  }));
  const all = perNode.reduce((sum, node) => sum + node.all, 0);
  const part = perNode.reduce((sum, node) => sum + node.part, 0);
  return {
    newPerSecond: sumOf(own, perSecond),
    totalConnections: sumOf(own, ({totalConnections}) => totalConnections),
    openConnections: sumOf(own, ({openConnections}) => openConnections),
    closingConnections: sumOf(own, ({closingConnections}) => closingConnections),
    share: all === 0 ? null : part / all,
    expectedShare: expectedShare(own, perNode),
    deviation: isRandom && isRate ? deviation(perNode) : null,
  };
}

interface NodeCount {
  readonly all: number;
  readonly part: number;
  readonly share: number | null;
}

/** Weighted by the counts of each node; without any counts, all nodes have the same weight. */
function expectedShare(own: readonly CellTraffic[], counted: readonly NodeCount[]): number | null {
  const known = counted.flatMap(({all, share}) => (share === null ? [] : [{weight: all, share}]));
  const weighed = known.some(({weight}) => weight > 0)
    ? known
    : own.flatMap(({expectedShare: share}) => (share === null ? [] : [{weight: 1, share}]));
  const weight = weighed.reduce((sum, node) => sum + node.weight, 0);
  return weight === 0 ? null : weighed.reduce((sum, node) => sum + node.weight * node.share, 0) / weight;
}

/** The standard deviation of a sum of binomial distributions, one for each node. */
function deviation(nodes: readonly NodeCount[]): number | null {
  let [difference, variance] = [0, 0];
  for (const {all, part, share} of nodes) {
    if (share === null) return null;
    difference += part - all * share;
    variance += all * share * (1 - share);
  }
  return variance === 0 ? (difference === 0 ? 0 : null) : difference / Math.sqrt(variance);
}

function countOf({newConnections, totalConnections}: CellTraffic, isRate: boolean): number | null {
  return isRate ? newConnections : totalConnections;
}

function perSecond({newConnections, seconds}: CellTraffic): number | null {
  return newConnections === null || seconds === null || seconds <= 0 ? null : newConnections / seconds;
}

/** Null if none of them is known. */
function sumOf(cells: readonly CellTraffic[], value: (cell: CellTraffic) => number | null): number | null {
  const known = cells.map(value).filter(one => one !== null);
  return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
}

const noCell: CellTraffic = {
  ...{node: '', newConnections: null, seconds: null, totalConnections: null},
  ...{openConnections: null, closingConnections: null, expectedShare: null},
};
