import {newestKnownMinor} from '../model/proxy-config.ts';
import {onlyRules, type Report, sumOf, whyNothingChecked} from '../model/report.ts';
import type {UnservedKind} from '../model/service-port.ts';
import {namespacedName, plural, someOf} from '../model/text.ts';
import type {Finding, Severity} from '../model/finding.ts';
import {type Cause, causesOf} from './headline.ts';
import {nodeList} from './finding-blocks.ts';
import {type Provenance, readTime, escapeText, type Style, styleOf} from './renderer.ts';

/** The first line as JSON has it. Not escaped by color. */
export function headlineOf(report: Report, provenance?: Provenance): string {
  return verdictLine(report, styleOf(false), provenance);
}

/** The first line of every output for people: it answers the question. */
export function verdictLine(report: Report, style: Style, provenance?: Provenance): string {
  const suppressed = report.findings.filter(({known: isKnown, severity}) => isKnown && severity !== 'info').length;
  const isSaid = suppressed === 0 || (report.summary.errors + report.summary.warnings === 0 && report.summary.verdict === 'ok');
  return (
    verdictOf(report, style, suppressed, provenance) +
    waitOf(report) +
    (isSaid ? '' : style.dim(`; ${suppressed} more suppressed by the baseline`)) +
    notShown(report)
  );
}

/** What `--skip`, `--only` and annotations of Services left out. */
function notShown({summary: {notShown: number = 0, skipped = []}, leftOut = []}: Report): string {
  const ofServices = leftOut.filter(({skippedBy}) => skippedBy !== undefined).length;
  const others = number - ofServices;
  const names = skipped.map(({code, namespace, name, by}) =>
    escapeText(`${code} of ${namespace}/${name}${by === 'flag' ? '' : ' by annotation'}`),
  );
  return (
    (others === 0 ? '' : `; ${plural(others, 'finding')} of other codes not shown`) +
    (ofServices === 0 ? '' : `; ${plural(ofServices, 'finding')} skipped: ${someOf(names, {max: 3})}`)
  );
}

function verdictOf(report: Report, style: Style, suppressed: number, provenance: Provenance | undefined): string {
  const {summary} = report;
  const {errors, warnings, verdict, services} = summary;
  if (report.basis === 'rules') {
    const isListed = report.findings.some(({name}) => name === 'stale-endpoint');
    const basis = isListed ? 'from rules, and the endpoints that kubectl lists' : onlyRules;
    return style.yellow(`${basis}${rulesAloneFaults(report, provenance)}`);
  }
  if (errors > 0) {
    return style.red(`FAULTY: ${worstCause(report, 'error', provenance)}; ${faults(report)}`);
  }
  if (verdict === 'incomplete') return style.yellow(`INCOMPLETE: ${whatIsMissing(report, provenance)}`);
  if (services === 0) return style.yellow(`no Services in ${report.scope ?? 'scope'}`);
  const counts = breakdown(report, onNodes(report));
  if (warnings > 0) return style.yellow(`OK with ${plural(warnings, 'warning')}: ${worstCause(report, 'warning', provenance)}; ${counts}`);
  if (suppressed > 0) return style.green(`OK: no new findings (${suppressed} suppressed by the baseline); ${counts}`);
  if (summary.notShown !== undefined)
    return style.yellow(`OK ${summary.skipped === undefined ? 'for the codes asked for' : 'but for what is skipped'}: ${counts}`);
  return style.green(`OK: ${inSync(report)}`);
}

/** Which Service or node, where, and what happens, of the worst cause of this severity, and how many more there are. */
function worstCause(report: Report, severity: Severity, provenance: Provenance | undefined): string {
  const causes = causesOf(report, readTime(provenance)).filter(cause => cause.severity === severity);
  const [first] = causes;
  if (first === undefined) return '';
  const others = otherCauses(first, causes);
  const more = others === 0 ? '' : ` and ${plural(others, severity === 'error' ? 'more cause' : 'other cause')}`;
  return `${escapeText(first.text)}${more}`;
}

