import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {Entry} from '../../model/service-port.ts';
import type {NftRule, NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {PortTrace, TraceStep} from '../../model/service-trace.ts';
import {notInText, portTraces, type ShownEntry, type ShownPath, type ShownPick, stepOf, unseenEntry} from './shown-port.ts';
import {joinHostPort} from '../../model/address.ts';

/** The Service ports that kube-proxy's tables of nftables serve, with the path from each entry to the endpoints. */
export function nftServices(node: string, ruleset: NftRuleset): readonly PortTrace[] {
  return [...ruleset.tables.values()].filter(({name}) => name === 'kube-proxy').flatMap(table => servicesOfTable(node, table));
}

function servicesOfTable(node: string, table: NftTable): readonly PortTrace[] {
  const entries = ['service-ips', 'service-nodeports'].flatMap(map => mapEntries(table, map));
  const refused = ['no-endpoint-services', 'no-endpoint-nodeports'].flatMap(map => refusedEntries(table, map));
  const reached = new Set(entries.map(({base}) => base));
  const family = table.family === 'ip6' ? 'IPv6' : 'IPv4';
  return portTraces(node, family, [...entries, ...refused, ...chainsWithoutEntry(table, reached)]);
}

/** `10.96.0.1 . tcp . 443`, or `tcp . 30080` for a node port. */
function elementsOf(table: NftTable, map: string) {
  return [...(table.sets.get(map)?.elements.values() ?? [])].flatMap(({key, value, comment}) => {
    const parts = key.split(' . ');
    const address = parts.length === 3 ? (parts[0] ?? null) : null;
    const [protocol = '', port = ''] = parts.slice(-2);
    const place = {table: table.id, chain: map, line: 0, text: `${key} : ${value}`};
    return /^\d+$/.test(port) ? [{address, protocol: protocol.toUpperCase(), port: Number(port), value, comment, place}] : [];
  });
}

function portNameOf(servicePortName: string): string {
  return servicePortName.split(':')[1] ?? '';
}

/** `10.96.0.1 . tcp . 443 : goto service-…`, `tcp . 30080 : goto external-…`. */
function mapEntries(table: NftTable, map: string): readonly (ShownEntry & {readonly base: string})[] {
  return elementsOf(table, map).flatMap(({address, protocol, port, value, place}) => {
    const chain = /^(?:goto|jump) (\S+)$/.exec(value ?? '')?.[1] ?? '';
    const name = parseNftName(chain);
    if (name === null) return [];
    const {base, namespace, service, role, servicePortName} = name;
    const kind = address === null ? 'nodePort' : role === 'service' || role === 'local' ? 'clusterIP' : 'externalIP';
    const path = pathFrom(table, chain, [stepOf(place, chain)]);
    return {entry: {kind, address, port}, base, service: {namespace, name: service}, portName: portNameOf(servicePortName), protocol, path};
  });
}

/** `10.96.0.9 . tcp . 80 comment "shop/empty:http" : goto reject-chain`: a Service port without endpoints. */
function refusedEntries(table: NftTable, map: string): readonly ShownEntry[] {
  return elementsOf(table, map).flatMap(({address, protocol, port, value, comment, place: rule}) => {
    const [, namespace, name] = /^([^/ ]+)\/([^: ]+)/.exec(comment ?? '') ?? [];
    if (namespace === undefined || name === undefined) return [];
    const end = {verdict: value === 'drop' ? ('dropped' as const) : ('rejected' as const), rule};
    const entry: Entry = {kind: address === null ? 'nodePort' : 'clusterIP', address, port};
    const portName = portNameOf((comment ?? '').split(' ')[0] ?? '');
    return {entry, service: {namespace, name}, portName, protocol, path: {steps: [], picks: [], masquerade: false, end}};
  });
}

function chainsWithoutEntry(table: NftTable, reached: ReadonlySet<string>): readonly ShownEntry[] {
  return [...table.chains.values()].flatMap(chain => {
    const {role, base, namespace, service: name = '', servicePortName = ''} = parseNftName(chain.name) ?? {};
    if (base === undefined || namespace === undefined || (role !== 'service' && role !== 'local') || reached.has(base)) return [];
    const protocol = (/\/(tcp|udp|sctp)(?:\/|$)/.exec(base)?.[1] ?? 'tcp').toUpperCase();
    const path = pathFrom(table, chain.name, []);
    return {entry: unseenEntry, service: {namespace, name}, portName: portNameOf(servicePortName), protocol, path};
  });
}

function pathFrom(table: NftTable, first: string, start: readonly TraceStep[]): ShownPath {
  const steps = [...start];
  let masquerade = false;
  for (let name = first; ; ) {
    const chain = table.chain(name);
    if (chain === undefined) return {steps, picks: [], masquerade, end: notInText(`chain ${name}`)};
    const rules = chain.rules();
    const picks = picksOf(table, rules);
    if (picks.length > 0) return {steps, picks, masquerade, end: null};
    masquerade ||= rules.some(({body}) => /^(?:jump mark-for-masquerade|meta mark set )/.test(body));
    const next = rules.findLast(({body}) => /^(?:goto|jump) (?:service|local)-/.test(body));
    const drop = rules.find(({body}) => /(?:^|\s)(?:drop|reject)\b/.test(body));
    const end: ShownPath['end'] = drop === undefined ? notInText(`what chain ${name} leads to`) : {verdict: 'dropped', rule: drop};
    if (next === undefined || steps.length > 8) return {steps, picks: [], masquerade, end};
    name = /^(?:goto|jump) (\S+)/.exec(next.body)?.[1] ?? '';
    steps.push(stepOf(next, name));
  }
}

/** The rule of a chain that picks an endpoint: a map of addresses, a map of chains, or the one endpoint. */
function picksOf(table: NftTable, rules: readonly NftRule[]): readonly ShownPick[] {
  const own = rules.find(({body}) => /\bdnat (?:ip6? )?to /.test(body));
  return own === undefined ? chainPicks(table, rules) : addressPicks(own);
}

/** `dnat ip to numgen random mod 2 map { 0 : 10.244.1.4 . 8080, 1 : 10.244.1.5 . 8080 }`, `dnat to 10.244.1.4:8080`. */
function addressPicks(rule: NftRule): readonly ShownPick[] {
  const places = [...rule.body.matchAll(/\d+ : ([\da-f.:]+) \. (\d+)/g)].map(([, address = '', port]) =>
    joinHostPort(address, Number(port)),
  );
  const single = /\bdnat (?:ip6? )?to (\S+:\d+)/.exec(rule.body)?.[1];
  const all = places.length > 0 ? places : single === undefined ? [] : [single];
  return all.map(hostPort => ({hostPort, share: 1 / all.length, pick: rule, rewrite: rule}));
}

/** `numgen random mod 2 vmap { 0 : goto endpoint-…, 1 : goto endpoint-… }`, `goto endpoint-…`. */
function chainPicks(table: NftTable, rules: readonly NftRule[]): readonly ShownPick[] {
  const rule = rules.find(({body}) => /^(?:numgen random mod \d+ vmap|goto endpoint-)/.test(body));
  if (rule === undefined) return [];
  const targets = [...rule.body.matchAll(/goto (endpoint-[^\s,}]+)/g)].map(([, target = '']) => target);
  return targets.map(target => ({...endpointOf(table, target), share: 1 / targets.length, pick: rule}));
}

function endpointOf(table: NftTable, target: string): Pick<ShownPick, 'hostPort' | 'rewrite'> {
  const rules = table.chain(target)?.rules() ?? [];
  const rewrite = rules.find(({body}) => / dnat /.test(` ${body}`)) ?? null;
  const to = /dnat to (\S+)/.exec(rewrite?.body ?? '')?.[1];
  const [, address, port] = /__(.+)\/(\d+)$/.exec(target) ?? [];
  return {hostPort: to ?? (address === undefined ? target : `${address}:${port}`), rewrite};
}
