import type {Hypothesis} from '../hypothesis.ts';
import type {Family} from '../../model/family.ts';
import type {NodeFacts} from '../../model/node-facts.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {categorizeEndpoints, type NodeTopology} from '../cluster/categorize-endpoints.ts';
import type {ClusterView, PortEntry} from '../cluster/cluster-view.ts';
import {possibleEndpoints} from '../cluster/endpoint-sets.ts';
import {ExpectedTable} from './expected-table.ts';
import {portNames} from './nft-names.ts';
import {nftContext} from './nft-context.ts';
import type {NftPort} from './nft-port.ts';

export interface ExpectTableInput {
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  readonly family: Family;
  /** Used only for what the API does not determine: which of two Services that claim one address has it, and the node's addresses where the Node was not read. */
  readonly table: NftTable | null;
}

/** What kube-proxy should have written in one family on one node in nftables mode. */
export function expectTable({view, config, facts, family, table}: ExpectTableInput, hypothesis: Hypothesis = {}): ExpectedTable {
  const proxy = {version: config.version.value, gates: config.featureGates.value};
  const seen = table?.sets.get('nodeport-ips');
  const plain = nftContext(family, config, facts, seen === undefined ? null : [...seen.elements.keys()]);
  const {detector = plain.detector, masqueradeAll = plain.masqueradeAll} = hypothesis;
  const zone = hypothesis.zone === undefined ? config.zone.value : hypothesis.zone;
  const topology = {nodeName: hypothesis.nodeName ?? config.nodeName.value, zone, labels: facts.labels, proxy};
  return new ExpectedTable(
    {...plain, detector, masqueradeAll},
    view.entries(family, proxy).map(entry => nftPort(entry, topology, hypothesis.picks?.get(entry.port))),
    (set, key) => table?.sets.get(set)?.elements.get(key)?.value,
  );
}

function nftPort({port, set}: PortEntry, topology: NodeTopology, pick = 0): NftPort {
  const lists = set.ambiguous.size === 0 ? [set.endpoints] : possibleEndpoints(set, topology.nodeName, topology.proxy.version);
  const all = lists[pick] ?? set.endpoints;
  const names = portNames(port);
  return {
    ...{port, all, names, lists: lists.length, clientList: names.affinity},
    endpoints: categorizeEndpoints(port, all, topology),
    isLocal: nodeName => nodeName === topology.nodeName,
  };
}
