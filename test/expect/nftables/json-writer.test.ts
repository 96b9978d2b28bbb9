import {describe, expect, test} from 'vitest';
import type {ConfigOverrides} from '../../../src/expect/resolve-proxy-config.ts';
import {families} from '../../../src/model/address.ts';
import type {ApiObjects, NodeDump} from '../../../src/model/snapshot.ts';
import {isPlainJson} from '../../../src/parse/nftables/nft-json-chains.ts';
import type {NftJsonSink} from '../../../src/model/nft-ruleset.ts';
import type {PortObjects} from '../../../src/expect/nftables/port-objects.ts';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {jsonRuleText} from '../../../src/parse/nftables/nft-json-rule.ts';
import type {Fields} from '../../../src/parse/attempt.ts';
import {seededRandom} from '../../bench/random.ts';
import {apiObjects, service} from '../../cluster.ts';
import {someOf} from '../../cases.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';
import {expectedTable} from '../../nft-expectation.ts';
import {randomCluster} from '../../random-cluster.ts';

const minors = [29, 30, 31, 33, 34, 35, 36, 37];

const settings: readonly ConfigOverrides[] = [
  {clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56']},
  {clusterCIDRs: ['10.244.11.4/32', 'fd00::4/128']},
  {clusterCIDRs: []},
  {detectLocalMode: 'BridgeInterface', bridgeInterface: 'cni "0"\\'},
  {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'cali'},
  {masqueradeAll: true, masqueradeBit: 31},
];

/** The text of a rule from its JSON after the handle. */
function renderedBack(json: string): string {
  const {rule} = JSON.parse(`{"rule": {"handle": 1${json}`) as {rule: Fields};
  return jsonRuleText(rule['expr'], rule['comment']);
}

describe.each(minors)('the JSON of a rule of kube-proxy 1.%i renders to its text', minor => {
  test('whatever the Services', () => {
    for (let seed = 0; seed < 40; seed++) {
      const {api, nodes} = randomCluster(seededRandom(minor * 1000 + seed), Math.min(minor, 36));
      for (const node of nodes) expect(rulesThatDiffer({api, node}, {version: `v1.${minor}.0`}), `seed ${seed}`).toEqual([]);
    }
  });

  test.each(settings)('with the settings %j', async overrides => {
    const {api, nodes} = await snapshotOf('nftables/1.36');
    for (const node of nodes.slice(0, 1)) expect(rulesThatDiffer({api, node}, {...overrides, version: `v1.${minor}.0`})).toEqual([]);
  });
});

/** Chains as they are written, with each rule in one piece. */
class RecordedChains implements NftJsonSink {
  readonly chains = new Map<string, (readonly [rule: string])[]>();
  #rules: (readonly [rule: string])[] = [];

  chain(name: string): void {
    this.#rules = [];
    this.chains.set(name, this.#rules);
  }

  rule(pieces: readonly string[], count: number): void {
    this.#rules.push([pieces.slice(0, count).join('')]);
  }
}

function jsonChains(objects: PortObjects): readonly (readonly [name: string, rules: readonly (readonly [rule: string])[]])[] {
  const written = new RecordedChains();
  objects.writeJson(written);
  return [...written.chains];
}

function rulesThatDiffer({api, node}: {readonly api: ApiObjects; readonly node: NodeDump}, overrides: ConfigOverrides): readonly unknown[] {
  return families.flatMap(family => {
    const table = expectedTable({api, node, family, overrides});
    return table.ports.flatMap(item => {
      const objects = table.objectsOf(item);
      const {chains} = objects;
      const rendered = jsonChains(objects).map(([name, rules]) => [name, rules.map(([rule]) => renderedBack(rule))] as const);
      expect(rendered.map(([name]) => name)).toEqual([...chains.keys()]);
      return rendered.filter(([name, rules]) => rules.join('\n') !== chains.get(name)?.join('\n'));
    });
  });
}

test.each(someOf(captureNames('nftables')))('a healthy node has its chains in this JSON: %s', async capture => {
  const {api, nodes} = await snapshotOf(capture);
  for (const node of nodes) {
    const {tables} = parseNftJson(node.read('nft.json') ?? '');
    for (const family of families) {
      const table = expectedTable({api, node, family});
      const check = tables.get(table.id)?.chains.checkJson();
      for (const item of table.ports) if (check) table.objectsOf(item).writeJson(check);
      const others = check?.takeOthers() ?? [];
      const count = table.ports.flatMap(item => [...table.objectsOf(item).chains]).length;
      // Of the Service ports that are in dispute between two Services, and those of a node that lags behind.
      expect(others.length, `${node.name} ${family}: ${others.join(' ')}`).toBeLessThan(count / 10 + 1);
    }
  }
});

test('names that JSON escapes are not written', () => {
  for (const name of ['a"b', 'a\\b', 'a\nb', 'é']) expect(isPlainJson(name), name).toBe(false);
  expect(isPlainJson("2QRHZV4L-default/kubernetes/tcp/https__fd00..1/443 ~!'")).toBe(true);
  const node = {name: 'node-a', files: [], read: () => null};
  const plain = service('shop/we"b', {clusterIP: '10.96.1.1', ports: [{name: 'http', port: 80}]});
  const table = expectedTable({api: apiObjects({services: [plain]}), node});
  const [item] = table.ports;
  expect(item?.names.service).toContain('shop/we"b/tcp/http');
  const written = new RecordedChains();
  expect(item && table.objectsOf(item).writeJson(written)).toBe(false);
  expect(written.chains.size).toBe(0);
});
