import {nodeObject} from '../expect/api-index.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import {isOlderKernel} from '../model/node/kernel-version.ts';
import type {Advice} from '../model/preview.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import {thirdPartyTexts} from './port-groups.ts';
import type {NodeSetup} from './node-setup.ts';
import {otherTables} from './third-party-rules.ts';
import {allOf} from '../analyze/iptables/read-dumps.ts';
import {families} from '../model/family.ts';
import {expectedSide} from './sides.ts';

/** One node of the change. */
interface AdviceCase {
  readonly setup: NodeSetup;
  readonly configAfter: ProxyConfig;
}

/** What is said of one node; the texts are the same for all that it is said of. */
export interface NodeAdvice extends Omit<Advice, 'nodes'> {
  /** It is not about this node but about all. */
  readonly ofCluster?: true;
}

/** What no single packet shows: what changes in operation, and at the moment of the switch. Silent where the mode stays. */
export function adviceOf(given: AdviceCase): readonly NodeAdvice[] {
  const from = given.setup.config.mode.value;
  const to = given.configAfter.mode.value;
  if (from === to) return [];
  return [...ofIptables(given, from, to), ...ofIpvs(given, from, to), ...toNftables(given, to), ...atTheSwitch(given, from, to)];
}

function ofIptables({setup, configAfter}: AdviceCase, from: string, to: string): readonly NodeAdvice[] {
  const kernel = nodeObject(setup.api, setup.node.name)?.status?.nodeInfo?.kernelVersion ?? '';
  const dropsInvalid = (config: ProxyConfig): boolean =>
    expectedSide({setup, view: setup.view, config, family: 'IPv4', besideOthers: false}).context.invalidDrop;
  const advice: NodeAdvice[] = [];
  if (from === 'iptables' && to === 'nftables' && dropsInvalid(setup.config) && isOlderKernel(kernel, [6, 1]) !== false)
    advice.push({
      ...{topic: 'change', id: 'invalid-packets'},
      reason: `iptables mode drops packets in state INVALID when they are forwarded, nftables mode does not: on kernels before 6.1 long TCP flows can be reset (kernel ${kernel === '' ? 'not known' : kernel})`,
      remedy: 'Set conntrack.tcpBeLiberal: true.',
    });
  if (from === 'ipvs' && to === 'iptables' && dropsInvalid(configAfter))
    advice.push({
      ...{topic: 'change', id: 'invalid-packets'},
      reason: 'iptables mode drops packets in state INVALID when they are forwarded, IPVS mode does not: asymmetric routes break',
      remedy: 'Set conntrack.tcpBeLiberal: true before kube-proxy starts.',
    });
  return advice;
}

