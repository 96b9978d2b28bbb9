import type {Family} from '../model/address.ts';
import {type Observation, ofPort} from '../model/finding.ts';
import {hasExternalEntry} from '../model/service-port.ts';
import {commandLine} from '../model/text.ts';
import {maxClients} from '../parse/conntrack.ts';
import {check} from './catalog.ts';
import {run} from './commands/commands.ts';
import {fromWhom, countNewConnections, oddsText, rareExponent, type TrafficContext} from './traffic-context.ts';

export const removedEndpointInUse = check('ST513', {
  *traffic({node, entry: {port, set}, cells, tracked}) {
    if (port.protocol !== 'TCP') return;
    for (const [hostPort, {openConnections}] of cells) {
      const known = set.endpoints.find(endpoint => endpoint.hostPort === hostPort);
      if (!openConnections || known?.ready || (known?.terminating && known.serving)) continue;
      const what =
        known === undefined ? 'is no endpoint of the Service' : known.terminating ? 'terminates and no longer serves' : 'is not ready';
      const connections = openConnections === 1 ? '1 TCP connection is' : `${openConnections} TCP connections are`;
      const message = `${port.servicePortName}: ${connections} still open to ${hostPort}, which ${what}${fromWhom({tracked}, hostPort)}`;
      yield {...ofPort(port), node, endpoint: hostPort, message, ...showFlows(port.family, hostPort)};
    }
  },
});

/** Shows the clients, on the node. */
function showFlows(family: Family, hostPort: string): Pick<Observation, 'command'> {
  const [, address = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(hostPort) ?? [];
  return run(commandLine`conntrack -L -f ${family.toLowerCase()} -p tcp --reply-src ${address} --reply-port-src ${port}`);
}

export const endpointGetsNothing = check('ST514', {
  *traffic({node, entry: {port}, cells, isRandom}) {
    // With two lists of endpoints the counters do not show which list a connection came from.
    const hasTwoLists = (port.externalPolicyLocal || port.internalPolicyLocal) && hasExternalEntry(port);
    const all = countNewConnections(cells);
    if (!isRandom || hasTwoLists || all === null) return;
    const trace = run(commandLine`kubectl svc-trace trace ${`${port.namespace}/${port.service}`} --node ${node}`);
    for (const [hostPort, {newConnections: own, expectedShare: share}] of cells) {
      if (own !== 0 || share === null || share <= 0 || share >= 1) continue;
      const exponent = Math.log10(1 - share) * all;
      if (exponent > rareExponent) continue;
      const message = `${port.servicePortName}: ${hostPort} gets none of ${all} new connections, though the rules give it ${(share * 100).toFixed(1)}%; ${oddsText(exponent)}`;
      yield {...ofPort(port), node, endpoint: hostPort, message, ...trace};
    }
  },
});

export const oneEndpointGetsAll = check('ST515', {
  *traffic(context) {
    const {node, entry, cells, clients} = context;
    const served = [...cells.values()].filter(({expectedShare}) => (expectedShare ?? 0) > 0);
    const isNew = (countNewConnections(cells) ?? 0) >= minConnections;
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
});

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
