import {type Cidr, parseAddress, parseCidr} from '../../model/address.ts';
import {someOf} from '../../model/text.ts';
import {splitHostPort} from '../iptables/comparable-rule.ts';
import {ipvsDevice} from '../ipvs/kube-ipvs0.ts';
import type {Listed} from './listed-objects.ts';

/**
 * Puts what `ipset list` prints into the words of `ipset save`, line by line. A list with fewer members than it says is left out: it is not
 * known what the set has.
 */
export function asSavedSets(lines: readonly string[]): readonly string[] {
  const made = [...lines];
  for (const [start, line] of lines.entries()) {
    const name = /^\s*Name: (\S+)\s*$/.exec(line)?.[1];
    if (name === undefined) continue;
    const length = lines.slice(start, start + maxHeading).findIndex(text => /^\s*Members:\s*$/.test(text));
    if (length < 0) continue;
    const heading = lines.slice(start, start + length).join('\n');
    const first = start + length + 1;
    let end = first;
    while (end < lines.length && isMember.test(lines[end] ?? '')) end++;
    const type = /^\s*Type: ((?:hash|bitmap):\S+)/m.exec(heading)?.[1];
    const count = /^\s*Number of entries: (\d+)/m.exec(heading)?.[1];
    if (type === undefined || Number(count ?? end - first) !== end - first || /^\s*(?:\.{3,}|…)/.test(lines[end] ?? '')) continue;
    made[start] = `create ${name} ${type} ${/^\s*Header: (.*)/m.exec(heading)?.[1] ?? ''}`;
    for (let at = first; at < end; at++) made[at] = `add ${name} ${(lines[at] ?? '').trim()}`;
  }
  return made;
}

/** Of the lines between the name of a set and its members. */
const maxHeading = 10;

const isMember = /^\s*[\da-fA-F][\w.:,/-]*(?:\s+(?:comment|timeout|nomatch|packets)\b.*)?\s*$/;

/** The addresses of kube-ipvs0 in what `ip addr` prints, as `ip -j addr` has them; null if it does not print them all. */
export function listedDevice(lines: readonly string[]): string | null {
  const start = lines.findIndex(line => line.includes(`: ${ipvsDevice}: <`));
  if (start < 0 || lines.some(line => /\bip\s(?:-\S+\s+)*a(?:d|dd|ddr|ddress)?\b[^|]*\|/.test(line))) return null;
  const rest = lines.slice(start + 1);
  const end = rest.findIndex(line => !/^\s*(?:link\/|inet6? |valid_lft |altname )/.test(line));
  const own = end < 0 ? rest : rest.slice(0, end);
  // A text may end before the line with the hardware address, which each interface has.
  if (own.length === 0 || (end >= 0 && /^\s*(?:\.{3,}|…)/.test(rest[end] ?? ''))) return null;
  const addresses = own.flatMap(line => /^\s*inet6? ([\da-f.:]+)\/(\d+)/.exec(line)?.slice(1, 3) ?? []);
  const infos = addresses.flatMap((local, at) => (at % 2 === 0 ? [{local, prefixlen: Number(addresses[at + 1])}] : []));
  return JSON.stringify([{ifname: ipvsDevice, addr_info: infos}]);
}

