import {describe, expect, test} from 'vitest';
import type {EndpointTrace, EntryTrace} from '../../../src/model/service-trace.ts';
import {tree} from '../../../src/render/table/tree.ts';
import {findingOf, hostile, numbered, plain, reportOf, unreadNode} from '../report.ts';
import {endpoint, entry, reportFullOf, trace, traced} from '../traces.ts';

/** The tree alone, without verdict and findings. */
function treeOf(text: string): string {
  return text.split('\n\n').slice(1, -1).join('\n\n');
}

test('a missing endpoint is marked on its node, and nodes with the same path are shown once', async () => {
  const text = tree(await traced('faults/missing-endpoint', 'shop/web'), plain);
  expect(treeOf(text)).toBe(`shop/web:http  port 80/TCP
├─ node-a
│  └─ cluster IP 10.96.1.1:80 from a pod of this node → KUBE-SVC-67NZLRHBNDSAWJRO:404
│     ├─ ✓ 33.3% 10.244.11.4:8080  shop/web-1 on node-a, ready  KUBE-SEP-M5HVGPPKKJ75V6WO:345
│     ├─ ✗    0% 10.244.11.5:8080  shop/web-2 on node-a, ready  missing
│     └─ ✗ 66.7% 10.244.12.4:8080  shop/web-3 on node-b, ready  should be 33.3%
│                 KUBE-SEP-YE46JM77HMULEYF6:399
└─ node-b, node-c (line numbers of node-b)
   └─ cluster IP 10.96.1.1:80 from a pod of this node → KUBE-SVC-67NZLRHBNDSAWJRO:403
      ├─ ✓ 33.3% 10.244.11.4:8080  shop/web-1 on node-a, ready  KUBE-SEP-M5HVGPPKKJ75V6WO:336
      ├─ ✓ 33.3% 10.244.11.5:8080  shop/web-2 on node-a, ready  KUBE-SEP-633E3V2HVLGC6BYN:282
      └─ ✓ 33.3% 10.244.12.4:8080  shop/web-3 on node-b, ready  KUBE-SEP-YE46JM77HMULEYF6:386`);
});

test.each([
  ['ipvs/1.36', 'virtual server 10.96.1.1:80'],
  ['nftables/1.36', 'service-KHN6ECMT-shop/web/tcp/http'],
])('%s: the balancing chain is shown once, at the entry', async (capture, place) => {
  const text = treeOf(`${tree(await traced(capture, 'shop/web', 'node-a'), plain)}\n\n`);
  expect(text.split(place)).toHaveLength(2);
  expect(text).toMatch(/10\.244\.12\.4:8080 {2}shop\/web-3 on node-b, ready$/m);
});

test('nftables: an endpoint with its own chain names it', async () => {
  const text = treeOf(`${tree(await traced('nftables/1.36', 'shop/sticky', 'node-a'), plain)}\n\n`);
  expect(text.match(/ready\s[\s│]+endpoint-[A-Z0-9]{8}-shop\/sticky\/tcp\/http__/g)).toHaveLength(3);
});

test('text that does not fit goes on the next lines, and the branches continue beside it', async () => {
  const text = tree(await traced('healthy/1.36-iptables', 'shop/lb-local', 'node-a'), {...plain, width: 80});
  expect(text.split('\n').slice(2)).toEqual(
    `shop/lb-local:http  port 80/TCP
└─ node-a
   ├─ cluster IP 10.96.1.6:80 from a pod of this node
   │  │     → KUBE-SVC-THAONNFDF5XMLPVB:404
   │  └─ ✓  100% 10.244.11.6:8080  shop/solo-1 on node-a, ready
   │              KUBE-SEP-ZEWLAGZA6XM3J5XU:401
   ├─ node port 30084 from outside the cluster → KUBE-NODEPORTS:442
   │  │     → KUBE-EXT-THAONNFDF5XMLPVB:236 → KUBE-SVL-THAONNFDF5XMLPVB:224
   │  └─ ✓  100% 10.244.11.6:8080  shop/solo-1 on node-a, ready
   │              KUBE-SEP-ZEWLAGZA6XM3J5XU:401
   └─ load-balancer IP 203.0.113.12:80 from outside the cluster
      │     → KUBE-EXT-THAONNFDF5XMLPVB:405 → KUBE-SVL-THAONNFDF5XMLPVB:224
      └─ ✓  100% 10.244.11.6:8080  shop/solo-1 on node-a, ready
                  KUBE-SEP-ZEWLAGZA6XM3J5XU:401`.split('\n'),
  );
});

