import type {ServedPort} from '../expect/cluster/served-port.ts';
import type {Family} from '../model/family.ts';
import type {PortTrace} from '../model/service-trace.ts';
import {Differing} from './differing.ts';
import type {ModeAnalysis} from './proxy-mode.ts';
import type {Symptom} from './symptoms/symptom.ts';

/** What was found in one family of a node. */
export interface FamilyResult {
  readonly family: Family;
  /** Why it was not evaluated, or not wholly. */
  readonly reasons: readonly string[];
  readonly evaluated: boolean;
  readonly symptoms: readonly Symptom[];
  readonly traces: readonly PortTrace[];
  /** The Service ports that differ, with the part of the dumps that each differing object is in. */
  readonly differing: readonly (readonly [ServedPort, readonly string[]])[];
}

/** A family of which nothing was found, because it was not evaluated. */
export function unreadFamily(family: Family, reason: string): FamilyResult {
  return {family, reasons: [reason], evaluated: false, symptoms: [], traces: [], differing: []};
}

export function joinFamilies(
  results: readonly FamilyResult[],
): Pick<ModeAnalysis, 'families' | 'unread' | 'symptoms' | 'traces' | 'differing'> {
  const differing = new Differing();
  for (const [{port}, places] of results.flatMap(result => result.differing)) differing.add(port, places);
  return {
    families: results.filter(({evaluated}) => evaluated).map(({family}) => family),
    unread: results.flatMap(({family, reasons}) => reasons.map(reason => ({family, reason}))),
    symptoms: results.flatMap(({symptoms}) => symptoms),
    traces: results.flatMap(({traces}) => traces),
    differing: differing.services,
  };
}
