import type {NodeChange} from '../model/findings/bundle-diff.ts';
import type {NodeReport} from '../model/report.ts';
import {diffFields, type ComparedFields} from './diff-fields.ts';
import {pairUp} from './diff-keyed.ts';

/** Nodes that are new, removed, or have other settings. */
export function diffNodes(before: readonly NodeReport[], after: readonly NodeReport[]): readonly NodeChange[] {
  return pairUp(before, after, ({name}) => name).flatMap((pair): readonly NodeChange[] => {
    const node = (pair.after ?? pair.before)?.name ?? '';
    if (pair.before === undefined || pair.after === undefined)
      return [{kind: pair.before === undefined ? 'came' : 'went', node, fields: []}];
    const fields = diffFields(fieldsOf(pair.before), fieldsOf(pair.after));
    return fields.length === 0 ? [] : [{kind: 'changed', node, fields}];
  });
}

function fieldsOf({status, reason, backend, settings}: NodeReport): ComparedFields {
  return {
    ...{status: reason === undefined ? status : `${status}: ${reason}`, backend},
    ...Object.fromEntries(Object.entries(settings).map(([name, {value}]) => [name, value])),
  };
}