/** How many there are besides. What has a root on its nodes that one before it has there is no other. */
function otherCauses(first: Cause, causes: readonly Cause[]): number {
  const seen = new Set<string>();
  return causes.filter(cause => {
    const {nodes, roots} = cause;
    const isSeen = nodes.length > 0 && nodes.every(node => roots.some(root => seen.has(`${node} ${root}`)));
    for (const node of nodes) for (const root of roots) seen.add(`${node} ${root}`);
    return cause !== first && !isSeen && !isSameFault(cause, first);
  }).length;
}

/** What holds for both families of addresses, with a finding for each, is one. */
function isSameFault(cause: Cause, first: Cause): boolean {
  const isOfBoth = cause.isOfNode && first.isOfNode && cause.family !== first.family && cause.code === first.code;
  // What was moved to another address is missing there, and still answers where it was.
  const isMoved = cause.code === 'ST205' && ['ST201', 'ST206'].includes(first.code) && isOfOneService(cause, first);
  // A policy is broken on each node in another way, as the endpoints are.
  const isOfPolicy = cause.code === 'ST207' && first.code === 'ST207' && isOfOneService(cause, first);
  return isOfPolicy || ((isOfBoth || isMoved) && cause.nodes.every(node => first.nodes.includes(node)));
}

function isOfOneService({services: [one, ...more]}: Cause, {services: [other, ...others]}: Cause): boolean {
  return more.length + others.length === 0 && one?.name === other?.name && one?.namespace === other?.namespace;
}

function rulesAloneFaults(report: Report, provenance: Provenance | undefined): string {
  const {errors, warnings} = report.summary;
  const found = [errors > 0 ? plural(errors, 'error') : '', warnings > 0 ? plural(warnings, 'warning') : ''].filter(text => text !== '');
  if (found.length === 0) return '';
  return `; ${worstCause(report, errors > 0 ? 'error' : 'warning', provenance)}; ${found.join(' and ')} in the rules themselves`;
}

function inSync(report: Report): string {
  const {summary, services} = report;
  const {servicesInSync} = summary;
  const without = withoutRulesText(report);
  if (services.length === 0) return without;
  const others = without === '' ? '' : ` (${without})`;
  return `${servicesText(servicesInSync, services)} ${servicesInSync === 1 ? 'is' : 'are'} in sync${onNodes(report)}${others}`;
}

/** `2 Services`; of one its name. */
function servicesText(number: number, [only, ...others]: Report['services']): string {
  return number !== 1 || only === undefined || others.length > 0 ? plural(number, 'Service') : escapeText(namespacedName(only));
}

/** ` on all 3 nodes`, ` on 2 of 3 nodes`: with what the others are. */
function onNodes({nodes, summary: {nodesChecked, sampledFrom}}: Report): string {
  if (nodesChecked === 0) return '';
  const sample = sampledFrom === undefined ? '' : ` (a sample of ${sampledFrom})`;
  if (nodesChecked === nodes.length)
    return ` on ${nodesChecked > 1 && sample === '' ? 'all ' : ''}${plural(nodesChecked, 'node')}${sample}`;
  const unserved = nodes.filter(({status}) => status === 'unsupported').length;
  const why = unserved === 0 ? '' : ` (${unserved} without kube-proxy)`;
  return ` on ${nodesChecked} of ${plural(nodes.length, 'node')}${sample}${why}`;
}

function faults(report: Report): string {
  const {summary, findings} = report;
  const faulty = new Set(
    findings.flatMap(({severity, node, known}) => (severity === 'error' && !known && node !== undefined ? [node] : [])),
  );
  const isInPart = report.nodes.some(({name, status}) => status === 'unread' && faulty.has(name));
  const isOfAll = isInPart || summary.nodesChecked === report.nodes.length;
  const nodes = isOfAll ? plural(report.nodes.length, 'node') : plural(summary.nodesChecked, 'checked node');
  const where = summary.nodesChecked > 0 ? ` on ${faulty.size} of ${nodes}` : '';
  const sample = summary.sampledFrom === undefined ? '' : ` (a sample of ${summary.sampledFrom})`;
  const warnings = summary.warnings > 0 ? `, ${plural(summary.warnings, 'warning')}` : '';
  const unread =
    summary.nodesUnread > 0
      ? `; ${notChecked(report, isInPart ? ' as a whole' : '')}`
      : summary.nodesChecked === 0
        ? '; no node was checked'
        : '';
  return `${plural(summary.errors, 'error')}${where}${sample}${warnings} (${breakdown(report)})${unread}`;
}

