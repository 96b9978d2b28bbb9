import type {Preview} from '../../model/preview.ts';
import {escapeText} from '../escape.ts';
import {toJson} from '../json.ts';
import {markup} from '../markup.ts';
import type {RenderOptions} from '../renderer.ts';
import {styleOf} from '../style.ts';
import {wrap} from '../wrap.ts';
import {toYaml} from '../yaml.ts';
import {previewObject} from './preview-json.ts';
import {previewText} from './preview-text.ts';

/** Turns a preview into text, without a newline at its end. */
type PreviewRenderer = (preview: Preview, options: RenderOptions) => string;

/** The output formats of `preview`. */
export const previewRenderers = {
  table,
  json: preview => toJson(previewObject(preview)),
  yaml: preview => toYaml(previewObject(preview)),
  markdown,
  html,
} as const satisfies Readonly<Record<string, PreviewRenderer>>;

function table(preview: Preview, {color, width, verbose, quiet}: RenderOptions): string {
  const style = styleOf(color);
  const {verdict, isBad, sections} = previewText(preview, verbose);
  const first = (isBad ? style.red : style.bold)(escapeText(verdict));
  if (quiet) return first;
  const blocks = sections.map(({title, items}) => {
    const texts = items.map(({head, lines}) =>
      [
        ...wrap(escapeText(head), width, '- '),
        ...lines.flatMap(([label, text]) => wrap(escapeText(text), width, `    ${style.dim(escapeText(label).padEnd(8))} `)),
      ].join('\n'),
    );
    return [style.bold(title), ...texts].join('\n');
  });
  return [first, ...blocks].join('\n\n');
}

function markdown(preview: Preview, {verbose}: RenderOptions): string {
  const {verdict, sections} = previewText(preview, verbose);
  const prose = (text: string): string => markup(escapeText(text)).replaceAll(/[\\`*_|[\]~]/g, '\\$&');
  const blocks = sections.map(({title, items}) => {
    const texts = items.map(({head, lines}) =>
      [`- ${prose(head)}`, ...lines.map(([label, text]) => `  - ${prose(label)}: ${prose(text)}`)].join('\n'),
    );
    return [`### ${title.charAt(0)}${title.slice(1).toLowerCase()}`, texts.join('\n')].join('\n\n');
  });
  return [`**${prose(verdict)}**`, ...blocks].join('\n\n');
}

function html(preview: Preview, {verbose}: RenderOptions): string {
  const {verdict, sections} = previewText(preview, verbose);
  const text = (value: string): string => markup(escapeText(value));
  const body = sections.map(({title, items}) => {
    const list = items.map(
      ({head, lines}) =>
        `<li>${text(head)}<dl>${lines.map(([label, value]) => `<dt>${text(label)}</dt><dd>${text(value)}</dd>`).join('')}</dl></li>`,
    );
    return `<h2>${text(title)}</h2>\n<ul>\n${list.join('\n')}\n</ul>`;
  });
  return [
    '<!DOCTYPE html>',
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    `<title>${text(verdict)}</title>`,
    '<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}dl{display:grid;grid-template-columns:8rem 1fr;margin:.2rem 0 1rem}dd{margin:0}dt{opacity:.7}</style>',
    `</head><body><h1>${text(verdict)}</h1>`,
    `<p>${text(preview.origin)}</p>`,
    ...body,
    '</body></html>',
  ].join('\n');
}
