import {someOf} from '../../model/text.ts';
import {martians} from './kernel-lines.ts';
import {listedIn} from './listed-objects.ts';
import {podsIn} from './listed-pods.ts';
import {nodeRow, settingsIn} from './listed-ranges.ts';
import {ofNames} from './object-relations.ts';
import {doubledRoutes, tablesBefore, unrouted} from './listed-state.ts';
import {toldCauses} from './told-causes.ts';

/** What commands answer that print no rule, each in a few words: what lines say, pods that do not run, routes. */
export function commandAnswers(lines: readonly string[]): readonly string[] {
  const readers = [
    martians,
    emptySearches,
    stoppedPods,
    withoutPlugin,
    bridgesOfRuntime,
    closedByUfw,
    besideTunnel,
    doubledRoutes,
    tablesBefore,
    resolversOfPods,
    otherNodeNames,
    sharedAddresses,
    addressesOfNodes,
    rivalHosts,
    silentNeighbors,
    unreachedByCilium,
    rulesThatReturn,
    withoutHairpin,
    unroutedPods,
  ];
  return [...toldCauses(lines), ...readers.flatMap(read => read(lines))];
}

/** Searches of rules that found nothing: the next lines are empty, or the next one is another command at the same prompt. */
function emptySearches(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, at) => {
    const [, prompt = '', tool, word = ''] = search.exec(line) ?? [];
    // Table filter has no rule of a Service that works.
    if (
      tool === undefined ||
      (/^ip6?tables(?!\S*-save)/.test(tool) && !/\s(?:-t|--table)[\s=]*nat\b/.test(tool)) ||
      /-t\s*filter/.test(tool)
    )
      return [];
    const next = lines.slice(at + 1, at + 1 + maxBelow).find(text => text.trim() !== '') ?? '```';
    const isEmpty = /^\s*(?:```|\(?(?:no|empty) (?:output|result)s?\)?|\(?(?:nothing|none|empty)\)?\.?\s*$)/i.test(next);
    const isNextCommand = prompt.trim() !== '' && next.startsWith(prompt.trim());
    return isEmpty || isNextCommand
      ? `${tool} has no line with ${word}: kube-proxy of that node has written no rule about it, works in another mode, or with the other backend of iptables`
      : [];
  });
}

const search =
  /^(.*?[$#>%] ?|)(?:sudo )?((?:ip6?tables(?:-legacy|-nft)?-save|ip6?tables(?:-legacy|-nft)? .*-\w*[SL]\w*|nft list ruleset|ipvsadm -\w*[lL]\w*)\b[^|]*?)\s*\|\s*(?:sudo )?e?grep (?:-(?!v)\w+ )*["']?([\w.:/-]*(?:\d+\.\d+\.\d+\.\d+|KUBE-\w|\d{5})[\w.:/-]*)["']?\s*$/;

/** `kube-proxy-9vwlb  0/1  CrashLoopBackOff  41 (2m ago)  3d  192.168.1.12  w2`. */
function stoppedPods(lines: readonly string[]): readonly string[] {
  const stopped = podsIn(lines).filter(
    ({name, ready, status}) =>
      // That a port is taken is told with the Service that waits.
      ofNodes.test(name) && (ready === 0 || !/^(?:Running|Completed)$/.test(status)) && !/^svclb.*Pending$/.test(`${name} ${status}`),
  );
  return [...Map.groupBy(stopped, ({name, status}) => `${ofNodes.exec(name)?.[1]} ${status}`).values()].map(all => {
    const [{name = '', status = ''} = {}] = all;
    const effect = /^(?:coredns|kube-dns)/.test(name)
      ? 'it is no endpoint of the DNS of the cluster'
      : name.startsWith('svclb')
        ? 'ServiceLB of k3s does not serve the ports of its load balancer there'
        : name.startsWith('kube-proxy')
          ? 'the rules of Services on its node are those of before, or none'
          : 'pods of its node may not be reached, whatever the rules of Services';
    const pods = someOf(all.map(pod => `${pod.name}${pod.node === null ? '' : ` of ${pod.node}`}`));
    return `${pods} ${all.length === 1 ? 'is' : 'are'} ${status === 'Running' ? 'not ready' : status}: ${effect}. kubectl ${/^(?:Pending|ContainerCreating)$/.test(status) ? `describe pod ${name}` : `logs ${name} --previous`} says why`;
  });
}

const ofNodes =
  /^(svclb|coredns|kube-dns|kube-proxy|cilium|calico-node|kube-flannel-ds|canal|rke2-canal|weave-net|kube-router|antrea-agent)-(?:[a-z0-9]+-|(?<=svclb-)[a-z0-9-]+-)?[a-z0-9]{5}$/;

/** A list of all pods of a control plane that has none of a network plugin, for which the pods of DNS wait, none of kube-proxy, or none of DNS. */
function withoutPlugin(lines: readonly string[]): readonly string[] {
  const pods = podsIn(lines).map(({name, status}) => `${name} ${status}`);
  const has = (pattern: RegExp): boolean => pods.some(pod => pattern.test(pod));
  const isOfAll = lines.some(line => /\bget\s+po(?:ds?)?\b[^|]*\s(?:--all-namespaces|-A)\b[^|]*$/.test(line));
  return [
    has(/^kube-apiserver-/) && has(/^(?:coredns|kube-dns)-\S+ (?:Pending|ContainerCreating)$/) && !has(ofPlugin)
      ? 'no pod of a network plugin is listed, and pods of DNS wait for one: until it is installed, pods get no address and are no endpoints (kubectl get pods -A shows whether it is in another namespace)'
      : [],
    ['apiserver', 'scheduler', 'controller-manager'].every(name => has(new RegExp(`^kube-${name}-`))) && !has(servesServices)
      ? 'no pod of kube-proxy is listed beside those of the control plane, nor of another program that serves Services (Cilium, kube-router): unless the nodes run it themselves, no rule leads to cluster IPs (kubectl -n kube-system get ds)'
      : [],
    isOfAll && pods.length > 0 && !has(/\b(?:core|kube-)dns/) && lines.some(line => /^\s*kube-system\s+kube-dns\s/.test(line))
      ? 'kube-system/kube-dns is listed, and no pod of DNS among all pods: it has no endpoint, and pods know no Service by its name'
      : [],
  ].flat();
}

const servesServices = /kube-proxy|calico|canal|cilium|kube-router|antrea|ovn/;
const ofPlugin = /calico|flannel|canal|cilium|weave|kube-router|antrea|kindnet|ovn|aws-node|azure-cni|multus|tigera/;

/** Pods in the network that a container runtime gives to a bridge of its own on each node: of Docker's those of several nodes. */
function bridgesOfRuntime(lines: readonly string[]): readonly string[] {
  const nodesIn = (network: string): readonly string[] => [
    ...new Set(podsIn(lines).flatMap(({ip, node}) => (ip?.startsWith(network) === true && node !== null ? node : []))),
  ];
  const [docker, others] = [nodesIn('172.17.0.'), [...nodesIn('10.88.0.'), ...nodesIn('10.85.0.')]];
  return [
    docker.length < 2
      ? []
      : `pods of ${someOf(docker)} have addresses of 172.17.0.0/16, which Docker has on each node: without a network plugin pods of one node do not reach those of another`,
    others.length === 0 || podsIn(lines).every(({ip, node}) => ip === null || node === others[0])
      ? []
      : `pods of ${someOf(others)} have addresses of the bridge that podman (10.88.0.0/16) or CRI-O (10.85.0.0/16) has by itself, and other nodes do not reach them: remove its file from /etc/cni/net.d (87-podman-bridge.conflist, 100-crio-bridge.conflist), so that that of the network plugin counts, and recreate the pods`,
  ].flat();
}

/** `ufw status verbose`, or without that word beside somebody who gets no answer. Rules that admit a network or an interface may be those of pods. */
function closedByUfw(lines: readonly string[]): string | readonly string[] {
  const isTold = lines.some(line => /^\s*Default: /.test(line)) || !lines.some(line => /\btime(?:d ?)?out\b/i.test(line));
  const heading = isTold ? /^\s*Default: .*\bdeny \(routed\)/ : /^\s*Status: active/;
  const at = lines.findIndex(line => heading.test(line));
  const end = lines.findIndex((line, place) => place > at && /^\S*[$#] /.test(line));
  const own = at < 0 ? [] : lines.slice(at, end < 0 ? undefined : end);
  const admits = own.some(line => /\bALLOW FWD\b|\b(?:ALLOW|LIMIT)\b.*\d\/\d|^\s*\S+ on \w.*ALLOW|ALLOW.* on \w/.test(line));
  if (own.length === 0 || admits) return [];
  return 'ufw is active, and no rule of it admits the network of pods: by default it drops what they send to this node, and what passes it unless the network plugin accepts that';
}

/** `ip route get` of pods of one network, where one answer leads through a tunnel and another to the gateway of the node. */
function besideTunnel(lines: readonly string[]): readonly string[] {
  const ways = lines.flatMap(line => {
    const [, to = '', via = '', dev] = /^\s*(\d+\.\d+\.\d+\.\d+) via (\S+) dev (\S+)/.exec(line) ?? [];
    return dev === undefined ? [] : [{to, via, dev, network: to.split('.', 2).join('.')}];
  });
  const isTunnel = (dev: string): boolean => /^(?:tunl\d|flannel|vxlan|cilium_|antrea-|weave|wireguard)/.test(dev);
  return ways.flatMap(({to, via, dev, network}) => {
    const other = ways.find(one => isTunnel(one.dev) && one.network === network);
    if (isTunnel(dev) || other === undefined) return [];
    return `packets to ${to} take ${dev} to ${via}, and those to ${other.to} the tunnel ${other.dev}: the route of the network plugin to ${to} is missing or was replaced, and the gateway does not know pods`;
  });
}

/** What a pod asks that does not find a name: the resolvers of its host, or those that its `/etc/resolv.conf` has. */
function resolversOfPods(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => ofNames.test(line))) return [];
  const isOfHost = lines.some(line => ofHost.test(line)) && !lines.some(line => line.includes('ClusterFirstWithHostNet'));
  const ofHosts = isOfHost
    ? [
        'a pod in the network of its host (hostNetwork: true) asks the resolvers of its node, which know no Service by its name: it needs dnsPolicy: ClusterFirstWithHostNet',
      ]
    : [];
  const ofPods = lines.flatMap((line, at) => {
    if (!/(?:\b(?:exec|run)\b.*|^\s*(?:\/\S* #|(?:ba)?sh-\d\S*[#$]).*)\bcat \/etc\/resolv\.conf/.test(line)) return [];
    // The DNS of the cluster asks the resolvers of its node, by design.
    if (/coredns|kube-?dns/.test(lines.slice(0, at + 1).findLast(text => /\b(?:exec|run)\b/.test(text)) ?? '')) return [];
    const rest = lines.slice(at + 1);
    const end = rest.findIndex(text => !/^\s*(?:[#;]|nameserver|search|options|domain)/.test(text));
    const own = rest.slice(0, end < 0 ? undefined : end);
    const servers = own.flatMap(text => /^\s*nameserver\s+(\S+)/.exec(text)?.[1] ?? []);
    if (servers.length === 0 || own.some(text => /\bsvc\./.test(text))) return [];
    return `the resolv.conf of a pod names ${someOf(servers)} and no domain of the cluster: the pod does not ask the DNS of the cluster, and knows no Service by its name. clusterDNS of kubelet is not set, or dnsPolicy of the pod is Default (a pod in the network of its host needs ClusterFirstWithHostNet)`;
  });
  return [...ofHosts, ...ofPods];
}

const ofHost = /\bhostNetwork\b['"`]*[:=]? *true\b/i;

/** Pods of two nodes with one address, which is that of no node: one of them was left when its node was lost. */
function sharedAddresses(lines: readonly string[]): readonly string[] {
  const placed = podsIn(lines).filter(
    ({ip, node, status}) => ip !== null && node !== null && !/^(?:Completed|Evicted|Error)$/.test(status),
  );
  return [...Map.groupBy(placed, ({ip}) => ip).values()].flatMap(all =>
    new Set(all.map(({node}) => node)).size < 2
      ? []
      : `${someOf(all.map(({name, node, status}) => `${name} (${node}, ${status})`))} have the address ${all[0]?.ip}: packets reach one of them at most, and where one is about to go kube-proxy may take the address for that of both, and write no rule (kubernetes#135266)`,
  );
}

/** Pods whose address an interface of a node has, other than that of a pod. */
function addressesOfNodes(lines: readonly string[]): readonly string[] {
  let device = '';
  const pods = new Map(podsIn(lines).flatMap(({ip, name, status}) => (ip === null || status !== 'Running' ? [] : [[ip, name] as const])));
  return lines.flatMap(line => {
    device = /^\s*\d+: ([\w.-]+)\S*: </.exec(line)?.[1] ?? device;
    const ip = /^\s*inet ([\d.]+)\//.exec(line)?.[1];
    const pod = ofNode.test(device) ? pods.get(ip ?? '') : undefined;
    return pod === undefined
      ? []
      : `${ip} is the address of pod ${pod} and of ${device} on a node: there the node itself answers what is sent to the pod. The network plugin gave it out twice`;
  });
}

const ofNode = /^(?:vxlan\.calico|tunl\d|wireguard\.cali|flannel|cni\d|cilium_host|docker\d|kube-bridge|antrea-gw\d)/;

/** Addresses for which two hosts answer, in what arping, tcpdump and MetalLB print. */
function rivalHosts(lines: readonly string[]): readonly string[] {
  const found = lines.flatMap(line => {
    const [, ip, mac = ''] = answeredArp.exec(line) ?? [];
    const [, by = mac, of = ip] = /bytes from ((?:[\da-f]{1,2}:){5}[\da-f]{1,2}) \(([\d.]+)\)/i.exec(line) ?? [];
    return of === undefined ? [] : [[of, by.toLowerCase()] as const];
  });
  return [...Map.groupBy(found, ([ip]) => ip)].flatMap(([ip, all]) => {
    const hosts = [...new Set(all.map(([, mac]) => mac))];
    return hosts.length < 2
      ? []
      : `${someOf(hosts)} answer ARP for ${ip}: clients reach now one, now the other. Two speakers of MetalLB announce it (a second instance, or nodes that do not see each other: memberlist, port 7946), a host has it as its own, or, in IPVS mode, nodes answer for kube-ipvs0 without strictARP`;
  });
}

const answeredArp = /(?:\breply (?:from )?|"ip":")([\d.]+)(?: \[| is-at |".*"responseMAC":")((?:[\da-f]{1,2}:){5}[\da-f]{1,2})/i;

/** Addresses for which nobody answers ARP, beside somebody who is told that the host is not reached. A list asks on and on for others. */
function silentNeighbors(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => /\bunreachable\b.*\bHost unreachable|\bICMP host \S+ unreachable|[Nn]o route to host/.test(line))) return [];
  const asked = lines.flatMap(line => {
    const [, ip, by = ''] = /\b[Ww]ho[ -]has ([\d.]+)\??(?: \([^)]*\))?,? +[Tt]ell ([\d.]+)/.exec(line) ?? [];
    return ip === undefined ? [] : [{ip, by}];
  });
  return [...Map.groupBy(asked, ({ip}) => ip)].flatMap(([ip, all]) =>
    all.length < minAsked || lines.some(line => line.includes(`${ip} is at `) || line.includes(`${ip} is-at `))
      ? []
      : `${all[0]?.by} asks for ${ip} by ARP ${all.length} times, and nobody answers: no pod or host on this link has the address any more. Rules of a Service that send there have an endpoint that is gone (kubectl get endpoints, and iptables-save of this node)`,
  );
}

