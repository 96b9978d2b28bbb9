import {nodeObject} from '../../expect/api-index.ts';
import {isOlderKernel} from '../../model/node/kernel-version.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {countOf} from '../../parse/kube-proxy/kube-proxy-state.ts';
import {expectedSide} from '../sides.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';

/** iptables mode drops packets in state INVALID that are forwarded (kubernetes#74839); the others have no such rule. */
export function invalidPackets({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const from = setup.config.mode.value;
  const to = configAfter.mode.value;
  const dropsInvalid = (config: ProxyConfig): boolean =>
    expectedSide({setup, view: setup.view, config, family: 'IPv4', besideOthers: false}).context.invalidDrop;
  const kernel = nodeObject(setup.api, setup.node.name)?.status?.nodeInfo?.kernelVersion ?? '';
  if (from === 'iptables' && to === 'nftables' && isOlderKernel(kernel, [6, 1]) !== false && dropsInvalid(setup.config)) {
    const dropped = countOf(setup.node.read('metrics'), 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total');
    return [
      {
        ...{topic: 'change', id: 'invalid-packets'},
        reason: `iptables mode drops packets in state INVALID when they are forwarded, nftables mode does not: on kernels before 6.1 long TCP flows can be reset (kernel ${kernel === '' ? 'not known' : kernel}${dropped > 0 ? '; kube-proxy has dropped such packets since it started' : ''})`,
        remedy: 'Set conntrack.tcpBeLiberal: true.',
      },
    ];
  }
  if (from === 'ipvs' && to === 'iptables' && dropsInvalid(configAfter))
    return [
      {
        ...{topic: 'change', id: 'invalid-packets'},
        reason: 'iptables mode drops packets in state INVALID when they are forwarded, IPVS mode does not: asymmetric routes break',
        remedy: 'Set conntrack.tcpBeLiberal: true before kube-proxy starts.',
      },
    ];
  return [];
}