/** Endpoints that the log of kube-proxy gives to a Service port at last, and that no list of its endpoints has. */
export function besideLog(lines: readonly string[], {endpoints, ready}: Pick<Listed, 'endpoints' | 'ready'>): readonly string[] {
  const last = new Map<string, string>();
  for (const line of lines) {
    const [, name, ends = ''] = loggedEndpoints.exec(line) ?? [];
    if (name !== undefined) last.set(name, ends);
  }
  return [...last].flatMap(([name, ends]) => {
    const [service = ''] = name.split(':');
    const list = [service, service.split('/')[1] ?? ''].flatMap(key => (ready.has(key) ? (endpoints.get(key) ?? []) : []))[0];
    const stale = ends.split(/[\s,"]+/).filter(end => end !== '' && list?.has(end) === false);
    return list === undefined || stale.length === 0
      ? []
      : `kube-proxy takes ${someOf(stale)} for an endpoint of ${name}, as its log says, and the list of endpoints has ${someOf([...list])}: it does not follow the API server, or the list is newer than the log`;
  });
}

const loggedEndpoints = /[Ss]etting endpoints for (?:service port name" portName=)?\\?"([\w./:-]+)\\?"(?: to |.* endpoints=)\[([^\]]*)\]/;

/** A row of `ip route` or `route -n`. */
interface ListedRoute {
  readonly to: Cidr;
  /** `unreachable` and the like; null of a route that leads somewhere. */
  readonly refuses: string | null;
  readonly hasGateway: boolean;
  readonly isDown: boolean;
  readonly text: string;
}

/** The routes of IPv4 that a text lists once and whole; null if it does not. */
function listedRoutes(lines: readonly string[]): readonly ListedRoute[] | null {
  if (!lines.some(line => /^\s*(?:default|0\.0\.0\.0)\s/.test(line))) return null;
  if (lines.some(line => line.includes('|') && /\bip\s(?:-\S+\s+)*r(?:o|ou|out|oute)?\b[^|]*\||\b(?:netstat|route)\s[^|]*\|/.test(line)))
    return null;
  const routes = lines.flatMap(line => routeOf(line.trim()));
  const isOnce = new Set(routes.map(({to}) => to.text)).size === routes.length && routes.some(({to}) => to.prefix === 0);
  return isOnce ? routes : null;
}

/** Networks of pods of this node that a second route of the same list sends away. A list begins again with another default route. */
export function doubledRoutes(lines: readonly string[]): readonly string[] {
  if (!lines.some(line => line.includes(' dev '))) return [];
  const lists: ListedRoute[][] = [];
  let isList = false;
  for (const line of lines) {
    const [route] = routeOf(line.trim());
    if (route !== undefined && (!isList || route.to.prefix === 0)) lists.push([]);
    if (route !== undefined) lists.at(-1)?.push(route);
    isList = route !== undefined;
  }
  return lists.flatMap(list =>
    list.flatMap(({to, text}) => {
      const other = list.find(route => route.to.text === to.text && route.hasGateway);
      if (other === undefined || !ofPods.test(text)) return [];
      return `${to.text} is the network of pods of this node ("${text}"), and the route "${other.text}" sends it away, and so packets to its own pods. Another network plugin or mode left the route behind`;
    }),
  );
}

/** Tables that every packet asks before the main one, and whose default route takes it. wg-quick asks the other routes of main first. */
export function tablesBefore(lines: readonly string[]): readonly string[] {
  if (lines.some(line => line.includes(' lookup main suppress_prefixlength 0'))) return [];
  const rules = new Map(
    lines.flatMap(line => {
      const [, preference = '', table = ''] = /^\s*(\d+):\s+from all lookup (?!local|main|default)(\S+)\s*$/.exec(line) ?? [];
      return table === '' || Number(preference) >= 32_766 ? [] : [[table, `${preference}: from all lookup ${table}`] as const];
    }),
  );
  return lines.flatMap((line, at) => {
    const [, table = ''] = (line.includes('ip r') ? / table (\w+)\s*$/.exec(line) : null) ?? [];
    const rule = rules.get(table);
    if (rule === undefined) return [];
    const end = lines.findIndex((text, place) => place > at && !ofTable.test(text.trim()));
    const rows = lines.slice(at + 1, end < 0 ? undefined : end).map(text => text.trim());
    const [, way] = rows.flatMap(text => /^default (?:via \S+ )?dev (\S+)/.exec(text) ?? []);
    const [taken] = lines.flatMap(text => {
      const [, asked = '', dev, source = ''] = text.includes(` table ${table} `) ? (answeredRoute.exec(text) ?? []) : [];
      return dev === undefined || asked.split('.', 2).join() === source.split('.', 2).join() ? [] : `${asked} takes ${dev}`;
    });
    if (way === undefined && taken !== undefined) {
      rules.delete(table);
      return `"${rule}" comes before the main table, and by a route of table ${table} ${taken}: where that is the address of a pod or Service, what the main table has for it is not asked`;
    }
    if (way === undefined) return [];
    rules.delete(table);
    const others = rows.flatMap(text => /^(?:throw )?\d\S*/.exec(text)?.[0] ?? []);
    return `"${rule}" comes before the main table, and table ${table} has a default route to ${way}: packets to pods of other nodes take it too, unless the table has a route or a "throw" for their network (it has ${others.length === 0 ? 'no other route' : someOf(others)})`;
  });
}

/** `ip route get` of an address that pods and Services may have. */
const answeredRoute = /^\s*((?:10|172|192)\.\d+\.\d+\.\d+) (?:via \S+ )?dev (\S+) table .* src (\S+)/;

const ofTable = /^(?:default|(?:throw |unreachable |blackhole )?\d+\.\d+\.\d+\.\d+)\S*(?:\s|$)/;

const ofPods = / dev (?:cni0|cbr0|kube-bridge|docker0) (?!.*\bvia\b)/;

/**
 * Servers to which the routes of the same text do not lead, while they lead to pods of other nodes, or the node has a tunnel for these; and
 * cluster IPs that a route refuses, which in IPVS mode are addresses of the node.
 */
export function unrouted(
  lines: readonly string[],
  servers: readonly string[],
  services: readonly {readonly clusterIPs: readonly string[]}[] = [],
): readonly string[] {
  const clusterIPs = new Set(lines.some(line => /ipvs/i.test(line)) ? [] : services.flatMap(each => each.clusterIPs));
  const routes = servers.length + clusterIPs.size === 0 ? null : listedRoutes(lines);
  if (routes === null) return [];
  const hasTunnel = lines.some(line => /^\s*\d+: (?:flannel\.|flannel-wg|tailscale|wg\d|vxlan)/.test(line));
  // Of the routes of one length one leads to an address, and the longest decides.
  const lengths = [...Map.groupBy(routes, ({to}) => to.prefix)].toSorted(([a], [b]) => b - a);
  const tables = lengths.map(([prefix, own]) => ({prefix, byBase: new Map(own.map(route => [route.to.base, route]))}));
  const toOthers = new Set(
    routes.flatMap(({to, hasGateway, text}) => ((hasGateway && to.prefix > 16) || (hasTunnel && ofPods.test(text)) ? to.base >> 16n : [])),
  );
  const lost = [...servers, ...clusterIPs].flatMap(hostPort => {
    const address = parseAddress(splitHostPort(hostPort).address);
    if (address?.family !== 'IPv4') return [];
    const found = tables.map(({prefix, byBase}) => byBase.get((address.value >> BigInt(32 - prefix)) << BigInt(32 - prefix)));
    const best = found.find(route => route !== undefined);
    const isService = clusterIPs.has(hostPort);
    const isRefused = best !== undefined && (best.refuses !== null || (best.isDown && !isService));
    if (best === undefined || !(isRefused || (!isService && best.to.prefix === 0 && toOthers.has(address.value >> 16n)))) return [];
    const way = isRefused ? `route "${best.text}"` : `default route ("${best.text}"), as no other leads there`;
    const effect = isService
      ? 'the kernel refuses what the node itself sends there, before any rule translates it'
      : 'they do not reach the pods of another node';
    return [{hostPort, why: `the ${way}: ${effect}`}];
  });
  return [...Map.groupBy(lost, ({why}) => why)].map(([why, own]) => `packets to ${someOf(own.map(({hostPort}) => hostPort))} take ${why}`);
}

function routeOf(text: string): readonly ListedRoute[] {
  const [, refuses = null, place = '', rest = ''] = ofIp.exec(text) ?? [];
  // `ip route get` prints the user.
  if (place !== '' && !/ uid \d/.test(rest)) {
    const to = parseCidr(place === 'default' ? '0.0.0.0/0' : place);
    return to === null ? [] : [{to, refuses, hasGateway: /\bvia \d/.test(rest), isDown: /\b(?:linkdown|dead)\b/.test(rest), text}];
  }
  const [, network = '', gateway = '', mask = '', flags = ''] = ofRoute.exec(text) ?? [];
  const to = parseCidr(`${network === 'default' ? '0.0.0.0' : network}/${mask}`);
  if (to === null) return [];
  return [{to, refuses: flags.includes('!') ? 'reject' : null, hasGateway: flags.includes('G') && gateway !== '', isDown: false, text}];
}

const ofIp = /^(?:(unreachable|blackhole|prohibit)\s+)?(default|\d+\.\d+\.\d+\.\d+(?:\/\d+)?)((?:\s+(?:via|dev|proto|scope)\s+\S+)+.*)$/;
const ofRoute = /^(default|\d+\.\d+\.\d+\.\d+)\s+(\S+)\s+(\d+\.\d+\.\d+\.\d+)\s+([UGHD!]+)\s+\d+\s+\d+\s+\d+\s+\S+$/;
