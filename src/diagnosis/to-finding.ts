import type {Finding, Observation} from '../model/finding.ts';

type Code = Pick<Finding, 'code' | 'name' | 'severity' | 'remedy'>;

/** Turns an observation into a finding. Code, severity and remedy are those of the check, unless the observation has its own. */
export function toFinding({code, name, severity, remedy}: Code, observation: Observation): Finding {
  return {...observation, code, name, severity: observation.severity ?? severity, remedy: observation.remedy ?? remedy};
}
