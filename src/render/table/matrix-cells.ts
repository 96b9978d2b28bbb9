import type {Family} from '../../model/address.ts';
import {type Finding, severities, type Severity, type Variant} from '../../model/finding.ts';
import {affectsAllServices, concernsFamily, namesServices, type Report, type ReportedService} from '../../model/report.ts';
import {groupBy, partition, pushTo, uniqueBy} from '../../model/lists.ts';
import {namespacedName, plural} from '../../model/text.ts';
import {causeBlocks, compareOrders, type FindingGroup, loudFindings, isIPv4, nodeList, nodeRanges, rangesText} from '../finding-blocks.ts';
import {escapeText} from '../renderer.ts';

/** Nodes with the same cells. */
export interface NodeGroup {
  readonly nodes: readonly string[];
  readonly isRead: boolean;
}

export interface MatrixCell {
  /** `ok`, `?`, `refused`, `local-only`, both of a row, codes, or codes in parentheses where an error affects the whole node. */
  readonly text: string;
  readonly severity: Severity | 'ok' | 'unknown';
  /** One for each code in the text; for `refused` the reason. */
  readonly findings: readonly Finding[];
}

export const emptyCell: MatrixCell = {text: '', severity: 'ok', findings: []};

/** The findings of each Service on each node, and in the API objects. */
export class MatrixCells {
  /** By node, null for the API, then by Service, null for the node itself; one finding for each code, the most severe first. */
  readonly #byNode = new Map<string | null, Map<string | null, Finding[]>>();
  readonly #rankOfService = new Map<string, number>();
  readonly #refusedFamilies = new Map<string, Set<Family>>();
  /** The Services that errors of nodes name, of those that affect no others. */
  readonly #named = new Map<Finding, ReadonlySet<string>>();
  /** By node, the errors that affect all its Services, or those that they name. */
  readonly #ofWholeNode = new Map<string, Finding[]>();

  readonly #services: ReadonlyMap<string, ReportedService>;
  /** By node, the Services that are served only there and on some other nodes. */
  readonly #onlyOn = new Map<string, string[]>();
  /** The nodes whose rules are older than the API, with the first finding that shows it. */
  readonly #outdated = new Map<string, Finding>();
  /** The Services that have findings on nodes only because of a cause there. */
  readonly #caused = new Set<string>();

