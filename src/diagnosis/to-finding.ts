import type {Finding, Observation} from '../model/finding.ts';

type Code = Pick<Finding, 'code' | 'name' | 'severity' | 'remedy'>;

/** What a check saw becomes a finding by the code, the severity and the advice of the check, where it does not bring its own. */
export function toFinding({code, name, severity, remedy}: Code, observation: Observation): Finding {
  return {...observation, code, name, severity: observation.severity ?? severity, remedy: observation.remedy ?? remedy};
}