const minAsked = 3;

/** The health of nodes in `cilium status`. */
function unreachedByCilium(lines: readonly string[]): readonly string[] {
  const heading = lines.findIndex(line => line.includes('Cluster health:'));
  return lines.slice(heading < 0 ? lines.length : heading + 1).flatMap(line => {
    const [, name = '', ip = '', node, ends] =
      /^\s*([\w./-]+)(?: \(localhost\))?\s+([\d.]+)\S*\s+(true|false|(?:un)?reachable)\s+(true|false|(?:un)?reachable)\s*$/.exec(line) ??
      [];
    const isLost = (state = 'true'): boolean => /^(?:false|unr)/.test(state);
    if (isLost(node))
      return `Cilium does not reach node ${name} (${ip}), as its status says: a firewall between the nodes stops TCP port 4240 or ICMP, and with them perhaps the packets of pods (UDP port 8472 or 6081 of a tunnel)`;
    return isLost(ends)
      ? `Cilium reaches node ${name} (${ip}) and not the pods there, as its status says: its tunnel is stopped (UDP port 8472 of VXLAN, 6081 of Geneve), or with native routing no route leads to them`
      : [];
  });
}

/** Rules that node-local-dns writes again, more than once: at its start it says so of each once. */
function rulesThatReturn(lines: readonly string[]): readonly string[] {
  const rules = lines.flatMap(line => /Added back nodelocaldns rule - (\{.*\})/.exec(line)?.[1] ?? []);
  return new Set(rules).size === rules.length
    ? []
    : [
        'node-local-dns writes its rules of iptables again and again: another program removes them (firewalld, iptables-restore without --noflush), and perhaps those of kube-proxy, too',
      ];
}

