import type {NodeData} from '../proxy-mode.ts';
import {servedInAnyFamily} from '../../expect/cluster/served-port.ts';
import type {FormerOwner} from '../../expect/cluster/service-states.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {hasIpvsFilter, setName, type SetRole} from '../../expect/ipvs/ipvs-sets.ts';
import {contains, type Family, parseAddress, joinHostPort} from '../../model/address.ts';
import type {ServiceName} from '../../model/finding.ts';
import {append} from '../../model/lists.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import {namespacedName} from '../../model/text.ts';
import type {VirtualServer} from '../../model/virtual-server.ts';
import {memberText} from '../../parse/ipvs/ipset-save.ts';
import {sharesOf} from '../../trace/iptables/walk-packet.ts';
import {walkSide} from '../../trace/side.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {packetOf} from '../outcomes/probes.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {type IpvsDifferences, type MemberDifference, type IpvsState, readIpvsState} from './ipvs-state.ts';
import {outFilterChain} from './base-rule-source.ts';
import {addressEvidence, memberEvidence, serverEvidence} from './ipvs-evidence.ts';

interface StaleCase extends NodeWide {
  /** The Service that an address or node port belonged to shortly before. */
  readonly formerOwner: FormerOwner;
}

/** State of a node that belongs to no Service of the API: virtual servers, addresses, elements of sets. */
export function staleServers(staleCase: StaleCase): readonly Symptom[] {
  const servers = staleCase.differences.extraServers.flatMap(server => analyzeServer(server, staleCase));
  const said = new Set(staleCase.differences.extraServers.map(({address}) => address));
  return [
    ...servers,
    ...staleCase.differences.extraAddresses.filter(address => !said.has(address)).flatMap(address => analyzeAddress(address, staleCase)),
    ...analyzeMembers(staleCase, said),
  ];
}

/** kube-proxy ignores virtual servers inside excludeCIDRs. */
function analyzeServer(server: VirtualServer, staleCase: StaleCase): readonly Symptom[] {
  const {context} = staleCase.expected;
  const address = parseAddress(server.address);
  if (address === null || context.excludeCIDRs.some(cidr => contains(cidr, address))) return [];
  const name = `${joinHostPort(server.address, server.port)}/${server.protocol}`;
  const base = {family: context.family, port: null, expected: [], actual: serverEvidence(server).slice(0, 6)} as const;
  if (!isOfKubeProxy(server, staleCase)) {
    const gist = `a virtual server for ${name} is not kube-proxy's`;
    const detail = `${gist}: it deletes such servers at its next sync, unless ipvs.excludeCIDRs names them`;
    const remedy =
      'If another program needs it (keepalived, kube-vip), name its address in ipvs.excludeCIDRs of kube-proxy; otherwise kube-proxy removes it.';
    return [{...base, kind: 'unexpected-rule', severity: 'warning', detail, gist: `${gist}, which deletes it`, remedy}];
  }
  const service = serviceOf(server, staleCase);
  const ofNode = context.nodeAddresses.includes(server.address) ? `node port ${server.port}` : name;
  const owner =
    service === null ? 'the API has no such Service (any more)' : `${namespacedName(service)} has no such entry in the API (any more)`;
  const served = sharesOf(server).length > 0;
  const detail = `${served ? 'still answers' : 'still refuses packets'} at ${ofNode}: ${owner}`;
  const whose = service === null ? {gist: `${ofNode} still answers, and the API has no such Service`} : {service};
  return [{...base, kind: 'stale-service', severity: served ? 'error' : 'info', detail, ...whose}];
}

/** Its address is bound or its address and port are in a set that only kube-proxy fills, or it answers on a node port. */
function isOfKubeProxy({address, port, protocol}: VirtualServer, {state, expected}: StaleCase): boolean {
  if (state.bound?.includes(address)) return true;
  const place = `${address},${protocol.toLowerCase()}:${port}`;
  const roles: readonly (readonly [SetRole, string])[] = [
    ['KUBE-CLUSTER-IP', place],
    ['KUBE-LOAD-BALANCER', place],
    ['KUBE-EXTERNAL-IP', place],
    ['KUBE-EXTERNAL-IP-LOCAL', place],
    ['KUBE-NODE-PORT-SCTP-HASH', place],
    ...(protocol === 'SCTP' ? [] : [[`KUBE-NODE-PORT-${protocol}`, String(port)] as const]),
  ];
  const held = (role: SetRole, member: string): boolean =>
    state.sets?.get(setName(role, expected.context.family))?.elements.some(element => memberText(element) === member) ?? false;
  return roles.some(([role, member]) => held(role, member)) || isOfNodePort({address, port, protocol}, expected);
}

