import {type AdviceCase, namesOf, type NodeAdvice} from './advice-case.ts';

/** What happens when kube-proxy starts in another mode. */
export function atTheSwitch({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const sticky = (setup.api.services ?? []).filter(({spec}) => spec?.sessionAffinity === 'ClientIP');
  const advice: NodeAdvice[] = [
    {
      ...{topic: 'switch', id: 'the-gap', ofCluster: true},
      reason:
        'kube-proxy removes the rules of the old mode when it starts and writes the new ones with its first sync: new connections to Services fail in between',
      remedy: 'Switch one node at a time, and drain it if the gap matters.',
    },
    {
      ...{topic: 'switch', id: 'order-of-nodes', ofCluster: true},
      reason: 'nodes in different modes work side by side: the order does not matter',
      remedy: 'Switch one node, check it, then go on.',
    },
    establishedConnections(setup.config.mode.value, configAfter.mode.value),
  ];
  if (sticky.length > 0)
    advice.push({
      ...{topic: 'switch', id: 'session-affinity', ofCluster: true},
      reason: `the endpoints that clients of ${namesOf(sticky)} are kept at are forgotten`,
      remedy: 'Expect clients to be sent to another endpoint once.',
    });
  return advice;
}

/** Only in nftables mode kube-proxy removes the virtual servers that hold the connections of IPVS. */
function establishedConnections(from: string, to: string): NodeAdvice {
  const about = {topic: 'switch', id: 'established-connections', ofCluster: true} as const;
  if (from !== 'ipvs')
    return {
      ...about,
      reason:
        'established connections go on if anything else on the node keeps connection tracking and NAT in use, or stall until the first sync',
      remedy: 'No action; drain the node if a stall matters.',
    };
  return to === 'nftables'
    ? {
        ...about,
        reason: 'established connections through IPVS break when its virtual servers are removed',
        remedy: 'Drain the node before the switch.',
      }
    : {
        ...about,
        reason:
          'established connections through IPVS go on while its virtual servers are left over, and break when kube-proxy --cleanup or a reboot removes them',
        remedy: 'Drain the node before the cleanup.',
      };
}
