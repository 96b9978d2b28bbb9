import {ClusterView} from '../src/expect/cluster/cluster-view.ts';
import {expectTable} from '../src/expect/nftables/expect-table.ts';
import type {ExpectedTable} from '../src/expect/nftables/expected-table.ts';
import {nodeFacts} from '../src/expect/read-node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../src/expect/resolve-proxy-config.ts';
import type {Family} from '../src/model/address.ts';
import type {ApiObjects, NodeDump} from '../src/model/snapshot.ts';

export interface ExpectedTableSetup {
  readonly api: ApiObjects;
  readonly node: NodeDump;
  readonly family?: Family;
  readonly overrides?: ConfigOverrides;
}

/** The table that a node of nftables mode should hold. */
export function expectedTable({api, node, family = 'IPv4', overrides = {}}: ExpectedTableSetup): ExpectedTable {
  const {config} = resolveProxyConfig(node, api, {mode: 'nftables', ...overrides});
  return expectTable({view: new ClusterView(api), config, facts: nodeFacts(node, api), family, table: null});
}

/** All chains of a table that hold rules: the texts of these by name. */
export function chainsOf(table: ExpectedTable): Readonly<Record<string, readonly string[]>> {
  const own = table.ports.flatMap(item => [...table.objectsOf(item).chains]);
  return Object.fromEntries([...table.baseRules.map(({name, rules}) => [name, rules] as const), ...own]);
}

/** The elements of a set or map, as nft lists them, in order. */
export function elementsOf(table: ExpectedTable, name: string): readonly string[] {
  const elements = [...(table.set(name)?.elements.values() ?? [])];
  return elements.map(({key, value}) => (value === null ? key : `${key} : ${value}`)).sort();
}