/** The port is a Service's node port: the virtual server is on an address that is no longer a node-port address. */
function isOfNodePort({port, protocol}: Pick<VirtualServer, 'address' | 'port' | 'protocol'>, {ports}: ExpectedIpvs): boolean {
  return ports.some(item => item.port.nodePort === port && item.port.protocol === protocol);
}

/** The Service that has the address, or the node port on another address, or that had it shortly before. */
function serviceOf(
  {address, port, protocol}: VirtualServer,
  {expected: {ports, bound, context}, formerOwner}: StaleCase,
): ServiceName | null {
  const owner = bound.get(address)?.[0]?.port ?? ports.find(item => item.port.nodePort === port && item.port.protocol === protocol)?.port;
  if (owner === undefined) return formerOwner({family: context.family, protocol, address, port});
  return {namespace: owner.namespace, name: owner.service};
}

/** The node accepts packets for the address and answers them itself, even if another host has it. */
function analyzeAddress(address: string, {expected: {context}, formerOwner}: StaleCase): readonly Symptom[] {
  const service = formerOwner({family: context.family, protocol: '', address, port: 0});
  const detail = context.facts.addresses.includes(address)
    ? `kube-ipvs0 has the address ${address}, which another interface of the node has: kube-proxy ${context.version.text} does not bind such an address`
    : `kube-ipvs0 still has the address ${address}, which no Service has: the node accepts all packets to it`;
  const actual = [addressEvidence(address, 1)];
  const base = {kind: 'stale-service', severity: 'warning', family: context.family, port: null, detail, expected: [], actual} as const;
  return [{...base, service: service ?? undefined}];
}

/** Elements that belong to no Service port. Those of a stale virtual server, which is reported, are left out. */
function analyzeMembers({expected, differences}: StaleCase, said: ReadonlySet<string>): readonly Symptom[] {
  const {context} = expected;
  const stalePorts = new Set(differences.extraServers.map(({port}) => String(port)));
  const left = differences.extraMembers.filter(({member}) => {
    const [first = ''] = member.split(',');
    return !said.has(first) && !(stalePorts.has(first) && !member.includes(',')) && !differences.extraAddresses.includes(first);
  });
  const dangerous = left.filter(difference => refusesOwnPorts(difference, expected));
  const harmless = left.filter(difference => !dangerous.includes(difference));
  const rules = (members: readonly MemberDifference[]): readonly Rule[] =>
    members.map(({set, member, line}) => memberEvidence(set, member, line)).slice(0, 6);
  const base = {family: context.family, port: null, expected: []} as const;
  const sets = [...new Set(harmless.map(({set}) => set))].slice(0, 3).join(', ');
  return [
    ...dangerous.map(difference => ({
      ...base,
      kind: 'unexpected-rule' as const,
      severity: 'error' as const,
      actual: rules([difference]),
      detail: `new connections to ${difference.member}, an address of the node itself, are refused: ${difference.set} holds it`,
    })),
    ...(harmless.length === 0
      ? []
      : [
          {
            ...base,
            kind: 'unexpected-rule' as const,
            severity: 'info' as const,
            actual: rules(harmless),
            detail: `${harmless.length === 1 ? 'an element' : `${harmless.length} elements`} of ${sets} belong${harmless.length === 1 ? 's' : ''} to no Service: no traffic of Services is affected`,
          },
        ]),
  ];
}

function refusesOwnPorts({role, member}: MemberDifference, {context}: ExpectedIpvs): boolean {
  return role === 'KUBE-IPVS-IPS' && hasIpvsFilter(context.version) && context.facts.addresses.includes(member);
}

interface NodeWide {
  readonly expected: ExpectedIpvs;
  readonly differences: IpvsDifferences;
  readonly state: IpvsState;
}

/** One cause that affects many Services is one finding: an emptied set, another scheduler. */
export function mergeByNode(symptoms: readonly Symptom[], nodeWide: NodeWide & {readonly ruleset: Ruleset | null}): readonly Symptom[] {
  const isScheduler = ({cause}: Symptom): boolean => cause === 'scheduler';
  // Of a Service port that differs in one set alone, that explains everything.
  const setOf = new Map<Symptom['port'], string | null>();
  for (const [{port}, {members, servers, missingServers}] of nodeWide.differences.byPort) {
    const [set, ...others] = new Set(members.map(member => member.set));
    setOf.set(port, set === undefined || others.length + servers.length + missingServers.length > 0 ? null : set);
  }
  return emptiedPlaces(nodeWide).reduce<readonly Symptom[]>(
    (merged, place) => {
      const isOfPlace = ({expected, port}: Symptom): boolean =>
        setOf.get(port) === place || expected.some(({table, chain}) => (table === 'ipset' ? chain : `${table}/${chain}`) === place);
      // If some Services are affected, those that are not affected are not reported.
      const loud = merged.some(symptom => isOfPlace(symptom) && symptom.severity !== 'info');
      const kept = loud ? merged.filter(symptom => !isOfPlace(symptom) || symptom.severity !== 'info') : merged;
      return mergeAlike(kept, isOfPlace, `${place === outFilterChain ? place : `ipset ${place}`} holds nothing, so `);
    },
    mergeAlike(symptoms, isScheduler, ''),
  );
}

