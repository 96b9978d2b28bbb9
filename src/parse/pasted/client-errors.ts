import {joinHostPort} from '../../model/address.ts';
import {onceAsked} from '../../model/once.ts';
import {isNodePort} from '../../model/service-port.ts';
import {someOf} from '../../model/text.ts';
import type {Listed, ListedService} from './listed-objects.ts';
import {nodeRow} from './listed-ranges.ts';
import {podsIn} from './listed-pods.ts';
import {ingressPorts, loopbackListeners, namesElsewhere, policiesSay, undeclaredPorts, unusualPorts} from './object-relations.ts';
import {atLoopback, balancerWithoutPing, withoutPing} from './told-causes.ts';

/** A program that did not reach a server, as it says. */
export interface ClientError {
  readonly host: string;
  readonly port: number;
  readonly why: string;
}

const forms: readonly RegExp[] = [
  /\btcp\d? (?::\d+->)?(?<host>\S+):(?<port>\d+): (?:connect: |getsockopt: )?(?<why>[a-z/ ]+?)(?=["'\\*`)]|$)/,
  /\blookup \S+ on (?<host>\S+):(?<port>\d+): dial udp \S+ (?<why>[a-z/ ]+?)["\\]*$/,
  /\bread udp [^\s>]+->(?<host>\S+):(?<port>\d+): (?<why>[a-z/ :]+?)["\\]*$/,
  /\b(?:Failed to )?connect to (?:host |address )?(?<host>\S+) port (?<port>\d+)(?: after \d+ ms| \(tcp\)| from \S+ port \d+)?:? (?:failed: )?(?<why>.+)$/,
  /curl: \(\d+\) Failed connect to (?<host>\S+):(?<port>\d+); (?<why>.+)$/,
  /\bConnecting to (?:\S+ \S+\|)?(?<host>\d[\d.]+)(?: \([^)]*\))?[:|]:?(?<port>\d+)\W* failed: (?<why>.+)$/,
  /\bconnect (?<why>ECONNREFUSED|ETIMEDOUT) (?<host>[\d.]+):(?<port>\d+)/,
  /\bcommunications error to (?<host>[\d.]+)#(?<port>\d+): (?<why>timed out|connection refused)/,
  /^\s*\((?:UNKNOWN|[\w.-]+)\) \[(?<host>[\d.]+)\] (?<port>\d+) \([^)]*\) : (?<why>No route to host|Connection (?:refused|timed out))/,
  /\bhost='(?<host>[^']+)', port=(?<port>\d+)\).*(?<why>Connection refused|timed out)/,
];

