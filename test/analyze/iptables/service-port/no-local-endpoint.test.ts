/** A kube-proxy stopped before a Service with an external Local policy got or lost its last endpoint on the node: it refuses external clients, or serves those that it should refuse. */
import {expect, test} from 'vitest';
import type {ApiObjects, Snapshot} from '../../../../src/model/snapshot.ts';
import {seededRandom} from '../../../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../../../cluster.ts';
import {withRules} from '../../../rendered-dump.ts';
import {findingsOf} from '../../../scenario.ts';

const here = endpoint('10.244.1.10', 'node-a');
const elsewhere = endpoint('10.244.2.10', 'node-b');

function objects(...endpoints: readonly ReturnType<typeof endpoint>[]): ApiObjects {
  const ports = [{name: 'http', protocol: 'TCP', port: 80, nodePort: 30_080}];
  const spec = {type: 'NodePort', ports, clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ipFamilies: ['IPv4']};
  return apiObjects({
    services: [service('shop/web', {...spec, externalTrafficPolicy: 'Local'})],
    endpointSlices: [slice('shop/web', endpoints, {ports: [{name: 'http', protocol: 'TCP', port: 8080}]})],
    nodes: ['node-a', 'node-b'].map((name, index) => ({
      metadata: {name},
      spec: {podCIDRs: [`10.244.${index + 1}.0/24`]},
      status: {addresses: [{type: 'InternalIP', address: `192.168.1.${index + 10}`}]},
    })),
  });
}

function stopped(minor: number, before: ApiObjects, after: ApiObjects): Snapshot {
  const config = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    clusterCIDR: '10.244.0.0/16',
  };
  const node = nodeDump('node-a', {
    'kube-proxy-version': `v1.${minor}.0\n`,
    'kube-proxy-config.yaml': JSON.stringify(config),
    'addresses.json': JSON.stringify([{ifname: 'eth0', addr_info: [{local: '192.168.1.10'}]}]),
  });
  const written = withRules({origin: 'stopped', api: before, problems: [], nodes: [node]}, seededRandom(1));
  return {...written, api: after};
}

test.each([24, 25, 30, 36])('1.%i: the last endpoint of the node was removed', minor => {
  const found = findingsOf(stopped(minor, objects(here, elsewhere), objects(elsewhere)));
  expect(found.map(({code}) => code)).toEqual(expect.arrayContaining(['ST203', 'ST207']));
});

test.each([25, 30, 36])('1.%i: the first endpoint of the node was added', minor => {
  const found = findingsOf(stopped(minor, objects(elsewhere), objects(here, elsewhere)));
  expect(found.map(({code}) => code)).toEqual(expect.arrayContaining(['ST202', 'ST207']));
});

test.each([21, 23, 24])(
  '1.%i, which marks what it drops in a chain of the Service port: the first endpoint of the node was added',
  minor => {
    const found = findingsOf(stopped(minor, objects(elsewhere), objects(here, elsewhere)));
    expect(found.map(({code, severity}) => `${code} ${severity}`)).toContain('ST202 error');
  },
);
