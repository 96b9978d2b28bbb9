import {identityOf} from './finding-identity.ts';
import {type Finding, severities} from '../finding.ts';

/** Which findings of two runs are the same. */
interface PairedFindings {
  /** Of the later run, those that were there in the earlier one. */
  readonly stayed: ReadonlySet<Finding>;
  readonly came: readonly Finding[];
  readonly went: readonly Finding[];
}

/**
 * Pairs the findings of two runs, one to one: of two about the same thing only one is known when there was one before. Among these
 * the one with the same words comes first; words and line numbers may be others. `fits` says more of what may be the same.
 */
export function pairFindings(
  before: readonly Finding[],
  after: readonly Finding[],
  fits: (before: Finding, after: Finding) => boolean,
): PairedFindings {
  const left = Map.groupBy(before, identityOf);
  const stayed = new Set<Finding>();
  const pair = (finding: Finding, isSame: (other: Finding) => boolean): void => {
    const others = left.get(identityOf(finding)) ?? [];
    const at = others.findIndex(other => fits(other, finding) && isSame(other));
    if (at < 0) return;
    others.splice(at, 1);
    stayed.add(finding);
  };
  for (const finding of after) pair(finding, ({message}) => message === finding.message);
  for (const finding of after) if (!stayed.has(finding)) pair(finding, () => true);
  return {stayed, came: after.filter(finding => !stayed.has(finding)), went: [...left.values()].flat()};
}

/** What has become worse is not what was known. */
export function isNoWorse(before: Finding, after: Finding): boolean {
  return severities.indexOf(after.severity) >= severities.indexOf(before.severity);
}
