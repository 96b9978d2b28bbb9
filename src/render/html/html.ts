import {markup} from '../markup.ts';

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
