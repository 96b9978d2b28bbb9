import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {Diagnosis} from '../../src/diagnosis/diagnosis.ts';
import {withHits} from '../../src/diagnosis/hits.ts';
import type {EndpointSliceObject, PodObject} from '../../src/model/api-objects.ts';
import {type Finding, hitsText} from '../../src/model/finding.ts';
import type {ApiObjects, Snapshot} from '../../src/model/snapshot.ts';
import {snapshotOf} from '../fixtures.ts';
import {ruleInFront} from '../analyze/third-party/merge.ts';
import {findingOf} from '../render/report.ts';
import {type Scenario, scenario} from '../scenario.ts';

const frozen = snapshotOf('faults/frozen-node');

async function findingsOf(edit: (api: ApiObjects) => Partial<ApiObjects>, of: Promise<Snapshot> = frozen): Promise<readonly Finding[]> {
  const snapshot = await of;
  return diagnose({...snapshot, api: {...snapshot.api, ...edit(snapshot.api)}}, {toolVersion: '0'}).findings;
}

describe('since when', () => {
  const sincesOf = async (edit: (api: ApiObjects) => Partial<ApiObjects>): Promise<readonly unknown[]> => [
    ...new Map((await findingsOf(edit)).flatMap(({since}) => (since === undefined ? [] : [[JSON.stringify(since), since]]))).values(),
  ];
  const withPod = (name: string, creationTimestamp: string) => (api: ApiObjects) => ({
    pods: (api.pods ?? []).map(pod => (pod.metadata.name === name ? {...pod, metadata: {...pod.metadata, creationTimestamp}} : pod)),
  });
  const timeless = <T extends {readonly metadata: PodObject['metadata']}>(object: T): T => {
    const {creationTimestamp: _, annotations: __, ...metadata} = object.metadata;
    return {...object, metadata};
  };
  const noTimes = ({services, endpointSlices}: ApiObjects) => ({
    services: services?.map(timeless) ?? null,
    endpointSlices: endpointSlices?.map(timeless) ?? null,
    pods: null,
  });

  test('lies between the newest Service or pod that the rules have and the oldest endpoint that they lack', async () => {
    // Services were made until 08:57:10, pods in use at 08:57:09, the pod of the new endpoint at 09:20:28.
    expect(await sincesOf(() => ({}))).toEqual([{after: '2026-11-21T08:57:10Z', before: '2026-11-21T09:20:28Z'}]);
    expect(await sincesOf(withPod('dns-1', '2026-11-21T09:01:02Z'))).toEqual([
      {after: '2026-11-21T09:01:02Z', before: '2026-11-21T09:20:28Z'},
    ]);
    expect(await sincesOf(withPod('web-9', '2026-11-21T09:10:00Z'))).toEqual([
      {after: '2026-11-21T08:57:10Z', before: '2026-11-21T09:10:00Z'},
    ]);
  });

  test('is not told where the rules have a newer change than one that they lack', async () => {
    expect(await sincesOf(withPod('dns-1', '2026-11-21T09:30:00Z'))).toEqual([]);
  });

  test.each([
    ['dns', false],
    ['web', true],
  ])('of a node that was followed while %s changed is told: %j', async (name, isTold) => {
    const {api, nodes} = await frozen;
    const diagnosis = new Diagnosis(api, {toolVersion: '0', nodesOnly: true});
    const changes = (api.endpointSlices ?? [])
      .filter(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === name)
      .map(now => ({kind: 'EndpointSlice', at: 99_000, before: {...now, endpoints: []}, now}) as const);
    for (const node of nodes) diagnosis.add(node, {from: 100_000, to: 100_300, history: {since: 0, changes}});
    const findings = nodes.flatMap(node => diagnosis.findingsOn(node.name)).filter(({code}) => code === 'ST202');
    expect(changes.length).toBeGreaterThan(0);
    expect(findings.length).toBeGreaterThan(0);
    expect(findings.map(({since}) => since !== undefined)).toEqual(findings.map(() => isTold));
  });

  test('has one bound where only one is known', async () => {
    expect(await sincesOf(({pods, ...api}) => ({...noTimes({pods, ...api}), pods}))).toEqual([
      {after: '2026-11-21T08:57:09Z', before: '2026-11-21T09:20:28Z'},
    ]);
    expect(await sincesOf(noTimes)).toEqual([]);
    const changed = (slice: EndpointSliceObject): EndpointSliceObject => ({
      ...slice,
      metadata: {...slice.metadata, managedFields: [{time: '2026-11-21T09:20:30Z'}]},
    });
    expect(await sincesOf(api => ({...noTimes(api), endpointSlices: noTimes(api).endpointSlices?.map(changed) ?? null}))).toEqual([
      {before: '2026-11-21T09:20:30Z'},
    ]);
    expect(await sincesOf(api => ({...noTimes(api), services: api.services}))).toEqual([{after: '2026-11-21T08:57:10Z'}]);
  });

  test('is not told of rules that were deleted by hand, nor of flushed ones', async () => {
    for (const name of ['missing-endpoint', 'nat-flushed', 'wrong-dnat'])
      expect((await findingsOf(() => ({}), snapshotOf(`faults/${name}`))).filter(({since}) => since !== undefined)).toEqual([]);
  });
});

