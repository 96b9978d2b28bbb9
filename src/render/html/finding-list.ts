import {type Finding, severities} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {namespacedName, plural, someOf} from '../../model/text.ts';
import {causeBlocks, type FindingBlock, type FindingGroup, portText, severityOf, spreadBlock, nodeList} from '../finding-blocks.ts';
import {blockPlaces, blockTexts, commandsByPlace, effectsText, messageOf, whomAndSince} from '../block-texts.ts';
import {docsOf} from '../json.ts';
import {dumpLine, tableName} from '../trace-words.ts';
import {type Html, html, nothing} from '../markup.ts';

/** The findings that a page has room for, in blocks with one cause each. */
interface ListedFindings {
  readonly blocks: readonly ListedBlock[];
  /** The findings of all blocks. */
  readonly listed: readonly ListedFinding[];
  /** How many findings were left out, by code; the same finding on many nodes counts once. */
  readonly hidden: ReadonlyMap<string, number>;
}

export interface ListedFinding extends FindingGroup {
  /** The target of links to it. */
  readonly id: string;
}

interface ListedBlock {
  readonly block: FindingBlock;
  /** The finding itself and others like it. */
  readonly alike: readonly ListedFinding[];
  readonly effects: readonly ListedFinding[];
}

/** The most severe first, and no more of each code than there is room for, unless all are asked for. */
export function listFindings(findings: readonly Finding[], all: boolean): ListedFindings {
  const listed: ListedFinding[] = [];
  const seen = new Map<string, number>();
  const hidden = new Map<string, number>();
  const list = (groups: readonly FindingGroup[]): readonly ListedFinding[] =>
    groups.flatMap(group => {
      const {code} = group.finding;
      const nth = (seen.get(code) ?? 0) + 1;
      seen.set(code, nth);
      if (!all && (nth > maxPerCode || listed.length >= max)) {
        hidden.set(code, (hidden.get(code) ?? 0) + 1);
        return [];
      }
      const item = {...group, id: `finding-${listed.length + 1}`};
      listed.push(item);
      return [item];
    });
  const blocks = causeBlocks(findings).map(block => ({block, alike: list([block, ...block.others]), effects: list(block.effects)}));
  return {blocks: blocks.filter(({alike, effects}) => alike.length + effects.length > 0), listed, hidden};
}

const maxPerCode = 200;
const max = 1000;

interface FindingPlaces {
  readonly ranges: NodeRanges;
  /** When the nodes were read (RFC 3339), if known. */
  readonly readAt: string | undefined;
  /** Where the packet path to a Service is drawn; null where it is not. */
  readonly pathOf: (service: Finding['service']) => string | null;
  /** Nothing is cut. */
  readonly all: boolean;
}

export function findingsHtml({blocks, hidden}: ListedFindings, places: FindingPlaces): Html {
  if (blocks.length === 0) return nothing;
  const rest = [...hidden].map(([code, number]) => `${number} more of ${code}`).join(', ');
  return html`<section id="findings"><h2>Findings</h2>
${blocks.map((block, index) => blockHtml(block, index < openAtFirst && severityOf(block.block) === 'error', places))}
${rest === '' ? nothing : html`<p class="note">Not shown: ${rest}. -v lists all, and so does -o json.</p>`}
</section>`;
}

const openAtFirst = 3;