/** What a command prints on the lines below it. Without a port it asks DNS. */
const brokenForms: readonly RegExp[] = [
  /\b(?:nslookup \S+ |dig .*?@)(?<host>\d[\d.]+)\b(?:(?!\b(?:nslookup|dig) ).)*;; (?:connection )?(?<why>timed out)/,
  /\bnslookup \S+ +;; (?:connection )?(?<why>timed out)/,
  /\btelnet (?<host>[\w.-]+) (?<port>\d+) .*\btelnet: .*(?<why>Connection refused|timed out|No route to host)/,
  /\bConnecting to (?:\S+ \()?(?<host>\d[\d.]+):(?<port>\d+)\)? .*\bwget: .*(?<why>Connection refused|timed out|No route to host)/,
  /\bcurl (?:(?!\bcurl\b).)*?(?:(?:http|(?<tls>https)):\/\/|\s(?=\d+\.\d+\.\d+\.\d+\b))(?<host>[a-z\d][\w.-]*\w)(?::(?<port>\d+))?(?=[\s/?"'])(?:(?!\bcurl [^:]).)*?\bcurl: \(28\) (?:Connection|Operation) (?<why>timed out)/,
];

export function clientErrors(lines: readonly string[]): readonly ClientError[] {
  const resolver = onceAsked(() => {
    const servers = new Set(lines.flatMap(line => /^\s*nameserver\s+(\d[\d.]+)\s*$/.exec(line)?.[1] ?? []));
    return servers.size === 1 ? [...servers][0] : undefined;
  });
  return lines.flatMap((line, at) => {
    if (!mayFail.test(line)) return [];
    const text = line.trim();
    const below = [text, ...lines.slice(at + 1, at + maxBelow)].join(' ').slice(0, longestCommand);
    const found = [...forms.map(form => form.exec(text)), ...brokenForms.map(form => form.exec(below))].find(one => one !== null);
    const usual = found?.groups?.['tls'] !== undefined ? '443' : /^(?:\S* )*?curl /.test(found?.[0] ?? '') ? '80' : '53';
    const {host = resolver(), port = usual, why = ''} = found?.groups ?? {};
    return host === undefined || found === undefined
      ? []
      : [{host, port: Number(port), why: whyOfCurl(text, {host, why: why.replace(/\.$/, '')})}];
  });
}

/**
 * Newer versions of curl say the same of all servers to which they do not connect, and how long they tried, with the time that a name took.
 * Nobody who has an address answers ARP for 3 s.
 */
function whyOfCurl(line: string, {host, why}: Pick<ClientError, 'host' | 'why'>): string {
  const [, waited] = /^Could(?: not|n't) connect to server$/.test(why) ? (/ after (\d+) ms/.exec(line) ?? []) : [];
  if (waited === undefined) return why;
  const took = Number(waited);
  const isSlow = took >= 1000 && /^[\d.]+$/.test(host);
  return `${took >= 10_000 ? 'timed out' : isSlow ? 'no route to host, or no answer' : 'refused'} after ${waited} ms`;
}

/** With its answer: some forms look from each word to the end. */
const longestCommand = 2000;
/** dig prints most. */
const maxBelow = 7;

const mayFail =
  /\btcp\d? \S*\d:\d+: |dial udp |read udp |[Ff]ailed to connect|Failed connect|connect to |Connecting to |connect E|host='|^\s*\([\w.-]+\) \[|telnet |nslookup |dig |communications error|\bcurl .*(?:\/\/|\d\.\d)/;

type ListedEnds = Pick<Listed, 'services' | 'endpoints' | 'headless' | 'empty'>;

/** What clients ask where it is not served, and what keeps them from it in the objects of the text. Most telling first. */
export function refusedClients(lines: readonly string[], listed: ListedEnds): readonly string[] {
  const errors = clientErrors(lines);
  return [
    ...new Set([
      ...errors.flatMap(error => ofServices(error, lines, listed)),
      ...otherFamily(lines, listed.services),
      ...unansweredPings(lines, listed.services),
      ...objectRelations(lines, listed),
    ]),
  ];
}

/** What keeps clients from Services in the objects of the text. */
export function objectRelations(lines: readonly string[], {services, endpoints, headless}: ListedEnds): readonly string[] {
  const ends = [...endpoints.values()].flatMap(all => [...all].map(end => Number(end.split(':').at(-1))));
  return [
    ...policiesSay(lines, services),
    ...loopbackListeners(lines, [...clientErrors(lines).map(({port}) => port), ...ends]),
    ...undeclaredPorts(lines),
    ...unusualPorts(lines),
    ...namesElsewhere(lines, {services, headless}),
    ...ingressPorts(lines, services),
  ];
}

function ofServices(error: ClientError, lines: readonly string[], listed: ListedEnds): string | readonly string[] {
  const {host, port, why} = error;
  const asked = joinHostPort(host, port);
  // Of one without endpoints that is told.
  const ofName = (what: string, name: string): string | readonly string[] =>
    listed.empty.has(name) ? [] : refusedBy(error, what, listed.endpoints.get(name));
  const beside = besideCilium(error, lines);
  if (beside !== null) return beside;
  const [headless] = [...listed.headless].filter(name => isNameOf(host, name));
  const targets = [...(listed.endpoints.get(headless ?? '') ?? [])].map(end => end.split(':').at(-1));
  if (targets.length > 0 && !targets.includes(String(port)))
    return `${headless} is headless: its name has the addresses of the pods, no rule translates its port, and a client asks them at ${port}, while their port is ${someOf([...new Set(targets.map(String))])}`;
  const here = listed.services.find(({name, clusterIPs}) => clusterIPs.includes(host) || isNameOf(host, name));
  const dns = listed.services.find(({name}) => /(?:^|[/-])(?:kube-dns|coredns)$/.test(name));
  const isResolver = (line: string): boolean => /^\s*(?:nameserver|Server:)\s/.test(line) && line.split(/\s+/).includes(host);
  if (port === 53 && here === undefined && dns?.clusterIPs.includes(host) === false && ofClusters.test(host) && lines.some(isResolver))
    return `a client asks ${asked} for names, and the cluster IP of ${dns.name} is ${someOf(dns.clusterIPs)}: clusterDNS of its kubelet (--cluster-dns), or the resolv.conf of its pod, names another address. A node itself asks other servers, which know no Service`;
  if (here !== undefined && !here.ports.some(each => each.port === port))
    return `a client asks for ${asked}, and ${here.name} has ${someOf(here.ports.map(each => `${each.protocol} ${each.port}`))} alone: no rule serves another port of its cluster IP`;
  if (here !== undefined && /no route to host$/i.test(why))
    return noRoute(`${asked} is the cluster IP of ${here.name}`, 'the node of its endpoint');
  if (here !== undefined)
    return /time|no route/i.test(why)
      ? lines.some(line => /\bexec\b/.test(line) && line.includes(host))
        ? `${asked} is the cluster IP of ${here.name}, asked from a pod: a request to each endpoint itself shows whether packets reach it, and iptables-save on the node of the pod whether its rules lead there`
        : `${asked} is the cluster IP of ${here.name}, which nodes and pods alone reach: a host outside of the cluster (that of minikube or Docker Desktop, too) needs a node port, a load balancer or kubectl port-forward. On a node, its rules (iptables-save) and those of the node of the pod show where packets are lost`
      : ofName(`${asked} is ${here.name}`, here.name);
  const [end] = [...listed.endpoints].filter(([, all]) => all.has(asked));
  if (end !== undefined) return refusedBy(error, `${asked} is an endpoint of ${end[0]}`, new Set([asked]));
  const pod = podsIn(lines).find(({ip}) => ip === host);
  if (pod !== undefined && isNodePort(port))
    return `${host} is the address of pod ${pod.name}, and ${port} a port of the range of node ports: nodes serve those, and a pod is asked at the port at which its program listens (targetPort)`;
  const nodes = lines.flatMap(line => nodeRow.exec(line)?.slice(1, 3).join(' ').split(' ') ?? []);
  const registered = nodes.indexOf(host);
  const rest = nodes.filter((ip, at) => at % 2 === 1 && ip !== host);
  if (
    port === kubelet &&
    registered % 2 === 1 &&
    rest.length > 0 &&
    rest.every(ip => ip !== '' && ip.split('.', 2).join() !== host.split('.', 2).join())
  )
    return `${host} is the address under which node ${nodes[registered - 1]} is registered, and other nodes have addresses of another network (${someOf(rest)}): where they do not reach it, --node-ip of its kubelet must be an address that they do`;
  const isOwn = isLocal.test(host);
  const all = listed.services.flatMap(({name, ports, balancers = []}) => ports.map(each => ({...each, name, balancers})));
  const own = all.find(({nodePort}) => nodePort === port);
  const other = all.find(each => each.nodePort !== null && each.port === port);
  const announced = listed.services.find(({balancers = []}) => balancers.includes(host));
  if (isOfBalancer(host, lines) && /time|no route/i.test(why) && lines.some(line => dockerInMachine.test(line)))
    return `${host} is a load-balancer address in the network of Docker, to which nothing leads from macOS and Windows, where Docker runs in a virtual machine: use extraPortMappings of kind or kubectl port-forward`;
  if (announced !== undefined && /time|no route/i.test(why))
    return `${host} is the load-balancer address of ${announced.name}, which nodes translate once packets come to them: no speaker announces it (the log and the L2Advertisement or BGPAdvertisement of MetalLB), the client's network does not route it to a node, or a firewall drops it`;
  const ranges = lines.flatMap((line, at) =>
    line.includes('loadBalancerSourceRanges')
      ? (lines
          .slice(at, at + maxBelow)
          .join(' ')
          .match(cidrs) ?? [])
      : [],
  );
  if (ranges.length > 0 && /time/i.test(why) && pod === undefined)
    return `loadBalancerSourceRanges of the text admit ${someOf([...new Set(ranges)])}: clients of load-balancer addresses with another address, also where somebody masqueraded them, get no answer`;
  const meant = all.flatMap(each => (each.port === port ? each.balancers : [])).find(address => isTypo(address, host));
  if (meant !== undefined)
    return `${host} is asked at port ${port}, and no list has it: the address that kubectl lists for that port is ${meant}`;
  const nodePorts = all.filter(({nodePort}) => nodePort !== null);
  if (own === undefined && !(isOwn && other !== undefined) && isNodePort(port) && nodePorts.length > 0)
    return `kubectl lists no node port ${port}, and ${someOf(nodePorts.map(each => `${each.nodePort} (${each.name}, port ${each.port})`))}`;
  if (own === undefined && other !== undefined && !isOfBalancer(host, lines) && (isOwn || /refused/i.test(why)))
    return `${port} is the port of ${other.name} at its cluster IP: at nodes${isOwn ? '' : `, where ${host} is one,`} it is ${other.nodePort}`;
  if (own === undefined) return [];
  const what = `${port} is the node port of ${own.name}`;
  if (isOfBalancer(host, lines))
    return `${what}, asked at a load-balancer address: ${host} has the ports of the Service itself, and node ports are served at the addresses of nodes, unless it is one of these`;
  if ((isOwn || /time/i.test(why)) && lines.some(line => nodesInContainers.test(line)))
    return `${what}, which nodes serve at their own addresses: those of kind, k3d, Docker Desktop and minikube are containers or virtual machines, to which ${host} does not lead. extraPortMappings of kind, minikube service NAME --url or kubectl port-forward do`;
  if (isOwn)
    return listed.empty.has(own.name)
      ? []
      : `${what}, asked at ${host}: in iptables mode the node answers there too, unless the Service has no ready endpoint, or no program listens at its target port (kubectl get endpoints); ${atLoopback}`;
  if (/no route/i.test(why)) return noRoute(what, host);
  if (/time/i.test(why) && new Set(nodePorts.map(({name}) => name)).size === 1 && lines.some(line => ofLocalPolicy.test(line)))
    return `${what}, whose external traffic policy is Local: a node without a ready endpoint of it drops what comes there. kubectl get pods -o wide shows which nodes have one`;
  return /time/i.test(why)
    ? `${what}, and packets to ${host} or the answers are lost: by a firewall before the node, or by its rules, which iptables-save of this node shows`
    : ofName(what, own.name);
}

function noRoute(what: string, host: string): string {
  return `${what}, and "no route to host" is the answer of a firewall on ${host} or before it (REJECT with icmp-host-prohibited, as firewalld and iptables-services write it), or no host has the address: rules of INPUT and FORWARD there must accept what comes for it`;
}

/** Private addresses; others may be servers outside of the cluster. */
const ofClusters = /^(?:10\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.)/;

const cidrs = /(?<![\d.])(?:\d+\.){3}\d+\/\d+/g;

/** As YAML, JSON and `kubectl describe` have it. */
const ofLocalPolicy = /^\s*"?external ?traffic ?policy"?: +"?Local\b/i;

/** Where Cilium serves the port that a client asks for, and not at the address, by its lists of frontends and of addresses of the node. */
function besideCilium({host, port}: ClientError, lines: readonly string[]): string | null {
  const frontsOf = (type: string): readonly string[] =>
    lines.flatMap(line => {
      const [, address = '', own, kind] = /^\s*\d+\s+\[?([\da-f.:]+?)\]?:(\d+)(?:\/\w+)?\s+(\w+Port)\b/.exec(line) ?? [];
      return kind === type && Number(own) === port && address !== '0.0.0.0' ? address : [];
    });
  const [fronts, ofHosts] = [frontsOf('NodePort'), frontsOf('HostPort')];
  if (isLocal.test(host) && ofHosts.length > 0 && !ofHosts.includes('127.0.0.1'))
    return `Cilium serves host port ${port} at ${someOf(ofHosts)}, and not at ${host}: what the node itself sends to its loopback address reaches its own programs alone`;
  if (
    lines.some(line => line.trim().startsWith(`${host} `) && /^\s*\S+\s+false\s+(?:true|false)\s+[\w.@-]+\s*$/.test(line)) &&
    isNodePort(port)
  )
    return `Cilium serves no node ports at ${host} (NodePort is false in its table node-addresses): it takes one address of each device, unless nodePort.addresses (--nodeport-addresses) names others`;
  return fronts.length === 0 || fronts.includes(host) || isLocal.test(host)
    ? null
    : `Cilium serves node port ${port} at ${someOf(fronts)}, and not at ${host}: it does at addresses of the node that it knows (cilium-dbg statedb node-addresses), and not at those of load balancers or of keepalived, unless nodePort.addresses names them`;
}

/** Whether kubectl lists the address for a Service of that type. */
function isOfBalancer(host: string, lines: readonly string[]): boolean {
  return lines.some(line => /\sLoadBalancer\s/.test(line) && line.split(/[\s,]+/).includes(host));
}

/** The kernel of Docker Desktop, as `kubectl get nodes -o wide` prints it. */
const dockerInMachine = /linuxkit|[Dd]ocker[ -]?(?:[Dd]esktop|for (?:[Mm]ac|[Ww]in))/;

const nodesInContainers =
  /minikube|\bk3d\b|\bkind (?:create|get|load|export)\b|\bkind-(?:control|worker)|[Dd]ocker[ -]?(?:[Dd]esktop|for (?:[Mm]ac|[Ww]in))/;

/** Its port, at which the API server asks for logs. */
const kubelet = 10_250;

/** The host of the client itself. */
export const isLocal = /^(?:localhost|127\.)/;

/** One digit more, less or another. */
function isTypo(address: string, asked: string): boolean {
  const same = [...address].findIndex((character, at) => character !== asked[at]);
  const rest = (text: string, skip: number): string => text.slice(Math.max(0, same) + skip);
  const isSame = (left: number, right: number): boolean => rest(address, left) === rest(asked, right);
  return address !== asked && (isSame(1, 0) || isSame(0, 1) || isSame(1, 1));
}

/** `web`, `web.shop` and longer ones, of `shop/web` or `web`. */
function isNameOf(host: string, service: string): boolean {
  const [name = '', namespace] = service.split('/').toReversed();
  const [own, ofOwn] = host.split('.');
  return own === name && (ofOwn === undefined || namespace === undefined || ofOwn === namespace);
}

function refusedBy({why}: ClientError, what: string, ends: ReadonlySet<string> | undefined): string | readonly string[] {
  if (!/refused|拒绝/i.test(why)) return [];
  return ends !== undefined && ends.size > 0
    ? `${what}, which has endpoints, and connections are refused: no program of the pod listens at ${someOf([...ends])} (targetPort), or it does on 127.0.0.1 alone, unless the node has no rule for them or a NetworkPolicy refuses. curl to the endpoint from a node, and ss -lnt in the pod, show which`
    : `${what}, and connections are refused: it has no ready endpoint, or no program of its pods listens at its target port, which is its port where it has no other. kubectl get endpoints, and ss -lnt in the pod, show which`;
}

/** Node ports that somebody asks at an address of IPv6, of Services of which kubectl lists a cluster IP of IPv4, which is the first that they have. */
function otherFamily(lines: readonly string[], services: readonly ListedService[]): readonly string[] {
  return lines.flatMap(line => {
    const [, host = '', port] = /\[([\da-f]*:[\da-f:]+)\]:(\d{5})\b/.exec(line) ?? [];
    const own = services.find(
      ({ports, clusterIPs}) => clusterIPs[0]?.includes(':') === false && ports.some(({nodePort}) => nodePort === Number(port)),
    );
    if (port === undefined || own === undefined || own.clusterIPs.length > 1) return [];
    return `${port} is the node port of ${own.name}, for which kubectl lists a cluster IP of IPv4: unless the Service has both families (spec.ipFamilies; ipFamilyPolicy: PreferDualStack asks for both), nothing answers at ${host}`;
  });
}

/** Pods, and cluster IPs that somebody pings: those of lists, and what DNS of the cluster answers from the range of its own address. */
function unansweredPings(lines: readonly string[], services: readonly ListedService[]): readonly string[] {
  const lost = lines.flatMap((line, at) => {
    const below = lines.slice(at + 1, at + 3);
    const [, counted, asked] = /^\s*(?:--- (\S+) ping statistics ---|PING (\S+))/.exec(line) ?? [];
    const isLost = below.some(text => (counted === undefined ? / Destination Port Unreachable/ : / 100% packet loss/).test(text));
    return isLost ? (counted ?? asked ?? []) : [];
  });
  if (lost.length === 0) return [];
  const named = lines.map(line => /^\s*(?:Address(?: \d+)?|Server|Name):\s+(\S+?)(?:[:#]53)?(?:\s|$)/.exec(line)?.[1] ?? '');
  const range = (address: string): string => address.split('.', 2).join('.');
  const found = named.filter(
    (address, at) => /\.svc\b/.test(named[at - 1] ?? '') && range(address) === range(named.find(text => text !== '') ?? ''),
  );
  const pods = podsIn(lines).filter(({ip}) => ip !== null && lost.includes(ip));
  return [
    ...(lost.some(host => isOfBalancer(host, lines)) ? [balancerWithoutPing] : []),
    ...(lost.some(host => found.includes(host) || services.some(({clusterIPs}) => clusterIPs.includes(host))) ? [withoutPing] : []),
    ...pods.map(
      ({name, ip}) =>
        `pod ${name} does not answer ping at its own address (${ip}), for which no rule of a Service is asked: packets are lost on the way to its node or back (the ports and routes of the network plugin, a firewall), or a NetworkPolicy keeps them from it`,
    ),
  ];
}