function ofIpvs({setup}: AdviceCase, from: string, to: string): readonly NodeAdvice[] {
  if (from !== 'ipvs') return [];
  const {ipvsScheduler, ipvsStrictARP} = setup.config;
  const services = setup.api.services ?? [];
  const external = services.filter(service => externalAddresses(service).length > 0);
  const nodeAddresses = new Set((setup.api.nodes ?? []).flatMap(node => node.status?.addresses?.map(({address}) => address) ?? []));
  const ofNodes = external.filter(service => externalAddresses(service).some(address => nodeAddresses.has(address)));
  const scheduler = ipvsScheduler.value;
  const advice: NodeAdvice[] = [
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
  if (external.length > 0 && !ipvsStrictARP.value)
    advice.push({
      ...{topic: 'change', id: 'service-addresses'},
      reason: `nodes answer ARP for the ${external.length === 1 ? 'address' : 'addresses'} of ${namesOf(external)} because kube-ipvs0 bears them and strictARP is off; after the change they do not`,
      remedy: 'Announce the addresses with MetalLB, kube-vip or the cloud provider, or route them.',
    });
  if (ofNodes.length > 0)
    advice.push({
      ...{topic: 'change', id: 'node-addresses'},
      reason: `an external or load-balancer IP of ${namesOf(ofNodes)} is the address of a node: kube-ipvs0 makes it local on every other node, other modes do not`,
      remedy: 'Test access to that node and to the Service after the change.',
    });
  if (!['', 'rr'].includes(scheduler))
    advice.push({
      ...{topic: 'change', id: 'ipvs-scheduler'},
      reason: `the IPVS scheduler is ${scheduler}; ${to} mode chooses an endpoint at random for each connection`,
      remedy: 'Use sessionAffinity: ClientIP where clients must stay at one endpoint.',
    });
  return advice;
}

function toNftables({setup, configAfter}: AdviceCase, to: string): readonly NodeAdvice[] {
  if (to !== 'nftables') return [];
  const from = setup.config.mode.value;
  const texts = families.flatMap(family => {
    const iptables = allOf(setup.dumps, family);
    return thirdPartyTexts(iptables, otherTables(setup.nft(), iptables));
  });
  const allTexts = families.flatMap(family =>
    allOf(setup.dumps, family).flatMap(ruleset =>
      [...(ruleset.tables.get('nat')?.chains.values() ?? [])]
        .filter(({name}) => !name.startsWith('KUBE-'))
        .flatMap(chain => chain.rules().map(({text}) => text)),
    ),
  );
  const advice: NodeAdvice[] = [];
  if (allTexts.some(text => text.includes('-j KUBE-MARK-MASQ')))
    advice.push({
      ...{topic: 'change', id: 'mark-chain'},
      reason:
        "rules that are not kube-proxy's jump to KUBE-MARK-MASQ: on a new node in nftables mode the chain does not exist, and where it is left over the whole table nat of kube-proxy stays",
      remedy: 'Give these rules a mark chain of their own (CNI portmap: externalSetMarkChain).',
    });
  const ports = new Set((setup.api.services ?? []).flatMap(service => service.spec?.ports?.flatMap(({nodePort}) => nodePort ?? []) ?? []));
  const hostPorts = [
    ...new Set(
      texts
        .filter(text => /HOSTPORT|hostport|DNAT|dnat/.test(text))
        .flatMap(text => [...text.matchAll(/dports? ([\d,]+)/g)].flatMap(([, list = '']) => list.split(',').map(Number))),
    ),
  ];
  const shared = hostPorts.filter(port => ports.has(port));
  if (shared.length > 0 && from === 'iptables')
    advice.push({
      ...{topic: 'change', id: 'host-ports'},
      reason: `port ${shared.join(', ')} is a hostPort and a node port: in iptables mode the order of the rules decides, in nftables mode whichever chain was registered last`,
      remedy: 'Use different ports.',
    });
  if (setup.config.masqueradeAll.value && !configAfter.masqueradeAll.value)
    advice.push({
      ...{topic: 'change', id: 'masquerade-all'},
      reason: 'masqueradeAll is set for iptables mode and not for nftables mode, which has a setting of its own',
      remedy: 'Set nftables.masqueradeAll: true if Services rely on it.',
    });
  const count = (setup.api.services ?? []).length;
  if (count > 5000)
    advice.push({
      ...{topic: 'switch', id: 'large-clusters', ofCluster: true},
      reason: `the first sync of ${count} Services takes minutes in nftables mode`,
      remedy: 'Use kube-proxy 1.36 or newer, and switch one node at a time.',
    });
  return advice;
}

function atTheSwitch({setup}: AdviceCase, from: string, to: string): readonly NodeAdvice[] {
  const sticky = (setup.api.services ?? []).filter(({spec}) => spec?.sessionAffinity === 'ClientIP');
  const advice: NodeAdvice[] = [
    {
      ...{topic: 'switch', id: 'the-gap', ofCluster: true},
      reason:
        'kube-proxy removes the rules of the old mode when it starts and writes the new ones with its first sync: new connections to Services fail in between',
      remedy: 'Switch one node at a time, and drain it if the gap matters.',
    },
    {
      ...{topic: 'switch', id: 'established-connections', ofCluster: true},
      reason:
        from === 'ipvs'
          ? 'established connections through IPVS break when its virtual servers are removed'
          : 'established connections go on if anything else on the node keeps connection tracking and NAT in use, or stall until the first sync',
      remedy: from === 'ipvs' ? 'Drain the node before the switch.' : 'No action; drain the node if a stall matters.',
    },
  ];
  if (sticky.length > 0)
    advice.push({
      ...{topic: 'switch', id: 'session-affinity', ofCluster: true},
      reason: `the endpoints that clients of ${namesOf(sticky)} are kept at are forgotten`,
      remedy: 'Expect clients to be sent to another endpoint once.',
    });
  if (to === 'nftables')
    advice.push({
      ...{topic: 'by-hand', id: 'check-by-hand', ofCluster: true},
      reason:
        'hosts and endpoints inside a Service range (nftables mode drops packets to its unallocated addresses), programs that read the iptables rules of kube-proxy, and other users of nft 1.1.3 or newer on the node',
      remedy: 'See docs/migrating.md.',
    });
  return advice;
}

function externalAddresses({spec, status}: ServiceObject): readonly string[] {
  return [...(spec?.externalIPs ?? []), ...(status?.loadBalancer?.ingress?.flatMap(({ip}) => ip ?? []) ?? [])];
}

function namesOf(services: readonly ServiceObject[]): string {
  const names = services.map(({metadata}) => `${metadata.namespace ?? 'default'}/${metadata.name}`);
  return names.length <= 3 ? names.join(', ') : `${names.slice(0, 3).join(', ')} and ${names.length - 3} more Services`;
}
