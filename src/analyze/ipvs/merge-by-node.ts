import {append} from '../../model/lists.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {setName} from '../../expect/ipvs/set-names.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import type {IpvsDifferences} from './ipvs-differences.ts';
import type {IpvsState} from './ipvs-state.ts';

interface NodeWide {
  readonly expected: ExpectedIpvs;
  readonly differences: IpvsDifferences;
  readonly state: IpvsState;
}

/** One cause that affects many Services is one finding: an emptied set, another scheduler. */
export function mergeByNode(symptoms: readonly Symptom<Rule>[], given: NodeWide): readonly Symptom<Rule>[] {
  const isScheduler = ({cause}: Symptom<Rule>): boolean => cause === 'scheduler';
  return emptiedSets(given).reduce<readonly Symptom<Rule>[]>(mergeOfSet, mergeAlike(symptoms, {of: isScheduler, words: ''}));
}

/** If some Services are affected, those that are not affected are not reported. */
function mergeOfSet(symptoms: readonly Symptom<Rule>[], set: string): readonly Symptom<Rule>[] {
  const loud = symptoms.some(symptom => isOfSet(symptom, set) && symptom.severity !== 'info');
  const kept = loud ? symptoms.filter(symptom => !isOfSet(symptom, set) || symptom.severity !== 'info') : symptoms;
  return mergeAlike(kept, {of: symptom => isOfSet(symptom, set), words: `ipset ${set} holds nothing, so `});
}

function emptiedSets({expected, state}: NodeWide): readonly string[] {
  if (state.sets === null) return [];
  return [...expected.members].flatMap(([role, members]) => {
    const set = setName(role, expected.context.family);
    return members.size > 1 && (state.sets?.get(set)?.elements.length ?? 0) === 0 ? [set] : [];
  });
}

function isOfSet({expected}: Symptom<Rule>, set: string): boolean {
  return expected.some(({table, chain}) => table === 'ipset' && chain === set);
}

interface SharedCause {
  readonly of: (symptom: Symptom<Rule>) => boolean;
  /** Put before the detail of the first Service port. */
  readonly words: string;
}

/** Symptoms of one kind and one cause become the first of them, for the whole node. */
function mergeAlike(symptoms: readonly Symptom<Rule>[], {of, words}: SharedCause): readonly Symptom<Rule>[] {
  const merged: Symptom<Rule>[] = [];
  for (const group of Map.groupBy(symptoms, symptom => (of(symptom) ? symptom.kind : null))) {
    const [kind, all] = group;
    const [first] = all;
    const ports = new Set(all.flatMap(({port}) => port?.servicePortName ?? []));
    if (kind === null || first === undefined || ports.size < 2) {
      append(merged, all);
      continue;
    }
    const {entry: _, entries: __, endpoint: ___, ...rest} = first;
    const severe = all.find(({severity}) => severity === 'error') ?? first;
    const detail = `${words}${first.detail.replace(' its ', ' the ')} (${ports.size} Service ports, such as ${[...ports][0]})`;
    merged.push({
      ...{...rest, port: null, detail},
      ...(severe.severity === undefined ? {} : {severity: severe.severity}),
      expected: all.flatMap(({expected}) => expected).slice(0, 6),
      actual: all.flatMap(({actual}) => actual).slice(0, 6),
    });
  }
  return merged;
}