/** One finding; or several with their remedy, and the findings that likely follow from them, each folded. */
function blockHtml({block, alike, effects}: ListedBlock, isOpen: boolean, places: FindingPlaces): Html {
  const [first] = alike;
  if (first !== undefined && alike.length === 1 && effects.length === 0)
    return findingHtml(first, {isOpen, above: null, sharedNodes: []}, places);
  const {finding, nodes, others} = block;
  const {severity} = finding;
  const isOne = others.length === 0;
  const what = isOne ? titlePlace(finding) : blockPlaces(block).head;
  const {head, codes} = effectsText(block);
  const after = block.effects.length === 0 ? '' : `, and ${head}`;
  return html`<details class="block ${severity}"${isOpen ? html` open` : nothing}>
<summary>${titleHtml(finding)}${what === '' ? '' : `: ${what}`}${onNodes(finding, nodes)}${after}</summary>
<div>
${isOne && first !== undefined ? html`<div class="finding" ${dataOf(first, places)} id="${first.id}">${bodyHtml({item: first, above: null, texts: blockTexts(block), whom: whomHtml(block, places)}, places)}</div>` : nothing}
${isOne ? nothing : html`${whomHtml(block, places)}${nodesOf(nodes, places)}${remedyHtml(block)}<p>${docsLink(finding)}</p>${alike.map(each => findingHtml(each, {isOpen: isOpen && alike.length === 2, above: block, sharedNodes: nodes}, places))}`}
${
  effects.length === 0
    ? nothing
    : html`<details class="block"><summary>${head}: ${codes}</summary><div>
${effects.map(each => findingHtml(each, {isOpen: false, above: null, sharedNodes: nodes}, places))}
</div></details>`
}
</div>
</details>`;
}

interface FindingLook {
  readonly isOpen: boolean;
  /** The group whose remedy and nodes are above it, and not repeated. */
  readonly above: FindingGroup | null;
  /** The nodes of its block, which are not named again. */
  readonly sharedNodes: readonly string[];
}

function findingHtml(item: ListedFinding, {isOpen, above, sharedNodes}: FindingLook, places: FindingPlaces): Html {
  const {finding, nodes, id} = item;
  const place = titlePlace(finding);
  const where = nodes.join() === sharedNodes.join() ? '' : onNodes(finding, nodes);
  return html`<details class="finding ${finding.severity}" ${dataOf(item, places)}${isOpen ? html` open` : nothing}>
<summary>${titleHtml(finding)}${place === '' ? '' : `: ${place}`}${where}</summary>
<div id="${id}">${bodyHtml({item, above, texts: [messageOf(item)], whom: above === null ? whomHtml(spreadBlock(item), places) : nothing}, places)}</div>
</details>`;
}

/** For the filters. */
function dataOf({finding, nodes}: ListedFinding, {ranges}: FindingPlaces): Html {
  const {severity, code} = finding;
  return html`data-severity="${severity}" data-code="${code}" data-service="${placeOf(finding)}" data-nodes="${ranges.of(nodes)}" data-count="${Math.max(1, nodes.length)}"`;
}

function titleHtml({code, severity, known, name}: Finding): Html {
  return html`<b class="${severity}">${code} ${severity}</b>${known ? ' (known)' : ''} ${name}`;
}

/** What distinguishes a finding from others with its code: the Service port and the endpoint. */
function titlePlace(finding: Finding): string {
  return [portText(finding), finding.endpoint ?? ''].filter(part => part !== '').join(', ');
}

function placeOf({service}: Finding): string {
  return service === undefined ? '' : namespacedName(service);
}

/** The names if they fit into the title. If not, their number; the names are below it. */
function onNodes({family}: Finding, nodes: readonly string[]): string {
  const names = nodeList(nodes);
  const where = nodes.length < 2 || names.length <= maxTitleNames ? names : plural(nodes.length, 'node');
  return `${nodes.length === 0 ? '' : ` on ${where}`}${family === 'IPv6' ? ' (IPv6)' : ''}`;
}

const maxTitleNames = 60;

/** Since when, and whom it hits. */
function whomHtml(block: FindingBlock, {readAt}: FindingPlaces): Html {
  return html`${whomAndSince(block, readAt).map(text => html`<p>${text}.</p>`)}`;
}

interface FindingBody {
  readonly item: ListedFinding;
  readonly above: FindingGroup | null;
  /** What it is about. */
  readonly texts: readonly string[];
  readonly whom: Html;
}

function bodyHtml({item, above, texts, whom}: FindingBody, places: FindingPlaces): Html {
  const {finding, nodes} = item;
  const {service, expected = [], actual = []} = finding;
  const path = places.pathOf(service);
  const pathLink = path === null ? nothing : html`<a href="#${path}">Packet path to ${placeOf(finding)}</a>`;
  const [first = ''] = nodes.length > 1 ? nodes : [];
  const ownCommands = above?.commands.join('\n') === item.commands.join('\n') ? nothing : commandsHtml(item);
  return html`
${texts.map(text => html`<p>${text}</p>`)}
${whom}
${above !== null ? html`${ownCommands}<p>${pathLink}</p>` : html`${nodesOf(nodes, places)}${remedyHtml(item)}<p>${docsLink(finding)}${path === null ? nothing : ' · '}${pathLink}</p>`}
${rulesHtml('Expected', expected, '')}
${rulesHtml('Found', actual, first)}
`;
}

