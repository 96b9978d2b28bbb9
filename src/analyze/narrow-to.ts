/** The Services that a narrowed dump is about. */
export interface NarrowTo {
  /** `namespace/name`. */
  readonly services: ReadonlySet<string>;
  /** The 16 characters in the names of their chains in iptables mode, in every state that they had. */
  readonly hashes: ReadonlySet<string>;
}