describe('whom it hits', () => {
  const pod = (name: string, rest: Partial<PodObject['status']> = {}, spec: PodObject['spec'] = {}): PodObject => ({
    metadata: {name, namespace: 'shop'},
    spec: {nodeName: 'node-a', ...spec},
    status: {phase: 'Running', podIP: '10.244.1.9', podIPs: [{ip: '10.244.1.9'}], ...rest},
  });
  const text = (findings: readonly Finding[], pods: readonly PodObject[] | null): readonly string[] =>
    withHits(findings, () => pods).map(({hits, node = ''}) => (hits === undefined ? '' : hitsText(hits, node)));
  const port = {name: 'http', protocol: 'TCP', port: 80};
  const stale = (endpoint: string, share: number): Finding => findingOf('node-a', 'shop/web', {code: 'ST203', endpoint, share, port});
  const three = ['a', 'b', 'c'].map(name => pod(name));

  test('adds up the shares of a Service port, and names the endpoints that get nothing', () => {
    const missing = findingOf('node-a', 'shop/web', {endpoint: '10.0.0.3:80', pod: 'shop/web-2', port});
    const all = text([stale('10.0.0.1:80', 1 / 3), stale('10.0.0.2:80', 1 / 3), missing], three);
    expect(new Set(all)).toEqual(
      new Set(['3 pods on node-a send 2 of 3 connections for shop/web:http to 10.0.0.1:80, 10.0.0.2:80; shop/web-2 gets none from here']),
    );
    expect(text([stale('10.0.0.1:80', 1)], three)).toEqual(['3 pods on node-a send all connections for shop/web:http to 10.0.0.1:80']);
    expect(text([stale('10.0.0.1:80', 0.123)], three)).toEqual([
      '3 pods on node-a send 12.3% of the connections for shop/web:http to 10.0.0.1:80',
    ]);
  });

  test('counts running pods with an address of their own in the family', () => {
    const others = [
      pod('done', {phase: 'Succeeded'}),
      pod('host', {}, {hostNetwork: true}),
      {...pod('leaving'), metadata: {name: 'leaving', deletionTimestamp: '2026-11-21T09:20:28Z'}},
    ];
    expect(text([stale('10.0.0.1:80', 0.5)], [pod('a'), ...others])).toEqual([
      '1 pod on node-a sends 1 of 2 connections for shop/web:http to 10.0.0.1:80',
    ]);
    // Others may come through the node.
    expect(text([{...stale('[fd00::1]:80', 0.5), family: 'IPv6'}], three)).toEqual([
      'On node-a, clients send 1 of 2 connections for shop/web:http to [fd00::1]:80',
    ]);
    expect(text([stale('10.0.0.1:80', 0.5)], others)).toEqual([
      'On node-a, clients send 1 of 2 connections for shop/web:http to 10.0.0.1:80',
    ]);
  });

  test('tells no number where the pods of the node were not read', () => {
    expect(text([stale('10.0.0.1:80', 0.5)], null)).toEqual(['Pods on node-a send 1 of 2 connections for shop/web:http to 10.0.0.1:80']);
  });

  test('is told of a Service that is not programmed, a refusal, and a node on which no Service works', () => {
    expect(text([findingOf('node-a', 'shop/web', {code: 'ST201', share: 1, port})], three)).toEqual([
      '3 pods on node-a cannot connect to shop/web:http',
    ]);
    expect(text([findingOf('node-a', 'shop/web', {code: 'ST213', share: 0.5, port})], three)).toEqual([
      '3 pods on node-a have 1 of 2 connections for shop/web:http refused or dropped',
    ]);
    const flushed = findingOf('node-a', null, {code: 'ST305', variant: 'no-service-works'});
    const nobody = '3 pods on node-a cannot reach any Service, nor can clients from outside';
    expect(text([flushed], three)).toEqual([nobody]);
    const unforwarded = {...flushed, code: 'ST601', variant: 'forwards-nothing'} as const;
    expect(text([unforwarded], three)).toEqual([nobody]);
  });

  const nodePort = {kind: 'nodePort', address: null, port: 30_080} as const;
  test.each<readonly [text: string, finding: Parameters<typeof findingOf>[2], service: string | null]>([
    ['On node-a, clients of node port 30080 cannot connect to shop/web:http', {code: 'ST206', entry: nodePort, port}, 'shop/web'],
    [
      'On node-a, clients of node port 30080 send no connection for shop/web:http to shop/web-2, 1 of 3 endpoints',
      {code: 'ST202', entry: nodePort, port, endpoint: '10.0.0.3:80', endpoints: 3, pod: 'shop/web-2'},
      'shop/web',
    ],
    ['3 pods on node-a lose 1 of 3 connections for shop/web:http', {code: 'ST214', share: 1 / 3, port}, 'shop/web'],
    [
      'On node-a, clients outside loadBalancerSourceRanges get in to shop/web:http',
      {code: 'ST210', variant: 'ranges-not-enforced', port},
      'shop/web',
    ],
    ['On node-a, processes of the node cannot reach any Service', {code: 'ST301', variant: 'no-service-works-for-node'}, null],
    [
      'On node-a, clients of node ports cannot connect to 3 Service ports',
      {code: 'ST304', affects: [{namespace: 'shop', name: 'web', ports: ['a', 'b', 'c']}]},
      null,
    ],
    // No code is left without: an error loses packets, refuses them, or sends them to a wrong place.
    ['On node-a, clients lose connections for shop/web:http', {code: 'ST999', port}, 'shop/web'],
  ])('is told of errors that no packet of a pod shows: %s', (says, more, service) => {
    expect(text([findingOf('node-a', service, more)], three)).toEqual([says]);
  });

  test('is in every error of a node with faults, and of the API', async () => {
    const findings = await findingsOf(() => ({}));
    const errors = findings.filter(({severity}) => severity === 'error');
    expect(errors.length).toBeGreaterThan(20);
    expect(errors.filter(({hits}) => hits === undefined)).toEqual([]);
    const {node: _, ...ofApi} = findingOf('', 'default/kubernetes', {code: 'ST106', variant: 'of-api-server'});
    const [api] = withHits([ofApi], () => null);
    expect(api?.hits === undefined ? '' : hitsText(api.hits, '')).toBe('Clients of the API server are sent to default/kubernetes');
  });

  test('of connections that come back to their sender, is told for the pods that send them', async () => {
    const {findings} = diagnose(await snapshotOf('faults/no-hairpin'), {toolVersion: '0'});
    const found = findings.flatMap(({code, hits, node = ''}) => (code === 'ST211' && hits !== undefined ? [hitsText(hits, node)] : []));
    expect(new Set(found)).toEqual(
      new Set(['1 pod on node-a loses 1 of 3 connections for shop/web:http: those that come back to the sender']),
    );
  });

  const hitsAfter = async (change: (given: Scenario) => void, capture?: string): Promise<readonly string[]> => {
    const given = await scenario(capture);
    change(given);
    const found = given.findings().flatMap(({code, hits, node = ''}) => (hits === undefined ? [] : [`${code} ${hitsText(hits, node)}`]));
    return [...new Set(found)];
  };

  test('of a rule of another program, is told for the pods, and the entry, that it is about', async () => {
    const hitsOf = (table: string, rule: string): Promise<readonly string[]> =>
      hitsAfter(given => ruleInFront(table, rule)(given.rules('node-a')));
    expect(await hitsOf('nat', '-A PREROUTING -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.244.11.40:80')).toEqual([
      'ST401 4 pods on node-a have all connections for shop/nodeport:http through its node port 30080 taken by another rule (also hit: clients outside the cluster)',
    ]);
    // One of the three endpoints of shop/web.
    expect(await hitsOf('filter', '-A FORWARD -d 10.244.12.4/32 -j DROP')).toContain(
      'ST303 4 pods on node-a have 1 of 3 connections for shop/web:http refused or dropped',
    );
    // The node ports of these are asked from outside.
    expect(await hitsOf('filter', '-A FORWARD -d 10.244.0.0/16 -j DROP')).toContain(
      'ST303 4 pods on node-a have all connections for 27 Service ports refused or dropped (also hit: clients outside the cluster)',
    );
    expect(await hitsOf('filter', '-A FORWARD -s 10.244.11.4/32 -j DROP')).toEqual([
      'ST303 1 pod on node-a has all connections for 31 Service ports refused or dropped',
    ]);
    expect(await hitsOf('raw', '-A PREROUTING -d 10.96.1.1/32 -j DROP')).toEqual([
      'ST402 4 pods on node-a have all connections for shop/web:http refused or dropped',
    ]);
    expect(await hitsOf('nat', '-A PREROUTING -p tcp -j REDIRECT --to-ports 15006')).toEqual([
      'ST401 4 pods on node-a have all connections for 31 Service ports taken by another rule (also hit: clients outside the cluster)',
    ]);
  });

  test('is told of entries of IPVS', async () => {
    const hitsOf = (change: (given: Scenario) => void): Promise<readonly string[]> => hitsAfter(change, 'ipvs/1.36');
    expect(await hitsOf(given => given.rules('node-a', 'ipvsadm-save').deleteAll('10.96.1.1:80 '))).toEqual([
      'ST201 4 pods on node-a cannot connect to shop/web:http',
    ]);
    expect(
      await hitsOf(given => {
        const [link] = JSON.parse(given.rules('node-a', 'kube-ipvs0.json').toString()) as [{addr_info: readonly {local: string}[]}];
        const left = link.addr_info.filter(({local}) => local !== '10.96.1.1');
        given.file('node-a', 'kube-ipvs0.json', JSON.stringify([{...link, addr_info: left}]));
      }),
    ).toEqual(['ST206 4 pods on node-a have all connections for shop/web:http refused or dropped']);
    expect(
      await hitsOf(given => given.rules('node-a', 'ipvsadm-save').replace(['-a -t 10.96.1.1:80 -r 10.244.11.4:8080'], '-m', '-g')),
    ).toEqual(['ST204 4 pods on node-a have 1 of 3 connections for shop/web:http refused or dropped']);
  });

  test('has the share that the rules of a node give', async () => {
    const snapshot = await snapshotOf('faults/wrong-dnat');
    const {findings} = diagnose(snapshot, {toolVersion: '0'});
    // The Service has two endpoints.
    expect(findings.filter(({code}) => code === 'ST204').map(({share}) => share)).toEqual([0.5]);
    const web = (await findingsOf(() => ({}))).filter(({code, service}) => code === 'ST203' && service?.name === 'web');
    expect(web.map(({share = 0, hits}) => [share.toFixed(3), hits?.pods, `${hits?.verb} ${hits?.effect}`])).toEqual([
      ['0.333', 5, 'send 1 of 3 connections for shop/web:http to 10.244.11.4:8080; shop/web-9 gets none from here'],
    ]);
  });
});
