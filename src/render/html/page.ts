import {createHash} from 'node:crypto';
import type {Report, NodeReport, NodeWait} from '../../model/report.ts';
import {graphStyle} from '../graph/svg.ts';
import {type RenderOptions, provenanceRows, styleOf} from '../renderer.ts';
import {verdictLine} from '../verdict-line.ts';
import {type Html, html, made, nothing} from '../markup.ts';
import {plural} from '../../model/text.ts';
import {convergedText} from '../table/sections.ts';

/** The page of a report. */
export function reportPage(report: Report, options: RenderOptions, {title, body}: Pick<PageContent, 'title' | 'body'>): string {
  const {tool, scope} = report;
  return page({
    title,
    body,
    verdict: verdictLine(report, styleOf(false), options.provenance),
    tone: toneOf(report),
    facts: provenanceHtml(options, scope),
    footer: `${tool.name} ${tool.version}`,
  });
}

interface PageContent {
  readonly title: string;
  /** The heading. */
  readonly verdict: string;
  readonly tone: 'ok' | 'warning' | 'error';
  /** Where the page comes from. */
  readonly facts: Html;
  readonly body: readonly Html[];
  readonly footer: string;
}

/** A page without dependencies: it loads nothing and sends nothing. */
export function page({title, verdict, tone, facts, body, footer}: PageContent): string {
  return html`${pageHead({title: `${title}: ${verdict}`, style, script})}
<body>
<header class="${tone}"><h1>${verdict}</h1></header>
<main>
${facts}
${body}
</main>
<footer>${footer}</footer>
<script>${made(script)}</script>
</body>
</html>`.html;
}

interface PageHead {
  readonly title: string;
  readonly style: string;
  readonly script: string;
  /** What the Content-Security-Policy says besides. */
  readonly policy?: readonly string[];
}

/**
 * The beginning of a page, up to its body. Only this style and this script are allowed, by their hashes.
 */
