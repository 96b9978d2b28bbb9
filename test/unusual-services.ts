import type {EndpointSliceObject, NodeObject, ServiceObject, SlicePort} from '../src/model/api-objects.ts';
import type {ApiObjects} from '../src/model/snapshot.ts';
import {apiObjects, endpoint, leaving, service, slice} from './cluster.ts';

/**
 * Services of every shape that no capture has, on the addresses of the captures' nodes: node-a is 172.18.0.11 and has the pods 10.244.11.x
 * and fd00:10:244:11::x.
 */
export function unusualServices(): ApiObjects {
  const [services, endpointSlices]: [ServiceObject[], EndpointSliceObject[]] = [[], []];
  const add = ({service: one, slices}: Shape): void => {
    services.push(one);
    endpointSlices.push(
      ...slices.map((each, index) => ({...each, metadata: {...each.metadata, name: `${one.metadata.name.slice(0, 40)}-${index}`}})),
    );
  };
  for (const shape of [...namesAndPorts(), ...affinities(), ...policies(), ...externalAddresses(), ...dualStack(), ...endpointShapes()])
    add(shape);
  const serviceCIDRs = [
    {
      metadata: {name: 'kubernetes'},
      spec: {cidrs: ['10.96.0.0/16', 'fd00:96::/112']},
      status: {conditions: [{type: 'Ready', status: 'True'}]},
    },
  ];
  return apiObjects({services, endpointSlices, serviceCIDRs, nodes: ['a', 'b', 'c'].map((letter, index) => node(letter, 11 + index))});
}

interface Shape {
  readonly service: ServiceObject;
  readonly slices: readonly EndpointSliceObject[];
}

type Protocol = 'TCP' | 'UDP' | 'SCTP';

function port(name: string, number: number, protocol: Protocol = 'TCP'): SlicePort {
  return {name, port: number, protocol};
}

const [here, there] = [endpoint('10.244.11.5', 'node-a'), endpoint('10.244.12.5', 'node-b')];

/** Target ports with names, one port in two protocols, names up to the longest, and no name. */
function namesAndPorts(): readonly Shape[] {
  const [namespace, portName] = ['n'.repeat(63), 'p'.repeat(63)];
  const long = (letter: string): string => `${namespace}/${letter.repeat(63)}`;
  return [
    {
      service: service('shop/multi', {
        ...{type: 'NodePort', clusterIP: '10.96.11.1'},
        ports: [
          {name: 'http', port: 80, targetPort: 'web', nodePort: 30_801},
          {name: 'https', port: 443, targetPort: 'tls', nodePort: 30_802},
          {name: 'dns', port: 53, protocol: 'UDP', targetPort: 'dns', nodePort: 30_803},
          {name: 'dns-tcp', port: 53, targetPort: 'dns', nodePort: 30_803},
        ],
      }),
      slices: [
        slice('shop/multi', [here, there, endpoint('10.244.12.6', 'node-b')], {
          ports: [port('http', 8080), port('https', 8443), port('dns', 5353, 'UDP'), port('dns-tcp', 5353)],
        }),
      ],
    },
    {
      service: service(long('s'), {type: 'NodePort', clusterIP: '10.96.15.1', ports: [{name: portName, port: 80, nodePort: 30_840}]}),
      slices: [slice(long('s'), [here], {ports: [port(portName, 8080)]})],
    },
    {
      service: service(long('t'), {clusterIP: '10.96.15.2', sessionAffinity: 'ClientIP', ports: [{name: portName, port: 80}]}),
      slices: [slice(long('t'), [here, there], {ports: [port(portName, 8080)]})],
    },
    {
      service: service(long('u'), {
        ...{clusterIP: 'fd00:96::15', clusterIPs: ['fd00:96::15'], ipFamilies: ['IPv6'], sessionAffinity: 'ClientIP'},
        ports: [{name: portName, port: 80}],
      }),
      slices: [slice(long('u'), [endpoint('fd00:10:244:11:2:3:4:5', 'node-a')], {ports: [port(portName, 8080)]})],
    },
  ];
}

function affinities(): readonly Shape[] {
  return [1, 600, 86_400].map(timeoutSeconds => {
    const name = `shop/sticky-${timeoutSeconds}`;
    return {
      service: service(name, {
        ...{clusterIP: `10.96.12.${timeoutSeconds % 251}`, sessionAffinity: 'ClientIP'},
        ...{sessionAffinityConfig: {clientIP: {timeoutSeconds}}, ports: [{port: 80, targetPort: 8080}]},
      }),
      slices: [slice(name, timeoutSeconds === 1 ? [here] : [here, there])],
    };
  });
}

