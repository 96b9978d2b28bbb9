import type {ServedPort} from '../../expect/cluster/served-port.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import {parseAddress} from '../../model/address.ts';
import {pushTo} from '../../model/lists.ts';
import type {Rule} from '../../model/ruleset.ts';
import {matchRule} from '../../trace/iptables/match-rule.ts';
import type {Environment, Packet} from '../../trace/packet.ts';
import {isPolicyChain, type ThirdPartyRule} from './iptables-rules.ts';

/** An address and port that packets to a Service port have, before or after they are translated. */
interface Destination {
  readonly address: string;
  readonly port: number;
}

/**
 * A function that returns the same text for Service ports that no rule tells apart by more than the destinations that it names: by those
 * that it excludes, by a set or range of them, or because it leads to one of the Service ports itself.
 */
export function toldApart(
  rules: readonly ThirdPartyRule[],
  environment: Environment,
): (item: ServedPort, entries: () => readonly Destination[]) => string {
  const conditions = [...new Set(rules.filter(({rule}) => !isPolicyChain(rule.chain)).flatMap(({conditions: {others}}) => others))];
  const leading = new Map<string, number[]>();
  for (const [index, {rule}] of rules.entries()) for (const target of targetsOf(rule)) pushTo(leading, target, index);
  return (item, entries) => {
    const {port, endpoints} = item;
    const reached = leading.size === 0 ? [] : [port.hash, ...endpoints.reachable.map(({hostPort}) => hostPort)];
    const before = conditions.length === 0 ? [] : entries();
    const matched = conditions.flatMap(rule => {
      const match = (destination: Destination): readonly string[] => {
        const packet = packetTo(destination, item);
        return packet === null ? [] : [String(matchRule(rule, packet, environment))];
      };
      return [...before.flatMap(match), ...[...new Set(endpoints.reachable.flatMap(match))].sort(), ';'];
    });
    return [...matched, ...new Set(reached.flatMap(target => leading.get(target) ?? []))].join();
  };
}

/** The Service port, by its hash, or the endpoint, by `ip:port`, that a rule sends packets to. */
function targetsOf({target}: Rule): readonly string[] {
  const hash = parseChainName(target?.name ?? '')?.hash;
  if (hash !== undefined) return [hash];
  return target?.name === 'DNAT' ? target.options.flatMap(({flag, values}) => (flag === '--to-destination' ? (values[0] ?? []) : [])) : [];
}

/** From nowhere in particular: only conditions on the destination are matched. */
function packetTo({address, port}: Destination, {port: {family, protocol}}: ServedPort): Packet | null {
  const destination = parseAddress(address);
  if (destination === null) return null;
  return {
    ...{family, source: destination, destination, port, protocol: protocol.toLowerCase(), origin: 'arriving'},
    ...{inInterface: null, outInterface: null, mark: 0, connectionMark: 0, rewritten: false, masquerade: false, untracked: false},
  };
}