function whatIsMissing(report: Report, provenance: Provenance | undefined): string {
  const {summary, findings, nodes} = report;
  const {nodesUnread, nodesChecked} = summary;
  const unread = new Set(nodes.filter(({status}) => status === 'unread').map(({name}) => name));
  // What was not read is a warning too, and was said. Other warnings of nodes that were not checked say why, but those of rules alone.
  const isOfRules = ({code, gist}: Finding): boolean =>
    nodesChecked === 0 && summary.services === 0 && (/^ST(?:[23]|50[158])/.test(code) || (code === 'ST506' && gist !== undefined));
  const seen = findings.filter(
    finding => !finding.code.startsWith('ST9') && (finding.node === undefined || !unread.has(finding.node) || isOfRules(finding)),
  );
  const warnings = seen.filter(({severity, known}) => severity === 'warning' && !known).length;
  const worst = worstCause({...report, findings: seen}, 'warning', provenance);
  if (nodesUnread === 0) {
    const unseen = findings.find(({code}) => code.startsWith('ST9'))?.message ?? 'part of the cluster was not read';
    return `${escapeText(nodesChecked === 0 ? whyNothingChecked(nodes) : unseen)}; ${worst === '' ? '' : `${worst}; `}${breakdown(report)}`;
  }
  const cause = worst === '' ? '' : `${worst}${nodesChecked === 0 ? '. ' : '; '}`;
  const others = warnings > 0 ? `${plural(warnings, 'warning')}, no errors` : 'No problems';
  return `${notChecked(report)}${whyUnread(report)}. ${cause}${nodesChecked === 0 ? breakdown(report) : `${others} on the other ${nodesChecked === 1 ? 'node' : nodesChecked} (${breakdown(report)})`}`;
}

function notChecked({nodes, summary: {nodesUnread}}: Report, how = ''): string {
  const unread = nodes.filter(({status}) => status === 'unread');
  return `${nodesUnread} of ${plural(nodes.length, 'node')} ${nodesUnread === 1 ? 'was' : 'were'} not checked${how} (${nodeList(unread.map(({name}) => name))})`;
}

/** `: REASON`; of several reasons that of the first node, and how many nodes have another. */
function whyUnread({nodes}: Report): string {
  const unread = nodes.filter(({status}) => status === 'unread');
  const [{name: first = '', reason} = {}] = unread;
  if (reason === undefined) return '';
  const others = unread.filter(other => other.reason !== reason).length;
  const own = escapeText(shortened(reason));
  return others === 0 ? `: ${own}` : `: ${escapeText(first)}: ${own}, and ${others} for another reason`;
}

/** The first line is no place for all that a tool printed. */
function shortened(reason: string): string {
  const line = reason.replace(/\.$/, '');
  return line.length > maxReason ? `${line.slice(0, line.lastIndexOf(' ', maxReason))} […]` : line;
}

const maxReason = 240;

/** How long the run waited, and for which nodes in vain. */
function waitOf({wait, findings}: Report): string {
  if (wait === undefined) return '';
  const time = `after ${secondsText(wait.seconds)}`;
  if (wait.clean) return wait.looks > 1 ? `; converged ${time.replace('after', 'in')}` : '';
  const late = wait.nodes.filter(({look, waitedFor}) => look === undefined && waitedFor !== false).map(({name}) => name);
  if (late.length === 0) return '';
  const stuck = late.filter(name => findings.some(({code, node}) => code === 'ST505' && node === name));
  const why = stuck.length === 0 ? '' : `; kube-proxy does not keep up on ${nodeList(stuck)} (ST505)`;
  return `; ${time} not in sync: ${nodeList(late)}${why}`;
}