/** The files `hairpin_mode` of ports of a bridge: values below the command that reads them, or beside their names. */
function withoutHairpin(lines: readonly string[]): readonly string[] {
  const values = lines.flatMap((line, at) => {
    const beside = /\/hairpin_mode[: ]+([01])\s*$/.exec(line)?.[1];
    if (beside !== undefined) return beside;
    const rest = /hairpin_mode\b/.test(line) ? lines.slice(at + 1, at + 1 + maxPorts) : [];
    const end = rest.findIndex(text => !/^\s*(?:[01]|\S*\/brif\/\S*)\s*$/.test(text));
    return rest.slice(0, end < 0 ? undefined : end).flatMap(text => /^\s*([01])\s*$/.exec(text)?.[1] ?? []);
  });
  if (values.length === 0 || values.includes('1')) return [];
  return [
    'hairpin_mode of the ports of the bridge is 0: a pod that its own Service sends back to itself gets no answer (hairpinMode of the network plugin, --hairpin-mode of kubelet up to 1.23)',
  ];
}

/** Ports of a bridge that a command lists. */
const maxPorts = 40;

/** Pods and Services to which the routes of the node do not lead. */
function unroutedPods(lines: readonly string[]): readonly string[] {
  return unrouted(
    lines,
    podsIn(lines).flatMap(({ip}) => ip ?? []),
    listedIn(lines).services,
  );
}

/** A name that kube-proxy has by its settings, and no Node of a list. */
function otherNodeNames(lines: readonly string[]): readonly string[] {
  const nodes = lines.flatMap(line => nodeRow.exec(line)?.[1] ?? []);
  const names = settingsIn(lines, 'hostnameOverride', 'hostname-override').filter(name => /^[\w.-]+$/.test(name));
  const other = [...new Set(names)].filter(name => nodes.length > 0 && !nodes.includes(name));
  return other.map(
    name =>
      `kube-proxy takes itself for ${name} (hostnameOverride), and kubectl lists no such Node (${someOf(nodes)}): it finds no endpoint on its node, so that Services with a Local policy get nothing there`,
  );
}

/** Lines between a command and its answer. */
const maxBelow = 3;
