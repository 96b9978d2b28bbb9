import {diagnose} from '../../src/diagnose.ts';
import type {Report} from '../../src/model/report.ts';
import type {EndpointTrace, EntryTrace, PortTrace} from '../../src/model/service-trace.ts';
import {namespacedName} from '../../src/model/text.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {snapshotOf} from '../fixtures.ts';
import {findingOf, reportOf, ruleOf, unreadNode} from './report.ts';

/** What `trace` says of one Service of a capture. */
export async function traced(capture: string, service: string, node?: string): Promise<Report> {
  return tracedIn(await snapshotOf(capture), service, node);
}

export function tracedIn(snapshot: Snapshot, service: string, node?: string): Report {
  return diagnose(snapshot, {
    toolVersion: '0.0.0',
    trace: true,
    byName: true,
    selects: ({metadata}) => `${metadata.namespace}/${metadata.name}` === service,
    nodes: name => node === undefined || name === node,
  });
}

export const endpoint: EndpointTrace = {
  ...{hostPort: '10.0.0.1:80', mark: 'ok', share: 1, expectedShare: 1, masquerade: false},
  ...{pod: 'shop/web-1', nodeName: 'node-a', state: 'ready'},
  ...{pick: ruleOf('', 1), rewrite: {...ruleOf('', 2), chain: 'KUBE-SEP-A'}},
};

export const entry: EntryTrace = {
  ...{entry: {kind: 'clusterIP', address: '10.96.0.1', port: 80}, from: 'a pod', mark: 'ok', steps: [], endpoints: [endpoint], end: null},
};

export const trace: PortTrace = {
  ...{node: 'node-a', family: 'IPv4', service: {namespace: 'shop', name: 'web'}, port: {name: '', protocol: 'TCP', port: 80}},
  entries: [entry],
};

/** A Service with long names, of whose endpoints some get no traffic on node-a; node-b is in sync. Its rules have counters. */
export function manyEndpoints(count: number, faulty: number): Report {
  const service = {namespace: 'payments-production', name: 'checkout-frontend'};
  const endpoints = (missing: number): readonly EndpointTrace[] =>
    Array.from({length: count}, (_, index) => ({
      ...endpoint,
      ...{
        hostPort: `10.244.${11 + (index % 6)}.${10 + index}:8080`,
        nodeName: `ip-10-0-${index % 6}-${20 + index}.eu-central-1.compute.internal`,
      },
      pod: `${service.namespace}/${service.name}-6c8f9d7b5-${(100_000 + index * 7919).toString(36)}`,
      ...{share: index < missing ? 0 : 1 / (count - missing), expectedShare: 1 / count, mark: index < missing ? 'missing' : 'ok'},
      ...(index < missing ? {pick: null, rewrite: null} : {pick: {...ruleOf('', 1), packets: 1234 + index}}),
    }));
  const text = '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "payments-production/checkout-frontend:http" -j KUBE-SVC-A';
  const step = {...ruleOf(text, 7), to: 'KUBE-SVC-A', packets: 91_234};
  const entries = (missing: number): readonly EntryTrace[] => [
    {...entry, steps: [step], endpoints: endpoints(missing)},
    {
      ...{...entry, from: 'outside the cluster', steps: [step]},
      entry: {kind: 'loadBalancerIP', address: '203.0.113.12', port: 80},
      endpoints: endpoints(missing).map(one => ({...one, masquerade: true})),
    },
  ];
  const port = {name: 'http', protocol: 'TCP', port: 80};
  return reportOf({
    nodes: ['node-a', 'node-b'],
    services: [namespacedName(service)],
    findings: faulty === 0 ? [] : [findingOf('node-a', namespacedName(service), {message: `${faulty} endpoints get no traffic`})],
    traces: [
      {...trace, service, port, entries: entries(faulty)},
      {...trace, node: 'node-b', service, port, entries: entries(0)},
    ],
  });
}

/** A report in which everything that can come from a cluster is this text. */
export function reportFullOf(text: string): Report {
  const rule = {...ruleOf(text, 3), table: text, chain: text};
  const evil: EntryTrace = {
    ...{entry: {kind: 'externalIP', address: text, port: 80}, from: 'outside', mark: 'wrong', steps: [{...rule, to: text}]},
    endpoints: [
      {...endpoint, hostPort: text, pod: text, nodeName: text, rewrite: {...rule, chain: `${text} 2`}},
      {...endpoint, hostPort: `${text} 3`, mark: 'stale', state: null},
    ],
    end: {verdict: 'undecided', rule, reason: text},
  };
  const finding = findingOf(text, `shop/${text}`, {
    ...{message: text, remedy: text, endpoint: text, port: {name: text, protocol: 'TCP', port: 80}},
    ...{expected: [rule], actual: [rule]},
  });
  return reportOf({
    nodes: [text, unreadNode(`${text} 2`, text)],
    services: [`shop/${text}`],
    findings: [finding],
    traces: [{...trace, node: text, service: {namespace: 'shop', name: text}, port: {...trace.port, name: text}, entries: [evil]}],
  });
}
