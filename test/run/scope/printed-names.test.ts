import {describe, expect, test} from 'vitest';
import {withPrintedPorts} from '../../../src/run/packet/packet-flags.ts';
import {selectServices} from '../../../src/run/scope/select-services.ts';
import {snapshotOf} from '../../fixtures.ts';

const {api} = await snapshotOf('healthy/1.36-iptables');

function chosen(...names: readonly string[]): readonly string[] {
  const {selects} = selectServices({names, namespace: undefined, allNamespaces: false, selector: undefined}, api);
  return (api.services ?? []).filter(selects).map(({metadata}) => `${metadata.namespace}/${metadata.name}`);
}

describe('Services are named as reports print them', () => {
  test.each([
    ['shop/web:http', 'shop/web'],
    ['shop/web:80', 'shop/web'],
    ['svc/web:http', 'shop/web'],
    ['10.96.1.1:80', 'shop/web'],
    ['30080', 'shop/nodeport'],
    [':30080', 'shop/nodeport'],
  ])('%s is %s', (name, service) => expect(chosen(name)).toEqual([service]));

  test.each([
    ['shop/web:https', 'Service shop/web has no port "https"; it has http (80/TCP)'],
    ['10.96.1.1:81', 'Service shop/web has no port "81"; it has http (80/TCP)'],
    ['1', '1 is the node port of no Service'],
    ['10.244.11.4:8080', '10.244.11.4 is the address of no Service: it is that of pod shop/web-1'],
    ['shop/web-1', 'Service "web-1" not found: it is pod shop/web-1'],
    ['pod/web-1', '"pod/web-1" is not a Service: write NAME, svc/NAME or NAMESPACE/NAME'],
    ['node-a', 'Service "node-a" not found: it is node node-a; "kubectl svc-trace check -A --node node-a" checks the node'],
    ['10.96.77.77', '10.96.77.77 is the address of no Service'],
  ])('%s is refused: %s', (name, message) => expect(() => chosen(name)).toThrow(expect.objectContaining({message})));

  test('the command about a node quotes its name', () => {
    const nodes = [{metadata: {name: 'a;$(id)'}}];
    expect(() =>
      selectServices({names: ['a;$(id)'], namespace: undefined, allNamespaces: false, selector: undefined}, {...api, nodes}),
    ).toThrow(expect.objectContaining({message: expect.stringContaining(`check -A --node 'a;$(id)'" checks the node`)}));
  });

  test('the Services of a pod or of a node port at the address of a node are suggested', () => {
    const node = api.nodes?.[0]?.status?.addresses?.[0]?.address ?? '';
    // Of the Services of the pod shop/web-1, the one that it is named like comes first.
    expect(() => chosen('10.244.11.4')).toThrow(expect.objectContaining({suggestions: ['shop/web', 'shop/external-ips', 'shop/headless']}));
    expect(() => chosen(`${node}:30080`)).toThrow(expect.objectContaining({suggestions: ['shop/nodeport']}));
  });

  test.each([
    ['pod/web-1', ['shop/web', 'shop/external-ips', 'shop/headless']],
    // Their pods are web-1 to web-3; another workload has solo-1.
    ['deployment/web', ['shop/web', 'shop/external-ips', 'shop/headless']],
    ['statefulset/solo', ['shop/both-local', 'shop/internal-local', 'shop/lb-local']],
    // No endpoint shows what these lead to, but their names do.
    ['ingress/web', ['shop/web']],
    ['deploy/unnamed-prot', ['shop/unnamed-port']],
  ])('for %s, the Services with its endpoints or with such a name are suggested', (name, suggestions) =>
    expect(() => chosen(name)).toThrow(expect.objectContaining({suggestions})),
  );

  test('of a node in place of a Service, the command is told that checks it', () => {
    const message = expect.stringContaining('NAMESPACE/NAME; "kubectl svc-trace check -A --node node-a" checks the node');
    expect(() => chosen('node/node-a')).toThrow(expect.objectContaining({message}));
  });
});

test('packet takes the ports behind a name or an address, and refuses two that differ', () => {
  const flags = {source: '10.244.11.4:4000', destination: '[fd00:96::3]:80'};
  expect(withPrintedPorts(flags)).toEqual({source: '10.244.11.4', 'source-port': 4000, destination: 'fd00:96::3', port: '80'});
  expect(withPrintedPorts({source: 'pod/web-1', destination: 'fd00:96::3', port: 'http'})).toMatchObject({
    destination: 'fd00:96::3',
    port: 'http',
  });
  expect(() => withPrintedPorts({...flags, port: '81'})).toThrow('--port and the port in the address are not the same');
  expect(() => withPrintedPorts({...flags, source: '10.244.11.4:http'})).toThrow('--source 10.244.11.4:http: http is no port number');
});
