import type {ClusterContext} from '../checks/check.ts';
import {checks} from '../checks/index.ts';
import type {Finding} from '../model/finding.ts';
import {toFinding} from './to-finding.ts';

/** The findings that need only the API objects. */
export function clusterFindings(context: ClusterContext): readonly Finding[] {
  return checks.flatMap(check =>
    check.cluster === undefined ? [] : [...check.cluster(context)].map(observation => toFinding(check, observation)),
  );
}