test('a part that is wider than a line breaks at spaces', async () => {
  const report = await traced('healthy/1.36-iptables', 'shop/web', 'node-a');
  const renamed = JSON.parse(JSON.stringify(report).replaceAll('node-a', 'ip-10-0-3-17.eu-central-1.compute.internal')) as typeof report;
  const lines = tree(renamed, {...plain, width: 80}).split('\n');
  expect(lines.filter(line => line.length > 80)).toEqual([]);
  expect(lines).toContain('      ├─ ✓ 33.3% 10.244.11.4:8080  shop/web-1 on');
});

test('so does the reason why an outcome is undetermined, which is the first part of its line', async () => {
  const text = tree(await traced('healthy/1.36-iptables', 'shop/web', 'node-a'), {...plain, width: 80});
  const report = await traced('healthy/1.36-iptables', 'shop/web', 'node-a');
  const reason = 'whether a rule matches is unknown, and it would drop packets to each of the endpoints of this Service';
  const end = {verdict: 'undecided', reason, rule: null} as const;
  const traces = (report.traces ?? []).map(one => ({...one, entries: one.entries.map(each => ({...each, end}))}));
  const lines = tree({...report, traces}, {...plain, width: 80}).split('\n');
  expect(lines.length).toBeGreaterThan(text.split('\n').length);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
});

test('packets that are rejected or dropped by design are not faults', async () => {
  expect(tree(await traced('healthy/1.36-iptables', 'shop/lb-local', 'node-b'), plain)).toMatch(
    /└─ ○ dropped \(DROP\): externalTrafficPolicy is Local, and no endpoint is on this node\n +filter\/KUBE-EXTERNAL-SERVICES:\d+/,
  );
  expect(tree(await traced('healthy/1.36-iptables', 'shop/empty', 'node-b'), plain)).toMatch(
    /└─ ○ refused \(no endpoints\) {2}filter\/KUBE-SERVICES:\d+/,
  );
});

test('a client outside the source ranges is shown beside an allowed one', async () => {
  expect(tree(await traced('healthy/1.36-iptables', 'shop/lb-ranges', 'node-b'), plain)).toMatch(
    /load-balancer IP 203\.0\.113\.13:80 from outside the source ranges[^├]*└─ ○ dropped \(DROP\): loadBalancerSourceRanges do not allow this client/,
  );
});

test('both families and protocols of a Service are shown', async () => {
  const text = tree(await traced('healthy/1.36-iptables', 'infra/dual'), plain);
  // No pod of node-c is known to have an address of IPv6.
  expect(text).toMatch(/node-a, node-b IPv6 [\s\S]*from a pod of this node[\s\S]*node-c IPv6\n/);
  expect(text).toContain('[fd00:96::3]:9153');
  expect(tree(await traced('healthy/1.36-iptables', 'infra/dns'), plain)).toMatch(/port 53\/UDP[\s\S]*port 53\/TCP/);
});

test('-q prints only the verdict and the findings', async () => {
  const text = tree(await traced('faults/missing-endpoint', 'shop/web'), {...plain, quiet: true});
  expect(text).toMatch(
    /^FAULTY: shop\/web on node-a: pod web-2 gets no traffic \(ST202\); 1 error on 1 of 3 nodes \(1 Service\nwith findings\)\n\nST202 error/,
  );
});

test('the reason why a node was not checked is printed once below the first line', () => {
  const reason = 'no pod to exec into on node-b: neither kube-proxy nor a known CNI agent runs on it';
  const finding = findingOf('node-b', null, {code: 'ST901', severity: 'warning', message: `node-b was not checked: ${reason}`});
  const report = reportOf({nodes: ['node-a', unreadNode('node-b', reason)], services: ['shop/web'], findings: [finding], traces: [trace]});
  const said = (text: string) => text.slice(text.indexOf('\n\n')).replace(/\s+/g, ' ').split(reason).length - 1;
  expect(said(tree(report, plain))).toBe(1);
  expect(said(tree({...report, findings: []}, plain))).toBe(1);
});