/** Both policies, with and without an endpoint on node-a, with and without source ranges. */
function policies(): readonly Shape[] {
  const shapes: Shape[] = [];
  for (const [index, [external, internal, where]] of (
    [
      ['Local', 'Cluster', 'node-a'],
      ['Local', 'Local', 'node-b'],
      ['Cluster', 'Local', 'node-b'],
      ['Cluster', 'Local', 'node-a'],
    ] as const
  ).entries()) {
    const [name, pods] = [`shop/local-${index}`, where === 'node-a' ? 11 : 12];
    shapes.push({
      service: service(
        name,
        {
          ...{type: 'LoadBalancer', clusterIP: `10.96.13.${index + 1}`, externalTrafficPolicy: external, internalTrafficPolicy: internal},
          ...(external === 'Local' ? {healthCheckNodePort: 31_800 + index} : {}),
          // Two halves of a network, and blanks, which kube-proxy trims.
          loadBalancerSourceRanges: index % 2 === 0 ? ['203.0.113.0/24', ' 198.51.100.0/25', '198.51.100.128/25'] : [],
          ports: [
            {name: 'x', port: 80, targetPort: 8080, nodePort: 30_810 + index},
            {name: 'y', port: 81, protocol: 'UDP', targetPort: 8081, nodePort: 30_820 + index},
          ],
        },
        {ingress: [{ip: `203.0.113.${111 + index}`}, {ip: `203.0.113.${121 + index}`, ipMode: 'Proxy'}, {hostname: 'lb.example.com'}]},
      ),
      slices: [
        slice(name, [endpoint(`10.244.${pods}.${20 + index}`, where), endpoint(`10.244.13.${20 + index}`, 'node-c')], {
          ports: [port('x', 8080), port('y', 8081, 'UDP')],
        }),
      ],
    });
  }
  return shapes;
}

/** External IPs that are load-balancer IPs, ranges that overlap or allow everything, and none of the endpoints that are needed. */
function externalAddresses(): readonly Shape[] {
  return [
    {
      service: service(
        'shop/none',
        {
          ...{type: 'LoadBalancer', clusterIP: '10.96.14.1', externalTrafficPolicy: 'Local', healthCheckNodePort: 31_810},
          ...{externalIPs: ['203.0.113.209'], loadBalancerSourceRanges: ['0.0.0.0/0']},
          ports: [{port: 80, protocol: 'SCTP', nodePort: 30_830}],
        },
        {ingress: [{ip: '203.0.113.150'}]},
      ),
      slices: [],
    },
    {
      service: service(
        'shop/both',
        {
          ...{type: 'LoadBalancer', clusterIP: '10.96.14.2', externalIPs: ['203.0.113.160', '203.0.113.161']},
          loadBalancerSourceRanges: ['10.0.0.0/8', '10.1.0.0/16', '172.18.0.11/32', '203.0.113.7/32'],
          ports: [{name: 'a', port: 80, nodePort: 30_831}],
        },
        {ingress: [{ip: '203.0.113.160', ipMode: 'VIP'}]},
      ),
      slices: [slice('shop/both', [endpoint('10.244.11.9', 'node-a')], {ports: [port('a', 8080)]})],
    },
    {
      service: service(
        'shop/zero',
        {
          ...{type: 'LoadBalancer', clusterIP: '10.96.14.3', loadBalancerSourceRanges: ['0.0.0.0/0', '10.0.0.0/8']},
          ports: [{port: 80, nodePort: 30_832}],
        },
        {ingress: [{ip: '203.0.113.170'}]},
      ),
      slices: [slice('shop/zero', [here])],
    },
    {
      service: service(
        'shop/no-node-port',
        {type: 'LoadBalancer', clusterIP: '10.96.14.4', allocateLoadBalancerNodePorts: false, ports: [{port: 80}]},
        {ingress: [{ip: '203.0.113.171'}]},
      ),
      slices: [slice('shop/no-node-port', [here, there])],
    },
  ];
}

