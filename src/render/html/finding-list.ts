import type {Finding} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {type FindingGroup, groupFindings} from '../group-findings.ts';
import {docsOf} from '../json.ts';
import {type Html, html, nothing} from './html.ts';
import type {NodeRanges} from './node-ranges.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {plural} from '../../model/text/plural.ts';

/** Findings of which a page has room for a block each. */
interface ListedFindings {
  readonly listed: readonly ListedFinding[];
  /** Findings left out, by code: the same on many nodes counts once. */
  readonly hidden: ReadonlyMap<string, number>;
}

export interface ListedFinding extends FindingGroup {
  /** Where links to it lead. */
  readonly id: string;
}

/** The worst first, and of each code no more than there is room for. */
export function listFindings(findings: readonly Finding[]): ListedFindings {
  const listed: ListedFinding[] = [];
  const seen = new Map<string, number>();
  const hidden = new Map<string, number>();
  for (const group of groupFindings(findings)) {
    const {code} = group.finding;
    const nth = (seen.get(code) ?? 0) + 1;
    seen.set(code, nth);
    if (nth <= maxPerCode && listed.length < max) listed.push({...group, id: `finding-${listed.length + 1}`});
    else hidden.set(code, (hidden.get(code) ?? 0) + 1);
  }
  return {listed, hidden};
}

const maxPerCode = 200;
const max = 1000;

interface FindingPlaces {
  readonly ranges: NodeRanges;
  /** Where the packet path to a Service is drawn; null where it is not. */
  readonly pathOf: (service: Finding['service']) => string | null;
}

export function findingsHtml({listed, hidden}: ListedFindings, places: FindingPlaces): Html {
  if (listed.length === 0) return nothing;
  const rest = [...hidden].map(([code, number]) => `${number} more of ${code}`).join(', ');
  return html`<section id="findings"><h2>Findings</h2>
${listed.map((finding, index) => findingHtml(finding, index < openAtFirst && finding.finding.severity === 'error', places))}
${rest === '' ? nothing : html`<p class="note">Not shown: ${rest}. check -o json has all findings.</p>`}
</section>`;
}

const openAtFirst = 3;

function findingHtml({finding, nodes, id}: ListedFinding, isOpen: boolean, {ranges, pathOf}: FindingPlaces): Html {
  const {code, name, severity, known, service, message, remedy, expected = [], actual = [], family} = finding;
  const place = service === undefined ? '' : namespacedName(service);
  const where = nodes.length === 0 ? nothing : html` on ${nodes.length === 1 ? (nodes[0] ?? '') : plural(nodes.length, 'node')}`;
  const path = pathOf(service);
  const [first = ''] = nodes.length > 1 ? nodes : [];
  return html`<details class="finding ${severity}" data-severity="${severity}" data-code="${code}" data-service="${place}" data-nodes="${ranges.of(nodes)}"${isOpen ? html` open` : nothing}>
<summary><b class="${severity}">${code} ${severity}</b>${known ? ' (known)' : ''} ${name}: ${place}${where}${family === 'IPv6' ? ' (IPv6)' : ''}</summary>
<div id="${id}">
<p>${message}</p>
${rulesHtml('Expected', expected, '')}
${rulesHtml('Found', actual, first)}
${nodes.length > 1 ? html`<p>Nodes: ${namesOf(nodes)}</p>` : nothing}
<h3>What to do</h3>
<p>${remedy}</p>
<p><a href="${docsOf(code)}" rel="noreferrer">More about ${code}</a>${path === null ? nothing : html` · <a href="#${path}">Packet path to ${place}</a>`}</p>
</div>
</details>`;
}

function namesOf(nodes: readonly string[]): string {
  const names = nodes.slice(0, maxNames).join(', ');
  return nodes.length <= maxNames ? names : `${names} and ${nodes.length - maxNames} more`;
}

const maxNames = 30;

/** On many nodes, line numbers are those of the first. */
function rulesHtml(title: string, rules: readonly RuleText[], node: string): Html {
  if (rules.length === 0) return nothing;
  const shown = rules.slice(0, maxRules);
  const rest = rules.length > shown.length ? html`\n… and ${plural(rules.length - shown.length, 'more rule')}` : nothing;
  return html`<h3>${title}${node === '' ? '' : ` (${node})`}</h3>
<pre>${shown.map(rule => ruleHtml(rule))}${rest}</pre>`;
}

const maxRules = 8;

function ruleHtml({table, line, text}: RuleText): Html {
  const rule = text.length > maxRuleLength ? `${text.slice(0, maxRuleLength)}…` : text;
  return html`${line > 0 ? `line ${line}: ` : ''}${table} ${rule}`;
}

const maxRuleLength = 1000;
