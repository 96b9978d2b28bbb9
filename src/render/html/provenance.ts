import type {RenderOptions} from '../renderer.ts';
import {type Html, html, nothing} from './html.ts';

/** When the report was made, of what, and how to make it again. */
export function provenanceHtml({unixTime, provenance}: RenderOptions, scope?: string): Html {
  if (provenance === undefined) return nothing;
  const {command, source, serverVersion, takenAt} = provenance;
  const facts: readonly (readonly [string, Html])[] = [
    ...(unixTime === undefined ? [] : [['Made', timeHtml(new Date(unixTime * 1000).toISOString())] as const]),
    ...(takenAt === undefined ? [] : [['Taken', timeHtml(takenAt)] as const]),
    ...(source === undefined ? [] : [['Source', html`${source}`] as const]),
    ...(serverVersion === undefined ? [] : [['Kubernetes', html`${serverVersion}`] as const]),
    ...(scope === undefined ? [] : [['Scope', html`${scope}`] as const]),
    ['Command', html`<code>${command}</code>`],
  ];
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** To the second, in UTC; a time of a bundle that is none is shown as it is. */
function timeHtml(time: string): Html {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return html`${time}`;
  const text = date.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 10)} ${text.slice(11, 19)} UTC</time>`;
}
