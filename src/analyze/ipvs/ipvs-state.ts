import {heldIn, once} from '../../model/once.ts';
import {setName, sparesOtherInterfaces, type SetRole, setTypes} from '../../expect/ipvs/ipvs-sets.ts';
import {families, familyOf, joinHostPort} from '../../model/address.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {fileText, type NodeDump} from '../../model/snapshot.ts';
import {type VirtualServer, serverKey} from '../../model/virtual-server.ts';
import {type IpSet, memberText, parseIpsetSave} from '../../parse/ipvs/ipset-save.ts';
import {parseIpvsadm} from '../../parse/ipvs/ipvsadm-save.ts';
import {ipvsDevice, parseIpvsDevice, parseLocalAddresses, parseNodeAddresses} from '../../parse/ipvs/kube-ipvs0.ts';
import {truncatedLine} from '../../parse/lines.ts';
import {pushTo} from '../../model/lists.ts';
import {compareMembers, compareServers, type ServerDifference} from '../../compare/compare-ipvs.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {ExpectedIpvs, ExpectedServer} from '../../expect/ipvs/expected-ipvs.ts';

/** The state of IPVS mode on a node beside its iptables. Null stands for a part that was not read, or is truncated. */
export interface IpvsState {
  readonly servers: readonly VirtualServer[] | null;
  readonly sets: ReadonlyMap<string, IpSet> | null;
  /** The addresses of kube-ipvs0; none if the device does not exist. */
  readonly bound: readonly string[] | null;
  /** The addresses of all interfaces, where it was not read which of them each is of. */
  readonly local: ReadonlySet<string> | null;
  /** The addresses of the other interfaces, which may be some of the same. */
  readonly elsewhere: readonly string[];
  /** Why a part is null, and what to do. */
  readonly problems: readonly string[];
}

export function readIpvsState(node: NodeDump): IpvsState {
  const servers = readServers(node);
  const sets = readSets(node);
  const bound = readBound(node);
  const local = parseLocalAddresses(fileText(node, 'local-addresses'));
  return {
    servers: 'problem' in servers ? null : servers.value,
    sets: 'problem' in sets ? null : sets.value,
    bound: 'problem' in bound ? null : bound.value,
    local: 'problem' in bound && local.length > 0 ? new Set(local) : null,
    elsewhere: addressesElsewhere(node),
    problems: [servers, sets, ...(local.length > 0 ? [] : [bound])].flatMap(read => ('problem' in read ? [read.problem] : [])),
  };
}

type ReadPart<T> = {readonly value: T} | {readonly problem: string};

function readServers(node: NodeDump): ReadPart<readonly VirtualServer[]> {
  const text = node.read('ipvsadm-save')?.toString('utf8');
  if (text === undefined)
    return {
      problem: `its virtual servers were not read (${node.files.includes('ipvsadm-part') ? 'the text shows a part of them' : 'no ipvsadm-save'})`,
    };
  const {servers, unweighted, contradiction, strays, other, truncation} = parseIpvsadm(text);
  if (truncation !== null) return {problem: `its ipvsadm-save is truncated at line ${truncation}`};
  if (other !== null) return {problem: `line ${other.line} of its ipvsadm-save is not what ipvsadm prints: ${other.text.slice(0, 120)}`};
  const [stray] = strays;
  if (stray !== undefined)
    return {
      problem: `line ${stray.line} of its ipvsadm-save cannot be read: it must be made with -n, which prints addresses and not names`,
    };
  const [bare] = unweighted;
  if (bare !== undefined)
    return {
      problem: `line ${bare.line} of its ipvsadm-save shows no weights and no way of forwarding: it must be made with ipvsadm-save -n, or ipvsadm -Ln without more options`,
    };
  if (contradiction !== null)
    return {
      problem: `line ${contradiction} of its ipvsadm-save has other real servers than a line before it has for the same virtual server`,
    };
  if (servers.length === 0 && text.trim() !== '' && !/^IP Virtual Server/.test(text))
    return {problem: 'its ipvsadm-save is not what ipvsadm prints'};
  return {value: servers};
}

