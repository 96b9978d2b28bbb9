import type {Finding} from '../model/finding.ts';
import {type AgentResult, nodeResultVersion} from '../model/node-result.ts';
import {escapeUnsafe} from './terminal-text.ts';
import {findingObject, place} from './json.ts';

interface AnswerTime {
  /** The agent's clock, in milliseconds since 1970. */
  readonly now: number;
  /** Why the latest check failed; null if it succeeded. */
  readonly trouble: string | null;
}

/** The JSON of an agent's `/result`, as docs/node-result.schema.json describes it. */
export function nodeResultText(result: AgentResult, {now, trouble}: AnswerTime): string {
  const {tool, report, findings, problems, proxy, judgedAt, seconds, intervalSeconds, seen, apiCurrentAt} = result;
  const object = {
    schemaVersion: nodeResultVersion,
    tool,
    now: timeOf(now),
    judgedAt: timeOf(judgedAt),
    seconds,
    intervalSeconds,
    ...(trouble === null ? {} : {trouble}),
    api: {currentAt: timeOf(apiCurrentAt), seen},
    node: report,
    proxy,
    findings: findings.map(resultFinding),
    problems,
  };
  return escapeUnsafe(JSON.stringify(object));
}

function timeOf(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** As in the JSON of `check`, with what other code reads in place of the message, and a place for missing rules, too. */
function resultFinding(finding: Finding): object {
  const {expected = [], variant, gist} = finding;
  return {...findingObject(finding), variant, gist, ...(expected.length === 0 ? {} : {expected: expected.map(place)})};
}
