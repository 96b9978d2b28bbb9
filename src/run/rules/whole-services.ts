import {Errors} from '@oclif/core';
import type {Snapshot} from '../../model/snapshot.ts';
import {escapeText} from '../../render/escape.ts';

/** Rules follow from Services and their endpoints. Throws a CLIError (exit 3) with the reason if one of them was not read. */
export function requireServices({api: {services, endpointSlices, endpoints}, problems}: Snapshot): void {
  const areServicesRead = services !== null;
  if (areServicesRead && (endpointSlices !== null || endpoints !== null)) return;
  const problem = problems.find(({list}) => list !== undefined && (list === 'services') !== areServicesRead);
  const name = areServicesRead ? 'EndpointSlices' : 'Services';
  const reason = problem === undefined ? '' : `: ${problem.message}`;
  throw new Errors.CLIError(escapeText(`the ${name} could not be read${reason}`), {
    exit: 3,
    ...(problem?.remedy === undefined ? {} : {suggestions: [escapeText(problem.remedy)]}),
  });
}
