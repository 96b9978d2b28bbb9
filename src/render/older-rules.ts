import type {FindingGroup} from './group-findings.ts';
import {pushTo} from '../model/lists.ts';

/**
 * Findings of nodes whose rules are what they were before changes in the API: what is new is missing, what is gone is still there, and
 * nothing else is wrong with the Services of the node. The first finding of each such set of nodes, with the others.
 */
export function olderRules(groups: readonly FindingGroup[]): ReadonlyMap<FindingGroup, readonly FindingGroup[]> {
  const ofServices = groups.filter(({finding}) => finding.service !== undefined && finding.severity !== 'info');
  const byNode = new Map<string, FindingGroup[]>();
  for (const group of ofServices) for (const node of group.nodes) pushTo(byNode, node, group);
  const older = new Set([...byNode].filter(([, own]) => areOlder(own)).map(([node]) => node));
  const sets = new Map<string, FindingGroup[]>();
  for (const group of ofServices)
    if (group.nodes.length > 0 && group.nodes.every(node => older.has(node))) pushTo(sets, JSON.stringify(group.nodes), group);
  return new Map([...sets.values()].flatMap(([first, ...others]) => (first === undefined || others.length < 2 ? [] : [[first, others]])));
}

/** Rules that were deleted or added by hand are seldom both, and on several Services. */
function areOlder(groups: readonly FindingGroup[]): boolean {
  const codes = new Set(groups.map(({finding}) => finding.code));
  const services = new Set(groups.map(({finding: {service}}) => JSON.stringify(service)));
  const all = [...codes];
  return (
    services.size > 1 &&
    all.every(code => missing.has(code) || remaining.has(code) || changed.has(code)) &&
    all.some(code => missing.has(code)) &&
    all.some(code => remaining.has(code))
  );
}

/** A new Service, endpoint or entry, or the first endpoint, that the rules lack. */
const missing: ReadonlySet<string> = new Set(['ST201', 'ST202', 'ST206', 'ST213']);
/** A former endpoint or Service, or the last endpoint, that the rules still have. */
const remaining: ReadonlySet<string> = new Set(['ST203', 'ST205', 'ST212']);
/** Another traffic policy, affinity or source ranges than now. */
const changed: ReadonlySet<string> = new Set(['ST207', 'ST209', 'ST210']);
