import {type Family, parseCidr} from '../model/address.ts';
import type {ConnectionStatistics, Link, PolicyRule, Route} from '../model/node/node-facts.ts';
import {readJson, type Fields, isObject} from './attempt.ts';

/** Reads `ip -d -j link`, or `ip -j addr` with fewer details; null if it is not a list of interfaces. */
export function parseLinks(text: string): readonly Link[] | null {
  return listOf(text, 'ifname')?.map(linkOf) ?? null;
}

function linkOf(fields: Fields): Link {
  const info = isObject(fields['linkinfo']) ? fields['linkinfo'] : {};
  const [data, port] = [info['info_data'], info['info_slave_data']].map(part => (isObject(part) ? part : {}));
  const flags = Array.isArray(fields['flags']) ? fields['flags'] : [];
  const hasDetails = 'linkinfo' in fields || 'promiscuity' in fields;
  const kind = stringOf(info['info_kind']) ?? (hasDetails ? '' : null);
  const hairpin = port?.['hairpin'];
  return {
    name: stringOf(fields['ifname']) ?? '',
    kind,
    isUp: flags.includes('UP'),
    isPromiscuous: flags.includes('PROMISC'),
    mtu: numberOf(fields['mtu']),
    ...(groupOf(fields) === 'default' ? {} : {group: groupOf(fields)}),
    ...('link_type' in fields ? {type: linkType(String(fields['link_type']))} : {}),
    master: stringOf(fields['master']),
    isPeerElsewhere: 'link_netnsid' in fields,
    isIsolated: port?.['isolated'] === true,
    ...(/^(?:disabled|listening|learning|blocking)$/.test(stringOf(port?.['state']) ?? '') && flags.includes('LOWER_UP')
      ? {isBlocked: true}
      : {}),
    ...(flags.includes('NOARP') ? {asksNobody: true} : {}),
    ...(port?.['learning'] === false && port['flood'] === false ? {isTold: true} : {}),
    hairpin: typeof hairpin === 'boolean' ? hairpin : null,
    vxlan:
      kind === 'vxlan'
        ? {
            name: stringOf(fields['ifname']) ?? '',
            id: numberOf(data?.['id']) ?? 0,
            port: numberOf(data?.['port']) ?? 0,
            carrier: stringOf(data?.['link']),
            isExternal: data?.['external'] === true,
          }
        : null,
    callsIptables: {IPv4: data?.['nf_call_iptables'] === 1, IPv6: data?.['nf_call_ip6tables'] === 1},
  };
}

/** As nft names it. */
function linkType(text: string): string {
  return {tunnel6: 'ipip6', gre: 'ipgre'}[text] ?? text;
}

function groupOf(fields: Fields): string {
  return stringOf(fields['group']) ?? 'default';
}

/** Reads `ip -j route show table all`. A family without any route was not printed: each has those of its loopback addresses. */
export function parseRoutes(text: string): Readonly<Record<Family, readonly Route[] | null>> {
  const routes = listOf(text, 'dst')?.flatMap(routeIn) ?? [];
  const ofFamily = (family: Family): readonly Route[] | null => {
    const own = routes.filter(({to}) => to.family === family);
    return own.length === 0 ? null : own;
  };
  return {IPv4: ofFamily('IPv4'), IPv6: ofFamily('IPv6')};
}

function routeIn(fields: Fields): readonly Route[] {
  const gateway = stringOf(fields['gateway']);
  // Each route of IPv6 has a preference, and each of IPv4 to an IPv6 gateway names the gateway in `via`.
  const anything = 'pref' in fields || gateway?.includes(':') ? '::/0' : '0.0.0.0/0';
  const destination = stringOf(fields['dst']) ?? '';
  const to = parseCidr(destination === 'default' ? anything : destination);
  const from = parseCidr(stringOf(fields['from']) ?? '');
  const nexthops = fieldsIn(fields['nexthops']);
  const kind = stringOf(fields['type']) ?? 'unicast';
  const hops = (nexthops.length === 0 ? [fields] : nexthops).filter(hop => !has(hop, 'dead'));
  if (to === null || hops.length === 0) return [];
  return [
    {
      kind,
      to,
      table: tableOf(fields['table']),
      metric: numberOf(fields['metric']) ?? 0,
      hops: hops.map(hop => ({
        dev: stringOf(hop['dev']),
        gateway: stringOf(hop['gateway']) ?? viaOf(hop['via']),
        ...(has(hop, 'linkdown') ? {isDown: true} : {}),
      })),
      source: stringOf(fields['prefsrc']),
      isConditional: 'tos' in fields,
      ...(from === null ? {} : {from}),
      ...('flow' in fields ? {hasRealm: true} : {}),
    },
  ];
}

function has({flags}: Fields, flag: string): boolean {
  return Array.isArray(flags) && flags.includes(flag);
}

function viaOf(via: unknown): string | null {
  return isObject(via) ? stringOf(via['host']) : null;
}

/** Reads `ip -j rule` or `ip -6 -j rule`; null if it is not a list of rules. */
export function parsePolicyRules(text: string, family: Family): readonly PolicyRule[] | null {
  return listOf(text, 'priority')?.map(fields => policyRule(fields, family)) ?? null;
}

/** What is evaluated, or no condition, as the realm that a rule gives packets. */
const knownFields = new Set(
  [
    'priority not src srclen dst dstlen fwmark fwmask tos iif iif_detached table suppress_prefixlen suppress_ifgroup goto unresolved nop action protocol',
    'flow_from flow_to',
    'ipproto sport sport_start sport_end dport dport_start dport_end uid_start uid_end',
  ].flatMap(names => names.split(' ')),
);

