import {nodeObject} from '../../expect/api-index.ts';
import {bridgeCalls, bridgeSwitch, bypassReason, sendsBack, uplinkWithoutReturn} from '../../model/node/bridges.ts';
import {type ConnectionStatistics, forwardingSwitch, isOlderKernel, sysctlNumber, trackedConnections} from '../../model/node/node-facts.ts';
import type {Observation} from '../../model/finding.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {commandLine, plural, someOf} from '../../model/text.ts';
import {parseHealthz} from '../../parse/kube-proxy/kube-proxy-state.ts';
import {check} from '../catalog.ts';
import type {Check, NodeCheckContext} from '../check-types.ts';
import {run} from '../commands/commands.ts';
import {asymmetric, droppedBetween} from './reverse-path.ts';
import {deviceTo, entriesOnNode, familiesOnNode, interfaceSwitch, otherUplinks, podBridges, podsHere, routesToPods} from './node-paths.ts';
import {hasExternalEntry} from '../../model/service-port.ts';
import {once} from '../../model/once.ts';
import {type ApiObjects, fileText} from '../../model/snapshot.ts';

/**
 * What the kernel of a node does beside its rules: one finding for a node and a fact, whatever the number of Services.
 * They stay silent about nodes whose rules were not evaluated.
 */
export const factsChecks: readonly Check[] = [
  check('ST601', {
    *node(context) {
      const families = familiesOnNode(context);
      const network = context.facts.network;
      const off = families.filter(family => sysctlNumber(network, forwardingSwitch[family]) === 0);
      if (off.length > 0) {
        const message = `${off.map(family => forwardingSwitch[family]).join(' and ')} ${off.length === 1 ? 'is' : 'are'} 0: the node forwards no ${off.join(' and no ')} packets. Its pods reach no other pod by a Service and nothing outside of it, and node ports lead to no pod.`;
        const [family] = off;
        // What turns off both is one fault.
        yield {
          ...(off.length === 1 && family !== undefined ? {family} : {}),
          variant: 'forwards-nothing',
          message,
          ...run(...off.map(each => commandLine`sysctl -w ${forwardingSwitch[each]}=1`)),
        };
      }
      // IPv6 has one switch for all interfaces.
      const family = 'IPv4';
      if (!families.includes(family) || off.includes(family)) return;
      const primary = context.facts.primaryInterface;
      if (primary !== null && sysctlNumber(network, `net.ipv4.conf.${primary}.forwarding`) === 0) {
        const message = `${interfaceSwitch(primary, 'forwarding')} is 0: packets that arrive on ${primary} are not forwarded. Node ports lead to no pod, and no pod gets packets from other nodes.`;
        yield {family, message, ...run(commandLine`sysctl -w ${interfaceSwitch(primary, 'forwarding')}=1`)};
      }
      for (const [isHere, cutOff] of Map.groupBy(
        unforwardedPods(context).filter(({dev}) => dev !== primary),
        pod => pod.isHere,
      )) {
        const devices = [...new Set(cutOff.map(({dev}) => dev))];
        const [is, them] = devices.length === 1 ? ['is', 'it'] : ['are', 'them'];
        const pods = `${plural(cutOff.length, 'pod')} behind ${them} (${someOf(cutOff.map(({address}) => address))})`;
        const verb = (one: string, many: string): string => (cutOff.length === 1 ? one : many);
        const lost = isHere
          ? `${verb('reaches', 'reach')} no other pod by a Service and ${verb('answers', 'answer')} no client`
          : `on other nodes ${verb('reaches', 'reach')} no pod here, and ${verb('gives', 'give')} no pod an answer`;
        const message = `${someOf(devices.map(dev => interfaceSwitch(dev, 'forwarding')))} ${is} 0: packets that arrive there are not forwarded. ${pods} ${lost}.`;
        yield {family, message, ...run(...devices.slice(0, 10).map(dev => commandLine`sysctl -w ${interfaceSwitch(dev, 'forwarding')}=1`))};
      }
      for (const {dev} of otherUplinks(context, family)) {
        if (dev === primary || sysctlNumber(network, `net.ipv4.conf.${dev}.forwarding`) !== 0) continue;
        const message = `${interfaceSwitch(dev, 'forwarding')} is 0, and a default route leads by ${dev} too: node ports and load balancers lose clients that come by it.`;
        yield {family, severity: 'info', message, ...run(commandLine`sysctl -w ${interfaceSwitch(dev, 'forwarding')}=1`)};
      }
    },
  }),
  check('ST602', {
    *node(context) {
      // With masqueradeAll the reply goes to the node, which translates it back.
      if (context.config.masqueradeAll.value) return;
      for (const family of familiesOnNode(context)) {
        const network = context.facts.network;
        const bridges = podBridges(context, family).filter(({link}) => bypassReason(network, family, link) !== null);
        const [first] = bridges;
        if (first === undefined) continue;
        const endpoints = bridges.flatMap(bridge => bridge.endpoints);
        const name = bridgeSwitch(family);
        yield {
          family,
          message: `${bypassReason(network, family, first.link)}, and pods of this node are ports of ${bridges.map(bridge => bridge.name).join(', ')}: a pod that reaches a Service whose endpoint is on the same bridge (${someOf(endpoints)}) gets the reply from an address that it does not know, and the connection fails.`,
          ...run(...(bridgeCalls(network, family) === 'off' ? [] : [commandLine`modprobe br_netfilter`]), commandLine`sysctl -w ${name}=1`),
        };
      }
    },
  }),
  check('ST603', {
    *node(context) {
      yield* closedPorts(context);
      yield* backOut(context);
      for (const family of familiesOnNode(context)) {
        // Without br_netfilter packets are routed by the node, which may send them back.
        if (bridgeCalls(context.facts.network, family) !== 'on') continue;
        for (const {name, link, ports, endpoints} of podBridges(context, family)) {
          const off = ports.filter(({hairpin}) => hairpin === false);
          if (off.length === 0 || sendsBack(link, context.facts)) continue;
          const which = off.length === ports.length ? plural(off.length, 'port') : `${off.length} of ${plural(ports.length, 'port')}`;
          const message = `hairpin_mode is 0 on ${which} of ${name} (${someOf(off.map(port => port.name))}): if a Service sends a pod's packets to the pod itself, they are lost. ${endpointsOn(endpoints)}`;
          yield {family, message, ...run(...off.slice(0, 10).map(port => commandLine`bridge link set dev ${port.name} hairpin on`))};
        }
        // The ports are the same in the other family.
        return;
      }
    },
  }),
  check('ST604', {
    *node(context) {
      for (const family of familiesOnNode(context)) {
        const found = asymmetric(context, family);
        if (found !== null) yield found;
      }
    },
    nodes: droppedBetween,
  }),
  check('ST605', {
    *node(context) {
      const tracked = trackedConnections(context.facts.network);
      if (tracked === null || tracked.count < tracked.max * 0.9) return;
      const {count, max} = tracked;
      const share = Math.floor((100 * count) / max);
      const isFull = count >= max;
      yield {
        severity: isFull ? 'error' : 'warning',
        message: `${count} connections are tracked, ${isFull ? 'and' : `${share}% of what`} nf_conntrack_max allows${isFull ? ` ${max}` : ` (${max})`}: ${isFull ? 'the kernel drops packets of new connections' : 'when it is full, the kernel drops packets of new connections'}, to Services and to everything else.`,
        ...run(commandLine`sysctl -w net.netfilter.nf_conntrack_max=${String(max * 2)}`),
      };
    },
  }),
  check('ST606', {
    *node(context) {
      const {connections: before, connectionsAfter: after} = context.facts.network;
      const message = before === null ? null : (lostOften(before, context) ?? lostMeanwhile(before, after));
      if (message !== null) yield {message, ...run(commandLine`conntrack -S`)};
    },
  }),
  check('ST607', {
    *node(context) {
      const {sysctls} = context.facts.network;
      const [low, high] = (sysctls?.get('net.ipv4.ip_local_port_range') ?? '').split(/\s+/).map(Number);
      if (low === undefined || high === undefined) return;
      const reserved = (sysctls?.get('net.ipv4.ip_local_reserved_ports') ?? '').split(',').map(range => range.split('-').map(Number));
      const isReserved = (port: number): boolean => reserved.some(([from = 0, to = from]) => from <= port && port <= to);
      const nodePorts = familiesOnNode(context).flatMap(family => entriesOnNode(context, family).map(({port}) => port.nodePort));
      const inside = [...new Set(nodePorts)].filter(port => low <= port && port <= high && !isReserved(port)).sort((a, b) => a - b);
      if (inside.length === 0) return;
      yield {
        message: `net.ipv4.ip_local_port_range is ${low} to ${high}, and ${plural(inside.length, 'node port')} (${someOf(inside.map(String))}) ${inside.length === 1 ? 'is' : 'are'} inside it and not reserved: if the kernel picks such a port for a process of the node, the Service gets what others send to it, except for replies of tracked connections. kube-proxy before 1.24 leaves out a node port that is taken.`,
      };
    },
  }),
  check('ST608', {
    *node(context) {
      if (context.config.mode.value !== 'ipvs') return;
      const {kernelVersion: kernel = ''} = context.facts;
      const reuse = setsReuseMode(context.config.version.value, kernel);
      const wanted = [
        {name: 'expire_nodest_conn', value: 1, effect: 'packets of connections to removed endpoints are dropped without an answer'},
        {
          name: 'expire_quiescent_template',
          value: 1,
          effect: 'clients with session affinity stay on endpoints that get no new connections',
        },
        {
          name: 'conn_reuse_mode',
          value: reuse === null ? null : reuse ? 0 : 1,
          effect: `a connection that reuses a source port ${reuse === true ? 'waits for a second' : 'goes to an endpoint that may be gone'}`,
        },
      ];
      if (sysctlNumber(context.facts.network, 'net.ipv4.vs.conntrack') === 0) {
        const gist = 'what IPVS masquerades gets no reply, net.ipv4.vs.conntrack is 0';
        const message =
          'net.ipv4.vs.conntrack is 0, and kube-proxy sets it to 1 when it starts: nothing that IPVS sends on is masqueraded. What must be gets no reply: from outside to pods of other nodes, and from a pod to itself.';
        yield {severity: 'error', gist, message, ...run(commandLine`sysctl -w net.ipv4.vs.conntrack=1`)};
      }
      for (const {name, value, effect} of wanted) {
        const actual = sysctlNumber(context.facts.network, `net.ipv4.vs.${name}`);
        if (actual === null || value === null || actual === value) continue;
        const gist = `${effect}, net.ipv4.vs.${name} is ${actual}`;
        const message = `net.ipv4.vs.${name} is ${actual}, and kube-proxy runs with ${value}: ${effect}.`;
        yield {gist, message, ...run(commandLine`sysctl -w net.ipv4.vs.${name}=${String(value)}`)};
      }
      if (
        reuse === true &&
        isOlderKernel(kernel, [5, 9]) === true &&
        sysctlNumber(context.facts.network, 'net.ipv4.vs.conn_reuse_mode') === 0
      ) {
        yield {
          message: `net.ipv4.vs.conn_reuse_mode is 0, as this kube-proxy sets it on kernel ${kernel}: a client that soon uses a source port again gets the endpoint of its earlier connection, even one that is being removed. Under many short connections, as of a proxy, some fail or hang while endpoints are replaced.`,
          remedy:
            'Use Linux 5.9 or later with kube-proxy 1.22 or later, which work with conn_reuse_mode 1, or another proxy mode. With 1 on an older kernel such connections wait for a second.',
        };
      }
    },
  }),
  check('ST609', {
    *node(context) {
      if (context.config.mode.value !== 'ipvs') return;
      const [ignore, announce] = ['ignore', 'announce'].map(name => sysctlNumber(context.facts.network, `net.ipv4.conf.all.arp_${name}`));
      if (ignore === null || announce === null || ignore === undefined || announce === undefined || (ignore >= 1 && announce >= 2)) return;
      const isSpoken = hasSpeakers(context.api);
      const announced = entriesOnNode(context, 'IPv4').filter(
        ({port}) => port.loadBalancerVIPs.length > 0 && (isSpoken || isAnnounced(port.object.metadata.annotations)),
      );
      const addresses = [...new Set(announced.flatMap(({port}) => port.loadBalancerVIPs))];
      if (addresses.length === 0) return;
      yield {
        message: `arp_ignore is ${ignore} and arp_announce is ${announce}, and kube-ipvs0 has addresses that a load balancer in the cluster announces (${someOf(addresses)}): this node answers ARP for them besides the node that was chosen, and clients may reach the wrong one.`,
      };
    },
  }),
  check('ST610', {
    *node(context) {
      const {links, routes} = context.facts.network;
      const used = new Set([...(routes.IPv4 ?? []), ...(routes.IPv6 ?? [])].flatMap(({hops}) => hops.map(({dev}) => dev)));
      for (const tunnel of (links ?? []).filter(({name, isUp}) => isUp && used.has(name))) {
        const overhead = tunnel.kind === 'vxlan' ? 50 : tunnel.kind === 'ipip' ? 20 : tunnel.kind === 'wireguard' ? 60 : null;
        const carrierName = tunnel.vxlan?.carrier ?? context.facts.primaryInterface;
        // What carries a tunnel that has the node's own address, no file shows.
        const carrier = carrierName === tunnel.name ? undefined : links?.find(({name}) => name === carrierName);
        if (overhead === null || tunnel.vxlan?.isExternal || !carrier?.mtu || !tunnel.mtu || tunnel.mtu + overhead <= carrier.mtu) continue;
        yield {
          message: `${tunnel.name} (${tunnel.kind}) has an MTU of ${tunnel.mtu}, and its headers take ${overhead} bytes, but ${carrier.name}, which carries it, has an MTU of ${carrier.mtu}: large packets to pods on other nodes are fragmented or lost, while small ones arrive.`,
        };
      }
    },
  }),
];

