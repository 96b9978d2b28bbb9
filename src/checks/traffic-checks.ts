import type {Family} from '../model/address.ts';
import {type Observation, ofPort} from '../model/finding.ts';
import {hasExternalEntry} from '../model/service-port.ts';
import {commandLine} from '../model/text.ts';
import {maxClients} from '../parse/conntrack.ts';
import type {Check} from './check.ts';
import {run} from './commands/commands.ts';
import {fromWhom, countNewConnections, oddsText, rareExponent, type TrafficContext} from './traffic-context.ts';

export const removedEndpointInUse: Check<'ST513'> = {
  code: 'ST513',
  name: 'removed-endpoint-in-use',
  severity: 'info',
  summary: 'TCP connections are still open to an address that is no usable endpoint of the Service',
  remedy:
    'Nothing, if the pod is draining. If the pod was deleted, its clients wait for a timeout: restart them, or configure keep-alives and a shorter timeout.',
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
};

/** Shows the clients, on the node. */
function showFlows(family: Family, hostPort: string): Pick<Observation, 'command'> {
  const [, address = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(hostPort) ?? [];
  return run(commandLine`conntrack -L -f ${family.toLowerCase()} -p tcp --reply-src ${address} --reply-port-src ${port}`);
}

export const endpointGetsNothing: Check<'ST514'> = {
  code: 'ST514',
  name: 'endpoint-gets-nothing',
  severity: 'warning',
  summary: 'An endpoint gets none of the new connections on a node although the rules give it a share, and chance does not explain it',
  remedy: 'Trace the Service on this node (svc-trace trace SERVICE --node NODE) and look for rules that take its connections elsewhere.',
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
};

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