function remedyHtml(group: FindingGroup): Html {
  return html`<p class="label">What to do</p>
<p>${group.finding.remedy}</p>${commandsHtml(group)}`;
}

function commandsHtml(group: FindingGroup): Html {
  return html`${commandsByPlace(group).map(
    ([label, texts]) => html`<p class="label">${label}</p><pre>${texts.map(text => html`${text}`)}</pre>`,
  )}`;
}

function docsLink({code}: Finding): Html {
  return html`<a href="${docsOf(code)}" rel="noreferrer">More about ${code}</a>`;
}

function nodesOf(nodes: readonly string[], {all}: FindingPlaces): Html {
  return nodes.length > 1 ? html`<p>Nodes: ${someOf(nodes, {max: all ? Infinity : maxNames})}</p>` : nothing;
}

const maxNames = 30;

/** On many nodes, line numbers are those of the first. */
function rulesHtml(title: string, rules: readonly RuleText[], node: string): Html {
  if (rules.length === 0) return nothing;
  const shown = rules.slice(0, maxRules);
  const rest = rules.length > shown.length ? html`\n… and ${plural(rules.length - shown.length, 'more rule')}` : nothing;
  return html`<p class="label">${title}${node === '' ? '' : ` (${node})`}</p>
<pre>${shown.map(rule => ruleHtml(rule))}${rest}</pre>`;
}

const maxRules = 8;

function ruleHtml(rule: RuleText): Html {
  const {text} = rule;
  const line = dumpLine(rule);
  return html`${line > 0 ? `line ${line}: ` : ''}${tableName(rule)} ${text.length > maxRuleLength ? `${text.slice(0, maxRuleLength)}…` : text}`;
}

const maxRuleLength = 1000;

/** Nodes by their index in the report, as ranges such as `0-3 7`, which are short even for hundreds of nodes. */
export class NodeRanges {
  readonly #places: ReadonlyMap<string, number>;

  constructor({nodes}: Report) {
    this.#places = new Map(nodes.map(({name}, index) => [name, index]));
  }

  of(nodes: readonly string[]): string {
    const places = [...new Set(nodes.flatMap(node => this.#places.get(node) ?? []))].sort((a, b) => a - b);
    const ranges: {first: number; last: number}[] = [];
    for (const place of places) {
      const range = ranges.at(-1);
      if (range !== undefined && range.last === place - 1) range.last = place;
      else ranges.push({first: place, last: place});
    }
    return ranges.map(({first, last}) => (first === last ? `${first}` : `${first}-${last}`)).join(' ');
  }
}

/** Controls that filter the page. They are hidden until the script shows them, because they do nothing without it. */
export function filtersHtml({findings, nodes}: Report): Html {
  if (findings.length < 2) return nothing;
  const codes = [...new Map(findings.map(({code, name}) => [code, name]))].sort(([a], [b]) => (a < b ? -1 : 1));
  return html`<form id="filters" hidden aria-label="Filters">
<fieldset aria-label="Severity">${severities.map(
    severity => html`<label><input type="checkbox" name="severity" value="${severity}" checked>${severity}</label>`,
  )}</fieldset>
<label>Code <select name="code"><option value="">all</option>${codes.map(
    ([code, name]) => html`<option value="${code}">${code} ${name}</option>`,
  )}</select></label>
<label>Service <input type="search" name="service" placeholder="part of a name"></label>
<label>Node <input type="search" name="node" list="node-names" placeholder="part of a name"></label>
<datalist id="node-names">${nodes.map(({name}) => html`<option value="${name}"></option>`)}</datalist>
<button type="reset">Reset</button>
<output id="shown" aria-live="polite" data-total="${findings.length}"></output>
</form>`;
}