function lostMeanwhile(before: ConnectionStatistics, after: ConnectionStatistics | null): string | null {
  const grown = (['insertFailed', 'dropped', 'earlyDropped'] as const).filter(name => after !== null && after[name] > before[name]);
  const counts = grown.map(name => `${countNames[name]} from ${before[name]} to ${after?.[name]}`);
  return counts.length === 0 ? null : `while the node was read, counts of lost packets grew: ${counts.join(', ')} (conntrack -S).`;
}

const countNames = {insertFailed: 'insert_failed', dropped: 'drop', earlyDropped: 'early_drop'} as const;

/**
 * A total says something beside the time in which it grew. Kernels also count in insert_failed what they sent on all the same, so only those
 * packets count that were dropped too.
 */
function lostOften({insertFailed, dropped}: ConnectionStatistics, {api, node}: NodeCheckContext): string | null {
  const now = parseHealthz(fileText(node, 'healthz.json'))?.now ?? null;
  const created = Date.parse(nodeObject(api, node.name)?.metadata.creationTimestamp ?? '');
  const hours = now === null ? Number.NaN : (now - created) / 3_600_000;
  const lost = Math.min(insertFailed, dropped);
  if (!(hours > 0 && lost / (hours + upBefore) > lostInAnHour)) return null;
  const age = hours < 48 ? plural(Math.ceil(hours), 'hour') : plural(Math.floor(hours / 24), 'day');
  return `since it was booted, the node has lost ${lost} packets whose connections could not be put into the table (insert_failed ${insertFailed}, drop ${dropped} of conntrack -S). The Node is ${age} old.`;
}