  /** With the findings that are not shown: a report of other codes makes no Service well. */
  constructor({findings, leftOut = [], services}: Report) {
    const all = leftOut.length === 0 ? findings : [...findings, ...leftOut];
    for (const finding of all) this.#note(finding);
    this.#noteCauses(loudFindings(all));
    this.#services = new Map(services.map(service => [namespacedName(service), service]));
    for (const [service, {onlyOn = []}] of this.#services) for (const node of onlyOn) pushTo(this.#onlyOn, node, service);
  }

  hasOwn(group: NodeGroup): boolean {
    return this.#outdated.has(firstOf(group)) || this.#of(firstOf(group), null).some(({severity}) => severity !== 'info');
  }

  /** The Service has findings only because of a cause of a node, which has a row of its own. */
  isCaused(service: string): boolean {
    return this.#caused.has(service);
  }

  /** Some Service has an error or warning in its API objects. */
  get hasApi(): boolean {
    return [...(this.#byNode.get(null)?.keys() ?? [])].some(service => service !== null && this.ofApi(service).text !== '');
  }

  ofNode(group: NodeGroup): MatrixCell {
    const own = cellOf(this.#of(firstOf(group), null));
    const older = this.#outdated.get(firstOf(group));
    return older !== undefined && own.text === 'ok' ? {text: 'outdated', severity: 'error', findings: [older]} : own;
  }

  /** Empty without an error or warning: harmless findings do not concern the Service's traffic. */
  ofApi(service: string): MatrixCell {
    const loud = this.#of(null, service).filter(({severity}) => severity !== 'info');
    return loud.length === 0 ? emptyCell : cellOf(loud);
  }

  /** `ok` only if clients are served: not on an unread node, if an error affects all Services, or if connections are refused. */
  ofService(group: NodeGroup, service: string): MatrixCell {
    const own = this.#of(firstOf(group), service);
    if (!group.isRead && own.length === 0) return {text: '?', severity: 'unknown', findings: []};
    const isLoud = own.some(({severity}) => severity !== 'info');
    const whole = this.wholeNodeErrors(firstOf(group), service);
    if (!isLoud && whole.length > 0) return {text: `(${codesOf(whole)})`, severity: 'unknown', findings: whole};
    if (isLoud) return cellOf(own);
    const refused = this.#of(null, service).find(isRefused);
    if (refused !== undefined) return {text: this.#refusedText(service), severity: 'unknown', findings: [refused]};
    const {onlyOn} = this.#services.get(service) ?? {};
    if (group.isRead && onlyOn?.has(firstOf(group)) === false) return localOnly;
    return cellOf(own);
  }

  /** For several Services in one row, which differ at most in having an endpoint on the node where a policy is Local. */
  ofRow(group: NodeGroup, [first, ...others]: ServiceRow): MatrixCell {
    const cell = this.ofService(group, first);
    const isOther = (service: string): boolean => this.ofService(group, service).text !== cell.text;
    return others.some(isOther) ? {text: 'ok/local-only', severity: 'ok', findings: []} : cell;
  }

  /** The node's errors that affect this Service: all its Services, all of the families of this one, or those that it names. */
  wholeNodeErrors(node: string, service: string): readonly Finding[] {
    return uniqueBy(
      (this.#ofWholeNode.get(node) ?? []).filter(
        finding => concernsFamily(finding, this.familiesOf(service)) && this.#named.get(finding)?.has(service) !== false,
      ),
      ({code}) => code,
    );
  }

  /** The same for Services with the same errors of whole nodes. */
  likeness(service: string): string {
    const named = [...this.#named.values()].map(services => services.has(service));
    return [...this.familiesOf(service), ...named].join();
  }

  /** Empty where the Service does not say it. */
  familiesOf(service: string): readonly Family[] {
    return this.#services.get(service)?.families ?? [];
  }

  /** The rank of a Service's worst finding anywhere; Infinity without one. */
  rank(service: string): number {
    return this.#rankOfService.get(service) ?? Infinity;
  }

  /** The same for nodes with the same cells in these rows. */
  pattern(node: string, rows: ReadonlySet<string>): readonly string[] {
    const withLocal = (this.#onlyOn.get(node) ?? []).filter(service => rows.has(service));
    return [...(this.#byNode.get(node) ?? [])]
      .filter(([service]) => service === null || rows.has(service))
      .map(([service, found]) => [service, cellOf(found).text])
      .filter(([, text]) => text !== 'ok')
      .map(cell => JSON.stringify(cell))
      .concat(withLocal, this.#outdated.has(node) ? 'outdated' : [])
      .sort();
  }

  #noteCauses(findings: readonly Finding[]): void {
    const blocks = causeBlocks(findings);
    const caused = new Set<FindingGroup>();
    for (const block of blocks) {
      if (block.effects.length === 0) continue;
      for (const effect of block.effects) caused.add(effect);
      if (block.reason !== 'older-rules') continue;
      caused.add(block);
      for (const node of block.nodes) this.#outdated.set(node, block.finding);
    }
    const nameOf = ({finding: {service}}: FindingGroup): string => (service === undefined ? '' : namespacedName(service));
    for (const group of caused) this.#caused.add(nameOf(group));
    for (const block of blocks) for (const group of [block, ...block.others]) if (!caused.has(group)) this.#caused.delete(nameOf(group));
  }

  /** `refused`; `IPv6 refused` if the Service is served in its other family. */
  #refusedText(service: string): string {
    const families = this.familiesOf(service);
    const refused = this.#refusedFamilies.get(service) ?? new Set();
    return families.length > refused.size && refused.size > 0 ? `${[...refused].join()} refused` : 'refused';
  }

  #of(node: string | null, service: string | null): readonly Finding[] {
    return this.#byNode.get(node)?.get(service) ?? [];
  }

  #note(finding: Finding): void {
    const {node = null} = finding;
    const own = this.#byNode.get(node) ?? new Map<string | null, Finding[]>();
    this.#byNode.set(node, own);
    const service = finding.service === undefined ? null : `${finding.service.namespace}/${finding.service.name}`;
    if (node !== null && affectsAllServices(finding)) {
      pushTo(this.#ofWholeNode, node, finding);
      if (namesServices(finding)) this.#named.set(finding, new Set(finding.affects?.map(namespacedName)));
    }
    const found = own.get(service) ?? [];
    own.set(service, withFinding(found, finding));
    if (service !== null && finding.family !== undefined && isRefused(finding))
      this.#refusedFamilies.set(service, (this.#refusedFamilies.get(service) ?? new Set()).add(finding.family));
    if (service !== null && finding.severity !== 'info')
      this.#rankOfService.set(service, Math.min(this.rank(service), rank(finding.severity)));
  }
}

function withFinding(findings: Finding[], finding: Finding): Finding[] {
  const at = findings.findIndex(({code}) => code === finding.code);
  const known = findings[at];
  if (known !== undefined && rank(known.severity) <= rank(finding.severity)) return findings;
  if (known !== undefined) findings.splice(at, 1);
  const place = findings.findIndex(({severity}) => rank(severity) > rank(finding.severity));
  findings.splice(place < 0 ? findings.length : place, 0, finding);
  return findings;
}

/** Every connection to the Service is refused, on every port. */
function isRefused({code, port}: Finding): boolean {
  return code === 'ST101' && port === undefined;
}

function firstOf({nodes}: NodeGroup): string {
  return nodes[0] ?? '';
}

/** Served on other nodes alone: a policy is Local, and no endpoint is here. */
const localOnly: MatrixCell = {text: 'local-only', severity: 'unknown', findings: []};

/** The codes of errors and warnings. Infos change no cell. */
function cellOf(findings: readonly Finding[]): MatrixCell {
  const [worst] = findings;
  if (worst === undefined) return {text: 'ok', severity: 'ok', findings};
  const {severity} = worst;
  if (severity === 'info') return {text: 'ok', severity: 'ok', findings: []};
  const loud = findings.filter(finding => finding.severity !== 'info');
  return {text: codesOf(loud), severity, findings: loud};
}

function codesOf(findings: readonly Finding[]): string {
  return findings.map(({code}) => code).join(',');
}

function rank(severity: Severity): number {
  return severities.indexOf(severity);
}

/**
 * A group for each node if there are few; otherwise one for all nodes with the same cells in these rows. Of many nodes, those with a cause of
 * their own come first, then those with most findings.
 */
function nodeGroups({nodes}: Report, cells: MatrixCells, rows: ReadonlySet<string>): readonly NodeGroup[] {
  const groups = Map.groupBy(nodes, ({name, status}) =>
    JSON.stringify([status, nodes.length <= fewNodes ? name : cells.pattern(name, rows)]),
  );
  const made = [...groups.values()].map(own => ({nodes: own.map(({name}) => name), isRead: own[0]?.status === 'checked'}));
  return nodes.length <= fewNodes ? made : worstFirst(made, cells, rows);
}

/** In their order, but those with findings first, and errors before nodes that were not read. */
export function worstFirst(groups: readonly NodeGroup[], cells: MatrixCells, rows: ReadonlySet<string>): readonly NodeGroup[] {
  return groups
    .map(group => {
      const isCause = cells.hasOwn(group);
      const found = [cells.ofNode(group), ...[...rows].map(service => cells.ofService(group, service))].map(({severity}) => severity);
      const faults = found.filter(severity => severity === 'error' || severity === 'warning').length;
      return {group, key: [found.includes('error') ? 0 : 1, isCause ? 0 : 1, -faults, isCause ? -group.nodes.length : group.nodes.length]};
    })
    .sort((a, b) => compareOrders(a.key, b.key))
    .map(({group}) => group);
}

const fewNodes = 5;

/** One Service; or several, with the cells of those above them. */
export type ServiceRow = readonly [string, ...string[]];

/** `shop/web`, `(27 more like these)`. Not escaped. */
export function rowTitle(row: ServiceRow): string {
  return row.length === 1 ? row[0] : `(${row.length} more like these)`;
}

interface MatrixSize {
  /** Up to so many Services in scope have rows, whatever was found. */
  readonly few: number;
  /** Up to so many in scope, each with findings has a row of its own. Of more, like ones are folded, and those that only have a cause's counted. */
  readonly single: number;
  readonly maxRows: number;
}

/**
 * The rows of the Services with findings, and the groups of nodes that differ in them. `hidden`: how many Services with findings are left
 * out. `caused`: services with findings that a cause of their node explains. `fine`: the Services without findings that are left out.
 */
export function matrixOf(report: Report, {few, single, maxRows}: MatrixSize) {
  const cells = new MatrixCells(report);
  const named = report.services.map(namespacedName);
  const isSmall = named.length <= single;
  const loud: string[] = [];
  const fine: string[] = [];
  const caused: string[] = [];
  for (const service of named) {
    if (named.length <= few) loud.push(service);
    else (cells.rank(service) === Infinity ? fine : cells.isCaused(service) ? caused : loud).push(service);
  }
  const sorted = named.length <= few ? loud : [...(isSmall ? caused : []), ...loud.toSorted((a, b) => cells.rank(a) - cells.rank(b))];
  const rows = isSmall
    ? sorted.map((service): ServiceRow => [service])
    : foldLike(sorted, cells, nodeGroups(report, cells, new Set(sorted)));
  const shown = rows.slice(0, maxRows);
  const groups = nodeGroups(report, cells, new Set(shown.flat()));
  return {cells, groups, rows: shown, hidden: rows.slice(maxRows).flat().length, caused: isSmall ? [] : caused, fine};
}

function foldLike(services: readonly string[], cells: MatrixCells, groups: readonly NodeGroup[]): readonly ServiceRow[] {
  const alike = groupBy(services, service =>
    JSON.stringify([
      cells.ofApi(service).text,
      ...groups.map(group => cells.ofService(group, service)).map(cell => (cell === localOnly ? 'ok' : cell.text)),
    ]),
  );
  return alike.flatMap(own => {
    const single = own.length > maxSingle + 1 ? maxSingle : own.length;
    const [first, ...others] = own.slice(single);
    return [...own.slice(0, single).map((service): ServiceRow => [service]), ...(first === undefined ? [] : [[first, ...others] as const])];
  });
}

const maxSingle = 3;

/** One line for the Services whose findings a cause explains; empty without any. */
export function causedText(caused: number): string {
  return caused === 0 ? '' : `${plural(caused, 'Service')} with findings only from the cause on the node itself`;
}

/** One line for the Services without findings of their own. */
export function fineText({nodes}: Report, cells: MatrixCells, fine: readonly string[]): string {
  const errorsOf = (node: string, alike: readonly (readonly string[])[]): readonly Finding[] =>
    alike.flatMap(([first = '']) => cells.wholeNodeErrors(node, first));
  const alike = groupBy(fine, service => cells.likeness(service));
  const [hit, left] = partition(alike, one => nodes.some(({name}) => errorsOf(name, [one]).length > 0));
  const broken = nodes.flatMap(({name}) => (errorsOf(name, hit).length > 0 ? [name] : []));
  const isChecked = nodes.some(({name, status}) => status === 'checked' && !broken.includes(name));
  const where = nodes.some(({status}) => status === 'unread') ? 'node that was checked' : 'node';
  const leftText = nodes.some(({status}) => status === 'checked') ? `in sync on every ${where}` : 'not checked';
  if (broken.length === 0) return `the other ${plural(fine.length, 'Service')}: ${leftText}`;
  const errors = broken.flatMap(name => errorsOf(name, hit));
  const codes = [...new Set(errors.map(({code}) => code))].join(', ');
  // What a Service without families is, IPv4 alone or both, is not known.
  const isKnown = hit.every(([first = '']) => cells.familiesOf(first).length > 0);
  const isSure = errors.some(error => isOfEachService(error) && (isKnown || error.family !== 'IPv6'));
  const [only = '', ...more] = hit.flat();
  const named = more.length === 0 ? escapeText(only) : `the other ${more.length + 1} Services`;
  const text = `${named}: ${isSure ? '' : 'may be '}affected by ${codes} on ${nodeList(broken)}${isChecked ? `, in sync on every other ${where}` : ''}`;
  return left.length === 0 ? text : `${text}; ${plural(left.flat().length, 'Service')}: ${leftText}`;
}

/** Other errors of a node may concern some Services only: node ports, Services without endpoints. */
function isOfEachService({code, variant}: Finding): boolean {
  return code === 'ST305' || (variant !== undefined && ofAllServices.has(variant));
}

const ofAllServices: ReadonlySet<Variant> = new Set([
  'no-service-works',
  'never-ran',
  'no-service-works-for-node',
  'addresses-not-accepted',
]);

interface NodeTitle {
  /** For the head of the column. */
  readonly title: string;
  /** Below the table, if the title is a letter: the names of the nodes. */
  readonly legend: readonly string[];
}

/**
 * Titles that name the nodes of each group: a name, a range such as `node-[a-c]`, or a letter that the legend explains. Of long names in the
 * same domain, such as those of EKS, titles have the host names, and the legend the domain. `maxLegend` is in characters.
 */
export function nodeTitles(groups: readonly NodeGroup[], maxLegend = Infinity): readonly NodeTitle[] {
  const domain = sharedDomain(groups.flatMap(({nodes}) => nodes));
  const names = groups.map(({nodes}) => nodes.map(name => name.slice(0, name.length - domain.length)));
  const titles = groupTitles(names, maxLegend);
  const [first, ...others] = titles;
  if (domain === '' || first === undefined) return titles;
  return [{...first, legend: [`node names end in ${escapeText(domain)}`, ...first.legend]}, ...others];
}

function groupTitles(groups: readonly (readonly string[])[], maxLegend: number): readonly NodeTitle[] {
  let letters = 0;
  return groups.map(nodes => {
    const [only = ''] = nodes;
    if (nodes.length === 1) return {title: escapeText(only), legend: []};
    const ranges = nodeRanges(nodes);
    const text = ranges.map(range => range.text).join(',');
    if (text.length <= maxTitle) return {title: escapeText(text), legend: []};
    const letter = letterOf(letters++);
    return {title: `${plural(nodes.length, 'node')} (${letter})`, legend: [`(${letter}) ${rangesText(ranges, maxLegend)}`]};
  });
}

/** `.eu-central-1.compute.internal`, if all names end in it and one of them is too long for a title; else empty. */
function sharedDomain(names: readonly string[]): string {
  const domains = new Set(names.map(name => /(?<=[^.])\..*$/.exec(name)?.[0] ?? ''));
  const [domain = ''] = domains;
  return domains.size === 1 && !isIPv4(names[0] ?? '') && names.some(name => name.length > maxTitle) ? domain : '';
}

const maxTitle = 24;
function letterOf(index: number): string {
  return index < 26 ? String.fromCharCode(65 + index) : `A${index - 25}`;
}
