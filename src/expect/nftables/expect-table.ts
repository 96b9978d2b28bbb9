import type {NftTable} from '../../model/nft-ruleset.ts';
import {nodeTopology, type PortsInput, portsOnNode} from '../cluster/ports-on-node.ts';
import type {Hypothesis} from '../hypothesis.ts';
import {ExpectedTable} from './expected-table.ts';
import {keptJsonChains} from './kept-json-chains.ts';
import {portNames} from './nft-names.ts';
import {nftContext} from './nft-context.ts';

interface ExpectTableInput extends PortsInput {
  /**
   * Used only for what the API does not determine: which of two Services that claim one address has it, and the node's addresses if the
   * Node was not read.
   */
  readonly table: NftTable | null;
  /** See `NodeContext.serviceRanges`. */
  readonly serviceRanges?: readonly string[] | undefined;
}

/** What kube-proxy should have written in one family on one node in nftables mode. */
export function expectTable(given: ExpectTableInput, hypothesis: Hypothesis = {}): ExpectedTable {
  const {config, facts, family, table, serviceRanges} = given;
  const seen = table?.sets.get('nodeport-ips');
  const plain = nftContext(family, config, facts, seen === undefined ? null : [...seen.elements.keys()]);
  const {detector = plain.detector, masqueradeAll = plain.masqueradeAll} = hypothesis;
  const topology = nodeTopology(given, hypothesis);
  const isLocal = (nodeName: string | null): boolean => nodeName === topology.nodeName;
  const ports = portsOnNode(given, topology, hypothesis.picks).map(item => {
    const names = portNames(item.port);
    return {...item, names, clientList: names.affinity, isLocal};
  });
  const context = {...plain, detector, masqueradeAll, ...(serviceRanges === undefined ? {} : {serviceRanges})};
  return new ExpectedTable({
    ...{context, ports, keep: keptJsonChains(given.view, context)},
    actualValue: (set, key) => table?.sets.get(set)?.elements.get(key)?.value,
  });
}