/** Sets, and the chain for packets from the node to load-balancer addresses. */
function emptiedPlaces({expected, state: {sets}, ruleset}: NodeWide & {readonly ruleset: Ruleset | null}): readonly string[] {
  const [table = '', chain = ''] = outFilterChain.split('/');
  const emptied = [...expected.members].flatMap(([role, members]) => {
    const set = setName(role, expected.context.family);
    return sets !== null && members.size > 1 && (sets.get(set)?.elements.length ?? 0) === 0 ? [set] : [];
  });
  return ruleset === null || (ruleset.chain(table, chain)?.ruleCount ?? 0) > 0 ? emptied : [...emptied, outFilterChain];
}

/** Symptoms of one kind and one cause become the first of them, for the whole node. Its detail begins with the words. */
function mergeAlike(symptoms: readonly Symptom[], of: (symptom: Symptom) => boolean, words: string): readonly Symptom[] {
  const merged: Symptom[] = [];
  for (const group of Map.groupBy(symptoms, symptom => (of(symptom) ? symptom.kind : null))) {
    const [kind, all] = group;
    const [first] = all;
    const affects = all.flatMap(({port}) => port ?? []);
    const ports = new Set(affects.map(({servicePortName}) => servicePortName));
    if (kind === null || first === undefined || ports.size < 2) {
      append(merged, all);
      continue;
    }
    const {entry: _, entries: __, endpoint: ___, ...rest} = first;
    const severe = all.find(({severity}) => severity === 'error') ?? first;
    const detail = `${words}${first.detail.replace(' its ', ' the ')} (${ports.size} Service ports, such as ${[...ports][0]})`;
    merged.push({
      ...rest,
      port: null,
      detail,
      affects,
      severity: severe.severity,
      expected: all.flatMap(({expected}) => expected).slice(0, 6),
      actual: all.flatMap(({actual}) => actual).slice(0, 6),
    });
  }
  return merged;
}

interface LeftoverServersCase extends Pick<NodeData, 'node' | 'facts' | 'view' | 'config'> {
  readonly rulesets: ReadonlyMap<Family, Ruleset>;
}

/**
 * Virtual servers that IPVS mode left behind and that still match packets. Another mode translates the packets of Services before IPVS, so
 * these are servers for addresses and ports of deleted Services.
 */
export function catchingServers({node, facts, view, config, rulesets}: LeftoverServersCase): readonly VirtualServer[] {
  const {servers, sets, bound} = readIpvsState(node);
  if (servers === null) return [];
  const taken = new Set(
    servedInAnyFamily({view, config}).flatMap(({protocol, clusterIP, externalIPs, loadBalancerVIPs, port, nodePort}) => [
      ...[clusterIP, ...externalIPs, ...loadBalancerVIPs].map(address => `${protocol} ${joinHostPort(address, port)}`),
      ...(nodePort === 0 ? [] : [`${protocol} ${nodePort}`]),
    ]),
  );
  const isTaken = ({protocol, address, port}: VirtualServer): boolean =>
    taken.has(`${protocol} ${joinHostPort(address, port)}`) || taken.has(`${protocol} ${port}`);
  const local = {...facts, addresses: [...facts.addresses, ...(bound ?? [])]};
  const environment = environmentOf(local, {servers, sets: sets ?? undefined});
  return servers.filter(server => {
    const ruleset = rulesets.get(server.family);
    const packet = packetTo(server);
    if (isTaken(server) || sharesOf(server).length === 0 || ruleset === undefined || packet === null) return false;
    return walkSide({iptables: [ruleset], nft: null, environment}, packet).some(
      ({path, destination}) => destination !== null && path.some(({table}) => table === 'ipvs'),
    );
  });
}

function packetTo({family, protocol, address, port}: VirtualServer) {
  const source = family === 'IPv4' ? '198.18.77.7' : '2001:db8:ffff::77';
  return packetOf({protocol, family}, {source, destination: address, port, from: {kind: 'outside', interface: null}});
}
