import type {Finding} from '../model/finding.ts';
import {type AgentResult, nodeResultVersion} from '../model/node-result.ts';
import {escapeUnsafe} from './escape.ts';
import {docsOf, place} from './json.ts';

/** The JSON of an agent's `/result`, as docs/node-result.schema.json describes it. `now` is the agent's clock, in milliseconds since 1970. */
export function nodeResultText(result: AgentResult, now: number): string {
  const {tool, report, findings, problems, proxy, judgedAt, seconds, intervalSeconds, seen, apiCurrentAt} = result;
  const object = {
    schemaVersion: nodeResultVersion,
    tool,
    now: timeOf(now),
    judgedAt: timeOf(judgedAt),
    ...{seconds, intervalSeconds},
    api: {currentAt: timeOf(apiCurrentAt), seen},
    ...{node: report, proxy},
    findings: findings.map(findingObject),
    problems,
  };
  return escapeUnsafe(JSON.stringify(object));
}

function timeOf(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** As in the JSON of `check`, but that rules which should be there say where, too. */
function findingObject(finding: Finding): object {
  const {code, name, severity, node, family, service, port, entry, endpoint, message, expected, actual, remedy} = finding;
  return {
    ...{code, name, severity, node, family, service, port, entry, endpoint, message, remedy},
    expected: expected?.map(place),
    actual: actual?.map(place),
    docs: docsOf(code),
  };
}
