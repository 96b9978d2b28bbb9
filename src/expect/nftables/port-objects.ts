import type {NftJsonSink} from '../../model/nft-ruleset.ts';
import {affinitySets, type SetShape} from './base-sets.ts';
import {isPlainJson} from '../../parse/nftables/nft-json-chains.ts';
import {JsonWriter} from './json-writer.ts';
import type {KeepChains} from './kept-json-chains.ts';
import type {NftPlan} from './nft-port.ts';
import {writeServiceChains} from './service-chains.ts';
import {type SharedElement, serviceElements} from './service-elements.ts';
import {TextWriter} from './text-writer.ts';

/** Everything that kube-proxy creates for one Service port, each part computed when something asks for it. */
export class PortObjects {
  readonly #plan: NftPlan;
  readonly #keep: KeepChains;
  #chains: ReadonlyMap<string, readonly string[]> | null = null;

  constructor(plan: NftPlan, keep: KeepChains) {
    this.#plan = plan;
    this.#keep = keep;
  }

  get elements(): readonly SharedElement[] {
    return serviceElements(this.#plan);
  }

  get sets(): readonly SetShape[] {
    return affinitySets(this.#plan);
  }

  /** The texts of the rules of its own chains, by name. */
  get chains(): ReadonlyMap<string, readonly string[]> {
    this.#chains ??= this.#written();
    return this.#chains;
  }

  #written(): ReadonlyMap<string, readonly string[]> {
    const writer = new TextWriter(this.#plan.context.family);
    writeServiceChains(this.#plan, writer);
    return writer.chains;
  }

  /**
   * Writes the same rules as JSON has them after their handles. Returns false, and writes nothing, for names that JSON escapes, which
   * Kubernetes does not allow.
   */
  writeJson(sink: NftJsonSink): boolean {
    const {item, context} = this.#plan;
    if (!isPlainJson(item.names.base)) return false;
    const write = this.#keep(item, to => writeServiceChains(this.#plan, new JsonWriter(context.family, to)));
    write(sink);
    return true;
  }
}