function readSets(node: NodeDump): ReadPart<ReadonlyMap<string, IpSet>> {
  const text = node.read('ipset-save')?.toString('utf8');
  if (text === undefined) return {problem: 'its ipsets were not read (no ipset-save)'};
  const truncation = truncatedLine(text);
  if (truncation !== null) return {problem: `its ipset-save is truncated at line ${truncation}`};
  const {sets, fault} = parseIpsetSave(text);
  const unlisted = setsInRules(node).find(name => !sets.has(name));
  if (text.includes('Kernel and userspace incompatible') || unlisted !== undefined)
    return {
      problem: `its ipset-save is only a part${unlisted === undefined ? '' : ` (rules match ${unlisted}, which it does not list)`}: an ipset older than the kernel, such as 7.10, prints no more. Read the node with the ipset of its kube-proxy (--transport exec)`,
    };
  if (sets.size === 0 && text.trim() !== '') return {problem: 'its ipset-save is not what ipset prints'};
  if (fault === null) return {value: sets};
  const what = fault.isRepeated ? 'creates a set for the second time' : 'is not what ipset prints';
  return {problem: `line ${fault.line} of its ipset-save ${what}: ${fault.text.slice(0, 120)}`};
}

/** The sets of kube-proxy that its rules match. The kernel deletes no set that a rule matches. */
function setsInRules(node: NodeDump): readonly string[] {
  const rules = ['iptables-save', 'ip6tables-save'].map(file => node.read(file)?.toString('latin1') ?? '');
  return rules.flatMap(text => [...text.matchAll(/ --match-set (KUBE-\S+) /g)].map(([, name = '']) => name));
}

/** What `ip` prints about kube-ipvs0 alone overrides what it prints about all interfaces. */
function readBound(node: NodeDump): ReadPart<readonly string[]> {
  const device = node.read('kube-ipvs0.json')?.toString('utf8');
  const own = device === undefined ? null : parseIpvsDevice(device);
  if (own !== null) return {value: own};
  const all = node.read('addresses.json')?.toString('utf8');
  if (all !== undefined && parseNodeAddresses(all) !== null) return {value: parseIpvsDevice(all) ?? []};
  return {
    problem:
      device === undefined
        ? 'the addresses of kube-ipvs0 were not read (no kube-ipvs0.json and no addresses.json)'
        : 'its kube-ipvs0.json is not what "ip -j addr" prints',
  };
}

function addressesElsewhere(node: NodeDump): readonly string[] {
  const interfaces = parseNodeAddresses(fileText(node, 'addresses.json')) ?? [];
  return interfaces.flatMap(({name, addresses}) => (name === ipvsDevice ? [] : addresses));
}

/**
 * The node without kube-ipvs0: its own addresses. If its interfaces were not read, virtual servers show them, because kube-proxy read the
 * interfaces: addresses on which most node ports answer, and load-balancer addresses that it did not bind to kube-ipvs0.
 */
export function hostFacts(facts: NodeFacts, state: IpvsState, ports: readonly ServicePort[], version: KubeProxyVersion): NodeFacts {
  const bound = new Set(state.bound ?? []);
  if (facts.allAddresses && state.local === null) {
    const own = sparesOtherInterfaces(version) ? state.elsewhere : facts.addresses.filter(address => !bound.has(address));
    return {...facts, addresses: own};
  }
  const nodePorts = new Set(ports.flatMap(({nodePort}) => (nodePort === 0 ? [] : [nodePort])));
  const seen = addressesWithNodePorts(state, nodePorts).filter(address => !bound.has(address));
  const primary = families.flatMap(family => facts.hostIPs.find(address => familyOf(address) === family) ?? []);
  const spared = sparesOtherInterfaces(version) ? sparedAddresses(state, ports) : [];
  // Other addresses of the Node object, such as an external address, may be on no interface.
  return {...facts, addresses: [...new Set([...primary, ...seen, ...spared, '127.0.0.1', '::1'])]};
}

function addressesWithNodePorts({servers}: IpvsState, nodePorts: ReadonlySet<number>): readonly string[] {
  const ports = new Map<string, Set<number>>();
  for (const {address, port} of servers ?? []) {
    if (!nodePorts.has(port)) continue;
    heldIn(ports, address, () => new Set()).add(port);
  }
  return [...ports].filter(([, found]) => found.size * 2 >= nodePorts.size).map(([address]) => address);
}

