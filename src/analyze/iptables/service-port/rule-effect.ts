import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {NodeContext} from '../../../expect/node-context.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import {addressInside, parseCidr} from '../../../model/address.ts';
import type {ChainSource, Rule} from '../../../model/ruleset.ts';
import type {Packet} from '../../../trace/packet.ts';
import {walkPacket} from '../../../trace/iptables/walk-packet.ts';
import {probedNodePortAddresses} from '../../outcomes/entries.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {PortIndex} from '../port-index.ts';
import {packetOf} from '../../outcomes/probes.ts';
import {sourcesFor} from '../../outcomes/sources.ts';
import {isSameOutcome} from '../../outcomes/path-outcome.ts';
import {pathOutcomeOf} from '../iptables-outcome.ts';

/** Whether the outcome of packets to the address and port that a rule matches is not the expected one. */
export function changesOutcomes(
  rule: Rule,
  {expected, actual}: {readonly expected: ExpectedRuleset; readonly actual: ChainSource},
): boolean {
  const environment = environmentOf(expected.context.facts);
  return packetsTo(rule, expected.context).some(
    packet =>
      !isSameOutcome(pathOutcomeOf(walkPacket(expected, packet, environment)), pathOutcomeOf(walkPacket(actual, packet, environment))),
  );
}

const indexes = new WeakMap<ExpectedRuleset, PortIndex>();

/** Another Service port that has the address and port of a rule, and so determines the outcome of their packets. */
export function otherClaimant(rule: Rule, item: PortOnNode, expected: ExpectedRuleset): PortOnNode | undefined {
  let index = indexes.get(expected);
  if (index === undefined) {
    index = new PortIndex(expected);
    indexes.set(expected, index);
  }
  return index.concerned(rule).find(other => other !== item);
}

/** Packets to what a rule of a shared chain names, one from each kind of source. */
function packetsTo(rule: Rule, context: NodeContext): readonly Packet[] {
  const protocol = rule.options.find(({flag, negated}) => flag === '-p' && !negated)?.values[0];
  const port = rule.matches.flatMap(({options}) => options).find(({flag, negated}) => flag === '--dport' && !negated)?.values[0];
  if (protocol === undefined || port === undefined) return [];
  const packet = (from: {readonly kind: string; readonly address: string; readonly interface: string | null}, destination: string) =>
    packetOf({protocol, family: context.family}, {source: from.address, destination, port: Number(port), from}) ?? [];
  const sources = sourcesFor({sourceRanges: [], loadBalancerVIPs: []}, context, new Set());
  return destinationsOf(rule, context).flatMap(destination =>
    destination === loopback
      ? packet({kind: 'node', address: loopback, interface: null}, loopback)
      : sources.flatMap(source => packet(source, destination)),
  );
}

const loopback = '127.0.0.1';

function destinationsOf(rule: Rule, context: NodeContext): readonly string[] {
  const cidr = rule.options.find(({flag, negated}) => flag === '-d' && !negated)?.values[0];
  if (cidr === undefined) return [...probedNodePortAddresses(context), ...(context.localhostNodePorts ? [loopback] : [])];
  if (cidr === '127.0.0.0/8') return [loopback];
  const parsed = parseCidr(cidr);
  const address = parsed === null ? null : addressInside(parsed, new Set());
  return address === null ? [] : [address];
}
