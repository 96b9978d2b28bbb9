import type {Difference} from '../../model/difference.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {SymptomKind} from './symptom.ts';

type DifferenceKind = Difference<unknown>['kind'];

/** Differences of one kind that no other symptom explains. */
export interface ResidualGroup<D, R extends RuleText> {
  readonly kind: DifferenceKind;
  readonly differences: readonly D[];
  readonly symptom: SymptomKind;
  /** Follows "a rule" or "3 rules" in a message. */
  readonly what: string;
  readonly evidence: {readonly expected: readonly R[]; readonly actual: readonly R[]};
}

/** Groups the differences by kind, missing rules first. */
export function residualGroups<R extends RuleText, D extends {readonly kind: DifferenceKind; readonly rule: R}>(
  differences: readonly D[],
): readonly ResidualGroup<D, R>[] {
  return kinds.flatMap(([kind, symptom, what]) => {
    const group = differences.filter(difference => difference.kind === kind);
    if (group.length === 0) return [];
    const rules = group.slice(0, 6).map(({rule}) => rule);
    const evidence = kind === 'missing' ? {expected: rules, actual: []} : {expected: [], actual: rules};
    return [{kind, symptom, what, evidence, differences: group}];
  });
}

const kinds = [
  ['missing', 'missing-rule', "of kube-proxy's missing"],
  ['extra', 'unexpected-rule', 'that kube-proxy would not have written'],
  ['duplicate', 'duplicate-rule', 'twice'],
  ['reordered', 'unexpected-rule', 'in another order'],
] as const satisfies readonly (readonly [DifferenceKind, SymptomKind, string])[];
