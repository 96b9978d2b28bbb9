import type {Family} from '../../model/family.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';
import {ipWord, prefixText} from './nft-text.ts';
import type {RuleSpelling} from './rule-spelling.ts';

/**
 * Rules as `nft -j list ruleset` 1.0.6 prints them, from the comma after the handle to the end. A rule of a dump with these bytes is the
 * rule. Another version of nft may print it in another way: then it is read and compared as text, which takes longer.
 *
 * Names and addresses are not escaped: see `isPlain`.
 */
export function jsonSpelling(family: Family): RuleSpelling {
  const ip = ipWord(family);
  const fields = {saddr: payload(ip, 'saddr'), daddr: payload(ip, 'daddr')};
  return {
    rule: (statements, comment) => `${comment === undefined ? '' : `, "comment": "${comment}"`}, "expr": [${statements}]}}`,
    and: (first, second) => `${first}, ${second}`,
    call,
    address: (field, value) => match(fields[field], `"${value}"`),
    source: (cidr, isNegated) => match(fields.saddr, network(prefixText(cidr)), isNegated),
    sourceOutside: networks => match(fields.saddr, networkList(networks), true),
    link: (key, name, isNegated) => match(`{"meta": {"key": "${key}"}}`, JSON.stringify(name), isNegated),
    localSource: match('{"fib": {"result": "type", "flags": ["saddr"]}}', '"local"'),
    drop: '{"drop": null}',
    protocol: word => match('{"meta": {"key": "l4proto"}}', `"${word}"`),
    port: (protocol, port) => match(payload(protocol, 'dport'), String(port)),
    setMark: mark => `{"mangle": {"key": ${markKey}, "value": {"|": [${markKey}, ${Number(mark)}]}}}`,
    rememberSource: set => `{"set": {"op": "update", "elem": ${fields.saddr}, "set": "@${set}"}}`,
    dnat: ({address, port}) => `{"dnat": {"addr": "${address}", "port": ${port}}}`,
    balancedDNAT: endpoints => {
      const map = choice(endpoints.map(({address, port}, index) => `[${index}, {"concat": ["${address}", ${port}]}]`));
      return `{"dnat": {"family": "${ip}", "addr": {"map": ${map}}}}`;
    },
    balancedGoto: chains => `{"vmap": ${choice(chains.map((chain, index) => `[${index}, ${call('goto', chain)}]`))}}`,
  };
}

/** Whether JSON prints a name without escapes. */
export function isPlain(name: string): boolean {
  return plain.test(name);
}

const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
const markKey = '{"meta": {"key": "mark"}}';

function call(kind: 'goto' | 'jump', chain: string): string {
  return `{"${kind}": {"target": "${chain}"}}`;
}

function match(left: string, right: string, isNegated = false): string {
  return `{"match": {"op": "${isNegated ? '!=' : '=='}", "left": ${left}, "right": ${right}}}`;
}

function payload(protocol: string, field: string): string {
  return `{"payload": {"protocol": "${protocol}", "field": "${field}"}}`;
}

/** An address, a network or a range. */
function network(text: string): string {
  const slash = text.indexOf('/');
  if (slash >= 0) return `{"prefix": {"addr": "${text.slice(0, slash)}", "len": ${text.slice(slash + 1)}}}`;
  const dash = text.indexOf('-');
  return dash < 0 ? `"${text}"` : `{"range": ["${text.slice(0, dash)}", "${text.slice(dash + 1)}"]}`;
}

function networkList(networks: readonly string[]): string {
  const [only] = networks;
  if (networks.length === 1 && only !== undefined) return network(prefixText(only));
  return `{"set": [${(mergeAddresses(networks) ?? networks).map(network).join(', ')}]}`;
}

function choice(items: readonly string[]): string {
  return `{"key": {"numgen": {"mode": "random", "mod": ${items.length}, "offset": 0}}, "data": {"set": [${items.join(', ')}]}}`;
}
