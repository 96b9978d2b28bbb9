/** The expected rules of a trace are written for the Services alone that its packets can meet. */
import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {PortTrace} from '../../src/model/service-trace.ts';
import type {ServiceSpec} from '../../src/model/api-objects.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {seededRandom} from '../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../cluster.ts';
import {writtenNode} from '../rendered-node.ts';

/** Of several Services that claim an address and port, the rules of the first take the packets. The last ones have nothing in common. */
const specs: Readonly<Record<string, ServiceSpec>> = {
  first: {ports: [{port: 80}], externalIPs: ['203.0.113.9']},
  second: {ports: [{port: 80}], externalIPs: ['203.0.113.9']},
  'at-node-port': {type: 'NodePort', ports: [{port: 81, nodePort: 30_080}]},
  'at-address-of-node': {ports: [{port: 30_080}], externalIPs: ['192.168.1.10']},
  'at-cluster-ip-of-first': {ports: [{port: 80}], externalIPs: ['10.96.0.1']},
  ...Object.fromEntries(Array.from({length: 10}, (_, at) => [`other-${at}`, {ports: [{port: 9000 + at}]}])),
};

function cluster(): Snapshot {
  const names = Object.keys(specs);
  const api = apiObjects({
    services: names.map((name, at) => service(`shop/${name}`, {clusterIP: `10.96.0.${at + 1}`, ...specs[name]})),
    endpointSlices: names.map((name, at) => slice(`shop/${name}`, [endpoint(`10.244.0.${at + 1}`, 'node-a')])),
    nodes: [
      {
        metadata: {name: 'node-a'},
        spec: {podCIDRs: ['10.244.0.0/24']},
        status: {addresses: [{type: 'InternalIP', address: '192.168.1.10'}]},
      },
    ],
  });
  const config = {apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', clusterCIDR: '10.244.0.0/16'};
  const node = nodeDump('node-a', {
    'kube-proxy-version': 'v1.34.0\n',
    'kube-proxy-config.yaml': JSON.stringify({...config, mode: 'iptables'}),
    'addresses.json': JSON.stringify([{ifname: 'eth0', addr_info: [{local: '192.168.1.10'}]}]),
  });
  return {origin: 'Services', api, problems: [], nodes: [writtenNode(node, api, {mode: 'iptables', random: seededRandom(1)})]};
}

function traced(snapshot: Snapshot, isAsked: (name: string) => boolean): readonly PortTrace[] {
  return diagnose(snapshot, {toolVersion: '0.0.0', trace: true, selects: ({metadata: {name}}) => isAsked(name)}).traces;
}

test.each(Object.keys(specs))('%s has the same trace alone as among all', name => {
  const snapshot = cluster();
  const [alone, ...others] = traced(snapshot, asked => asked === name);
  expect(others).toEqual([]);
  expect(alone?.entries.length).toBeGreaterThan(0);
  expect(alone).toEqual(traced(snapshot, () => true).find(({service}) => service.name === name));
});

test('of two Services with one external IP, packets are expected at the first there', () => {
  const [trace] = traced(cluster(), name => name === 'second');
  const atExternal = trace?.entries.find(({entry}) => entry.kind === 'externalIP');
  const expected = atExternal?.endpoints.filter(({expectedShare}) => expectedShare !== null);
  expect(expected?.map(({hostPort}) => hostPort)).toEqual(['10.244.0.1:8080']);
});
