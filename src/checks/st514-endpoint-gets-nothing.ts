import {hasExternalEntry} from '../model/service-port.ts';
import type {Check} from './check.ts';
import {commandLine} from '../model/text/command-line.ts';
import {run} from './commands/service-commands.ts';
import {ofPort} from './service-observation.ts';
import {newConnections, oddsText, rareExponent} from './traffic-context.ts';

export const endpointGetsNothing: Check<'ST514'> = {
  code: 'ST514',
  name: 'endpoint-gets-nothing',
  severity: 'warning',
  summary: 'An endpoint gets none of the new connections on a node although the rules give it a share, and chance does not explain it',
  remedy: 'Trace the Service on this node (svc-trace trace SERVICE --node NODE) and look for rules that take its connections elsewhere.',
  *traffic({node, entry: {port}, cells, isRandom}) {
    // With two lists of endpoints the counters do not show which list a connection came from.
    const hasTwoLists = (port.externalPolicyLocal || port.internalPolicyLocal) && hasExternalEntry(port);
    const all = newConnections(cells);
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
