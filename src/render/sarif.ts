import {createHash} from 'node:crypto';
import type {Log, ReportingDescriptor, Result} from 'sarif';
import {checks} from '../checks/index.ts';
import {entryText} from '../model/entry.ts';
import type {Finding, Severity} from '../model/finding.ts';
import {escapeText} from './escape.ts';
import {docsOf, toJson} from './json.ts';
import type {Renderer} from './renderer.ts';

/** SARIF 2.1.0, as code-scanning dashboards read it: a rule for each code that was found, a result for each finding. */
export const sarif: Renderer = report => {
  const codes = [...new Set(report.findings.map(({code}) => code))].sort();
  const log: Log = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            ...{name: report.tool.name, semanticVersion: report.tool.version},
            informationUri: 'https://github.com/svc-trace/svc-trace',
            rules: codes.map(ruleOf),
          },
        },
        invocations: [{executionSuccessful: report.summary.verdict !== 'incomplete' && report.summary.nodesUnread === 0}],
        results: report.findings.map(finding => resultOf(finding, codes)),
      },
    ],
  };
  return toJson(log);
};

function ruleOf(code: string): ReportingDescriptor {
  const check = checks.find(known => known.code === code);
  const {name = code, summary = code, remedy = '', severity = 'warning'} = check ?? {};
  return {
    ...{id: code, name, helpUri: docsOf(code)},
    shortDescription: {text: summary},
    help: {text: remedy, markdown: `${remedy}\n\n[${code}](${docsOf(code)})`},
    defaultConfiguration: {level: levels[severity]},
  };
}

const levels = {error: 'error', warning: 'warning', info: 'note'} as const satisfies Readonly<Record<Severity, Result.level>>;

function resultOf(finding: Finding, codes: readonly string[]): Result {
  const {code, severity, message, remedy, known} = finding;
  return {
    ...{ruleId: code, ruleIndex: codes.indexOf(code), level: levels[severity]},
    message: {text: escapeText(`${message}. ${remedy}`)},
    locations: [{...physicalLocation(finding), logicalLocations: [{fullyQualifiedName: escapeText(placeOf(finding))}]}],
    partialFingerprints: {
      'svcTrace/v1': createHash('sha256')
        .update(`${code}\n${placeOf(finding)}`)
        .digest('hex')
        .slice(0, 32),
    },
    ...(known ? {suppressions: [{kind: 'external', justification: 'known from the baseline'} as const]} : {}),
  };
}

/** What a finding is about, without words and line numbers, which change from run to run. */
function placeOf({node, family, service, port, entry, endpoint}: Finding): string {
  return [
    ...(node === undefined ? [] : [`node ${node}`]),
    ...(family === undefined ? [] : [family]),
    ...(service === undefined
      ? []
      : [`${service.namespace}/${service.name}${port === undefined ? '' : `:${port.name || port.port}/${port.protocol}`}`]),
    ...(entry === undefined ? [] : [entryText(entry)]),
    ...(endpoint === undefined ? [] : [endpoint]),
  ].join(' ');
}

/** Dashboards want a file and a line: that of the rule in the node's dump, as it is called in a bundle. */
function physicalLocation({node, family, actual}: Finding): NonNullable<Result['locations']>[number] {
  const dump = family === 'IPv6' ? 'ip6tables-save' : 'iptables-save';
  const line = actual?.find(rule => rule.line > 0)?.line;
  const uri = node === undefined ? 'api/services.json' : `nodes/${encodeURIComponent(node)}/${dump}`;
  return {physicalLocation: {artifactLocation: {uri}, ...(line === undefined ? {} : {region: {startLine: line}})}};
}
