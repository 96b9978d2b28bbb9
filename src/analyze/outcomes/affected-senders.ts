import type {NodeContext} from '../../expect/node-context.ts';
import {formatAddress} from '../../model/address.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import {holds, type Intervals, intervalsOf, subtract} from '../../model/intervals.ts';
import {someOf} from '../../model/text.ts';
import {addressesIn} from '../../parse/nftables/address-list.ts';
import type {Packet} from '../../trace/packet.ts';
import {allAddresses, allPorts, senderClasses, SenderConditions, type SenderSpace} from '../../trace/sender-space.ts';
import {anyPort} from '../../trace/side.ts';
import {environmentOf} from './environment.ts';
import {type BothWalks, isSameOutcome} from './path-outcome.ts';
import {entriesOf, entryAddresses, packetOf} from './probes.ts';
import {notOnTheWire, spaceText} from './senders.ts';

/** Whether rules give a packet another outcome than others do; its walks note what they ask of the sender. */
export type Differs = (packet: Packet, sender: SenderConditions) => boolean;

/** Whether two sets of rules give a packet another outcome. */
export function differsBetween({facts}: Pick<NodeContext, 'facts'>, {expected, actual}: BothWalks): Differs {
  const environment = environmentOf(facts);
  return (packet, sender) => {
    const own = {...environment, sender};
    return !isSameOutcome(expected(packet, own), actual(packet, own));
  };
}

/** Whether one of these rules tells senders apart. */
export function namesSenders(texts: readonly string[]): boolean {
  return texts.some(text => /(?: -s | --src-| --sports? |\bsrc\b|\bsaddr\b|\bsport\b)/.test(text));
}

/**
 * What differences do that change nothing for the usual senders, in words. All senders are compared, class by class: that no traffic is
 * affected is proved.
 */
export function effectOnOthers(items: readonly Pick<ServedPort, 'port'>[], context: NodeContext, differs: Differs): string {
  for (const {port} of items) {
    const found = entriesOf(port, context).flatMap(entry =>
      entryAddresses(entry, context).flatMap(destination => {
        const packet = packetOf(port, {source: destination, destination, port: entry.port, from: {kind: 'outside', interface: null}});
        return packet === null ? [] : affectedSpaces(packet, context, differs);
      }),
    );
    if (found.length > 0) return `only packets from ${spacesText(found, context)} are affected`;
  }
  return 'no traffic is affected';
}

function affectedSpaces(packet: Packet, {family, facts}: NodeContext, differs: Differs): readonly SenderSpace[] {
  const address = [addressesIn(facts.addresses, family), notOnTheWire(family)].reduce(subtract, allAddresses(family));
  const {classes, rest} = senderClasses({
    spaces: [{address, port: allPorts}],
    pick: space => ({
      address: space.address[0]?.[0] ?? 0n,
      port: holds(space.port, BigInt(anyPort)) ? anyPort : Number(space.port[0]?.[0] ?? 0n),
    }),
    walk: (sender, note) => {
      const source = {family, value: sender.address, text: formatAddress(family, sender.address)};
      return differs({...packet, source, sourcePort: sender.port, client: 'source'}, new SenderConditions(note));
    },
  });
  // What was not walked may differ.
  return [...classes.flatMap(({result, space}) => (result ? [space] : [])), ...rest];
}

function spacesText(spaces: readonly SenderSpace[], {family}: NodeContext): string {
  const byPorts = Map.groupBy(spaces, ({port}) => port.join(' '));
  const joined = [...byPorts.values()].flatMap(([first, ...others]) => {
    const address: Intervals = intervalsOf([first, ...others].flatMap(space => space?.address ?? []));
    return first === undefined ? [] : [spaceText({address, port: first.port}, family)];
  });
  return someOf(joined);
}
