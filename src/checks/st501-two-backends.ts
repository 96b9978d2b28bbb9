import {holdsServices} from '../analyze/iptables/read-dumps.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import type {Observation} from '../model/finding.ts';
import type {Rule, Ruleset} from '../model/ruleset.ts';
import type {Family} from '../model/family.ts';
import {kubeProxyPod} from '../expect/kube-proxy-pod.ts';
import type {Check, NodeCheckContext} from './check.ts';
import {iptables, onNode} from './commands/node-commands.ts';

export const twoBackends: Check<'ST501'> = {
  code: 'ST501',
  name: 'two-backends',
  severity: 'error',
  summary: 'Service rules stand in both iptables-legacy and iptables-nft',
  remedy:
    "Find out which backend the running kube-proxy uses (iptables --version in its container), and flush kube-proxy's chains in the other one, or reboot the node.",
  *node({api, node, backends}) {
    for (const {family, nft, legacy} of backends) {
      if (!holdsServices(nft) || !holdsServices(legacy)) continue;
      yield {node: node.name, family, ...analyze(nft, legacy), ...versionInPod({api, node}, family)};
    }
  },
};

/** On the node itself there may be other tools than in the image of kube-proxy. */
function versionInPod(place: Pick<NodeCheckContext, 'api' | 'node'>, family: Family): Pick<Observation, 'command'> {
  return kubeProxyPod(place.api, place.node.name) === undefined ? {} : onNode(place, `${iptables(family)} --version`);
}

/** They contradict each other if a chain of a Service or an endpoint differs between the two, or exists in only one. */
function analyze(nft: Ruleset, legacy: Ruleset): Pick<Observation, 'severity' | 'message' | 'actual'> {
  const names = new Set([...serviceChains(nft), ...serviceChains(legacy)]);
  const differing = [...names].filter(name => nft.chain('nat', name)?.text() !== legacy.chain('nat', name)?.text());
  if (differing.length === 0) {
    return {
      severity: 'warning',
      message: 'iptables-legacy and iptables-nft both hold the Service rules, and agree so far: kube-proxy keeps up only one of them',
    };
  }
  const sample = differing[0] ?? '';
  const actual: readonly Rule[] = [...(nft.chain('nat', sample)?.rules() ?? []), ...(legacy.chain('nat', sample)?.rules() ?? [])].slice(
    0,
    4,
  );
  const message = `iptables-legacy and iptables-nft both hold Service rules and disagree in ${differing.length} of ${names.size} chains (such as ${sample}): packets pass both, and the backend whose hook runs first decides`;
  return {severity: 'error', message, actual};
}

function serviceChains(ruleset: Ruleset): readonly string[] {
  return [...(ruleset.tables.get('nat')?.chains.keys() ?? [])].filter(name => parseChainName(name) !== null || name === 'KUBE-SERVICES');
}