/** External addresses with virtual servers that are neither bound to kube-ipvs0 nor in KUBE-IPVS-IPS: another interface has them. */
function sparedAddresses({servers, bound, sets}: IpvsState, ports: readonly ServicePort[]): readonly string[] {
  if (servers === null || bound === null || sets === null) return [];
  const external = new Set(ports.flatMap(({externalIPs, loadBalancerVIPs}) => [...externalIPs, ...loadBalancerVIPs]));
  const kept = new Set([
    ...bound,
    ...families.flatMap(family => sets.get(setName('KUBE-IPVS-IPS', family))?.elements.map(element => memberText(element)) ?? []),
  ]);
  return servers.map(({address}) => address).filter(address => external.has(address) && !kept.has(address));
}

/** An element that is missing from a set, or unexpected in it. */
export interface MemberDifference {
  readonly kind: 'missing' | 'extra';
  readonly role: SetRole;
  readonly set: string;
  readonly member: string;
  readonly line: number;
}

/** The differences of one Service port in a node's IPVS. */
export interface IpvsPortDifferences {
  readonly missingServers: readonly ExpectedServer[];
  readonly servers: readonly (ServerDifference & {readonly of: ExpectedServer})[];
  readonly members: readonly MemberDifference[];
  readonly missingAddresses: readonly string[];
}

/** The differences of one family of a node's IPVS, by Service port. */
export interface IpvsDifferences {
  readonly byPort: ReadonlyMap<ServedPort, IpvsPortDifferences>;
  /** The expected servers: of a server that several Services claim, the one that exists. */
  readonly resolved: ReadonlyMap<string, ExpectedServer>;
  readonly extraServers: readonly VirtualServer[];
  readonly extraAddresses: readonly string[];
  /** Elements that belong to no Service port. */
  readonly extraMembers: readonly MemberDifference[];
  readonly missingAddresses: readonly string[];
  /** Sets that do not exist, or have another type. */
  readonly wrongSets: readonly {readonly set: string; readonly found: string | null; readonly wanted: string}[];
}

type MutablePortDifferences = {-readonly [Name in keyof IpvsPortDifferences]: IpvsPortDifferences[Name][number][]};

export function compareIpvs(expected: ExpectedIpvs, state: IpvsState): IpvsDifferences {
  const {family} = expected.context;
  const byPort = new Map<ServedPort, MutablePortDifferences>();
  const of = (owner: ServedPort): MutablePortDifferences =>
    heldIn(byPort, owner, () => ({missingServers: [], servers: [], members: [], missingAddresses: []}));
  const actual = new Map((state.servers ?? []).filter(server => server.family === family).map(server => [serverKey(server), server]));
  const resolved = resolve(expected, actual);
  for (const [key, wanted] of resolved) {
    const found = actual.get(key);
    const difference = found === undefined ? null : compareServers(wanted.server, found);
    if (found === undefined)
      for (const {owner, entry} of expected.servers.get(key) ?? []) of(owner).missingServers.push({...wanted, owner, entry});
    else if (difference !== null) of(wanted.owner).servers.push({...difference, of: wanted});
  }
  const owners = new MemberOwners(expected);
  const extraMembers: MemberDifference[] = [];
  for (const {difference, wantedBy} of memberDifferences(expected, state)) {
    const concerned = wantedBy ?? owners.of(difference);
    for (const owner of concerned) of(owner).members.push(difference);
    if (concerned.length === 0) extraMembers.push(difference);
  }
  const bound = new Set(boundOf(expected, state).filter(address => familyOf(address) === family));
  const missingAddresses = [...expected.bound.keys()].filter(address => !bound.has(address));
  for (const address of missingAddresses) for (const owner of expected.bound.get(address) ?? []) of(owner).missingAddresses.push(address);
  for (const owner of expected.ports) if (expected.outFilter(owner).length > 0) of(owner);
  return {
    byPort,
    resolved,
    extraMembers,
    missingAddresses,
    extraServers: [...actual].filter(([key]) => !resolved.has(key)).map(([, server]) => server),
    extraAddresses: [...bound].filter(address => !expected.bound.has(address)),
    wrongSets: wrongSets(expected, state),
  };
}

