/** One statement of a rule: a condition or an action. */
export type NftStatement =
  | {readonly kind: 'match'; readonly left: NftExpression; readonly operator: NftOperator; readonly right: NftExpression}
  | {readonly kind: 'verdict'; readonly verdict: NftVerdict}
  /** `KEY vmap MAP`: the verdict for the key, or the next rule. */
  | {readonly kind: 'vmap'; readonly key: NftExpression; readonly map: NftExpression}
  /** `meta mark set VALUE`. */
  | {readonly kind: 'assign'; readonly target: string; readonly value: NftExpression}
  | {readonly kind: 'nat'; readonly action: NftNat; readonly to: NftExpression | null; readonly port: NftExpression | null}
  | {readonly kind: 'reject'}
  | {readonly kind: 'notrack'}
  /** `update @set { KEY }`, and `add` and `delete`. */
  | {readonly kind: 'set'; readonly operation: string; readonly set: string; readonly key: NftExpression}
  /** Counters, logs and the like, which do not affect a packet's path. */
  | {readonly kind: 'passive'; readonly text: string}
  /** Not understood: its condition or action is unknown. */
  | {readonly kind: 'unknown'; readonly text: string};

export type NftOperator = '==' | '!=' | '<' | '>' | '<=' | '>=';
export type NftNat = 'dnat' | 'snat' | 'masquerade' | 'redirect';

export type NftVerdict =
  | {readonly kind: 'accept' | 'drop' | 'return' | 'continue'}
  | {readonly kind: 'jump' | 'goto'; readonly chain: string}
  | {readonly kind: 'unknown'; readonly text: string};

export type NftExpression =
  /** A selector of the packet: `ip daddr`, `meta l4proto`, `ct state`, `fib daddr type`, `numgen random mod 3`. */
  | {readonly kind: 'selector'; readonly text: string}
  /** A constant, without quotes: an address, a prefix `10.0.0.0/8`, a range `1-5`, a word, flags `new,established`, or `eth*`. */
  | {readonly kind: 'value'; readonly text: string}
  /** `@name`. */
  | {readonly kind: 'reference'; readonly set: string}
  /** An anonymous set or map `{ … }`. */
  | {readonly kind: 'list'; readonly elements: readonly NftListElement[]}
  /** `a . b`. */
  | {readonly kind: 'concat'; readonly parts: readonly NftExpression[]}
  | {readonly kind: 'binary'; readonly operator: '&' | '|' | '^' | '<<' | '>>'; readonly left: NftExpression; readonly right: NftExpression}
  /** `KEY map MAP`. */
  | {readonly kind: 'map'; readonly key: NftExpression; readonly map: NftExpression}
  | {readonly kind: 'unknown'; readonly text: string};

/** Key and value, in the same spelling as elements of named sets. */
export interface NftListElement {
  readonly key: string;
  /** Null in a set. */
  readonly value: string | null;
}
