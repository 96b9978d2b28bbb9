import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {parseAddress} from '../../model/address.ts';
import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import {probedNodePortAddresses} from '../outcomes/entries.ts';

/** The addresses, ports and networks in tables of other programs. */
export interface ThirdPartyText {
  readonly words: ReadonlySet<string>;
  /** Networks and ranges. */
  readonly networks: readonly AddressInterval[];
  /** From the first to the last. */
  readonly portRanges: readonly (readonly [number, number])[];
}

/** Null when no other table of the family is on the path of packets. */
export function thirdPartyText(ruleset: NftRuleset, own: NftTable): ThirdPartyText | null {
  const tables = [...ruleset.tables.values()].filter(
    ({id, family, baseChains, dormant}) =>
      id !== own.id && (family === own.family || family === 'inet') && baseChains.length > 0 && !dormant,
  );
  if (tables.length === 0) return null;
  const words = new Set<string>();
  const networks: AddressInterval[] = [];
  const portRanges: (readonly [number, number])[] = [];
  const note = (text: string): void => {
    const found = text.match(/[0-9a-f.:]+(?:\/\d+)?/g) ?? [];
    for (const word of found.filter(isName)) {
      if (!word.includes('/')) words.add(word);
      else noteInterval(word);
    }
    for (const [range, low = '', high = ''] of text.matchAll(/\b([0-9a-f.:]+)-([0-9a-f.:]+)\b/g)) {
      if (/^\d{1,5}-\d{1,5}$/.test(range)) portRanges.push([Number(low), Number(high)]);
      else noteInterval(range);
    }
  };
  const noteInterval = (text: string): void => {
    const interval = parseInterval(text);
    if (interval === null) words.add(text);
    else if (networks.length < maxNetworks) networks.push(interval);
  };
  for (const {chains, sets} of tables) {
    for (const chain of chains.values()) for (const {body} of chain.rules()) note(body);
    for (const set of sets.values()) for (const {key} of set.elements.values()) note(key);
  }
  return {words, networks, portRanges};
}

const maxNetworks = 200;

function isName(word: string): boolean {
  return /^\d{1,5}$/.test(word) || /^[0-9a-f]*[.:][0-9a-f.:]*(?:\/\d+)?$/.test(word);
}

interface ProbedAddresses {
  readonly addresses: readonly string[];
  readonly ports: readonly number[];
}

/** The addresses and ports by which a rule may select a Service port. */
export function addressesProbed({port, endpoints}: NftPort, context: NodeContext): ProbedAddresses {
  const nodePort = port.nodePort === 0 ? [] : probedNodePortAddresses(context);
  return {
    addresses: [
      port.clusterIP,
      ...port.externalIPs,
      ...port.loadBalancerVIPs,
      ...nodePort,
      ...endpoints.reachable.map(({address}) => address),
    ],
    ports: [port.port, ...(port.nodePort === 0 ? [] : [port.nodePort]), ...new Set(endpoints.reachable.map(({port: number}) => number))],
  };
}

export function namesPort({words, networks, portRanges}: ThirdPartyText, {addresses, ports}: ProbedAddresses): boolean {
  if (ports.some(number => words.has(String(number)) || portRanges.some(([low, high]) => low <= number && number <= high))) return true;
  if (addresses.some(address => words.has(address))) return true;
  return addresses.some(text => {
    const address = networks.length === 0 ? null : parseAddress(text);
    return (
      address !== null && networks.some(({family, low, high}) => family === address.family && low <= address.value && address.value <= high)
    );
  });
}