/** In hours: a machine may have been up for a month before it was a Node. */
const upBefore = 720;

/** One a minute: busy nodes lose some without harm, and where clients complained, it was about one a second. */
const lostInAnHour = 60;

/** Pods behind an interface on which the kernel forwards nothing, by the routes to them: those of this node, and some of each other one. */
function unforwardedPods(context: NodeCheckContext): readonly {readonly dev: string; readonly address: string; readonly isHere: boolean}[] {
  const network = context.facts.network;
  const isOff = (dev: string): boolean => sysctlNumber(network, `net.ipv4.conf.${dev}.forwarding`) === 0;
  if (![...(network.sysctls ?? [])].some(([name, value]) => value === '0' && /^net\.ipv4\.conf\..+\.forwarding$/.test(name))) return [];
  const own = (context.api.pods ?? []).filter(
    ({spec, status}) => spec?.nodeName === context.node.name && spec.hostNetwork !== true && status?.phase === 'Running',
  );
  const here = new Set([...own.flatMap(({status}) => status?.podIP ?? []), ...podsHere(context, 'IPv4').map(({address}) => address.text)]);
  const elsewhere = routesToPods(context, 'IPv4').flatMap(({address, node}) => (node === context.node.name ? [] : address.text));
  return [...here, ...elsewhere].flatMap(address => {
    const dev = deviceTo(context, address);
    return dev !== null && isOff(dev) ? [{dev, address, isHere: here.has(address)}] : [];
  });
}

