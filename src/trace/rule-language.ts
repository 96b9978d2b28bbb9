import type {LinkProperty} from '../model/node/node-facts.ts';
import type {Family} from '../model/address.ts';
import type {BinaryOperator, NftListElement, NftNat, NftOperator} from '../model/nft-ruleset.ts';
import type {NodeRule} from './walked-packet.ts';

/**
 * A rule of iptables or nftables in the one language that the walker evaluates: conditions on fields of a packet, then an action, and so on
 * to the end of the rule. A rule without a step does nothing.
 */
export interface LoweredRule {
  /** The rule as the dump has it. */
  readonly source: NodeRule;
  readonly steps: readonly Step[];
  /** By it kube-proxy masquerades the connections of an endpoint to itself: endpoints are senders of their own kind. */
  readonly isOfEndpointItself: boolean;
}

/** An action for the packets that meet all conditions before it; null at the end of a rule that only counts or logs. */
export interface Step {
  readonly conditions: readonly Condition[];
  readonly action: Action | null;
}

export type Condition =
  /** A comparison, or a lookup of the left side in a set. */
  | {readonly kind: 'compare'; readonly left: Expression; readonly operator: NftOperator; readonly right: Elements}
  /** At least one of them holds, or none if it is negated. */
  | {readonly kind: 'any'; readonly of: readonly Condition[]; readonly not: boolean}
  /** An ipset; `directions` is `src` or `dst` for each part of its elements. */
  | {readonly kind: 'ipset'; readonly name: string; readonly directions: string; readonly not: boolean}
  /** The sender is on a list of the module `recent`. */
  | {readonly kind: 'recent'; readonly list: string; readonly not: boolean}
  /** The module `physdev` asks for the port of a bridge by which the packet arrived or leaves. */
  | {readonly kind: 'bridge port'; readonly name?: string; readonly not: boolean}
  /** Left to chance: the share of packets, 0 to 1. Never is 0, always is 1. */
  | {readonly kind: 'chance'; readonly share: number}
  /** Not understood: the text of the rule. */
  | {readonly kind: 'unknown'; readonly text: string};

export type Expression =
  | {readonly kind: 'field'; readonly field: Field}
  /** An address, a prefix, a range `1-5`, a word, flags `new,established`, or an interface `eth*` or `eth+`. */
  | {readonly kind: 'constant'; readonly text: string}
  | {readonly kind: 'concat'; readonly parts: readonly Expression[]}
  | {readonly kind: 'binary'; readonly operator: BinaryOperator; readonly left: Expression; readonly right: Expression}
  /** The value that a map has for a key. */
  | {readonly kind: 'map'; readonly key: Expression; readonly elements: Elements}
  | {readonly kind: 'unknown'};

/** What a key is looked up in: a named set or map of the table, or elements that the rule lists. */
export type Elements =
  | {readonly kind: 'set'; readonly name: string}
  | {readonly kind: 'list'; readonly elements: readonly NftListElement[]}
  | {readonly kind: 'unknown'};

/** What a condition reads of a packet. */
export interface Field {
  readonly name: FieldName;
  /** A packet of another family or protocol has no such field, and the condition fails whatever it asks. */
  readonly of?: Family | 'tcp' | 'udp' | 'sctp';
  /** Of `random`: a number from `first` on, `count` of them, all equally likely. */
  readonly first?: number;
  readonly count?: number;
  /** Of an address type: it is asked for the interface alone by which the packet arrives, or leaves. */
  readonly ofInterface?: 'iif' | 'oif';
  /** Of an interface: not its name is compared. */
  readonly about?: LinkProperty;
}

