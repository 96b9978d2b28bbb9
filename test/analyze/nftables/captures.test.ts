/** The laws of docs/architecture.md, on every capture of nftables mode. */
import {describe, expect, test} from 'vitest';
import {compareNftTable} from '../../../src/compare/compare-nft-table.ts';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectTable} from '../../../src/expect/nftables/expect-table.ts';
import type {ExpectedTable} from '../../../src/expect/nftables/expected-table.ts';
import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../../../src/expect/resolve-proxy-config.ts';
import {asNftExpectation} from '../../../src/analyze/nftables/resolve-nft-version.ts';
import {tableWalkOf, isSameOutcome} from '../../../src/analyze/outcomes/environment.ts';
import {probeWalks} from '../../../src/analyze/outcomes/probes-to-walk.ts';
import {probesFor} from '../../../src/analyze/outcomes/probes.ts';
import {families} from '../../../src/model/address.ts';
import type {NftRuleset, NftTable} from '../../../src/model/nft-ruleset.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';
import {findingsOf, needsAction, scenario} from '../../scenario.ts';
import {someOf} from '../../cases.ts';

const captures = captureNames('nftables');

describe('a healthy table contains what is expected, as JSON and as text', () => {
  test.each(captures)('%s', async name => {
    const tables = tablesOf(await snapshotOf(name));
    expect(tables.length).toBeGreaterThan(0);
    for (const {what, expected, table} of tables) {
      const {differences, unexpectedChains} = compareNftTable(asNftExpectation(expected), table);
      // Which service networks there are is not in the bundle.
      const own = differences.filter(({rule}) => !rule.text.endsWith('comment "Drop traffic to unallocated ClusterIPs"'));
      expect(
        own.map(({kind, rule}) => `${kind} ${rule.chain} ${rule.text}`),
        what,
      ).toEqual([]);
      expect(
        unexpectedChains.map(({name}) => name),
        what,
      ).toEqual([]);
    }
  });
});

describe('a packet ends where the expected rules send it', () => {
  test.each(captures)('%s', async name => {
    let walks = 0;
    for (const {what, expected, table} of tablesOf(await snapshotOf(name)).filter(({text}) => !text)) {
      for (const item of expected.ports) {
        const {reachable} = item.endpoints;
        for (const probe of probesFor({item, context: expected.context, hairpins: reachable.slice(0, 2)})) {
          const comparison = probeWalks(expected.context, {expected: tableWalkOf(expected), actual: tableWalkOf(table)})(probe);
          const {source, entry} = probe;
          expect(comparison.expected.undecided, `${what} ${item.port.servicePortName} ${source.kind}`).toBe(0);
          expect(
            isSameOutcome(comparison.expected, comparison.actual),
            `${what} ${item.port.servicePortName} ${source.kind} ${entry.kind}`,
          ).toBe(true);
          walks++;
        }
      }
    }
    expect(walks).toBeGreaterThan(800);
  });
});

/** But of what their version does wrong (ST7xx). */
describe('no errors or warnings are found on healthy nodes', () => {
  test.each(captures)('%s', async name => {
    expect(loudOf(await snapshotOf(name))).toEqual([]);
  });

  test.each(someOf(captures))('%s, if only the rules show the settings of kube-proxy', async name => {
    const bare = await scenario(name);
    for (const {name: node} of (await snapshotOf(name)).nodes)
      for (const file of ['configz.json', 'kube-proxy-config.yaml', 'kube-proxy-version', 'proxy-mode', 'healthz.json'])
        bare.file(node, file, null);
    expect(loudOf(bare.snapshot())).toEqual([]);
  });

  test.each(someOf(captures))('%s, with each single file of kube-proxy removed', async name => {
    for (const file of ['configz.json', 'kube-proxy-config.yaml', 'kube-proxy-version', 'proxy-mode', 'addresses.json']) {
      const bare = await scenario(name);
      for (const {name: node} of (await snapshotOf(name)).nodes) bare.file(node, file, null);
      expect(loudOf(bare.snapshot()), file).toEqual([]);
    }
  });

  test.each(someOf(captures))('%s, if the Nodes were not read', async name => {
    const bare = await scenario(name);
    bare.api(() => ({nodes: null}));
    expect(loudOf(bare.snapshot())).toEqual([]);
  });
});

function loudOf(snapshot: Snapshot): readonly string[] {
  const found = findingsOf(snapshot).filter(finding => needsAction(finding) && /^ST[2-689]/.test(finding.code));
  return found.map(({code, node, message}) => `${code} ${node} ${message}`);
}

interface TableOfNode {
  readonly what: string;
  readonly text: boolean;
  readonly expected: ExpectedTable;
  readonly table: NftTable;
}

function tablesOf({api, nodes}: Snapshot): readonly TableOfNode[] {
  const view = new ClusterView(api);
  return nodes.flatMap(node =>
    [parseNftJson(node.read('nft.json') ?? ''), parseNftDump(node.read('nft.txt') ?? '')].flatMap((ruleset: NftRuleset, at) =>
      families.map(family => {
        const table = ruleset.tables.get(family === 'IPv4' ? 'ip kube-proxy' : 'ip6 kube-proxy');
        if (table === undefined) throw new Error(`no table of ${node.name}`);
        const {config} = resolveProxyConfig(node, api, {});
        const expected = expectTable({view, config, facts: nodeFacts(node, api), family, table});
        return {what: `${node.name} ${family} ${at === 0 ? 'JSON' : 'text'}`, text: at === 1, expected, table};
      }),
    ),
  );
}