/** MetalLB runs, which before 0.13 annotates no Service. */
const hasSpeakers = once(({pods}: ApiObjects): boolean =>
  (pods ?? []).some(({spec}) => spec?.containers?.some(({image = ''}) => /\bmetallb\W(?:metallb-)?speaker\b/.test(image)) === true),
);

/** By a mark of a program that announces addresses by ARP in the cluster. */
function isAnnounced(annotations: Readonly<Record<string, string>> = {}): boolean {
  return Object.keys(annotations).some(name =>
    /^(?:metallb\.(?:io|universe\.tf)|kube-vip\.io|purelb\.io|(?:lb|eip)\.(?:openelb|kubesphere)\.io)\//.test(name),
  );
}

/** The interface of the node is a bridge, which drops what comes from outside and is sent on to another node. */
function backOut(context: NodeCheckContext): readonly Observation[] {
  const network = context.facts.network;
  const bridge = context.facts.primaryInterface;
  if (bridge === null || network.links?.some(({master}) => master === bridge) !== true) return [];
  return familiesOnNode(context).flatMap((family): readonly Observation[] => {
    const uplink = uplinkWithoutReturn(network, family, bridge);
    const spread =
      uplink === null ? [] : entriesOnNode(context, family).filter(({port}) => hasExternalEntry(port) && !port.externalPolicyLocal);
    const ends = spread.flatMap(({set}) => set.endpoints.filter(({ready, nodeName}) => ready && nodeName !== context.node.name));
    const lost = [...new Set(ends.map(({address}) => address))].filter(address => deviceTo(context, address) === bridge);
    if (uplink === null || lost.length === 0) return [];
    const found: Observation = {
      family,
      severity: 'error',
      message: `${bridge}, the interface of the node, is a bridge that sends nothing back by ${uplink.name}, where it came from (hairpin_mode is 0), and ${bridgeSwitch(family)} is not 0: what comes there for node ports, external and load-balancer IPs is lost if it is sent to an endpoint on another node (${someOf(lost)}).`,
      remedy: `If no pods are on a bridge, set ${bridgeSwitch(family)} to 0. Otherwise give the node's address to ${uplink.name} and take it out of the bridge, or use externalTrafficPolicy: Local.`,
      ...run(commandLine`bridge -d link show dev ${uplink.name}`, commandLine`sysctl ${bridgeSwitch(family)}`),
    };
    return [found];
  });
}