function policyRule(fields: Fields, family: Family): PolicyRule {
  const from = networkOf(fields['src'], fields['srclen'], family);
  const to = networkOf(fields['dst'], fields['dstlen'], family);
  const mark = hexOf(fields['fwmark']);
  const mask = hexOf(fields['fwmask']) ?? 0xffffffff;
  const tos = hexOf(fields['tos']);
  return {
    priority: numberOf(fields['priority']) ?? 0,
    isInverted: 'not' in fields,
    ...('flow_to' in fields || 'flow_from' in fields ? {hasRealm: true} : {}),
    from: from === 'unknown' ? null : from,
    to: to === 'unknown' ? null : to,
    mark: mark === null ? null : {value: mark, mask},
    iif: stringOf(fields['iif']),
    tos,
    protocol: stringOf(fields['ipproto']),
    sourcePorts: rangeOf(fields, 'sport'),
    ports: rangeOf(fields, 'dport'),
    users: rangeOf(fields, 'uid'),
    unevaluated: [
      ...Object.keys(fields).filter(name => !knownFields.has(name)),
      ...(from === 'unknown' || to === 'unknown' ? ['an address'] : []),
      // iproute2 may print a name for it.
      ...(tos === null && 'tos' in fields ? ['tos'] : []),
    ],
    action: actionOf(fields),
  };
}

/** One number, or its first and last one. */
function rangeOf(fields: Fields, name: string): PolicyRule['ports'] {
  const [low, high] = ['start', 'end'].map(end => numberOf(fields[`${name}_${end}`]) ?? numberOf(fields[name]));
  return low == null || high == null ? null : [low, high];
}

function networkOf(address: unknown, length: unknown, family: Family): PolicyRule['from'] | 'unknown' {
  if (address === undefined || address === 'all') return null;
  const cidr = parseCidr(`${String(address)}${typeof length === 'number' ? `/${length}` : ''}`);
  return cidr?.family === family ? cidr : 'unknown';
}

function actionOf(fields: Fields): PolicyRule['action'] {
  const said = stringOf(fields['action']);
  if (said !== null) return {kind: /^(?:unreachable|blackhole|prohibit)$/.test(said) ? 'unreachable' : 'unknown'};
  const target = fields['goto'];
  if (typeof target === 'number') return {kind: 'goto', priority: target};
  if ('nop' in fields || target === 'none') return {kind: 'nop'};
  if ('table' in fields) {
    const group = fields['suppress_ifgroup'];
    const suppressedPrefix = numberOf(fields['suppress_prefixlen']);
    return {
      kind: 'lookup',
      table: tableOf(fields['table']),
      suppressedPrefix,
      suppressedGroup: group === undefined ? undefined : String(group),
    };
  }
  // The table of a VRF is that of the packet's interface.
  return {kind: 'unknown'};
}

/** Reads lines such as `net.ipv4.ip_forward = 1`; null if there is none. */
export function parseSysctls(text: string): ReadonlyMap<string, string> | null {
  const lines = [...text.matchAll(/^([\w./-]+) ?= ?(.*)$/gm)];
  return lines.length === 0 ? null : new Map(lines.map(([, name = '', value = '']) => [name.replaceAll('/', '.'), value.trim()]));
}

/** Reads `ip -j -4 netconf` as the sysctls that it shows; null if it is not a list of interfaces. */
export function parseInterfaceSwitches(text: string): ReadonlyMap<string, string> | null {
  const found = listOf(text, 'interface')?.flatMap(({family, interface: name, ...values}) => {
    if (family === 'inet6') return [];
    const numberOf = (value: unknown): number =>
      typeof value === 'boolean' ? Number(value) : ['off', 'strict', 'loose'].indexOf(String(value));
    return Object.entries({forwarding: 'forwarding', rp_filter: 'rp_filter', proxy_neigh: 'proxy_arp'}).flatMap(([field, own]) => {
      const value = numberOf(values[field]);
      return value < 0 ? [] : [[`net.ipv4.conf.${String(name)}.${own}`, String(value)] as const];
    });
  });
  return found === undefined || found.length === 0 ? null : new Map(found);
}

/** Reads `conntrack -S`, or `/proc/net/stat/nf_conntrack`; null if it is neither. */
export function parseConnectionStatistics(text: string): ConnectionStatistics | null {
  const [head = '', ...rows] = text.trim().split('\n');
  const names = head.split(/\s+/);
  const inTable = (name: string): number =>
    rows.reduce((sum, row) => sum + (Number.parseInt(row.split(/\s+/)[names.indexOf(name)] ?? '', 16) || 0), 0);
  const inPairs = (name: string): number =>
    [...text.matchAll(new RegExp(`\\b${name}=(\\d+)`, 'g'))].reduce((sum, [, n]) => sum + Number(n), 0);
  const sum = names.includes('insert_failed') ? inTable : text.includes('insert_failed=') ? inPairs : null;
  return sum === null ? null : {insertFailed: sum('insert_failed'), dropped: sum('drop'), earlyDropped: sum('early_drop')};
}

/** Null if the text is no list of objects with this field. */
function listOf(text: string, field: string): readonly Fields[] | null {
  const parsed = readJson(text);
  if (!Array.isArray(parsed)) return null;
  // An old iproute2 prints an empty object for what it does not list.
  const fields = fieldsIn(parsed).filter(item => Object.keys(item).length > 0);
  return fields.every(item => field in item) ? fields : null;
}

function fieldsIn(list: unknown): readonly Fields[] {
  return Array.isArray(list) ? list.filter(isObject) : [];
}

function stringOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

/** `"0x10"`, or a number. */
function hexOf(value: unknown): number | null {
  const number = typeof value === 'string' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : null;
}

function tableOf(value: unknown): string {
  return value === undefined ? 'main' : String(value);
}
