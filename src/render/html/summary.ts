import type {Report} from '../../model/report.ts';
import {count} from '../verdict-line.ts';
import {type Html, html, nothing} from './html.ts';

/** The counts, in figures. */
export function summaryHtml({summary}: Report): Html {
  const {errors, warnings, infos, services, servicePorts, nodesChecked, nodesUnread} = summary;
  return html`<ul class="counts">
<li${errors > 0 ? html` class="error"` : nothing}><b>${errors}</b> ${plural('error', errors)}</li>
<li${warnings > 0 ? html` class="warning"` : nothing}><b>${warnings}</b> ${plural('warning', warnings)}</li>
<li><b>${infos}</b> ${plural('info', infos)}</li>
<li><b>${services}</b> ${plural('Service', services)}, ${count(servicePorts, 'port')}</li>
<li><b>${nodesChecked}</b> ${plural('node', nodesChecked)} checked</li>
<li${nodesUnread > 0 ? html` class="warning"` : nothing}><b>${nodesUnread}</b> ${plural('node', nodesUnread)} not read</li>
</ul>`;
}

function plural(thing: string, number: number): string {
  return number === 1 ? thing : `${thing}s`;
}
