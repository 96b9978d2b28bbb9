import {checks} from '../../src/checks/all-checks.ts';
import type {TrafficContext} from '../../src/checks/traffic-context.ts';
import {ClusterView, type PortEntry} from '../../src/expect/cluster/cluster-view.ts';
import type {ServiceObject} from '../../src/model/api-objects.ts';
import type {CellTraffic} from '../../src/model/traffic/traffic-report.ts';

interface GivenEndpoint {
  readonly address: string;
  readonly ready?: boolean;
  readonly terminating?: boolean;
  readonly serving?: boolean;
}

/** The Service port shop/web:http with these endpoints, at port 8080. */
export function webPort(endpoints: readonly (string | GivenEndpoint)[], spec: Partial<NonNullable<ServiceObject['spec']>> = {}): PortEntry {
  const version = {text: 'v1.30.5', minor: 30, patch: 5};
  const view = new ClusterView({
    services: [
      {
        metadata: {namespace: 'shop', name: 'web'},
        spec: {
          type: 'ClusterIP',
          clusterIP: '10.96.1.1',
          clusterIPs: ['10.96.1.1'],
          ports: [{name: 'http', port: 80, protocol: 'TCP'}],
          ...spec,
        },
      },
    ],
    endpointSlices: [
      {
        metadata: {namespace: 'shop', name: 'web-1', labels: {'kubernetes.io/service-name': 'web'}},
        addressType: 'IPv4',
        ports: [{name: 'http', port: 8080, protocol: spec.ports?.[0]?.protocol ?? 'TCP'}],
        endpoints: endpoints.map(given => {
          const {address, ready = true, terminating = false, serving = true} = typeof given === 'string' ? {address: given} : given;
          const pod = `web-${address.split('.').at(-1)}`;
          return {
            addresses: [address],
            conditions: {ready, serving, terminating},
            nodeName: 'k1',
            targetRef: {kind: 'Pod', name: pod, namespace: 'shop'},
          };
        }),
      },
    ],
    ...{endpoints: null, nodes: null, pods: null, configMaps: null},
  });
  const [entry] = view.entries('IPv4', {version, gates: {}});
  if (entry === undefined) throw new Error('no port');
  return entry;
}

/** New and open connections, and the share that the rules give. */
export type Counts = Partial<Pick<CellTraffic, 'newConnections' | 'openConnections' | 'expectedShare'>>;

/** What the checks of traffic say of these counts: code, endpoint and message. */
export function trafficOf(entry: PortEntry, counts: Readonly<Record<string, Counts>>, given: Partial<TrafficContext> = {}) {
  const cells = new Map(Object.entries(counts).map(([address, count]): [string, CellTraffic] => [`${address}:8080`, cellOf(count)]));
  const context: TrafficContext = {
    node: 'k1',
    entry,
    cells,
    clients: null,
    tracked: null,
    isRandom: entry.port.affinitySeconds === null,
    ...given,
  };
  return checks.flatMap(({code, traffic}) => [...(traffic?.(context) ?? [])].map(({endpoint, message}) => ({code, endpoint, message})));
}

function cellOf(counts: Counts): CellTraffic {
  return {
    ...{node: 'k1', seconds: 2, newConnections: 0, totalConnections: null, openConnections: 0, closingConnections: 0, expectedShare: null},
    dueShare: null,
    ...counts,
  };
}
