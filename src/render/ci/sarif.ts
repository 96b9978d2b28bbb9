import {createHash} from 'node:crypto';
import type {Location, Log, Notification, Region, ReportingDescriptor, Result} from 'sarif';
import {checks} from '../../checks/all-checks.ts';
import {type Finding, severities, type Severity} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {namespacedName, plural} from '../../model/text.ts';
import {olderText} from '../block-texts.ts';
import {causeBlocks, freshFindings, membersOf} from '../finding-blocks.ts';
import {docsOf, toJson} from '../json.ts';
import {type Renderer, escapeText} from '../renderer.ts';

/**
 * SARIF 2.1.0 for GitHub code scanning and other dashboards: a rule for each code found, a result for each finding; of those that have one
 * cause, one for each node. Contains every field that GitHub requires.
 */
export const sarif: Renderer = report => {
  const folded = foldEffects(report.findings);
  const findings = folded.slice(0, maxResults);
  const codes = [...new Set(findings.map(({code}) => code))].sort();
  const informationUri = 'https://github.com/svc-trace/svc-trace';
  const log: Log = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {name: report.tool.name, semanticVersion: report.tool.version, informationUri, rules: codes.map(ruleOf)},
        },
        columnKind: 'utf16CodeUnits',
        invocations: [
          {
            executionSuccessful: report.summary.verdict !== 'incomplete' && report.summary.nodesUnread === 0,
            ...notificationsOf(folded.slice(maxResults)),
          },
        ],
        results: sarifResults(report, findings, codes),
        properties: report.wait === undefined ? undefined : {wait: report.wait},
      },
    ],
  };
  return toJson(log);
};

/** GitHub refuses a file with more results in a run. The most severe findings come first. */
const maxResults = 25_000;

function ruleOf(code: string): ReportingDescriptor {
  const check = checks.find(known => known.code === code);
  const {name = code, summary = code, remedy = summary, severity = 'warning'} = check ?? {};
  return {
    id: code,
    name,
    helpUri: docsOf(code),
    shortDescription: {text: summary},
    fullDescription: {text: `${summary}. ${remedy}`},
    help: {text: remedy, markdown: `${remedy}\n\n[${code}](${docsOf(code)})`},
    defaultConfiguration: {level: levels[severity]},
    properties: {
      tags: ['kubernetes', 'kube-proxy'],
      precision: 'very-high',
      'problem.severity': {error: 'error', warning: 'warning', info: 'recommendation'}[severity],
    },
  };
}

function notificationsOf(leftOut: Report['findings']): {toolExecutionNotifications?: Notification[]} {
  if (leftOut.length === 0) return {};
  const counts = [...Map.groupBy(leftOut, ({code}) => code)].map(([code, all]) => `${all.length} of ${code}`);
  const text = `${leftOut.length} more findings do not fit in this file of at most ${maxResults}: ${counts.join(', ')}.`;
  return {toolExecutionNotifications: [{level: 'warning', message: {text}}]};
}

/** A finding whose others on its node are left out, as the table leaves them out: what they have in common, and how many they are. */
interface FoldedFinding extends Finding {
  readonly cause?: {readonly text: string; readonly others: number};
}

function foldEffects(findings: readonly Finding[]): readonly FoldedFinding[] {
  const causes = new Map<Finding, Required<Pick<FoldedFinding, 'cause' | 'severity'>> | null>();
  for (const block of causeBlocks(freshFindings(findings)).filter(({effects}) => effects.length > 0))
    for (const [node, own] of Map.groupBy(membersOf(block), finding => finding.node)) {
      const [first, ...others] = own;
      for (const other of others) causes.set(other, null);
      const text = olderText({...block, nodes: node === undefined ? [] : [node]}) ?? '';
      const severity = severities.find(one => own.some(finding => finding.severity === one)) ?? 'info';
      if (first !== undefined) causes.set(first, {severity, cause: {text, others: others.length}});
    }
  return findings.flatMap(finding => {
    const cause = causes.get(finding);
    return cause === null ? [] : {...finding, ...cause};
  });
}

