import process from 'node:process';
import {describe, expect, test} from 'vitest';
import {families} from '../../../src/model/address.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {seededRandom} from '../../bench/random.ts';
import {cases} from '../../cases.ts';
import {expectedTable} from '../../nft-expectation.ts';
import {randomCluster} from '../../random-cluster.ts';
import {nftText} from '../../rendered-nft.ts';
import {findingsOf} from '../../scenario.ts';
import {withFiles} from '../../fixtures.ts';

/** Clusters for each version; more of them with `SVC_TRACE_ALL=1`. A failure names its seed. */
const perVersion = process.env['SVC_TRACE_ALL'] === '1' ? 200 : cases({usual: 2, long: 12});

describe.each([29, 30, 31, 33, 34, 35, 36])('kube-proxy 1.%i in nftables mode', minor => {
  const seeds = Array.from({length: perVersion}, (_, index) => minor * 1000 + index);

  test('finds no fault in the rules that it should have written, whatever the Services', () => {
    expect(seeds.flatMap(seed => story(seed, inNftablesMode(randomCluster(seededRandom(seed), minor))))).toEqual([]);
  });

  test('finds a ruleset that is one Service behind', () => {
    const silent = seeds.filter(seed => {
      const snapshot = inNftablesMode(randomCluster(seededRandom(seed), minor));
      const [, ...services] = snapshot.api.services ?? [];
      return story(seed, {...snapshot, api: {...snapshot.api, services}}).length === 0;
    });
    expect(silent).toEqual([]);
  });
});

/** The node holds what is expected of it in nftables mode, and nothing in iptables. */
function inNftablesMode(snapshot: Snapshot): Snapshot {
  const nodes = snapshot.nodes.map(node => {
    const ruleset = families.map(family => nftText(expectedTable({api: snapshot.api, node, family}))).join('\n');
    const none = Object.fromEntries(node.files.filter(file => file.endsWith('-save')).map(file => [file, null]));
    return withFiles(node, {...none, 'nft.txt': ruleset, 'proxy-mode': 'nftables', 'iptables-save': '', 'ip6tables-save': ''});
  });
  return {...snapshot, nodes};
}

function story(seed: number, snapshot: Snapshot): readonly string[] {
  const found = findingsOf(snapshot, {nodes: name => name === 'node-a'}).filter(
    ({node, code}) => node !== undefined && !code.startsWith('ST7'),
  );
  return found.map(({severity, code, message, family}) => `seed ${seed}: ${severity} ${code} ${family} ${message}`);
}
