import {maxClients} from '../parse/conntrack-counts.ts';
import type {Check} from './check.ts';
import {ofPort} from './service-observation.ts';
import {newConnections, oddsText, rareExponent, type TrafficContext} from './traffic-context.ts';

export const oneEndpointGetsAll: Check<'ST515'> = {
  code: 'ST515',
  name: 'one-endpoint-gets-all',
  severity: 'info',
  summary: "A node's connections to a Service all go to one of several endpoints: session affinity, few clients or long connections",
  remedy:
    'Nothing, if this is intended. kube-proxy balances connections, not requests: to spread load over long connections, balance in the client, or let clients reconnect periodically.',
  *traffic(context) {
    const {node, entry, cells, clients} = context;
    const served = [...cells.values()].filter(({expectedShare}) => (expectedShare ?? 0) > 0);
    const isNew = (newConnections(cells) ?? 0) >= minConnections;
    const counts = [...cells].map(([hostPort, cell]) => ({hostPort, number: (isNew ? cell.newConnections : cell.openConnections) ?? 0}));
    const all = counts.reduce((sum, {number}) => sum + number, 0);
    const only = counts.find(({number}) => number === all);
    const share = cells.get(only?.hostPort ?? '')?.expectedShare ?? 0;
    if (served.length < 2 || all < minConnections || only === undefined || share === 0) return;
    const why = whyAll(context, isNew, Math.log10(share) * (all - 1));
    if (why === null) return;
    const what = `${all} ${isNew ? 'new' : 'open'} connections${clientText(clients)}`;
    const message = `${entry.port.servicePortName}: all ${what} go to ${only.hostPort}, one of ${served.length} endpoints: ${why}`;
    yield {...ofPort(entry.port), node, endpoint: only.hostPort, message};
  },
};

/** A smaller number proves nothing. */
const minConnections = 5;

/** Null if there is no explanation: then the other endpoints get nothing, which is ST514. */
function whyAll({entry: {port}, isRandom}: TrafficContext, isNew: boolean, exponent: number): string | null {
  if (port.affinitySeconds !== null) return 'session affinity keeps each client on its endpoint';
  if (!isNew) return 'a connection keeps the endpoint that it was opened to';
  if (!isRandom) return 'the scheduler picks by client or by open connections';
  return exponent > rareExponent ? `they are few; ${oddsText(exponent)}` : null;
}

function clientText(clients: number | null): string {
  if (clients === null || clients === 0) return '';
  return clients >= maxClients ? ` of ${maxClients} clients or more` : ` of ${clients} ${clients === 1 ? 'client' : 'clients'}`;
}
