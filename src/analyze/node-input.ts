import {nodeObject} from '../expect/api-index.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {type IpSet, parseIpsetSave} from '../parse/ipvs/ipset-save.ts';
import type {Family} from '../model/family.ts';
import {allOf} from './iptables/read-dumps.ts';
import type {NodeInput} from './proxy-mode.ts';
import type {NodeRules} from './third-party/analyze-third-party.ts';

/** False if the Node was not read: then its zone is inferred from the rules. */
export function knowsZone({config, api, node}: Pick<NodeInput, 'config' | 'api' | 'node'>): boolean {
  return config.zone.source === 'flag' || nodeObject(api, node.name) !== undefined;
}

/** All rules of a node in one family, whatever the mode of its kube-proxy. */
export function nodeRules({node, dumps, nft, api}: NodeInput, family: Family): NodeRules {
  return {iptables: allOf(dumps, family), nft, sets: ipsetsOf(node), api};
}

/** The node's ipsets; none where they were not read. */
export function ipsetsOf(node: NodeDump): ReadonlyMap<string, IpSet> {
  return parseIpsetSave(node.read('ipset-save')?.toString('utf8') ?? '');
}
