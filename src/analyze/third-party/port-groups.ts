import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {contains, parseAddress, parseCidr} from '../../model/address.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {Environment} from '../../trace/packet.ts';
import {ThirdPartyRuleIndex} from './iptables-rule-index.ts';
import type {ThirdPartyRule} from './iptables-rules.ts';
import {toldApart} from './told-apart.ts';
import {entriesOf} from '../outcomes/entries.ts';
import {addressesOf} from '../outcomes/probes.ts';

/** The Service ports of a node in any proxy mode. */
interface PortsOnNode<Port extends ServedPort> {
  readonly ports: readonly Port[];
  readonly context: NodeContext;
}

/** Service ports that the same third-party rules may match and that have entries of the same kinds. */
interface PortGroup<Port extends ServedPort> {
  readonly ports: Port[];
  /** The rules that name an address or port of theirs. */
  readonly rules: readonly Rule[];
}

export interface PortGroups<Port extends ServedPort> {
  readonly groups: readonly PortGroup<Port>[];
  /** Rules about particular Services are reported for each of them, all others for the node. */
  readonly specific: ReadonlySet<Rule>;
}

/** Service ports of one group have the same outcomes, whatever the third-party rules do. */
export function groupPorts<Port extends ServedPort>(
  {ports, context}: PortsOnNode<Port>,
  rules: readonly ThirdPartyRule[],
  environment: Environment,
): PortGroups<Port> {
  const index = new ThirdPartyRuleIndex(rules);
  const distinction = toldApart(rules, environment);
  const groups = new Map<string, PortGroup<Port>>();
  const counts = new Map<Rule, number>();
  for (const item of ports) {
    const concerned = index.concerning(item, context, environment);
    for (const rule of concerned) counts.set(rule, (counts.get(rule) ?? 0) + 1);
    const named = concerned.map(({table, chain, line}) => `${table}/${chain}/${line}`).join();
    const key = [named, shapeOf(item, context), distinction(item, () => entryDestinations(item, context))].join(' ');
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {ports: [item], rules: concerned});
    else group.ports.push(item);
  }
  const most = maxNamed(ports.length);
  return {groups: [...groups.values()], specific: new Set([...counts].filter(([, count]) => count <= most).map(([rule]) => rule))};
}

function entryDestinations({port}: ServedPort, context: NodeContext): readonly {readonly address: string; readonly port: number}[] {
  return entriesOf(port, context).flatMap(entry => addressesOf(entry, context).map(address => ({address, port: entry.port})));
}

/** A rule that concerns more than 50 Service ports, or more than half of them, is about the node. */
export function maxNamed(ports: number): number {
  return Math.max(1, Math.min(50, ports / 2));
}

/** A Service port to walk, and those of its group that have the same outcomes. */
export interface Representative<Port extends ServedPort> {
  readonly item: Port;
  readonly alike: readonly Port[];
}

/**
 * Service ports of a group that show what third-party rules do to all of them: the first that is as expected, and those before it, which
 * stand for themselves. The ones that cost the least to walk come first. Packets that the node's own rules of a Service port lose reach no
 * third-party rule.
 */
export function representatives<Port extends ServedPort>(
  ports: readonly Port[],
  isAsExpected: (item: Port) => boolean,
): readonly Representative<Port>[] {
  const ordered = ports.toSorted((a, b) => a.endpoints.reachable.length - b.endpoints.reachable.length);
  const first = ordered.findIndex(isAsExpected);
  const tried = first < 0 ? ordered : ordered.slice(0, first + 1);
  return tried.map((item, index) => ({item, alike: index === first ? ports : []}));
}

function shapeOf({port, endpoints}: ServedPort, {facts}: NodeContext): string {
  const {protocol, externalPolicyLocal, internalPolicyLocal, nodePort, loadBalancerVIPs, externalIPs} = port;
  return [
    protocol,
    externalPolicyLocal,
    internalPolicyLocal,
    nodePort !== 0,
    loadBalancerVIPs.length > 0,
    externalIPs.length > 0,
    endpoints.hasAny,
    endpoints.local.length > 0,
    // Packets to the node's own addresses pass INPUT, and FORWARD may accept only packets to pods.
    ...new Set(
      endpoints.reachable
        .map(({address}) => (facts.hostIPs.includes(address) ? 'own' : isPod(address, facts.podCIDRs) ? 'pod' : ''))
        .sort(),
    ),
  ].join();
}

function isPod(text: string, podCIDRs: readonly string[]): boolean {
  const address = parseAddress(text);
  return podCIDRs.some(network => {
    const cidr = parseCidr(network);
    return address !== null && cidr !== null && contains(cidr, address);
  });
}
