import type {NodeReport, NodeWait, Report} from '../../model/report.ts';
import {convergedText} from '../table/wait-section.ts';
import {type Html, html, nothing} from './html.ts';
import {plural} from '../../model/text/plural.ts';

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
