import type {Rule} from './ruleset.ts';

/**
 * One difference between actual and expected rules. `owner` is the Service port (or another kind of group) that the rule belongs to; null
 * for base rules and for rules that are not expected.
 */
export type Difference<Owner> =
  | {readonly kind: 'missing'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null}
  | {readonly kind: 'extra'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null}
  | {readonly kind: 'duplicate'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null}
  | {readonly kind: 'reordered'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null};
