import type {Preview} from '../../model/preview.ts';
import {escapeText} from '../escape.ts';
import {provenanceMarkdown} from '../ci/markdown.ts';
import {previewPage} from '../html/preview-page.ts';
import {toJson} from '../json.ts';
import {markup} from '../markup.ts';
import type {RenderOptions} from '../renderer.ts';
import {styleOf} from '../style.ts';
import {wrap, wrapLines} from '../wrap.ts';
import {toYaml} from '../yaml.ts';
import {previewObject} from './preview-json.ts';
import {type PreviewText, previewText} from './preview-text.ts';

/** Turns a preview into text, without a newline at its end. */
type PreviewRenderer = (preview: Preview, options: RenderOptions) => string;

/** The output formats of `preview`. */
export const previewRenderers = {
  table,
  json: (preview, options) => toJson(previewObject(preview, options)),
  yaml: (preview, options) => toYaml(previewObject(preview, options)),
  markdown,
  html,
} as const satisfies Readonly<Record<string, PreviewRenderer>>;

function table(preview: Preview, options: RenderOptions): string {
  return previewTable(previewText(preview, options.verbose), options);
}

/** The text for a terminal. */
export function previewTable({verdict, isBad, sections}: PreviewText, {color, width, quiet}: RenderOptions): string {
  const style = styleOf(color);
  const first = wrapLines((isBad ? style.red : style.bold)(escapeText(verdict)), width);
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

function markdown(preview: Preview, options: RenderOptions): string {
  const {verdict, sections} = previewText(preview, options.verbose);
  const prose = (text: string): string => markup(escapeText(text)).replaceAll(/[\\`*_|[\]~]/g, '\\$&');
  const blocks = sections.map(({title, items}) => {
    const texts = items.map(({head, lines}) =>
      [`- ${prose(head)}`, ...lines.map(([label, text]) => `  - ${prose(label)}: ${prose(text)}`)].join('\n'),
    );
    return [`### ${title.charAt(0)}${title.slice(1).toLowerCase()}`, texts.join('\n')].join('\n\n');
  });
  return [`**${prose(verdict)}**`, ...blocks, ...provenanceMarkdown(undefined, options)].join('\n\n');
}

function html(preview: Preview, options: RenderOptions): string {
  return previewPage(previewText(preview, options.verbose), options);
}
