import type {NodeContext} from '../../expect/node-context.ts';
import {parseAddress} from '../../model/address.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import {probedNodePortAddresses} from './probes.ts';

/** The addresses, ports and networks in rules: only by these can rules tell Service ports of one shape apart. */
export interface RuleConstants {
  readonly words: ReadonlySet<string>;
  /** Networks and ranges. */
  readonly networks: readonly AddressInterval[];
  /** From the first to the last. */
  readonly portRanges: readonly (readonly [number, number])[];
}

/** Reads texts of rules, of nftables or iptables, and keys of elements. */
export function constantsIn(texts: Iterable<string>): RuleConstants {
  const words = new Set<string>();
  const networks: AddressInterval[] = [];
  const portRanges: (readonly [number, number])[] = [];
  const noteInterval = (text: string): void => {
    const interval = parseInterval(text);
    if (interval === null) words.add(text);
    else if (interval.low === interval.high) words.add(text.split(/[/-]/, 1)[0] ?? '');
    else if (networks.length < maxNetworks) networks.push(interval);
  };
  for (const text of texts) {
    for (const word of (text.match(/[0-9a-f.:]+(?:\/\d+)?/g) ?? []).filter(isName)) {
      if (!word.includes('/')) words.add(word);
      else noteInterval(word);
    }
    for (const [range, low = '', high = ''] of text.matchAll(/\b([0-9a-f.:]+)-([0-9a-f.:]+)\b/g)) {
      if (/^\d{1,5}-\d{1,5}$/.test(range)) portRanges.push([Number(low), Number(high)]);
      else noteInterval(range);
    }
    for (const [, list = ''] of text.matchAll(/--[ds]?ports? ([\d,:]+)/g))
      for (const [low = '', high = low] of list.split(',').map(part => part.split(':'))) portRanges.push([Number(low), Number(high)]);
  }
  return {words, networks, portRanges};
}

const maxNetworks = 200;

function isName(word: string): boolean {
  return /^\d{1,5}$/.test(word) || /^[0-9a-f]*[.:][0-9a-f.:]*(?:\/\d+)?$/.test(word);
}

/** All Service ports, those first that rules name: by an address, then by a network or range, and by a port. */
export function namedFirst<Port extends ServedPort>(
  items: readonly Port[],
  context: NodeContext,
  constants: RuleConstants,
): readonly Port[] {
  return items
    .map(item => ({item, rank: rankOf(item, context, constants)}))
    .sort((a, b) => b.rank - a.rank)
    .map(({item}) => item);
}

/**
 * Endpoints of a Service port on this node whose addresses rules name: their own connections to the Service may be treated differently from
 * others'. Those of other nodes connect to themselves by the rules of those nodes.
 */
export function namedEndpoints({endpoints}: ServedPort, context: NodeContext, constants: RuleConstants): readonly Endpoint[] {
  const named = endpoints.reachable.filter(endpoint => isOnNode(endpoint, context) && isNamedAddress(endpoint.address, constants));
  return named.slice(0, maxEndpoints);
}

/** Or on one that is not known. */
export function isOnNode({nodeName}: Endpoint, {facts}: NodeContext): boolean {
  return nodeName === null || nodeName === facts.name;
}

const maxEndpoints = 16;

function rankOf(item: ServedPort, context: NodeContext, constants: RuleConstants): number {
  const {addresses, ports} = addressesProbed(item, context);
  const byHost = addresses.some(address => constants.words.has(address));
  const byNetwork = addresses.some(address => isNamedAddress(address, constants));
  const byPort = ports.some(number => isNamedPort(number, constants));
  return (byHost ? 4 : 0) + (byNetwork ? 2 : 0) + (byPort ? 1 : 0);
}

/** The addresses and ports by which a rule may select a Service port. */
function addressesProbed(
  {port, endpoints}: ServedPort,
  context: NodeContext,
): {readonly addresses: readonly string[]; readonly ports: readonly number[]} {
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

function isNamedPort(number: number, {words, portRanges}: RuleConstants): boolean {
  return words.has(String(number)) || portRanges.some(([low, high]) => low <= number && number <= high);
}

function isNamedAddress(text: string, {words, networks}: RuleConstants): boolean {
  if (words.has(text)) return true;
  const address = networks.length === 0 ? null : parseAddress(text);
  return (
    address !== null && networks.some(({family, low, high}) => family === address.family && low <= address.value && address.value <= high)
  );
}