/** The addresses of kube-ipvs0. Where they were not read, those that are expected there, as far as the node has them. */
export function boundOf({bound: expected, context: {family}}: ExpectedIpvs, {bound, local}: IpvsState): readonly string[] {
  const isRead = local?.has(family === 'IPv4' ? '127.0.0.1' : '::1') === true;
  return bound ?? [...expected.keys()].filter(address => !isRead || local.has(address));
}

/** If several Services claim one address and port, kube-proxy can have processed any of them last. */
function resolve(expected: ExpectedIpvs, actual: ReadonlyMap<string, VirtualServer>): ReadonlyMap<string, ExpectedServer> {
  const resolved = new Map<string, ExpectedServer>();
  for (const [key, claims] of expected.servers) {
    const found = actual.get(key);
    const fitting = found === undefined ? undefined : claims.find(({server}) => compareServers(server, found) === null);
    const chosen = fitting ?? claims[0];
    if (chosen !== undefined) resolved.set(key, chosen);
  }
  return resolved;
}

interface AttributedMember {
  readonly difference: MemberDifference;
  /** For a missing element. */
  readonly wantedBy: readonly ServedPort[] | null;
}

function* memberDifferences({members, context: {family}}: ExpectedIpvs, {sets}: IpvsState): Iterable<AttributedMember> {
  if (sets === null) return;
  for (const [role, wanted] of members) {
    const set = setName(role, family);
    const {missing, extra} = compareMembers(new Set(wanted.keys()), sets.get(set));
    for (const member of missing) yield {difference: {kind: 'missing', role, set, member, line: 0}, wantedBy: wanted.get(member) ?? []};
    for (const {member, line} of extra) yield {difference: {kind: 'extra', role, set, member, line}, wantedBy: null};
  }
}

function wrongSets({members, context: {family}}: ExpectedIpvs, {sets}: IpvsState): IpvsDifferences['wrongSets'] {
  if (sets === null) return [];
  return [...members.keys()].flatMap(role => {
    const set = setName(role, family);
    const found = sets.get(set)?.type ?? null;
    return found === setTypes[role] ? [] : [{set, found, wanted: setTypes[role]}];
  });
}

/** Finds the Service ports that an unexpected element names. */
class MemberOwners {
  readonly #expected: ExpectedIpvs;
  readonly #endpoints = new Map<string, ServedPort[]>();
  readonly #nodePorts = new Map<string, ServedPort[]>();

  constructor(expected: ExpectedIpvs) {
    this.#expected = expected;
    for (const owner of expected.ports) {
      const {protocol, nodePort} = owner.port;
      if (nodePort !== 0) add(this.#nodePorts, `${protocol} ${nodePort}`, owner);
      for (const {address, port} of owner.all) add(this.#endpoints, `${protocol} ${joinHostPort(address, port)}`, owner);
    }
  }

  of({role, member}: MemberDifference): readonly ServedPort[] {
    const [first = '', second = ''] = member.split(',');
    if (role === 'KUBE-IPVS-IPS') return this.#expected.bound.get(first) ?? [];
    const nodePort = /^KUBE-NODE-PORT-(?:LOCAL-)?(TCP|UDP)$/.exec(role);
    if (nodePort !== null) return this.#nodePorts.get(`${nodePort[1]} ${first}`) ?? [];
    const [protocol = '', port = ''] = second.split(':');
    const key = `${protocol.toUpperCase()} ${joinHostPort(first, Number(port))}`;
    if (role === 'KUBE-LOOP-BACK') return this.#endpoints.get(key) ?? [];
    return (this.#expected.servers.get(key) ?? []).map(({owner}) => owner);
  }
}

function add(map: Map<string, ServedPort[]>, key: string, owner: ServedPort): void {
  const list = heldIn(map, key, () => []);
  if (list.at(-1) !== owner) list.push(owner);
}

/** The virtual servers of a Service port, found by one pass over all of them. */
export function serversOf(expected: ExpectedIpvs, {port}: ServedPort): readonly VirtualServer[] {
  return serversByPort(expected).get(port) ?? [];
}

const serversByPort = once(({servers}: ExpectedIpvs) => {
  const byPort = new Map<ServicePort, VirtualServer[]>();
  for (const {owner, server} of [...servers.values()].flat()) pushTo(byPort, owner.port, server);
  return byPort;
});
