import {createHash} from 'node:crypto';
import type {Location, Region, Result} from 'sarif';
import {entryText} from '../../model/entry.ts';
import type {Finding, Severity} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {escapeText} from '../escape.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

export const levels = {error: 'error', warning: 'warning', info: 'note'} as const satisfies Readonly<Record<Severity, Result.level>>;

/** A result for each finding. Two findings with the same code and subject are numbered, so that dashboards keep both. */
export function sarifResults({nodes}: Report, findings: readonly Finding[], codes: readonly string[]): Result[] {
  const modes = new Map(nodes.map(({name, proxyMode}) => [name, proxyMode]));
  const seen = new Map<string, number>();
  return findings.map(finding => {
    const {code, severity, message, remedy, known, node = ''} = finding;
    const place = placeOf(finding);
    const print = createHash('sha256').update(`${code}\n${place}`).digest('hex').slice(0, 32);
    const nth = (seen.get(print) ?? 0) + 1;
    seen.set(print, nth);
    return {
      ...{ruleId: code, ruleIndex: codes.indexOf(code), level: levels[severity]},
      message: {text: escapeText(`${message}. ${remedy}`)},
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
