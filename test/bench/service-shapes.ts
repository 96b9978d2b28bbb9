import type {Random} from './random.ts';

/** One kind of Service, and how often it occurs. Traits that are not named are the plain ones. */
export interface Shape {
  name: string;
  share: number;
  type?: 'NodePort' | 'LoadBalancer' | 'ExternalName';
  headless?: true;
  dualStack?: true;
  ipv6Only?: true;
  ports?: 'http-and-metrics' | 'dns' | 'udp';
  externalLocal?: true;
  internalLocal?: true;
  affinity?: true;
  sourceRanges?: true;
  externalIPs?: true;
  noNodePorts?: true;
  ingress?: 'hostname' | 'proxy';
  /** In the middle of a rollout: some endpoints are starting, some are ending. */
  rolling?: true;
  empty?: true;
}

export const PLAIN: Shape = {name: 'plain', share: 0};

// Most Services of a real cluster are plain cluster IPs; each of the others is
// there because kube-proxy writes something different for it.
const SHAPES: readonly Shape[] = [
  {name: 'node-port', share: 0.06, type: 'NodePort'},
  {name: 'node-port-local', share: 0.01, type: 'NodePort', externalLocal: true},
  {name: 'node-port-sticky', share: 0.005, type: 'NodePort', affinity: true},
  {
    name: 'node-port-both-local',
    share: 0.002,
    type: 'NodePort',
    externalLocal: true,
    internalLocal: true,
  },
  {name: 'node-port-internal-local', share: 0.002, type: 'NodePort', internalLocal: true},
  {name: 'node-port-empty', share: 0.002, type: 'NodePort', empty: true},
  {name: 'node-port-dual', share: 0.004, type: 'NodePort', dualStack: true},
  {name: 'lb', share: 0.03, type: 'LoadBalancer'},
  {name: 'lb-ports', share: 0.005, type: 'LoadBalancer', ports: 'http-and-metrics'},
  {name: 'lb-local', share: 0.01, type: 'LoadBalancer', externalLocal: true},
  {name: 'lb-ranges', share: 0.005, type: 'LoadBalancer', sourceRanges: true},
  {
    name: 'lb-everything',
    share: 0.003,
    type: 'LoadBalancer',
    externalLocal: true,
    sourceRanges: true,
    affinity: true,
    dualStack: true,
  },
  {name: 'lb-no-node-port', share: 0.005, type: 'LoadBalancer', noNodePorts: true},
  {name: 'lb-hostname', share: 0.003, type: 'LoadBalancer', ingress: 'hostname'},
  {name: 'lb-proxy', share: 0.003, type: 'LoadBalancer', ingress: 'proxy'},
  {name: 'lb-empty', share: 0.002, type: 'LoadBalancer', empty: true},
  {name: 'external-ips', share: 0.005, externalIPs: true},
  {name: 'internal-local', share: 0.01, internalLocal: true},
  {name: 'sticky', share: 0.02, affinity: true},
  {name: 'rolling', share: 0.02, rolling: true},
  {name: 'empty', share: 0.01, empty: true},
  {name: 'ports', share: 0.01, ports: 'http-and-metrics'},
  {name: 'dns', share: 0.002, ports: 'dns'},
  {name: 'udp', share: 0.005, ports: 'udp'},
  {name: 'dual', share: 0.01, dualStack: true},
  {name: 'six', share: 0.002, ipv6Only: true},
  {name: 'headless', share: 0.01, headless: true},
  {name: 'alias', share: 0.002, type: 'ExternalName'},
];

/** The shapes of `count` Services in an arbitrary order; each shape at least once if there is room. */
export function drawShapes(count: number, random: Random): Shape[] {
  const special = SHAPES.flatMap(shape => Array<Shape>(Math.max(1, Math.round(shape.share * count))).fill(shape));
  const drawn = random.shuffle(special).slice(0, count);
  const plain = Array<Shape>(count - drawn.length).fill(PLAIN);
  return random.shuffle([...drawn, ...plain]);
}
