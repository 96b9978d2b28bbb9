import type {Advice, Preview, PreviewChange, PreviewOutcome} from '../../model/preview-result.ts';
import {provenanceMarkdown} from '../ci/markdown.ts';
import {entryFields, place, schemaVersion, toJson, toYaml} from '../json.ts';
import {markup, type Html, html, nothing} from '../markup.ts';
import {originOf, type RenderOptions, escapeText, styleOf, wrap, wrapLines, plainTable} from '../renderer.ts';
import {isBlocking, isLoss, type PreviewText, previewText, summarizePreview} from './preview-text.ts';
import {page, provenanceHtml} from '../html/page.ts';

/** Turns a preview into text, without a newline at its end. */
type PreviewRenderer = (preview: Preview, options: RenderOptions) => string;

/** The output formats of `preview`. */
export const previewRenderers = {
  table: (preview, options) => previewTable(previewText(preview, options.verbose), options),
  json: (preview, options) => toJson(previewObject(preview, options)),
  yaml: (preview, options) => toYaml(previewObject(preview, options)),
  markdown,
  html: (preview, options) => previewPage(previewText(preview, options.verbose), options),
} as const satisfies Readonly<Record<string, PreviewRenderer>>;

/** The text for a terminal. */
export function previewTable({verdict, isBad, sections}: PreviewText, {color, width, quiet}: RenderOptions): string {
  const style = styleOf(color);
  const first = wrapLines((isBad ? style.red : style.bold)(escapeText(verdict)), width);
  if (quiet) return first;
  const blocks = sections.map(({title, items, table: cells}) => {
    const texts = items.map(({head, lines}) =>
      [
        ...wrap(escapeText(head), width, '- '),
        ...lines.flatMap(([label, text]) => wrap(escapeText(text), width, `    ${style.dim(escapeText(label).padEnd(8))} `)),
      ].join('\n'),
    );
    const escaped = cells?.rows.map(row => row.map(escapeText)) ?? [];
    return [style.bold(title), ...(cells === undefined ? [] : [plainTable(cells.head, escaped, width)]), ...texts].join('\n');
  });
  return [first, ...blocks].join('\n\n');
}

function markdown(preview: Preview, options: RenderOptions): string {
  const {verdict, sections} = previewText(preview, options.verbose);
  const prose = (text: string): string => markup(escapeText(text)).replaceAll(/[\\`*_|[\]~]/g, '\\$&');
  const blocks = sections.map(({title, items, table: cells}) => {
    const rows = cells === undefined ? [] : [cells.head, cells.head.map(() => '---'), ...cells.rows.map(row => row.map(prose))];
    const table = rows.map(row => `| ${row.join(' | ')} |`).join('\n');
    const texts = items.map(({head, lines}) =>
      [`- ${prose(head)}`, ...lines.map(([label, text]) => `  - ${prose(label)}: ${prose(text)}`)].join('\n'),
    );
    const parts = [`### ${title.charAt(0)}${title.slice(1).toLowerCase()}`, table, texts.join('\n')];
    return parts.filter(part => part !== '').join('\n\n');
  });
  return [`**${prose(verdict)}**`, ...blocks, ...provenanceMarkdown(undefined, options)].join('\n\n');
}

/** The JSON of `preview`, as docs/preview.schema.json describes it. */
function previewObject(preview: Preview, options: Pick<RenderOptions, 'provenance'>): object {
  const {before, after, nodes, requirements, changes, advice, notes, settings, scope, ports} = preview;
  const origin = originOf(undefined, options);
  return {
    schemaVersion,
    origin: origin ?? undefined,
    before,
    after,
    summary: summarizePreview(preview),
    nodes,
    requirements,
    ports,
    changes: [...inOrder(changes).map(changeObject), ...advice.map(adviceObject)],
    notes,
    settings,
    scope,
  };
}

export function changeObject({cause, entry, ...change}: PreviewChange): object {
  const {node, service, port, source, packet, before, after, effect} = change;
  return {
    node,
    service,
    port,
    entry: entryFields(entry),
    source,
    packet,
    before: before.map(outcomeObject),
    after: after.map(outcomeObject),
    effect,
    reason: cause.reason,
    remedy: cause.remedy,
    docs: docsOf(cause.id),
    ...(cause.id === 'healed' ? {healed: true} : {}),
  };
}

function outcomeObject({path, ...outcome}: PreviewOutcome): object {
  return path === undefined ? outcome : {...outcome, path: path.map(place)};
}

/** What is said once, of some nodes or of all. */
function adviceObject({topic, nodes, effect = 'undetermined', reason, remedy, id}: Advice): object {
  return {topic, ...(nodes.length === 0 ? {} : {nodes}), effect, reason, remedy, docs: docsOf(id)};
}

function docsOf(id: string): string {
  return `https://github.com/svc-trace/svc-trace/blob/main/docs/checks/preview.md#${id}`;
}

/** By Service port, node and packet. */
function inOrder(changes: readonly PreviewChange[]): readonly PreviewChange[] {
  const keyed = changes.map(change => [changeKey(change), change] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, change]) => change);
}

function changeKey({node, service, port, entry, packet}: PreviewChange): string {
  return JSON.stringify([service.namespace, service.name, port.name, port.protocol, port.port, node, entry.kind, packet]);
}

/**
 * 1 if traffic is lost or gained, other than what manifests add, or kube-proxy would not start; with `any`, for every change; 3 if a node was not checked or its rules after the change are not known; otherwise 0.
 */
export function previewExitCode(preview: Preview, failOn: string): number {
  const {verdict, nodesUnread} = summarizePreview(preview);
  const {changes, requirements, advice} = preview;
  const isServedElse = changes.some(({effect, cause}) => effect === 'lost' || (effect === 'gained' && cause.id !== 'new-service'));
  const fails = failOn === 'any' ? verdict === 'changes' : isServedElse || requirements.some(isBlocking) || advice.some(isLoss);
  if (failOn !== 'never' && fails) return 1;
  return verdict === 'incomplete' || nodesUnread > 0 ? 3 : 0;
}

/** A preview as one file, without any other. */
function previewPage({verdict, isBad, sections}: PreviewText, options: RenderOptions): string {
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
