import type {NodeReport, NodeWait, Report} from '../../model/report.ts';
import {plural} from '../../model/text.ts';
import {provenanceRows, type RenderOptions} from '../renderer.ts';
import {convergedText} from '../table/sections.ts';
import {type Html, html, nothing} from './html.ts';

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
