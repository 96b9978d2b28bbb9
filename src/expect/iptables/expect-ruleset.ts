import type {Family} from '../../model/family.ts';
import type {NodeFacts} from '../../model/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {Hypothesis} from '../hypothesis.ts';
import {categorizeEndpoints, type NodeTopology} from '../cluster/categorize-endpoints.ts';
import type {ClusterView, PortEntry} from '../cluster/cluster-view.ts';
import {possibleEndpoints} from '../cluster/endpoint-sets.ts';
import {ExpectedRuleset} from './expected-ruleset.ts';
import {nodeContext, type SeenSettings} from './iptables-context.ts';
import type {PortOnNode} from './service-rules.ts';

export interface ExpectInput {
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  readonly family: Family;
  /** Only for what the node alone can tell, such as whether the kernel counts with nfacct. */
  readonly ruleset: Ruleset | null;
}

/** What kube-proxy should have written in one family on one node. */
export function expectRuleset({view, config, facts, family, ruleset}: ExpectInput, hypothesis: Hypothesis = {}): ExpectedRuleset {
  const proxy = {version: config.version.value, gates: config.featureGates.value};
  const plain = nodeContext(family, config, facts, seenIn(ruleset));
  const {detector = plain.detector, masqueradeAll = plain.masqueradeAll} = hypothesis;
  const zone = hypothesis.zone === undefined ? config.zone.value : hypothesis.zone;
  const topology = {nodeName: hypothesis.nodeName ?? config.nodeName.value, zone, labels: facts.labels, proxy};
  const entries = view.entries(family, proxy);
  const large = isLarge(entries);
  return new ExpectedRuleset(
    {...plain, detector, masqueradeAll},
    entries.map(entry => portOnNode(entry, topology, {large, pick: hypothesis.picks?.get(entry.port)})),
  );
}

/** kube-proxy's threshold: more than 1,000 endpoints over all Service ports of the family, ready or not. */
function isLarge(entries: readonly PortEntry[]): boolean {
  let total = 0;
  for (const {set} of entries) total += set.endpoints.length;
  return total > 1000;
}

interface PortOptions {
  readonly large: boolean;
  /** Which of the lists that kube-proxy may have made of endpoints given twice. */
  readonly pick: number | undefined;
}

function portOnNode({port, set, endpointChain}: PortEntry, topology: NodeTopology, {large, pick = 0}: PortOptions): PortOnNode {
  const lists = set.ambiguous.size === 0 ? [set.endpoints] : possibleEndpoints(set, topology.nodeName, topology.proxy.version);
  const endpoints = lists[pick] ?? set.endpoints;
  return {
    ...{port, all: endpoints, lists: lists.length, large},
    endpoints: categorizeEndpoints(port, endpoints, topology),
    // kube-proxy gives the list the name of the chain.
    ...{endpointChain, clientList: endpointChain},
  };
}

function seenIn(ruleset: Ruleset | null): SeenSettings {
  const postrouting = ruleset?.chain('nat', 'KUBE-POSTROUTING');
  const forward = ruleset?.chain('filter', 'KUBE-FORWARD');
  return {
    nfacct: countsWithNfacct(ruleset),
    clearsMark: postrouting === undefined ? null : !/--mark 0x[0-9a-f]+\/0x[0-9a-f]+ -j MASQUERADE/.test(postrouting.text()),
    dropsInvalid: forward === undefined ? null : forward.text().includes('--ctstate INVALID'),
  };
}

/** The two objects that kube-proxy counts with are made together, so a rule with either of them shows that the kernel has both. */
function countsWithNfacct(ruleset: Ruleset | null): boolean {
  const chains = [ruleset?.chain('filter', 'KUBE-FORWARD'), ruleset?.chain('nat', 'KUBE-NODEPORTS')];
  return chains.some(chain => chain?.text().includes('-m nfacct') ?? false);
}