function dualStack(): readonly Shape[] {
  const ports = [port('http', 8080), port('s', 8081, 'SCTP'), port('u', 8082, 'UDP')];
  const [here6, there6] = [endpoint('fd00:10:244:11::5', 'node-a'), endpoint('fd00:10:244:12::5', 'node-b')];
  return [
    {
      service: service('shop/dual', {
        ...{type: 'NodePort', clusterIP: 'fd00:96::11', clusterIPs: ['fd00:96::11', '10.96.14.5'], ipFamilies: ['IPv6', 'IPv4']},
        externalIPs: ['fd00:fb::9', '203.0.113.219'],
        ports: [
          {name: 'http', port: 80, nodePort: 30_850},
          {name: 's', port: 81, protocol: 'SCTP', nodePort: 30_851},
          {name: 'u', port: 82, protocol: 'UDP', nodePort: 30_852},
        ],
      }),
      slices: [slice('shop/dual', [here, there], {ports}), slice('shop/dual', [here6, there6], {ports})],
    },
    {
      service: service(
        'shop/v6',
        {
          ...{type: 'LoadBalancer', clusterIP: 'fd00:96::12', clusterIPs: ['fd00:96::12'], ipFamilies: ['IPv6']},
          ...{externalTrafficPolicy: 'Local', healthCheckNodePort: 31_820},
          loadBalancerSourceRanges: ['2001:db8:1::/48', '2001:db8:2::/48', '2001:db8::/64'],
          ports: [{name: 'http', port: 80, nodePort: 30_853}],
        },
        {ingress: [{ip: 'fd00:fb::1'}]},
      ),
      slices: [
        slice('shop/v6', [endpoint('fd00:10:244:11::6', 'node-a'), endpoint('fd00:10:244:12::6', 'node-b')], {ports: [port('http', 8080)]}),
      ],
    },
  ];
}

/** Hints, endpoints that terminate, one address with two ports, and many endpoints. */
function endpointShapes(): readonly Shape[] {
  const hints = (zone: string, name: string) => ({zones: [zone], nodes: [name]});
  return [
    {
      service: service('shop/hinted', {clusterIP: '10.96.16.1', trafficDistribution: 'PreferClose', ports: [{port: 80}]}),
      slices: [
        slice('shop/hinted', [endpoint('10.244.11.5', 'node-a', {zones: ['z1']}), endpoint('10.244.12.5', 'node-b', {zones: ['z2']})]),
      ],
    },
    {
      service: service('shop/hinted-node', {clusterIP: '10.96.16.2', trafficDistribution: 'PreferSameNode', ports: [{port: 80}]}),
      slices: [
        slice('shop/hinted-node', [
          endpoint('10.244.11.5', 'node-a', hints('z1', 'node-a')),
          endpoint('10.244.12.5', 'node-b', hints('z2', 'node-b')),
        ]),
      ],
    },
    {
      service: service('shop/leaving', {
        ...{type: 'NodePort', clusterIP: '10.96.16.3', externalTrafficPolicy: 'Local'},
        ports: [{port: 80, nodePort: 30_860}],
      }),
      slices: [slice('shop/leaving', [endpoint('10.244.11.77', 'node-a', leaving), endpoint('10.244.12.77', 'node-b')])],
    },
    {
      service: service('shop/split', {clusterIP: '10.96.16.4', ports: [{name: 'http', port: 80, targetPort: 'http'}]}),
      slices: [
        slice('shop/split', [here], {ports: [port('http', 8080)]}),
        slice('shop/split', [here, there], {ports: [port('http', 8081)]}),
      ],
    },
    {
      service: service('shop/many', {clusterIP: '10.96.16.5', ports: [{port: 80}]}),
      slices: [
        slice(
          'shop/many',
          Array.from({length: 30}, (_, index) => endpoint(`10.244.12.${100 + index}`, 'node-b')),
        ),
      ],
    },
  ];
}

function node(letter: string, number: number): NodeObject {
  return {
    metadata: {name: `node-${letter}`, labels: {'topology.kubernetes.io/zone': `z${number - 10}`}},
    spec: {podCIDR: `10.244.${number}.0/24`, podCIDRs: [`10.244.${number}.0/24`, `fd00:10:244:${number}::/64`]},
    status: {
      addresses: [
        {type: 'InternalIP', address: `172.18.0.${number}`},
        {type: 'InternalIP', address: `fd00:172:18::${number}`},
      ],
    },
  };
}
