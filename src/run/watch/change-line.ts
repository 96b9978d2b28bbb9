import {changeText, passingServiceText, serviceChangeText} from '../../render/table/change-line.ts';
import type {Style} from '../../render/style.ts';
import type {TimedChange} from './finding-changes.ts';

/** A change in one line, without its time. */
export function changeLine(change: TimedChange, style: Style): string {
  if (change.kind === 'passed') return passingServiceText(change);
  return 'finding' in change ? changeText(change.kind, change.finding, style) : serviceChangeText(change.kind, change.service);
}
