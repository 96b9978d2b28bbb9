import type {Report} from '../../model/report.ts';
import {type Html, html, nothing} from './html.ts';
import {plural} from '../../model/text/plural.ts';

/** The counts of the report. */
export function summaryHtml({summary}: Report): Html {
  const {errors, warnings, infos, services, servicePorts, nodesChecked, nodesUnread} = summary;
  return html`<ul class="counts">
<li${errors > 0 ? html` class="error"` : nothing}><b>${errors}</b> ${nounOf('error', errors)}</li>
<li${warnings > 0 ? html` class="warning"` : nothing}><b>${warnings}</b> ${nounOf('warning', warnings)}</li>
<li><b>${infos}</b> ${nounOf('info', infos)}</li>
<li><b>${services}</b> ${nounOf('Service', services)}, ${plural(servicePorts, 'port')}</li>
<li><b>${nodesChecked}</b> ${nounOf('node', nodesChecked)} checked</li>
<li${nodesUnread > 0 ? html` class="warning"` : nothing}><b>${nodesUnread}</b> ${nounOf('node', nodesUnread)} not checked</li>
</ul>`;
}

function nounOf(thing: string, number: number): string {
  return number === 1 ? thing : `${thing}s`;
}
