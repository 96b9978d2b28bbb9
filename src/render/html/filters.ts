import {severities} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {type Html, html, nothing} from './html.ts';

/** Controls that filter the page. They are hidden until the script shows them, because they do nothing without it. */
export function filtersHtml({findings, nodes}: Report): Html {
  if (findings.length < 2) return nothing;
  const codes = [...new Map(findings.map(({code, name}) => [code, name]))].sort(([a], [b]) => (a < b ? -1 : 1));
  return html`<form id="filters" hidden aria-label="Filters">
<fieldset aria-label="Severity">${severities.map(
    severity => html`<label><input type="checkbox" name="severity" value="${severity}" checked>${severity}</label>`,
  )}</fieldset>
<label>Code <select name="code"><option value="">all</option>${codes.map(
    ([code, name]) => html`<option value="${code}">${code} ${name}</option>`,
  )}</select></label>
<label>Service <input type="search" name="service" placeholder="part of a name"></label>
<label>Node <input type="search" name="node" list="node-names" placeholder="part of a name"></label>
<datalist id="node-names">${nodes.map(({name}) => html`<option value="${name}"></option>`)}</datalist>
<button type="reset">Reset</button>
<output id="shown" aria-live="polite" data-total="${findings.length}"></output>
</form>`;
}
