import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import {chainName} from '../../../expect/iptables/chain-names.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import {isLoopback, type NodeContext} from '../../../expect/node-context.ts';
import {addressInside, canonicalAddress, type Cidr, contains, parseCidr} from '../../../model/address.ts';
import type {Ruleset} from '../../../model/ruleset.ts';
import {entriesOf} from '../../outcomes/entries.ts';
import {podNetworkOf} from '../../outcomes/sources.ts';
import type {EndpointChange} from './endpoint-change.ts';

/**
 * Decides whether packets from a pod to the cluster IP of a Service port reach the chain that picks an endpoint, are not masqueraded, and
 * reach every endpoint that it picks. This holds under the expected base rules if no rule in a shared chain, whosever it is, can match
 * their address: the shared chains tell packets apart by cluster IP, external IP, load-balancer IP or local address alone.
 */
export function plainPaths(expected: ExpectedRuleset, actual: Ruleset): (change: EndpointChange) => boolean {
  const {context} = expected;
  const pods = podNetworkOf(context);
  if (pods === null || !isKnownAsPod(pods, context)) return () => false;
  const shared = sharedRules(actual);
  if (shared === null) return () => false;
  const claims = countClaims(expected);
  const special = new Set([...shared.hosts, ...claims.addresses, ...context.facts.addresses.map(text => canonicalAddress(text) ?? text)]);
  return ({item, written}) => {
    const {port, endpoints, all} = item;
    const key = entryKey(port.clusterIP, port.protocol, port.port);
    const entry = shared.byEntry.get(key) ?? [];
    if (claims.byEntry.get(key) !== 1 || entry.length !== 1 || !entry[0]?.endsWith(` -j ${chainName('SVC', port.hash)}`)) return false;
    // The rule for an endpoint's own packets must not match.
    const source = addressInside(pods, new Set(all.map(({address}) => address)));
    const isPlain = ({address}: Endpoint): boolean =>
      address !== source && canonicalAddress(address) === address && !isLoopback(address) && !special.has(address);
    const own = new Set(endpoints.cluster);
    return endpoints.cluster.every(isPlain) && written.endpoints.cluster.every(endpoint => own.has(endpoint) || isPlain(endpoint));
  };
}

/** The rule for clients that are no pods of this node does not match a packet from this network. */
function isKnownAsPod(pods: Cidr, {detector, masqueradeAll}: NodeContext): boolean {
  if (masqueradeAll) return false;
  if (detector.kind !== 'cidr') return true;
  const cluster = parseCidr(detector.cidr);
  return cluster !== null && cluster.prefix <= pods.prefix && contains(cluster, {family: pods.family, value: pods.base, text: ''});
}

interface SharedRules {
  /** Every address for which a rule was written. */
  readonly hosts: ReadonlySet<string>;
  /** The rules of KUBE-SERVICES in table nat, by `address protocol port`. */
  readonly byEntry: ReadonlyMap<string, readonly string[]>;
}

/** Null if some rule may match any address. */
function sharedRules(actual: Ruleset): SharedRules | null {
  const hosts = new Set<string>();
  const byEntry = new Map<string, string[]>();
  for (const [table, chain] of sharedChains) {
    const text = actual.chain(table, chain)?.text() ?? '';
    for (const line of text === '' ? [] : text.split('\n')) {
      const rule = line.replace(/"(?:[^"\\]|\\.)*"/g, '""');
      // The jump to the node ports comes last, after that of the cluster IP.
      if (rule.endsWith(' -j KUBE-NODEPORTS')) continue;
      const host = /^-A \S+ -d ([^/ ]+)\/(?:32|128) /.exec(rule)?.[1];
      if (host === undefined) {
        if (!isOfNode(rule)) return null;
        continue;
      }
      hosts.add(host);
      if (table !== 'nat') continue;
      const [, protocol, port] = /(?<!!) -p (\S+) .*(?<!!) --dport (\d+) /.exec(rule) ?? [];
      if (protocol === undefined || port === undefined) return null;
      const key = entryKey(host, protocol, port);
      byEntry.set(key, [...(byEntry.get(key) ?? []), rule]);
    }
  }
  return {hosts, byEntry};
}

/** It matches packets to the node itself alone. */
function isOfNode(rule: string): boolean {
  return rule.includes(' -m addrtype --dst-type LOCAL ');
}

const sharedChains = [
  ['nat', 'KUBE-SERVICES'],
  ['filter', 'KUBE-SERVICES'],
  ['filter', 'KUBE-EXTERNAL-SERVICES'],
  ['filter', 'KUBE-PROXY-FIREWALL'],
] as const;

interface Claims {
  readonly addresses: ReadonlySet<string>;
  /** How many Service ports claim an entry, by `address protocol port`. */
  readonly byEntry: ReadonlyMap<string, number>;
}

function countClaims({ports, context}: ExpectedRuleset): Claims {
  const addresses = new Set<string>();
  const byEntry = new Map<string, number>();
  for (const {port} of ports) {
    for (const entry of entriesOf(port, context)) {
      if (entry.address === null) continue;
      const key = entryKey(entry.address, port.protocol, entry.port);
      addresses.add(entry.address);
      byEntry.set(key, (byEntry.get(key) ?? 0) + 1);
    }
  }
  return {addresses, byEntry};
}

function entryKey(address: string, protocol: string, port: number | string): string {
  return `${address} ${protocol.toLowerCase()} ${port}`;
}