/** `3.2 s`, `60 s`. */
export function secondsText(seconds: number): string {
  return `${Number(seconds.toFixed(1))} s`;
}

/** What limits the report: nodes of which only some chains were read, or whose kube-proxy is newer than the known rules; null if nothing. */
export function partialReading(report: Report): string | null {
  const limits = [readInPart(report), newerProxies(report)].filter(text => text !== '');
  return limits.length === 0 ? null : limits.join('\n');
}

function newerProxies({nodes}: Report): string {
  const isNewer = (version = ''): boolean => Number(/^v1\.(\d+)/.exec(version)?.[1] ?? 0) > newestKnownMinor;
  const newer = Map.groupBy(
    nodes.filter(({kubeProxyVersion}) => isNewer(kubeProxyVersion)),
    ({kubeProxyVersion}) => kubeProxyVersion ?? '',
  );
  return [...newer]
    .map(
      ([version, all]) =>
        `kube-proxy ${escapeText(version)} on ${nodeList(all.map(({name}) => name))} is newer than the newest known rules: it was checked against those of v1.${newestKnownMinor}.`,
    )
    .join('\n');
}

function readInPart({nodes}: Report): string {
  const names = nodes.filter(({read}) => read === 'reachable').map(({name}) => name);
  if (names.length === 0) return '';
  return `Only the chains that packets to the named Services can reach were read on ${nodeList(names)}. Rules in other chains of table nat, third-party rules too, were not seen; --full reads all rules.`;
}

/**
 * Where every Service in scope is: `34 Services: 28 in sync, 3 with findings, 3 without rules`; `1 Service in sync`. `where` are the nodes,
 * such as ` on all 3 nodes`.
 */
function breakdown({summary, services: served}: Report, where = ''): string {
  const {services, servicesInSync, servicesWithFindings, servicesWithoutRules, servicesNotChecked} = summary;
  const parts = [
    ...part(servicesInSync, 'in sync'),
    ...part(servicesWithFindings, 'with findings'),
    ...part(sumOf(servicesWithoutRules), 'without rules'),
    ...part(servicesNotChecked, 'not checked'),
  ];
  const [only = ''] = parts;
  // "1 Service with findings on all 3 nodes" would place the findings on each of them.
  const isPlain = parts.length < 2 && (where === '' || servicesInSync > 0);
  if (isPlain)
    return `${servicesWithFindings > 0 ? plural(services, 'Service') : servicesText(services, served)}${only.replace(/^\d+/, '')}${where}`;
  return `${plural(services, 'Service')}${where}: ${parts.join(', ')}`;
}

/** `3 Services have no kube-proxy rules: 1 ExternalName, 1 headless, 1 other proxy`; empty without such Services. */
export function withoutRulesText({summary: {servicesWithoutRules}, nodes}: Pick<Report, 'summary' | 'nodes'>): string {
  const number = sumOf(servicesWithoutRules);
  if (number === 0) return '';
  const isCiliums = nodes.length > 0 && nodes.every(({proxyMode}) => proxyMode === 'cilium');
  const what = isCiliums ? 'frontends of Cilium' : 'kube-proxy rules';
  const reasons = Object.entries(servicesWithoutRules).map(([kind, each]) => `${each} ${kinds[kind as UnservedKind]}`);
  return `${plural(number, 'Service')} ${number === 1 ? 'has' : 'have'} no ${what}: ${reasons.join(', ')}`;
}

const kinds: Readonly<Record<UnservedKind, string>> = {
  externalName: 'ExternalName',
  headless: 'headless',
  otherProxy: 'other proxy',
  noClusterIP: 'without a cluster IP',
};

function part(number: number, what: string): readonly string[] {
  return number === 0 ? [] : [`${number} ${what}`];
}
