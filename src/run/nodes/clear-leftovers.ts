import type {Transport} from '../../collect/node/transport.ts';
import {removeLeftovers} from '../../collect/transports/debug-leftovers.ts';
import {defaultDebugNamespace} from '../../collect/transports/debug.ts';
import type {Problem} from '../../model/snapshot.ts';
import type {OpenCluster} from '../open-cluster.ts';
import type {ParsedTransportFlags} from '../options/transport.ts';
import {errorText} from '../../model/text/error-text.ts';

/** Removes debug pods that a killed run left. A failure is reported and does not prevent the check. */
export async function clearLeftovers(
  transport: Transport,
  {cluster, flags}: {readonly cluster: OpenCluster; readonly flags: ParsedTransportFlags},
): Promise<readonly Problem[]> {
  if (transport.name !== 'debug') return [];
  const namespace = flags['debug-namespace'] ?? defaultDebugNamespace;
  try {
    await removeLeftovers(cluster.api, namespace);
    return [];
  } catch (error) {
    const reason = errorText(error);
    return [
      {
        message: `debug pods of earlier runs could not be listed: ${reason}`,
        remedy: `Look for them with: kubectl get pods -n ${namespace} -l app.kubernetes.io/managed-by=svc-trace`,
        isMinor: true,
      },
    ];
  }
}
