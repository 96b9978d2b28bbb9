import type {PreviewText} from '../preview/preview-text.ts';
import type {RenderOptions} from '../renderer.ts';
import {type Html, html, nothing} from './html.ts';
import {page} from './page.ts';
import {provenanceHtml} from './node-table.ts';

/** A preview as one file, without any other. */
export function previewPage({verdict, isBad, sections}: PreviewText, options: RenderOptions): string {
  return page({
    title: 'Preview',
    verdict,
    tone: isBad ? 'error' : sections.length > 0 ? 'warning' : 'ok',
    footer: 'svc-trace',
    facts: provenanceHtml(options),
    body: sections.map(sectionHtml),
  });
}

function sectionHtml({title, items, table}: PreviewText['sections'][number]): Html {
  return html`<section><h2>${title.charAt(0)}${title.slice(1).toLowerCase()}</h2>
${table === undefined ? nothing : tableHtml(title, table)}
${items.map(
  ({head, lines}) => html`<article><p class="label">${head}</p>
${lines.length === 0 ? nothing : html`<dl class="terms">${lines.map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}</dl>`}
</article>`,
)}
</section>`;
}

function tableHtml(title: string, {head, rows}: NonNullable<PreviewText['sections'][number]['table']>): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${title.toLowerCase()}"><table>
<thead><tr>${head.map(text => html`<th scope="col">${text}</th>`)}</tr></thead>
<tbody>${rows.map(row => html`<tr>${row.map(text => html`<td>${text}</td>`)}</tr>`)}</tbody>
</table></div>`;
}
