import {identityOf} from './finding-identity.ts';
import {type Finding, severities} from '../finding.ts';

/** The findings that two runs have in common. */
interface PairedFindings {
  /** Findings of the later run that were in the earlier one. */
  readonly stayed: ReadonlySet<Finding>;
  readonly came: readonly Finding[];
  readonly went: readonly Finding[];
}

/**
 * Pairs the findings of two runs, one to one: if there are two now and there was one before, only one is known. Findings with equal
 * messages are paired first; message and line numbers may differ. `fits` restricts the pairs further.
 */
export function pairFindings(
  before: readonly Finding[],
  after: readonly Finding[],
  fits: (before: Finding, after: Finding) => boolean,
): PairedFindings {
  if (before.length === 0) return {stayed: new Set(), came: after, went: []};
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

/** A finding of a higher severity than before is a new one. */
export function isNoWorse(before: Finding, after: Finding): boolean {
  return severities.indexOf(after.severity) >= severities.indexOf(before.severity);
}
