import type {Finding} from '../model/finding.ts';
import {countServices, type ServicesInScope} from '../model/count-services.ts';
import type {NodeReport, Summary} from '../model/report.ts';

interface SummaryInput {
  /** Errors and warnings that are not shown: they count for Services only. */
  readonly leftOut: readonly Finding[];
  readonly services: ServicesInScope;
  readonly servicePorts: number;
  /** Everything requested could be read, except nodes. */
  readonly isComplete: boolean;
}

export function summarize(
  findings: readonly Finding[],
  nodes: readonly NodeReport[],
  {leftOut, services, servicePorts, isComplete}: SummaryInput,
): Summary {
  const count = (severity: Finding['severity']): number =>
    findings.filter(finding => finding.severity === severity && !finding.known).length;
  const unread = nodes.filter(({status}) => status === 'unread').length;
  const [errors, warnings, infos] = [count('error'), count('warning'), count('info')];
  const incomplete = unread > 0 || !isComplete;
  return {
    verdict: errors + warnings > 0 && !(incomplete && errors === 0) ? 'findings' : incomplete ? 'incomplete' : 'ok',
    ...{errors, warnings, infos},
    nodesChecked: nodes.filter(({status}) => status === 'checked').length,
    nodesUnread: unread,
    ...countServices(services, [...findings, ...leftOut], nodes),
    servicePorts,
    ...(leftOut.length === 0 ? {} : {notShown: leftOut.length}),
  };
}
