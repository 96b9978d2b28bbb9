import {affinitySets, type SetShape} from './base-sets.ts';
import {isPlain} from './json-spelling.ts';
import type {NftPlan} from './nft-port.ts';
import type {RuleSpelling} from './rule-spelling.ts';
import {serviceChains} from './service-chains.ts';
import {type SharedElement, serviceElements} from './service-elements.ts';

/** The two forms of nft's output. */
export interface Spellings {
  readonly text: RuleSpelling;
  readonly json: RuleSpelling;
}

/** Everything that kube-proxy creates for one Service port, each part computed when something asks for it. */
export class PortObjects {
  readonly #plan: NftPlan;
  readonly #spellings: Spellings;
  #chains: ReadonlyMap<string, readonly string[]> | null = null;

  constructor(plan: NftPlan, spellings: Spellings) {
    this.#plan = plan;
    this.#spellings = spellings;
  }

  get elements(): readonly SharedElement[] {
    return serviceElements(this.#plan);
  }

  get sets(): readonly SetShape[] {
    return affinitySets(this.#plan);
  }

  /** The texts of the rules of its own chains, by name. */
  get chains(): ReadonlyMap<string, readonly string[]> {
    this.#chains ??= serviceChains(this.#plan, this.#spellings.text);
    return this.#chains;
  }

  /** The same rules as JSON has them after their handles. Null for names that JSON escapes, which Kubernetes does not allow. */
  get jsonChains(): ReadonlyMap<string, readonly string[]> | null {
    return isPlain(this.#plan.item.names.base) ? serviceChains(this.#plan, this.#spellings.json) : null;
  }
}
