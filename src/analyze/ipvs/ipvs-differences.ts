import {pushTo} from '../../model/lists.ts';
import {heldIn, once} from '../../model/once.ts';
import {compareMembers, compareServers, type ServerDifference} from '../../compare/compare-ipvs.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {ExpectedIpvs, ExpectedServer} from '../../expect/ipvs/expected-ipvs.ts';
import {setName, type SetRole, setTypes} from '../../expect/ipvs/ipvs-sets.ts';
import {familyOf, joinHostPort} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import type {IpvsState} from './ipvs-state.ts';

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
  const bound = new Set((state.bound ?? [...expected.bound.keys()]).filter(address => familyOf(address) === family));
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
