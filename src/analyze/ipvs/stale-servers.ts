import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {setName, type SetRole} from '../../expect/ipvs/set-names.ts';
import type {FormerOwner} from '../../expect/cluster/former-owners.ts';
import {hasIpvsFilter} from '../../expect/ipvs/ipvs-versions.ts';
import {contains, parseAddress} from '../../model/address.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {Rule} from '../../model/ruleset.ts';
import {joinHostPort, type VirtualServer} from '../../model/virtual-server.ts';
import {memberText} from '../../parse/ipvs/ipset-save.ts';
import {sharesOf} from '../../trace/balance.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {addressEvidence, memberEvidence, serverEvidence} from './evidence.ts';
import type {IpvsDifferences, MemberDifference} from './ipvs-differences.ts';
import type {IpvsState} from './ipvs-state.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

interface StaleCase {
  readonly expected: ExpectedIpvs;
  readonly differences: IpvsDifferences;
  readonly state: IpvsState;
  /** The Service that an address or node port belonged to shortly before. */
  readonly formerOwner: FormerOwner;
}

/** State of a node that belongs to no Service of the API: virtual servers, addresses, elements of sets. */
export function staleServers(given: StaleCase): readonly Symptom<Rule>[] {
  const servers = given.differences.extraServers.flatMap(server => analyzeServer(server, given));
  const said = new Set(given.differences.extraServers.map(({address}) => address));
  return [
    ...servers,
    ...given.differences.extraAddresses.filter(address => !said.has(address)).flatMap(address => analyzeAddress(address, given)),
    ...analyzeMembers(given, said),
  ];
}

/** kube-proxy ignores virtual servers inside excludeCIDRs. */
function analyzeServer(server: VirtualServer, given: StaleCase): readonly Symptom<Rule>[] {
  const {context} = given.expected;
  const address = parseAddress(server.address);
  if (address === null || context.excludeCIDRs.some(cidr => contains(cidr, address))) return [];
  const name = `${joinHostPort(server.address, server.port)}/${server.protocol}`;
  const base = {family: context.family, port: null, expected: [], actual: serverEvidence(server).slice(0, 6)} as const;
  if (!isOfKubeProxy(server, given)) {
    const detail = `a virtual server for ${name} is not kube-proxy's: it deletes such servers at its next sync, unless ipvs.excludeCIDRs names them`;
    return [{...base, kind: 'unexpected-rule', severity: 'info', detail}];
  }
  const service = serviceOf(server, given);
  const ofNode = context.nodeAddresses.includes(server.address) ? `node port ${server.port}` : name;
  const owner =
    service === null ? 'the API has no such Service (any more)' : `${namespacedName(service)} has no such entry in the API (any more)`;
  const served = sharesOf(server).length > 0;
  const detail = `${served ? 'still answers' : 'still refuses packets'} at ${ofNode}: ${owner}`;
  return [{...base, kind: 'stale-service', severity: served ? 'error' : 'info', detail, ...(service === null ? {} : {service})}];
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
function analyzeAddress(address: string, {expected: {context}, formerOwner}: StaleCase): readonly Symptom<Rule>[] {
  const service = formerOwner({family: context.family, protocol: '', address, port: 0});
  const detail = `kube-ipvs0 still has the address ${address}, which no Service has: the node accepts all packets to it`;
  const actual = [addressEvidence(address, 1)];
  const base = {kind: 'stale-service', severity: 'warning', family: context.family, port: null, detail, expected: [], actual} as const;
  return [{...base, ...(service === null ? {} : {service})}];
}

/** Elements that belong to no Service port. Those of a stale virtual server, which is reported, are left out. */
function analyzeMembers({expected, differences}: StaleCase, said: ReadonlySet<string>): readonly Symptom<Rule>[] {
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
      ...{...base, kind: 'unexpected-rule' as const, severity: 'error' as const, actual: rules([difference])},
      detail: `new connections to ${difference.member}, an address of the node itself, are refused: ${difference.set} holds it`,
    })),
    ...(harmless.length === 0
      ? []
      : [
          {
            ...{...base, kind: 'unexpected-rule' as const, severity: 'info' as const, actual: rules(harmless)},
            detail: `${harmless.length === 1 ? 'an element' : `${harmless.length} elements`} of ${sets} belong${harmless.length === 1 ? 's' : ''} to no Service: no traffic of Services is affected`,
          },
        ]),
  ];
}

function refusesOwnPorts({role, member}: MemberDifference, {context}: ExpectedIpvs): boolean {
  return role === 'KUBE-IPVS-IPS' && hasIpvsFilter(context.version) && context.facts.addresses.includes(member);
}
