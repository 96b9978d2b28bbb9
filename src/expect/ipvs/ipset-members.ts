import {parseAddress, parseCidr} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {memberText} from '../../parse/ipvs/ipset-save.ts';
import type {ServedPort} from '../cluster/served-port.ts';
import {ownAddressesInRanges} from '../iptables/service-rules.ts';
import {boundAddressesOf} from './bound-addresses.ts';
import type {IpvsContext} from './ipvs-context.ts';
import {type SetRole, setRoles} from './set-names.ts';
import {externalIPsOf} from './virtual-servers.ts';

/** The expected elements of a set, in the spelling of `ipset save`, each with the Service ports that it belongs to. */
export type ExpectedMembers = ReadonlyMap<string, readonly ServedPort[]>;

interface MemberInput {
  readonly ports: readonly ServedPort[];
  readonly context: IpvsContext;
  /** The node name by which kube-proxy finds local endpoints. */
  readonly nodeName: string;
}

/** The content of all sets of one family. Follows `syncProxyRules`. */
export function expectMembers({ports, context, nodeName}: MemberInput): ReadonlyMap<SetRole, ExpectedMembers> {
  const sets = new Map<SetRole, Map<string, ServedPort[]>>(setRoles(context.version).map(role => [role, new Map()]));
  for (const owner of ports) {
    writeMembers(owner, {context, nodeName}, (role, ...element) => {
      const members = sets.get(role);
      const text = memberText(element);
      const owners = members?.get(text);
      if (owners === undefined) members?.set(text, [owner]);
      else if (owners.at(-1) !== owner) owners.push(owner);
    });
  }
  return sets;
}

type Write = (role: SetRole, ...element: readonly string[]) => void;

function writeMembers(owner: ServedPort, {context, nodeName}: Omit<MemberInput, 'ports'>, write: Write): void {
  const {port} = owner;
  const protocol = port.protocol.toLowerCase();
  const at = `${protocol}:${port.port}`;
  for (const endpoint of owner.all) {
    // Ready or not: an endpoint of this node may connect to itself as long as it has connections.
    if (endpoint.nodeName !== nodeName) continue;
    const address = parseAddress(endpoint.address)?.text ?? endpoint.address;
    write('KUBE-LOOP-BACK', address, `${protocol}:${endpoint.port}`, address);
  }
  write('KUBE-CLUSTER-IP', port.clusterIP, at);
  for (const address of externalIPsOf(port, context))
    write(port.externalPolicyLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP', address, at);
  for (const address of port.loadBalancerVIPs) writeBalancer(port, {context, address, at}, write);
  for (const address of boundAddressesOf(port, context)) write('KUBE-IPVS-IPS', address);
  if (port.nodePort !== 0) {
    // Without an address for its node port kube-proxy skips the rest of a Service port.
    if (context.nodeAddresses.length === 0) return;
    writeNodePort(port, context, write);
  }
  if (port.healthCheckNodePort !== 0) write('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort));
}

interface Balancer {
  readonly context: IpvsContext;
  readonly address: string;
  readonly at: string;
}

function writeBalancer(port: ServicePort, {context, address, at}: Balancer, write: Write): void {
  write('KUBE-LOAD-BALANCER', address, at);
  if (port.externalPolicyLocal) write('KUBE-LOAD-BALANCER-LOCAL', address, at);
  if (port.sourceRanges.length === 0) return;
  write('KUBE-LOAD-BALANCER-FW', address, at);
  // The kernel does not accept a network with prefix 0 in such a set.
  for (const range of port.sourceRanges) if (parseCidr(range)?.prefix !== 0) write('KUBE-LOAD-BALANCER-SOURCE-CIDR', address, at, range);
  if (ownAddressesInRanges(port, context).length > 0) write('KUBE-LOAD-BALANCER-SOURCE-IP', address, at, address);
}

function writeNodePort(port: ServicePort, {nodeAddresses}: IpvsContext, write: Write): void {
  const number = String(port.nodePort);
  if (port.protocol === 'SCTP') {
    for (const address of nodeAddresses) {
      write('KUBE-NODE-PORT-SCTP-HASH', address, `sctp:${number}`);
      if (port.externalPolicyLocal) write('KUBE-NODE-PORT-LOCAL-SCTP-HASH', address, `sctp:${number}`);
    }
    return;
  }
  write(`KUBE-NODE-PORT-${port.protocol}`, number);
  if (port.externalPolicyLocal) write(`KUBE-NODE-PORT-LOCAL-${port.protocol}`, number);
}
