import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {PortSymptom, SymptomList} from '../symptoms/symptom-list.ts';
import type {SymptomKind} from '../symptoms/symptom.ts';
import type {ModeSemantics} from './mode-semantics.ts';
import type {ProbeComparison} from './path-outcome.ts';
import type {Probe} from './probes.ts';

/** The probes of one Service port, and what else is known of it. */
export interface OutcomeCase<R extends RuleText> {
  readonly item: ServedPort;
  readonly probes: readonly Probe[];
  /** Walks a probe through the expected and the actual rules. */
  readonly walk: (probe: Probe) => ProbeComparison<R>;
  readonly semantics: ModeSemantics<R>;
  readonly symptoms: SymptomList<R>;
  /** What the rules of session affinity show by themselves, computed after the endpoints were compared. Null if they show nothing. */
  readonly affinity?: (changesOutcome: boolean) => PortSymptom<R> | null;
}

/** Symptoms of single endpoints. */
export const endpointKinds: readonly SymptomKind[] = ['missing-endpoint', 'stale-endpoint', 'wrong-endpoint-address', 'broken-jump'];
