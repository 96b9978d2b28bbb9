import type {NodeReport, Report} from '../../model/report.ts';
import {count} from '../verdict-line.ts';
import {type Html, html, nothing} from './html.ts';

/** The nodes, how they were found to run, and why one was not looked at. The filters know nodes by their place in it. */
export function nodesHtml({nodes}: Report): Html {
  if (nodes.length === 0) return nothing;
  return html`<section><h2>Nodes</h2>
<details${nodes.some(({status}) => status !== 'checked') ? html` open` : nothing}><summary>${count(nodes.length, 'node')}</summary>
<div id="nodes"><div class="scroll" tabindex="0" role="region" aria-label="Nodes"><table>
<thead><tr><th scope="col">Node</th><th scope="col">status</th><th scope="col">mode</th><th scope="col">kube-proxy</th><th scope="col">rules</th><th scope="col">remark</th></tr></thead>
<tbody>
${nodes.map(nodeHtml)}
</tbody></table></div></div></details></section>`;
}

function nodeHtml({name, status, proxyMode, kubeProxyVersion, backend, rules, reason}: NodeReport): Html {
  const mode = [proxyMode ?? '', ...(backend === undefined ? [] : [`(${backend})`])].join(' ');
  return html`<tr><th scope="row">${name}</th><td class="${status === 'checked' ? 'ok' : 'warning'}">${status}</td><td>${mode}</td><td>${kubeProxyVersion ?? ''}</td><td>${rules}</td><td>${reason ?? ''}</td></tr>`;
}