describe('generated traces', () => {
  test('of hundreds of endpoints a few are shown, and each faulty one', () => {
    const endpoints = numbered('10.0.0', 300).map(
      (hostPort, index): EndpointTrace => ({...endpoint, hostPort, share: 1 / 300, mark: index === 250 ? 'stale' : 'ok'}),
    );
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], traces: [{...trace, entries: [{...entry, endpoints}]}]});
    const lines = tree(report, plain).split('\n').slice(4);
    expect(lines).toHaveLength(8);
    expect(lines.at(-2)).toContain('10.0.0-251');
    expect(lines.at(-1)).toBe('      └─ ✓   98% 294 more endpoints in sync; -v shows them');
    expect(tree(report, {...plain, verbose: true}).split('\n')).toHaveLength(305);
  });

  test('300 nodes with the same path are one branch', () => {
    const nodes = numbered('node', 300);
    const report = reportOf({nodes, services: ['shop/web'], traces: nodes.map(node => ({...trace, node}))});
    expect(tree(report, plain)).toContain('└─ node-[001-300] (line numbers of node-001)');
  });

  test('an entry without an endpoint is reported', () => {
    const end = {verdict: 'passed', rule: null} as const;
    const lost: EntryTrace = {...entry, mark: 'missing', endpoints: [{...endpoint, mark: 'missing', share: 0, rewrite: null}], end};
    const text = tree(reportOf({nodes: ['node-a'], services: ['shop/web'], traces: [{...trace, entries: [lost]}]}), plain);
    expect(text).toContain('cluster IP 10.96.0.1:80 from a pod ✗ reaches no endpoint');
    expect(text).toContain('└─ ✗ not rewritten: no rule matches  wrong');
  });

  test.each(Object.entries(hostile))('no escape sequence reaches the terminal: %s', (_, name) => {
    const report = reportFullOf(name);
    const text = tree(report, {...plain, verbose: true});
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    expect(text.replaceAll('\n', '')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/);
    expect(text.split('\n')).not.toContain('OK: all is well');
  });
});

test('endpoints are marked where the other backend of iptables sends the packets elsewhere', async () => {
  const lines = treeOf(tree(await traced('faults/split-brain', 'shop/web'), plain)).split('\n');
  const ofNodeC = lines.slice(lines.findIndex(line => line.includes('node-c'))).filter(line => line.includes('✗'));
  expect(ofNodeC).toEqual([
    expect.stringContaining('✗     ? 10.244.11.4:8080'),
    expect.stringContaining('✗     ? 10.244.11.5:8080'),
    expect.stringContaining('✗     ? 10.244.12.4:8080'),
    expect.stringContaining('✗     ? 10.244.99.99:8080  not an endpoint of the Service  stale'),
    expect.stringContaining('✗ undetermined: iptables-legacy sends it to 10.244.99.99:8080'),
  ]);
});

test('endpoints whose packets another program takes are not said to be missing', async () => {
  const lines = treeOf(tree(await traced('faults/hostport-hijack', 'shop/nodeport'), {...plain, width: 160}));
  expect(lines).toContain('✗    0% 10.244.11.4:8080  shop/web-1 on node-a, ready  gets none');
  expect(lines).toContain('✗  100% 10.244.13.200:80  not an endpoint of the Service  by a rule of another program  PREROUTING:180');
  expect(lines).not.toContain('missing');
});

test('a node whose tree is all right has the codes of what no tree shows, such as lost replies', () => {
  const findings = [
    findingOf('node-a', null, {code: 'ST604', severity: 'error'}),
    findingOf('node-b', null, {code: 'ST603', severity: 'warning'}),
    findingOf('node-b', null, {code: 'ST402', affects: [{namespace: 'shop', name: 'other', ports: ['http']}]}),
  ];
  const nodes = ['node-a', 'node-b'];
  const text = tree(reportOf({nodes, services: ['shop/web'], findings, traces: nodes.map(node => ({...trace, node}))}), {
    ...plain,
    width: 160,
  });
  expect(text).toMatch(/^└─ node-a, node-b.* {2}✗ ST604 on node-a, below {2}! ST603 on node-b, below$/m);
});
