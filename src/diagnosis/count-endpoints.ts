import type {ClusterView, PortEntry} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../expect/cluster/service-ports.ts';
import {once} from '../expect/api-index.ts';
import type {Finding} from '../model/finding.ts';

/** Tells findings of an endpoint how many ready endpoints its Service port has. The ports are looked up if there is such a finding. */
export function countEndpoints(view: ClusterView, proxy: ProxyVersion): (finding: Finding) => Finding {
  return finding => {
    const {endpoint, service, port, family = 'IPv4'} = finding;
    if (endpoint === undefined || service === undefined || port === undefined) return finding;
    const entry = portsOf(view.entries(family, proxy)).get(keyOf(service, port));
    const ready = entry === undefined ? none : readyOf(entry);
    return ready.has(endpoint) ? {...finding, endpoints: ready.size} : finding;
  };
}

const none: ReadonlySet<string> = new Set();

/** The ready endpoints of a Service port, each once. A stopped kube-proxy has many findings of one port. */
const readyOf = once(
  ({set}: PortEntry): ReadonlySet<string> => new Set(set.endpoints.flatMap(({ready, hostPort}) => (ready ? [hostPort] : []))),
);

/** Nodes with the same version of kube-proxy share the list, and this. */
const known = new WeakMap<readonly PortEntry[], ReadonlyMap<string, PortEntry>>();

function portsOf(entries: readonly PortEntry[]): ReadonlyMap<string, PortEntry> {
  let ports = known.get(entries);
  if (ports === undefined) {
    ports = new Map(
      entries.map(entry => {
        const {namespace, service, portName, protocol} = entry.port;
        return [keyOf({namespace, name: service}, {name: portName, protocol}), entry];
      }),
    );
    known.set(entries, ports);
  }
  return ports;
}

function keyOf({namespace, name}: NonNullable<Finding['service']>, port: Pick<NonNullable<Finding['port']>, 'name' | 'protocol'>): string {
  return `${namespace}/${name}:${port.name}/${port.protocol}`;
}
