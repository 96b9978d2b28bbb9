import type {KnownSenders} from '../../outcomes/sources.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Difference} from '../../../model/difference.ts';
import type {Rule, Ruleset} from '../../../model/ruleset.ts';
import type {Evidence} from '../../outcomes/mode-semantics.ts';
import type {IptablesServiceView} from '../iptables-service-view.ts';

export type PortDifference = Difference<PortOnNode>;

export interface PortCase {
  readonly item: PortOnNode;
  readonly differences: readonly PortDifference[];
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: IptablesServiceView;
  /** Some unexpected rule in a shared chain may match packets of any Service port. */
  readonly isBesideBroadRules: boolean;
  readonly senders: () => KnownSenders;
}

/** The differences of one Service port, with the queries that its analysis needs. */
export class PortDifferences {
  readonly all: readonly PortDifference[];
  readonly #hash: string;

  constructor({item, differences}: Pick<PortCase, 'item' | 'differences'>) {
    this.all = differences;
    this.#hash = item.port.hash;
  }

  of(kind: PortDifference['kind']): readonly PortDifference[] {
    return this.all.filter(difference => difference.kind === kind);
  }

  missingRules(): readonly Rule[] {
    return this.of('missing').map(({rule}) => rule);
  }

  extraRules(): readonly Rule[] {
    return this.of('extra').map(({rule}) => rule);
  }

  /** A chain of the Service port's own. */
  isOwn(chain: string): boolean {
    return parseChainName(chain)?.hash === this.#hash;
  }

  /** Differences as evidence: some missing rules, and some unexpected ones. */
  evidence(concerns: (difference: PortDifference) => boolean): Evidence<Rule> {
    const concerned = this.all.filter(concerns);
    const rules = (missing: boolean): readonly Rule[] =>
      concerned
        .filter(({kind}) => (kind === 'missing') === missing)
        .map(({rule}) => rule)
        .slice(0, 4);
    return {expected: rules(true), actual: rules(false)};
  }
}
