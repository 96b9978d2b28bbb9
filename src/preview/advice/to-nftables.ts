import {allOf} from '../../analyze/iptables/read-dumps.ts';
import {families} from '../../model/family.ts';
import {countOf} from '../../parse/kube-proxy/kube-proxy-state.ts';
import {thirdPartyChains} from '../../analyze/third-party/iptables-rules.ts';
import type {NodeSetup} from '../node-setup.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';

/** What a node needs before its kube-proxy runs in nftables mode. */
export function toNftables({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  const advice: NodeAdvice[] = [];
  if (jumpsToMarkChain(setup))
    advice.push({
      ...{topic: 'change', id: 'mark-chain'},
      reason:
        "rules that are not kube-proxy's jump to KUBE-MARK-MASQ: on a new node in nftables mode the chain does not exist, and where it is left over the whole table nat of kube-proxy stays",
      remedy: 'Give these rules a mark chain of their own (CNI portmap: externalSetMarkChain).',
    });
  if (setup.config.masqueradeAll.value && !configAfter.masqueradeAll.value)
    advice.push({
      ...{topic: 'change', id: 'masquerade-all'},
      reason: 'masqueradeAll is set for iptables mode and not for nftables mode, which has a setting of its own',
      remedy: 'Set nftables.masqueradeAll: true if Services rely on it.',
    });
  const accepted = countOf(setup.node.read('metrics'), 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total');
  if (accepted > 0)
    advice.push({
      ...{topic: 'change', id: 'localhost-node-ports'},
      reason: 'node ports on loopback addresses are in use: kube-proxy has counted packets to them since it started',
      remedy: 'Find the clients on these nodes (conntrack -L -d 127.0.0.1), and let them use the address of the node.',
    });
  const count = (setup.api.services ?? []).filter(({spec}) => spec?.type !== 'ExternalName' && spec?.clusterIP !== 'None').length;
  if (count > manyServices)
    advice.push({
      ...{topic: 'switch', id: 'large-clusters', ofCluster: true},
      reason: `the first sync of ${count} Services takes minutes in nftables mode`,
      remedy: 'Use kube-proxy 1.36 or newer, and switch one node at a time.',
    });
  return advice;
}

/** Above this number, first syncs of several minutes were reported (kubernetes#139513). */
const manyServices = 5000;

function jumpsToMarkChain({dumps}: NodeSetup): boolean {
  return families
    .flatMap(family => allOf(dumps, family).flatMap(thirdPartyChains))
    .some(chain => chain.table === 'nat' && chain.text().includes('-j KUBE-MARK-MASQ'));
}