/** The message, with the cause before it and the number of the findings that are left out behind it. */
function messageOf({message, cause}: FoldedFinding): string {
  if (cause === undefined) return message;
  const before = cause.text === '' ? '' : `${cause.text}. `;
  return `${before}${message}; ${plural(cause.others, 'more finding')} on this node, likely from this cause`;
}

const levels = {error: 'error', warning: 'warning', info: 'note'} as const satisfies Readonly<Record<Severity, Result.level>>;

/** A result for each finding. Two findings with the same code and subject are numbered, so that dashboards keep both. */
function sarifResults({nodes}: Report, findings: readonly FoldedFinding[], codes: readonly string[]): Result[] {
  const modes = new Map(nodes.map(({name, proxyMode}) => [name, proxyMode]));
  const seen = new Map<string, number>();
  return findings.map(finding => {
    const {code, severity, remedy, known, node = ''} = finding;
    // Which of its findings stands for a node changes from run to run.
    const place = finding.cause === undefined || finding.cause.text === '' ? placeOf(finding) : `node ${node}`;
    const print = createHash('sha256').update(`${code}\n${place}`).digest('hex').slice(0, 32);
    const nth = (seen.get(print) ?? 0) + 1;
    seen.set(print, nth);
    return {
      ruleId: code,
      ruleIndex: codes.indexOf(code),
      level: levels[severity],
      message: {text: escapeText(`${messageOf(finding)}. ${remedy}`)},
      locations: [
        {...physicalLocation(finding, modes.get(node)), logicalLocations: [{fullyQualifiedName: escapeText(place) || 'cluster'}]},
      ],
      // GitHub expects this name; other tools accept any.
      partialFingerprints: {primaryLocationLineHash: `${print}:${nth}`},
      ...(known ? {suppressions: [{kind: 'external', justification: 'in the baseline'} as const]} : {}),
    };
  });
}

/** The identity of a finding, without message and line numbers, which change from run to run. */
function placeOf({node, family, service, port, entry, endpoint}: Finding): string {
  return [
    ...(node === undefined ? [] : [`node ${node}`]),
    ...(family === undefined ? [] : [family]),
    ...(service === undefined
      ? []
      : [`${namespacedName(service)}${port === undefined ? '' : `:${port.name || port.port}/${port.protocol}`}`]),
    ...(entry === undefined ? [] : [entryText(entry)]),
    ...(endpoint === undefined ? [] : [endpoint]),
  ].join(' ');
}

/** Dashboards need a file and a position: the rule in the node's dump, with its name in a bundle. */
function physicalLocation({node, family, actual}: Finding, mode: string | undefined): Location {
  const rule = actual?.find(({line}) => line > 0);
  const file = fileOf(rule, family === 'IPv6' ? 'ip6tables-save' : 'iptables-save', mode);
  const uri = node === undefined ? 'api/services.json' : `nodes/${encodeURIComponent(node.toWellFormed())}/${file}`;
  return {physicalLocation: {artifactLocation: {uri}, region: regionOf(rule)}};
}

function fileOf(rule: RuleText | undefined, iptables: string, mode: string | undefined): string {
  const table = rule?.table ?? {nftables: 'ip kube-proxy', ipvs: 'ipvs'}[mode ?? ''] ?? '';
  if (table === 'ipvs') return 'ipvsadm-save';
  if (table === 'ipset') return 'ipset-save';
  if (table === 'kube-ipvs0') return 'kube-ipvs0.json';
  // Tables of nftables are named by family and name.
  return table.includes(' ') ? 'nft.json' : iptables;
}

/** Without a rule, the beginning of the file. */
function regionOf(rule: RuleText | undefined): Region {
  const {line, text} = rule ?? {line: 1, text: ' '};
  return {startLine: line, startColumn: 1, endLine: line, endColumn: text.length + 1};
}
