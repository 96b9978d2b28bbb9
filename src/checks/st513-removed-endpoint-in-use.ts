import type {Check} from './check.ts';
import type {Family} from '../model/family.ts';
import type {Observation} from '../model/finding.ts';
import {commandLine} from '../model/text/command-line.ts';
import {run} from './commands/service-commands.ts';
import {ofPort} from './service-observation.ts';

export const removedEndpointInUse: Check<'ST513'> = {
  code: 'ST513',
  name: 'removed-endpoint-in-use',
  severity: 'info',
  summary: 'TCP connections are still open to an address that is no usable endpoint of the Service',
  remedy:
    'Nothing, if the pod is draining. If the pod was deleted, its clients wait for a timeout: restart them, or configure keep-alives and a shorter timeout.',
  *traffic({node, entry: {port, set}, cells}) {
    if (port.protocol !== 'TCP') return;
    for (const [hostPort, {openConnections}] of cells) {
      const known = set.endpoints.find(endpoint => endpoint.hostPort === hostPort);
      if (!openConnections || known?.ready || (known?.terminating && known.serving)) continue;
      const what =
        known === undefined ? 'is no endpoint of the Service' : known.terminating ? 'terminates and no longer serves' : 'is not ready';
      const connections = openConnections === 1 ? '1 TCP connection is' : `${openConnections} TCP connections are`;
      const message = `${port.servicePortName}: ${connections} still open to ${hostPort}, which ${what}`;
      yield {...ofPort(port), node, endpoint: hostPort, message, ...showFlows(port.family, hostPort)};
    }
  },
};

/** Shows the clients, on the node. */
function showFlows(family: Family, hostPort: string): Pick<Observation, 'command'> {
  const [, address = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(hostPort) ?? [];
  return run(commandLine`conntrack -L -f ${family.toLowerCase()} -p tcp --reply-src ${address} --reply-port-src ${port}`);
}
