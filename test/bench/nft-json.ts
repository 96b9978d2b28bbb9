import process from 'node:process';
import {expectTable} from '../../src/expect/nftables/expect-table.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import {nodeFacts} from '../../src/expect/node-facts.ts';
import {proxyVersion} from '../../src/expect/cluster/service-ports.ts';
import {resolveProxyConfig} from '../../src/expect/proxy-config.ts';
import {asNftExpectation} from '../../src/analyze/nftables/resolve-nft-version.ts';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {compareNftTable} from '../../src/compare/compare-nft-table.ts';
import {families} from '../../src/model/address.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {median} from './statistics.ts';

/** Seconds of CPU time (user and system, of all threads): of the first round, in which the code is new, and the median of the others. */
export interface NftJsonStage {
  readonly name: string;
  readonly first: number;
  readonly median: number;
}

/** What it takes to parse and compare the JSON of nft of the only node in `dir`, beside JSON.parse of it. The API objects are read before. */
export async function measureNftJson(dir: string, rounds = 11): Promise<readonly NftJsonStage[]> {
  const {api, nodes} = await readBundle(dir);
  const [node] = nodes;
  const json = node?.read('nft.json') ?? null;
  if (node === undefined || json === null) throw new Error(`${dir} holds no nft.json`);
  const {config} = resolveProxyConfig(node, api, {});
  const facts = nodeFacts(node, api);
  const compare = (view: ClusterView): number => {
    const {tables} = parseNftDump(json);
    return families.flatMap(family => {
      const table = tables.get(`${family === 'IPv4' ? 'ip' : 'ip6'} kube-proxy`);
      return table === undefined
        ? []
        : compareNftTable(asNftExpectation(expectTable({view, config, facts, family, table})), table).differences;
    }).length;
  };
  const seconds = {parseJson: [] as number[], compare: [] as number[]};
  for (let round = 0; round < rounds; round++) {
    const view = new ClusterView(api);
    for (const family of families) view.entries(family, proxyVersion(config));
    seconds.parseJson.push(secondsOf(() => JSON.parse(json.toString('utf8')) as unknown));
    seconds.compare.push(
      secondsOf(() => {
        if (compare(view) > 0) throw new Error('a healthy node differs');
      }),
    );
  }
  const stage = (name: string, [first = Number.NaN, ...others]: readonly number[]): NftJsonStage => ({name, first, median: median(others)});
  return [stage('JSON.parse', seconds.parseJson), stage('parsing and comparing', seconds.compare)];
}

function secondsOf(work: () => unknown): number {
  const started = process.cpuUsage();
  work();
  const {user, system} = process.cpuUsage(started);
  return (user + system) / 1_000_000;
}

/** In units of JSON.parse. */
export function nftJsonTable(stages: readonly NftJsonStage[]): string {
  const [unit] = stages;
  const line = (name: string, figures: readonly string[]) => `  ${name.padEnd(34)}${figures.map(figure => figure.padStart(12)).join('')}`;
  return [
    'the JSON of nft of this node, API objects read',
    line('', ['first CPU s', 'x', 'later CPU s', 'x']),
    ...stages.map(({name, first, median: later}) =>
      line(name, [
        ...[first.toFixed(3), (first / (unit?.first ?? Number.NaN)).toFixed(2)],
        ...[later.toFixed(3), (later / (unit?.median ?? Number.NaN)).toFixed(2)],
      ]),
    ),
  ].join('\n');
}
