import {asNftExpectation} from '../../src/analyze/nftables/resolve-nft-version.ts';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {compareNftTable} from '../../src/compare/compare-nft-table.ts';
import {diagnose} from '../../src/diagnose.ts';
import {ClusterView, proxyVersion} from '../../src/expect/cluster/cluster-view.ts';
import {nodeFacts} from '../../src/expect/read-node-facts.ts';
import {expectTable} from '../../src/expect/nftables/expect-table.ts';
import {resolveProxyConfig} from '../../src/expect/resolve-proxy-config.ts';
import {families} from '../../src/model/address.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {CiliumTables} from '../cilium-node.ts';
import {median} from './statistics.ts';

// What the program makes of JSON that a node prints, in one process, in units of JSON.parse.

/** Seconds of CPU time (user and system, of all threads): of the first round, in which the code is new, and the median of the others. */
export interface Stage {
  readonly name: string;
  readonly first: number;
  readonly median: number;
}

/** What it takes to parse and compare the JSON of nft of the only node in `dir`, beside JSON.parse of it. The API objects are read before. */
export async function measureNftJson(dir: string, rounds = 11): Promise<readonly Stage[]> {
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
  return [stageOf('JSON.parse', seconds.parseJson), stageOf('parsing and comparing', seconds.compare)];
}

/** What it takes to check a node of Cilium, of which each Service has three endpoints, beside JSON.parse of its files and of the objects. */
export function measureCilium(services: number, rounds = 7): readonly Stage[] {
  const tables = new CiliumTables();
  const names = Array.from({length: services}, (_, at) => ({name: `web-${at}`, host: `${at >> 8}.${at & 255}`}));
  tables.rows = names.map(({name, host}) => ({
    key: `10.96.${host}:80/TCP`,
    type: 'ClusterIP',
    service: name,
    backends: [1, 2, 3].map(node => `10.${node}.${host}:8080`),
  }));
  const meta = {namespace: 'shop'};
  tables.api = {
    ...tables.api,
    services: names.map(({name, host}) => ({
      metadata: {name, ...meta},
      spec: {
        ...{clusterIP: `10.96.${host}`, clusterIPs: [`10.96.${host}`], ipFamilies: ['IPv4'], selector: {app: name}},
        ports: [{name: 'http', port: 80, protocol: 'TCP'}],
      },
    })),
    endpointSlices: names.map(({name, host}) => ({
      ...{addressType: 'IPv4', metadata: {name: `${name}-1`, ...meta, labels: {'kubernetes.io/service-name': name}}},
      ports: [{name: 'http', port: 8080, protocol: 'TCP'}],
      endpoints: [1, 2, 3].map(node => ({addresses: [`10.${node}.${host}`], nodeName: 'node-a', conditions: {ready: true}})),
    })),
  };
  const snapshot = tables.writeMap().snapshot();
  const printed = snapshot.nodes.flatMap(({files, read}) => files.flatMap(file => (file.endsWith('.json') ? (read(file) ?? []) : [])));
  const objects = JSON.stringify(snapshot.api);
  const seconds = {parseJson: [] as number[], check: [] as number[]};
  for (let round = 0; round < rounds; round++) {
    // What is known of objects that were read before would not be worked out again.
    let api = snapshot.api;
    seconds.parseJson.push(
      secondsOf(() => {
        api = JSON.parse(objects) as typeof api;
        for (const json of printed) JSON.parse(json.toString('utf8'));
      }),
    );
    seconds.check.push(
      secondsOf(() => {
        const {summary, findings} = diagnose({...snapshot, api}, {toolVersion: '0.0.0'});
        if (findings.length > 0 || summary.nodesChecked !== 1) throw new Error(`a healthy node of Cilium is ${summary.verdict}`);
      }),
    );
  }
  return [stageOf('JSON.parse', seconds.parseJson), stageOf('checking', seconds.check)];
}

function stageOf(name: string, [first = Number.NaN, ...others]: readonly number[]): Stage {
  return {name, first, median: median(others)};
}

function secondsOf(work: () => unknown): number {
  const started = process.cpuUsage();
  work();
  const {user, system} = process.cpuUsage(started);
  return (user + system) / 1_000_000;
}

/** In units of the first stage. */
export function stagesBesideJson(heading: string, stages: readonly Stage[]): string {
  const [unit] = stages;
  const line = (name: string, figures: readonly string[]) => `  ${name.padEnd(34)}${figures.map(figure => figure.padStart(12)).join('')}`;
  return [
    heading,
    line('', ['first CPU s', 'x', 'later CPU s', 'x']),
    ...stages.map(({name, first, median: later}) =>
      line(name, [
        ...[first.toFixed(3), (first / (unit?.first ?? Number.NaN)).toFixed(2)],
        ...[later.toFixed(3), (later / (unit?.median ?? Number.NaN)).toFixed(2)],
      ]),
    ),
  ].join('\n');
}
