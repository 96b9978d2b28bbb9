import {checks} from '../src/checks/all-checks.ts';
import type {Finding} from '../src/model/finding.ts';

/** A finding as it is read of an agent: what to do is not a node's word, and so that of the check, without a command. */
export function withUsualRemedy({command: _, ...finding}: Finding): Finding {
  return {...finding, remedy: checks.find(({code}) => code === finding.code)?.remedy ?? finding.remedy};
}
