import {type CostedCluster, costs} from './cost-model.ts';
import {wireSizes} from './wire-sizes.ts';

export interface CostTables {
  /** What was measured. */
  readonly sizes: string;
  /** What follows from it. */
  readonly costs: string;
}

/** Both tables of docs/dev/costs.md, for a cluster of this size. Services have the same number of endpoints in what is measured. */
export function costTables(cluster: CostedCluster): CostTables {
  const sizes = wireSizes({services: measuredServices, endpoints: cluster.endpoints, nodes: 1, seed: 1});
  const all = costs(cluster, sizes);
  return {
    sizes: table(
      ['', 'what', 'measured'],
      [
        ['`s`', 'a Service in JSON', bytes(sizes.service)],
        ['`k`', 'an EndpointSlice without its endpoints', bytes(sizes.slice)],
        ['`p`', 'an endpoint in it', bytes(sizes.endpoint)],
        ['`g`', 'a list with gzip, as a part of what it is without', sizes.gzip.toFixed(2)],
        ['`b`', 'a slice in protobuf, as a part of what it is in JSON', sizes.protobuf.toFixed(2)],
        ['`d`', "of a node's `iptables-save` and `ip6tables-save`, for each endpoint", bytes(sizes.dump)],
        ['`r`', 'rules of a node, for each endpoint', sizes.rules.toFixed(2)],
      ],
    ),
    costs: table(
      ['', 'formula', `${number(cluster.nodes)} nodes, ${number(all.endpoints)} endpoints`],
      [
        ['slices `K`', '`S × ⌈E / S / 100⌉`', number(all.slices)],
        ['all Services and slices, `A`', '`S·s + K·k + E·p`', bytes(all.objects)],
        ['the same with gzip', '`g·A`', bytes(all.objectsCompressed)],
        ['rules of a node', '`E·r`', number(all.rules)],
        ['dump of a node, `D`', '`E·d`', bytes(all.dump)],
        ['dumps of all nodes', '`N·D`', bytes(all.dumps)],
        ['all agents read all objects once', '`N·g·A`', bytes(all.start)],
        ['one endpoint changes: to all agents', '`N·(k + E/K·p)`', bytes(all.change)],
        ['the same to all kube-proxies', '`N·(k + E/K·p)·b`', bytes(all.changeOfKubeProxies)],
        ['bookmarks of all agents, a second', '`N · 2 · 250 B / 60`', bytes(all.bookmarks)],
        ['results that `check --agents` gathers', '`N · 900 B`', bytes(all.results)],
        ['one scrape by Prometheus', '`N · 1,200 B`', `${bytes(all.scrape)}, ${number(all.samples)} samples`],
      ],
    ),
  };
}

/** The sizes are means: more Services would not change them. */
const measuredServices = 500;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |');
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Two figures and the unit. */
function bytes(value: number): string {
  const unit = ['B', 'kB', 'MB', 'GB', 'TB'].find((_, power) => value < 1000 ** (power + 1)) ?? 'TB';
  const scaled = value / 1000 ** ['B', 'kB', 'MB', 'GB', 'TB'].indexOf(unit);
  return `${unit === 'B' ? number(value) : scaled.toPrecision(scaled >= 100 ? 3 : 2)} ${unit}`;
}