export function pageHead({title, style: own, script: code, policy = []}: PageHead): Html {
  const allowed = ["default-src 'none'", ...policy, `style-src ${hashOf(own)}`, `script-src ${hashOf(code)}`];
  return html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${[...allowed, "base-uri 'none'", "form-action 'none'"].join('; ')}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${made(own)}</style>
</head>`;
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function toneOf({summary}: Report): PageContent['tone'] {
  if (summary.errors > 0) return 'error';
  return summary.verdict === 'ok' && summary.warnings === 0 ? 'ok' : 'warning';
}

const own = `
:root { --warn: #8a5a00; --warn-box: #fff4d6; --info: #0b5cad; --good-box: #e8f6ec; --edge: #d0d7de; color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --warn: #e3b341; --warn-box: #33270a; --info: #79b8ff; --good-box: #12261a; --edge: #30363d }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, 'DejaVu Sans', sans-serif }
main, footer { max-width: 1280px; margin: 0 auto; padding: 0 20px }
header { max-width: 1240px; width: calc(100% - 40px); margin: 20px auto 0; padding: 10px 20px; border-left: 8px solid var(--good); border-radius: 6px; background: var(--good-box) }
header.error { border-color: var(--bad); background: var(--bad-box) }
header.warning { border-color: var(--warn); background: var(--warn-box) }
h1 { font-size: 20px; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 17px; margin: 28px 0 8px }
h3 { font-size: 14px; margin: 14px 0 4px }
a { color: var(--info) }
:focus-visible { outline: 3px solid var(--info); outline-offset: 2px }
.facts { display: flex; flex-wrap: wrap; gap: 2px 22px; margin: 12px 0; font-size: 14px }
.facts div { display: flex; gap: 6px; min-width: 0 }
.facts dt { color: var(--soft); font-weight: normal; flex: none }
.facts dd { margin: 0; overflow-wrap: anywhere; min-width: 0 }
.facts code { font-size: 13px }
.counts { display: flex; flex-wrap: wrap; gap: 10px; padding: 0; margin: 16px 0; list-style: none }
.counts li { border: 1px solid var(--edge); border-radius: 6px; padding: 6px 14px }
.counts b { font-size: 18px }
.error b, b.error { color: var(--bad) }
.warning b, b.warning { color: var(--warn) }
form { display: flex; flex-wrap: wrap; gap: 10px 18px; align-items: center; padding: 12px 14px; border: 1px solid var(--edge); border-radius: 6px; background: var(--box) }
form[hidden] { display: none }
fieldset { border: 0; padding: 0; margin: 0; display: flex; gap: 12px }
form label { display: flex; gap: 5px; align-items: center; max-width: 100% }
input, select, button { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 4px; padding: 3px 8px; min-width: 0; max-width: 100% }
.scroll { overflow-x: auto; border: 1px solid var(--edge); border-radius: 6px }
table { border-collapse: collapse; font-size: 14px }
.scroll > table { min-width: 100% }
th, td { text-align: left; padding: 4px 12px; border-bottom: 1px solid var(--edge); white-space: nowrap; unicode-bidi: isolate }
thead th { background: var(--box); max-width: 220px; vertical-align: bottom }
thead th[data-nodes] { white-space: normal; overflow-wrap: break-word }
td.remark { white-space: normal; min-width: 14em; overflow-wrap: anywhere }
tbody tr:last-child > * { border-bottom: 0 }
tbody th { font-weight: normal }
th details { border: 0; margin: 0 }
th summary { padding: 0 }
.scroll tr > th:first-child { position: sticky; left: 0; background: var(--ground) }
.scroll thead tr > th:first-child { background: var(--box) }
td.error { background: var(--bad-box); font-weight: bold }
td.error, td.error a { color: var(--bad) }
td.warning { background: var(--warn-box) }
td.warning, td.warning a { color: var(--warn) }
td.ok { color: var(--good) }
td.unknown, .note { color: var(--soft) }
details { border: 1px solid var(--edge); border-radius: 6px; margin: 8px 0 }
summary { cursor: pointer; padding: 8px 12px; overflow-wrap: anywhere }
details > div { padding: 2px 16px 14px; border-top: 1px solid var(--edge) }
.label { font-size: 14px; font-weight: bold; margin: 14px 0 4px }
.finding.error, .block.error { border-left: 5px solid var(--bad) }
.finding.warning, .block.warning { border-left: 5px solid var(--warn) }
.finding.info, .block.info { border-left: 5px solid var(--info) }
code, pre { font: 13px/1.5 ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; unicode-bidi: isolate }
pre { margin: 4px 0; padding: 8px 12px; background: var(--box); border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere }
figure { margin: 16px 0 28px }
figcaption { font-weight: bold; margin-bottom: 8px; overflow-wrap: anywhere }
svg { display: block; max-width: 100%; height: auto }
svg.narrow { display: none }
@media screen and (max-width: 940px) {
  svg.wide { display: none }
  svg.narrow { display: block; width: 100%; max-width: 352px }
}
@media screen and (min-width: 601px) and (max-width: 940px) {
  svg.narrow { max-width: 460px }
}
@media screen and (max-width: 600px) {
  svg.narrow { margin: 0 auto }
  main, footer { padding: 0 14px }
  header { width: calc(100% - 28px); padding: 8px 14px }
  th, td { padding: 4px 8px }
  .scroll tr > th:first-child { min-width: 9em; max-width: 9em; white-space: normal; overflow-wrap: anywhere }
}
article { border: 1px solid var(--edge); border-radius: 6px; margin: 8px 0; padding: 2px 16px 10px }
article .label { margin-top: 8px }
.terms { display: grid; grid-template-columns: minmax(6em, max-content) minmax(0, 1fr); gap: 2px 16px }
.terms dt { color: var(--soft); font-weight: normal }
.terms dd { margin: 0; overflow-wrap: anywhere }
dl { margin: 4px 0 }
dt { font-weight: bold; overflow-wrap: anywhere }
dd { margin: 0 0 10px }
footer { color: var(--soft); padding: 20px; font-size: 13px }
@media print {
  form, .note.screen { display: none }
  details::details-content { content-visibility: visible; display: block }
  details, tr, figure { break-inside: avoid }
  .scroll { overflow: visible; border: 0 }
}
`;

/**
 * The style of a page: light and dark, on a screen and on paper.
 */
export const style = graphStyle + own;

/**
 * The script of the page: it filters, and unfolds everything for print. All its data are in the page: nodes are their index in the table
 * of nodes, as ranges such as `0-3 7`.
 */
const script = `
'use strict';
const all = selector => [...document.querySelectorAll(selector)];
const form = document.getElementById('filters');
if (form !== null) {
  const nodes = all('#nodes tbody th').map(cell => cell.textContent.toLowerCase());
  const findings = all('.finding');
  const blocks = all('.block');
  const output = document.getElementById('shown');
  const rows = all('#matrix tbody tr');
  const columns = all('#matrix thead th[data-nodes]');
  const paths = all('.path');
  const isOnNode = (element, text) => text === '' || (element.dataset.nodes || '').split(' ').some(range => {
    if (range === '') return false;
    const [first, last = first] = range.split('-').map(Number);
    for (let at = first; at <= last; at++) if (nodes[at].includes(text)) return true;
    return false;
  });
  const apply = () => {
    const given = new FormData(form);
    const severities = given.getAll('severity');
    const code = given.get('code');
    const service = given.get('service').trim().toLowerCase();
    const node = given.get('node').trim().toLowerCase();
    const isOfService = element => (element.dataset.service || '').toLowerCase().includes(service);
    const isFiltered = code !== '' || severities.length < form.querySelectorAll('[name=severity]').length;
    for (const finding of findings)
      finding.hidden = !(severities.includes(finding.dataset.severity) && (code === '' || finding.dataset.code === code)
        && isOfService(finding) && isOnNode(finding, node));
    for (const row of rows)
      row.hidden = !isOfService(row) || (isFiltered && !row.dataset.found.split(' ').some(found => {
        const [severity, found_code] = found.split(':');
        return severities.includes(severity) && (code === '' || code === found_code);
      }));
    for (const column of columns) {
      const isHidden = !isOnNode(column, node);
      column.hidden = isHidden;
      for (const row of rows) row.cells[column.cellIndex].hidden = isHidden;
    }
    for (const path of paths) path.hidden = !isOfService(path);
    const isNarrowed = isFiltered || service !== '' || node !== '';
    for (const block of blocks) {
      block.hidden = block.querySelector('.finding:not([hidden])') === null;
      if (isNarrowed && !block.hidden) block.open = true;
    }
    const shown = findings.filter(finding => !finding.hidden).reduce((sum, finding) => sum + Number(finding.dataset.count), 0);
    output.textContent = 'Showing ' + shown + ' of ' + output.dataset.total + ' findings';
  };
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.addEventListener('reset', () => queueMicrotask(apply));
  form.hidden = false;
  apply();
}
let opened = [];
addEventListener('beforeprint', () => {
  opened = all('details:not([open])');
  for (const details of opened) details.open = true;
});
addEventListener('afterprint', () => {
  for (const details of opened) details.open = false;
});
`;

/** The nodes, how kube-proxy runs on each, and why a node was not checked. The filters refer to nodes by their index in this table. */
export function nodesHtml({nodes, wait, basis}: Report): Html {
  if (nodes.length === 0) return nothing;
  const waits = new Map(wait?.nodes.map(node => [node.name, node]));
  const isOpen = wait !== undefined || (basis !== 'rules' && nodes.some(({status}) => status !== 'checked'));
  return html`<section><h2>Nodes</h2>
<details${isOpen ? html` open` : nothing}><summary>${plural(nodes.length, 'node')}</summary>
<div id="nodes"><div class="scroll" tabindex="0" role="region" aria-label="Nodes"><table>
<thead><tr><th scope="col">Node</th><th scope="col">status</th><th scope="col">mode</th><th scope="col">kube-proxy</th><th scope="col">rules</th>${wait === undefined ? nothing : html`<th scope="col">converged</th>`}<th scope="col">remark</th></tr></thead>
<tbody>
${nodes.map(node => nodeHtml(node, basis, wait === undefined ? nothing : waitHtml(waits.get(node.name))))}
</tbody></table></div></div></details></section>`;
}

function nodeHtml(
  {name, status, proxyMode, kubeProxyVersion, backend, rules, read, reason}: NodeReport,
  basis: Report['basis'],
  wait: Html,
): Html {
  const mode = [proxyMode ?? '', ...(backend === undefined ? [] : [`(${backend})`])].join(' ');
  return html`<tr><th scope="row">${name}</th>${statusHtml(status, basis)}<td>${mode}</td><td>${kubeProxyVersion ?? ''}</td><td>${rules}</td>${wait}<td class="remark">${reason ?? (read === undefined ? '' : onlyReachable)}</td></tr>`;
}

/** Only rules were read, and there is nothing to compare them with: neither in sync nor faulty. */
function statusHtml(status: NodeReport['status'], basis: Report['basis']): Html {
  if (basis === 'rules') return html`<td>rules alone</td>`;
  return html`<td class="${status === 'checked' ? 'ok' : 'warning'}">${status === 'unread' ? 'not checked' : status}</td>`;
}

const onlyReachable = 'only the chains that packets to the named Services can reach were read; --full reads all rules';

/** `--wait` does not wait for a node without kube-proxy. */
function waitHtml(wait: NodeWait | undefined): Html {
  if (wait === undefined) return html`<td></td>`;
  return html`<td class="${wait.look === undefined ? 'warning' : 'ok'}">${convergedText(wait)}</td>`;
}

/** When the report was made, of what, and how to make it again. */
export function provenanceHtml(options: RenderOptions, scope?: string): Html {
  const rows = provenanceRows(scope, options);
  if (rows.length === 0) return nothing;
  const {unixTime} = options;
  const facts: readonly (readonly [string, Html])[] = [
    ...(unixTime === undefined ? [] : [['Made', timeHtml(new Date(unixTime * 1000).toISOString())] as const]),
    ...rows.map(({field, label, text}) => [label.charAt(0).toUpperCase() + label.slice(1), valueHtml[field](text)] as const),
  ];
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

const textHtml = (text: string): Html => html`${text}`;

const valueHtml = {
  readAt: timeHtml,
  source: textHtml,
  serverVersion: textHtml,
  scope: textHtml,
  command: (text: string): Html => html`<code>${text}</code>`,
};

/** To the second, in UTC. A text of a bundle that is not a time is shown unchanged. */
function timeHtml(time: string): Html {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return html`${time}`;
  const text = date.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 10)} ${text.slice(11, 19)} UTC</time>`;
}
