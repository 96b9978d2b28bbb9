import {maxAge} from '../model/node-result.ts';
import type {AgentState} from './agent.ts';

/**
 * Why an agent's result is outdated; null if it is not. `now` is in milliseconds since 1970. `check --agents` applies the same rule.
 */
export function whyOutdated({result, trouble}: Pick<AgentState, 'result' | 'trouble'>, now: number): string | null {
  if (result === null) return `the node has not been checked yet${trouble === null ? '' : `: ${trouble}`}`;
  const age = (now - result.judgedAt) / 1000;
  if (age <= maxAge(result)) return null;
  return `the node was last checked ${Math.round(age)} s ago${trouble === null ? '' : `: ${trouble}`}`;
}
