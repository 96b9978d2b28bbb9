import type {Ruleset} from '../../model/ruleset.ts';
import {nodeTopology, type PortsInput, portsOnNode} from '../cluster/served-port.ts';
import {type Hypothesis, nodeContext, type SeenSettings} from '../node-context.ts';
import {ExpectedRuleset} from './expected-ruleset.ts';
import {portRules} from './port-rules.ts';

export interface ExpectInput extends PortsInput {
  /** Used only for what the node alone shows, such as whether the kernel counts with nfacct. */
  readonly ruleset: Ruleset | null;
}

/** What kube-proxy should have written in one family on one node. */
export function expectRuleset(input: ExpectInput, hypothesis: Hypothesis = {}): ExpectedRuleset {
  const {view, config, facts, family, ruleset} = input;
  const plain = nodeContext(family, config, facts, seenIn(ruleset));
  const {detector = plain.detector, masqueradeAll = plain.masqueradeAll} = hypothesis;
  const topology = nodeTopology(input, hypothesis);
  const large = view.endpointCount(family, topology.proxy) > largeCluster;
  const ports = portsOnNode(input, topology, hypothesis.picks).map(item => ({...item, large}));
  const context = {...plain, detector, masqueradeAll};
  return new ExpectedRuleset(context, ports, portRules(view, context));
}

/** kube-proxy's threshold: more than 1,000 endpoints over all Service ports of the family, ready or not. */
const largeCluster = 1000;

function seenIn(ruleset: Ruleset | null): SeenSettings {
  const postrouting = ruleset?.chain('nat', 'KUBE-POSTROUTING');
  const forward = ruleset?.chain('filter', 'KUBE-FORWARD');
  return {
    nfacct: countsWithNfacct(ruleset),
    clearsMark: postrouting === undefined ? null : !/--mark 0x[0-9a-f]+\/0x[0-9a-f]+ -j MASQUERADE/.test(postrouting.text()),
    dropsInvalid: forward === undefined ? null : forward.text().includes('--ctstate INVALID'),
  };
}

/** kube-proxy creates its two nfacct objects together, so a rule with either of them shows that the kernel has both. */
function countsWithNfacct(ruleset: Ruleset | null): boolean {
  const chains = [ruleset?.chain('filter', 'KUBE-FORWARD'), ruleset?.chain('nat', 'KUBE-NODEPORTS')];
  return chains.some(chain => chain?.text().includes('-m nfacct') ?? false);
}
