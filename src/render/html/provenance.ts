import {provenanceRows} from '../provenance-rows.ts';
import type {RenderOptions} from '../renderer.ts';
import {type Html, html, nothing} from './html.ts';

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
