import {symptomCheck} from './symptom-check.ts';

export const undecidedPath = symptomCheck({
  code: 'ST403',
  name: 'undecided-path',
  severity: 'warning',
  summary: "A rule on a Service's path uses a match or target that could not be interpreted",
  remedy:
    'Look at the rule named: whether it lets the packets pass is for you to tell. An ipset match can be told when the bundle holds ipset-save.',
});
