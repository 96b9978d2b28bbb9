import {contains, parseAddress, parseCidr} from '../../model/address.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {parseNodeAddresses} from '../../parse/node-addresses.ts';
import type {NodeSetup} from '../node-setup.ts';
import {type AdviceCase, externalAddresses, namesOf, type NodeAdvice} from './advice-case.ts';

/** Features of IPVS mode beside forwarding: the addresses of kube-ipvs0, its timeouts and schedulers. */
export function fromIpvs({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (setup.config.mode.value !== 'ipvs') return [];
  return [...always, ...answersArp(setup), ...nodeAddresses(setup), ...scheduler(setup, configAfter.mode.value)];
}

const always: readonly NodeAdvice[] = [
  {
    ...{topic: 'change', id: 'service-addresses', ofCluster: true},
    reason:
      'IPVS mode binds all Service addresses to kube-ipvs0: nodes answer ping to them and accept them as source addresses; after the change they do not',
    remedy: 'Adapt checks that ping Service addresses, and programs that bind them.',
  },
  {
    ...{topic: 'change', id: 'idle-connections', ofCluster: true},
    reason:
      'idle TCP connections live 15 minutes in IPVS (kernel default) and 24 hours in connection tracking (kube-proxy default): more entries are kept',
    remedy: 'Raise conntrack.maxPerCore or lower conntrack.tcpEstablishedTimeout.',
  },
];

/** Only neighbors in one of the node's networks send ARP requests for an address in it. */
function answersArp({node, config, api}: NodeSetup): readonly NodeAdvice[] {
  if (config.ipvsStrictARP.value) return [];
  const text = node.read('addresses.json')?.toString('utf8');
  const networks =
    text === undefined ? null : (parseNodeAddresses(text)?.flatMap(({name, networks: own}) => (name === 'kube-ipvs0' ? [] : own)) ?? null);
  const isNear = (address: string): boolean => {
    const parsed = parseAddress(address);
    if (parsed === null || parsed.family === 'IPv6') return false;
    return networks === null || networks.flatMap(network => parseCidr(network) ?? []).some(cidr => contains(cidr, parsed));
  };
  const near = (api.services ?? []).filter(service => externalAddresses(service).some(isNear));
  if (near.length === 0) return [];
  return [
    {
      ...{topic: 'change', id: 'service-addresses'},
      reason: `nodes answer ARP for the ${near.length === 1 ? 'address' : 'addresses'} of ${namesOf(near)} because kube-ipvs0 bears them and strictARP is off; after the change they do not`,
      remedy: 'Announce the addresses with MetalLB, kube-vip or the cloud provider, or route them.',
    },
  ];
}

/** kubernetes#127410. */
function nodeAddresses({api}: NodeSetup): readonly NodeAdvice[] {
  const own = new Set((api.nodes ?? []).flatMap(node => node.status?.addresses?.map(({address}) => address) ?? []));
  const shared = (api.services ?? []).filter((service: ServiceObject) => externalAddresses(service).some(address => own.has(address)));
  if (shared.length === 0) return [];
  return [
    {
      ...{topic: 'change', id: 'node-addresses', ofCluster: true},
      reason: `an external or load-balancer IP of ${namesOf(shared)} is the address of a node: kube-ipvs0 makes it local on every other node, other modes do not`,
      remedy: 'Test access to that node and to the Service after the change.',
    },
  ];
}

function scheduler({config}: NodeSetup, to: string): readonly NodeAdvice[] {
  const {value} = config.ipvsScheduler;
  if (['', 'rr'].includes(value)) return [];
  return [
    {
      ...{topic: 'change', id: 'ipvs-scheduler'},
      reason: `the IPVS scheduler is ${value}; ${to} mode chooses an endpoint at random for each connection`,
      remedy: 'Use sessionAffinity: ClientIP where clients must stay at one endpoint.',
    },
  ];
}
