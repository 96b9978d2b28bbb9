import {expect, test} from 'vitest';
import type {EndpointSliceObject} from '../../src/model/api-objects.ts';
import {Redaction} from '../../src/redact/redaction.ts';
import {CiliumTables} from '../cilium-node.ts';
import {findingCounts, redacted} from './redacted.ts';

/** A node with what frontends depend on: host ports, a selector of nodes, refused source ranges, and a state of its own. */
function given(change: (tables: CiliumTables) => void = () => {}): CiliumTables {
  const tables = new CiliumTables();
  const {api} = tables;
  const [web, dns] = api.services ?? [];
  if (web === undefined || dns === undefined) throw new Error('there are no Services');
  const pod = {
    metadata: {name: 'acme-p', namespace: 'shop', uid: 'u1'},
    spec: {nodeName: 'node-a', containers: [{name: 'main', ports: [{containerPort: 80, hostPort: 8080}]}]},
    status: {phase: 'Running', podIPs: [{ip: '10.1.0.3'}]},
  };
  const annotations = {'service.cilium.io/node-selector': 'acme-pool in (blue, green),!acme-old'};
  const labels = {'acme-pool': 'blue', 'service.cilium.io/node': 'acme'};
  tables.api = {
    ...api,
    pods: [pod],
    services: [web, {...dns, metadata: {...dns.metadata, annotations}}],
    nodes: (api.nodes ?? []).map(node => ({...node, metadata: {...node.metadata, labels}})),
  };
  tables.rows.push({key: '0.0.0.0:8080/TCP', type: 'HostPort', service: 'acme-p:host-port:8080:u1', backends: ['10.1.0.3:80']});
  change(tables);
  return tables.writeMap();
}

test.each([
  {fault: 'no fault', change: () => {}},
  {fault: 'a stale backend', change: (tables: CiliumTables) => tables.row('10.96.1.1:80/TCP').backends.push('10.1.1.9:8080')},
  {fault: 'a missing frontend', change: (tables: CiliumTables) => tables.rows.splice(1, 1)},
  {
    fault: 'the host port of a predecessor',
    change: (tables: CiliumTables) =>
      tables.rows.splice(-1, 1, {
        key: '0.0.0.0:8080/TCP',
        type: 'HostPort',
        service: 'acme-p:host-port:8080:u0',
        backends: ['10.1.0.3:80'],
      }),
  },
  {
    fault: 'a host port in a range of node ports of its own',
    change: ({files, rows}: CiliumTables) => {
      const nodePort = {enabled: true, portMin: 8000, portMax: 9000};
      const replacement = {mode: 'True', features: {hostPort: {enabled: true}, nodePort}};
      files['status.json'] = JSON.stringify({'kube-proxy-replacement': replacement});
      rows.splice(-1, 1);
    },
  },
  {
    fault: 'the endpoint of an Ingress of Cilium',
    change: ({api}: CiliumTables) => {
      const placeholder = {
        metadata: {name: 'ingress', namespace: 'shop', labels: {'kubernetes.io/service-name': 'dns'}},
        ...{addressType: 'IPv4' as const, ports: [{name: 'dns', port: 9999, protocol: 'UDP'}]},
        endpoints: [{addresses: ['192.192.192.192']}],
      };
      (api.endpointSlices as EndpointSliceObject[]).push(placeholder);
    },
  },
  {
    fault: 'a node that is not selected',
    change: (tables: CiliumTables) => (tables.api = {...tables.api, nodes: [{metadata: {name: 'node-a', labels: {'acme-pool': 'red'}}}]}),
  },
])('a redacted node of Cilium gives the same findings with $fault', ({change}) => {
  const snapshot = given(change).snapshot();
  expect(findingCounts(redacted(snapshot))).toEqual(findingCounts(snapshot));
});

test('names, addresses outside and unknown words are in no redacted file, and tables keep their form', () => {
  const tables = given(({files}) => {
    files['status.json'] = JSON.stringify({
      kubernetes: {state: 'Failure', msg: 'Get "https://api.acme.example": dial 203.0.113.7'},
      'kube-proxy-replacement': {mode: 'True'},
    });
    files['db-show-node-addresses.txt'] = 'Address   NodePort   Primary   DeviceName\n203.0.113.8   true   true   acme0\nacme\n';
  });
  tables.map['203.0.113.9:443/TCP/i'] = ['LoadBalancer, acme', 'backend 12 not found', '203.0.113.1:8443'];
  tables.map['acme'] = ['acme'];
  const {
    nodes: [node],
  } = redacted(tables.snapshot());
  const texts = (node?.files ?? []).map(file => [file, node?.read(file)?.toString() ?? '']);
  expect(texts.map(([file]) => file).toSorted()).toEqual(Object.keys(tables.printed()).toSorted());
  expect(texts.filter(([, text = '']) => /acme|shop|203\.0\.113|"web"|u1/.test(text))).toEqual([]);
  expect(node?.read('bpf-lb-list.json')?.toString()).toMatch(
    /"[\d.]+:443\/TCP\/i \(0\)":\["0\.0\.0\.0:0 \(\d+\) \(0\) \[LoadBalancer, other\] "\]/,
  );
});

test.each(['bpf-lb-list.json', 'service-list.json', 'status.json', 'db-show-node-addresses.txt'])(
  '%s that is none stays unreadable',
  file => {
    const node = new Redaction('key').node({name: 'n', files: [file], read: () => Buffer.from('acme {')});
    expect(node.read(file)?.toString()).toBe('{redacted: [');
  },
);
