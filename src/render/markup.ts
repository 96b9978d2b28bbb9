import {escapeText} from './renderer.ts';

/** Escapes one line of text for XML and HTML, between tags and in quoted attributes. Characters that are invalid in XML are spelled out. */
export function markup(text: string): string {
  return escapeText(text)
    .replace(/[\ud800-\udfff\ufffe\uffff]/gu, character => `\\u${character.charCodeAt(0).toString(16)}`)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** Text that is already HTML. */
export interface Html {
  readonly html: string;
}

type Value = string | number | Html | readonly Html[];

/** HTML from a template: all values are escaped, except those that are HTML. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return {html: strings.map((string, index) => `${index === 0 ? '' : valueHtml(values[index - 1] ?? '')}${string}`).join('')};
}

/** Marks HTML that was built elsewhere from escaped parts. */
export function made(text: string): Html {
  return {html: text};
}

export const nothing: Html = {html: ''};

function valueHtml(value: Value): string {
  if (typeof value === 'string') return markup(value);
  if (typeof value === 'number') return String(value);
  return 'html' in value ? value.html : value.map(part => part.html).join('\n');
}