export type FieldName =
  | 'saddr'
  | 'daddr'
  | 'sport'
  | 'dport'
  | 'protocol'
  | 'nfproto'
  | 'ethertype'
  | 'ip version'
  | 'header length'
  | 'length'
  | 'content'
  | 'fragment offset'
  | 'hops'
  /** The type of service, which the sender chooses unless a rule sets it. */
  | 'tos'
  /** Its upper part, a number or the name of a class. */
  | 'dscp'
  | 'realm'
  /** Whether it came by IPsec, or leaves by it. */
  | 'ipsec'
  | 'tcp flags'
  /** Each SYN names one that links really have, and no other packet names one. */
  | 'segment size'
  | 'iif'
  | 'oif'
  | 'mark'
  | 'packet type'
  | 'icmp type'
  | 'saddr type'
  | 'daddr type'
  | 'reverse path'
  /** The interface that leads to an address. */
  | 'saddr oif'
  | 'daddr oif'
  /** The gateway to which the packet leaves, or its destination. */
  | 'next hop'
  | 'ct state'
  | 'ct status'
  | 'ct mark'
  | 'ct direction'
  | 'ct protocol'
  | 'ct family'
  | 'ct helper'
  | 'ct label'
  | 'ct zone'
  | 'ct original saddr'
  | 'ct original daddr'
  | 'ct original dport'
  | 'ct original sport'
  | 'ct reply saddr'
  | 'ct reply daddr'
  | 'ct reply sport'
  | 'ct reply dport'
  /** Whether a process of the node sent the packet, and which one. */
  | 'socket'
  | 'owner'
  | 'ipvs'
  | 'ipvs protocol'
  | 'ipvs address'
  | 'ipvs port'
  | 'ipvs direction'
  | 'ipvs method'
  | 'random'
  /** A number from `first` on, that the addresses and ports of a packet decide in a way that no dump shows. */
  | 'hash'
  /** The date. */
  | 'time'
  /** Whether the packet has one of IPv6. */
  | 'extension header'
  /** No packet that is walked has it, such as a field of ICMP. */
  | 'none'
  | 'unknown';

export type Action =
  | {readonly kind: 'verdict'; readonly verdict: 'accept' | 'drop' | 'reject' | 'return'}
  /** A chain of the table; if it has none of this name, what the name means as a target. */
  | {readonly kind: 'call'; readonly chain: string; readonly isGoto: boolean; readonly otherwise?: Action}
  /** The verdict that a map has for a key; without one, the rule does not match. */
  | {readonly kind: 'verdict map'; readonly key: Expression; readonly elements: Elements}
  | {readonly kind: 'assign'; readonly to: AssignedField; readonly value: Expression}
  | {
      readonly kind: 'nat';
      /** `netmap` translates what its hook does: the destination, or the source. */
      readonly nat: NftNat | 'netmap';
      /** Null keeps the address of the packet. */
      readonly to: Expression | null;
      /** Empty keeps the port; null if it is unknown. */
      readonly port: string | null;
      /** A new source port is drawn at random. */
      readonly isRandom: boolean;
      /** The destination as the rule writes it. */
      readonly text: string;
    }
  /** Connection tracking is switched off, if it has not begun. */
  | {readonly kind: 'notrack'}
  /** TPROXY gives the packet to a program of the node. `goesOn`: later rules still see it. */
  | {readonly kind: 'capture'; readonly goesOn: boolean}
  /** A program that reads one of these queues decides; where none does, the packet is dropped, or goes on if the queues are bypassed. */
  | {readonly kind: 'queue'; readonly low: number; readonly high: number; readonly isBypassed: boolean}
  /** It changes nothing that matters to the packet's path. */
  | {readonly kind: 'noted'}
  | {readonly kind: 'unknown'; readonly reason: string};

export type AssignedField = 'mark' | 'ct mark' | 'ct label' | 'hops' | 'tos' | 'zone' | 'zone-orig' | 'zone-reply';

export const always: Condition = {kind: 'chance', share: 1};
export const never: Condition = {kind: 'chance', share: 0};

export function fieldOf(name: FieldName, of?: Field['of']): Expression {
  return {kind: 'field', field: of === undefined ? {name} : {name, of}};
}

/** The field has one of these values, or none of them. */
export function isOneOf(left: Expression, texts: readonly string[], not = false): Condition {
  const elements = texts.map(key => ({key, value: null}));
  return {kind: 'compare', left, operator: not ? '!=' : '==', right: {kind: 'list', elements}};
}

/** `queue flags bypass to 1-3`, `--queue-balance 0:3 --queue-bypass`. Where the packet decides the number, it may be any. */
export function queueOf(text: string): Action {
  const [, low = '0', high = low] = / mod /.test(text) ? ['', '0', '65535'] : (/(\d+)(?:[-:](\d+))?/.exec(text) ?? []);
  return {kind: 'queue', low: Number(low), high: Number(high), isBypassed: text.includes('bypass')};
}
