import {affinitySets, type SetShape} from './base-sets.ts';
import {isPlain} from './json-spelling.ts';
import type {JsonChains} from './kept-json-chains.ts';
import type {NftPlan, NftPort} from './nft-port.ts';
import type {RuleSpelling} from './rule-spelling.ts';
import {serviceChains} from './service-chains.ts';
import {type SharedElement, serviceElements} from './service-elements.ts';

/** How chains are written: in the two forms of nft's output. */
export interface ChainWriting {
  readonly text: RuleSpelling;
  readonly json: RuleSpelling;
  /** See `keptJsonChains`. */
  readonly keep: (item: NftPort, render: () => JsonChains) => JsonChains;
}

/** Everything that kube-proxy creates for one Service port, each part computed when something asks for it. */
export class PortObjects {
  readonly #plan: NftPlan;
  readonly #writing: ChainWriting;
  #chains: ReadonlyMap<string, readonly string[]> | null = null;

  constructor(plan: NftPlan, writing: ChainWriting) {
    this.#plan = plan;
    this.#writing = writing;
  }

  get elements(): readonly SharedElement[] {
    return serviceElements(this.#plan);
  }

  get sets(): readonly SetShape[] {
    return affinitySets(this.#plan);
  }

  /** The texts of the rules of its own chains, by name. */
  get chains(): ReadonlyMap<string, readonly string[]> {
    this.#chains ??= serviceChains(this.#plan, this.#writing.text);
    return this.#chains;
  }

  /** The same rules as JSON has them after their handles. Null for names that JSON escapes, which Kubernetes does not allow. */
  get jsonChains(): JsonChains {
    const {item} = this.#plan;
    if (!isPlain(item.names.base)) return null;
    return this.#writing.keep(item, () => serviceChains(this.#plan, this.#writing.json));
  }
}
