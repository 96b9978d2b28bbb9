import type {Rule} from './ruleset.ts';

/**
 * One way in which the rules found are not the rules expected. `owner` is the Service port (or whatever the expectation calls
 * its groups) that the rule belongs to, null when it belongs to the frame or to nothing that is expected.
 */
export type Difference<Owner> =
  | {readonly kind: 'missing'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null}
  | {readonly kind: 'extra'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null}
  | {readonly kind: 'duplicate'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null}
  | {readonly kind: 'reordered'; readonly table: string; readonly chain: string; readonly rule: Rule; readonly owner: Owner | null};
