import type {ClusterNode, Endpoint, Service} from './model.ts';

export interface ChosenEndpoints {
  /** What the Service's cluster-wide chain balances over. */
  cluster: Endpoint[];
  /** What its node-local chain balances over. */
  local: Endpoint[];
  /** Those that need a chain of their own. */
  reachable: Endpoint[];
  any: boolean;
}

export interface Policies {
  usesCluster: boolean;
  usesLocal: boolean;
}

/**
 * The endpoints one node uses: the ready ones, or, where there is none, those
 * that still serve while they end. Zone hints are left out: no slice has any.
 */
export function chooseEndpoints(endpoints: readonly Endpoint[], node: ClusterNode, {usesCluster, usesLocal}: Policies): ChosenEndpoints {
  const cluster = usesCluster ? usable(endpoints) : [];
  if (!usesLocal) {
    return {cluster, local: [], reachable: cluster, any: cluster.length > 0};
  }
  const local = usable(endpoints.filter(({pod}) => pod?.node.name === node.name));
  return {
    cluster,
    local,
    reachable: [...new Set([...cluster, ...local])],
    any: usable(endpoints).length > 0,
  };
}

function usable(endpoints: readonly Endpoint[]): Endpoint[] {
  const ready = endpoints.filter(endpoint => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(endpoint => endpoint.serving && endpoint.terminating);
}

export function policies(service: Service, reachableFromOutside: boolean): Policies {
  return {
    usesCluster: !service.internalLocal || reachableFromOutside,
    usesLocal: service.internalLocal || (service.externalLocal && reachableFromOutside),
  };
}