function endpointsOn(endpoints: readonly string[]): string {
  return `${plural(endpoints.length, 'endpoint')} of Services ${endpoints.length === 1 ? 'is' : 'are'} on this bridge (${someOf(endpoints)}).`;
}

/** Pods of a bridge whose ports are isolated, or send and take nothing, once for both families. */
function closedPorts(context: NodeCheckContext): readonly Observation[] {
  const [bridges = []] = familiesOnNode(context)
    .map(family => podBridges(context, family))
    .filter(({length}) => length > 0);
  return bridges.flatMap(({name, ports, endpoints}) => {
    const isolated = ports.filter(({isIsolated}) => isIsolated);
    const kinds = [
      {
        closed: isolated.length > 1 ? isolated : [],
        state: 'isolated',
        effect: 'from one to another, so the pods behind them do not reach each other, through Services either',
        opened: ['isolated', 'off'],
      },
      {
        closed: ports.filter(({isBlocked}) => isBlocked === true),
        state: 'not in the state forwarding',
        effect: 'there and takes nothing from there, so the pods behind reach nobody',
        opened: ['state', '3'],
      },
      {
        closed: ports.filter(({isTold}) => isTold === true),
        state: 'set to learn no addresses and to flood nothing',
        effect:
          'there but what is for addresses that its table names (bridge fdb), and nobody reaches the pods behind that it does not name',
        opened: ['learning', 'on'],
      },
    ] as const;
    return kinds.flatMap(({closed, state, effect, opened: [option, value]}) => {
      if (closed.length === 0) return [];
      const which = `${closed.length} of ${plural(ports.length, 'port')} of ${name} ${closed.length === 1 ? 'is' : 'are'} ${state}`;
      const message = `${which} (${someOf(closed.map(port => port.name))}): the bridge sends nothing ${effect}. ${endpointsOn(endpoints)}`;
      return [{message, ...run(...closed.slice(0, 10).map(port => commandLine`bridge link set dev ${port.name} ${option} ${value}`))}];
    });
  });
}

/**
 * Whether kube-proxy sets conn_reuse_mode to 0: up to 1.21 on every kernel, since 1.22.0 on those before 5.9. Null if it is not known: the
 * kernel, or a kube-proxy that may be of either kind.
 */
function setsReuseMode({minor, patch, isPreRelease, guessed}: KubeProxyVersion, kernel: string): boolean | null {
  const isOld = isOlderKernel(kernel, [5, 9]);
  if (isOld !== false) return isOld;
  const isUnsure = guessed === true ? minor <= 24 : minor === 22 && patch === 0 && isPreRelease === true;
  return isUnsure ? null : minor <= 21;
}
