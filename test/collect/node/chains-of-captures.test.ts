import {describe, expect, test} from 'vitest';
import {readChains} from '../../../src/collect/node/read-chains.ts';
import {diagnose} from '../../../src/diagnose.ts';
import type {ServiceObject} from '../../../src/model/api-objects.ts';
import type {Report} from '../../../src/model/report.ts';
import type {NodeDump, Snapshot} from '../../../src/model/snapshot.ts';
import {namespacedName} from '../../../src/model/text.ts';
import {requestedEntries} from '../../../src/run/diagnose-cluster.ts';
import {captureNames, fifthOfServices, snapshotOf, withFiles} from '../../fixtures.ts';
import {fakeIptables} from './fake-iptables.ts';

describe('of a healthy node, the chains of one Service', () => {
  test.each(captureNames('healthy', 'settings', 'eras').filter(isIptables))('%s: are as expected', async name => {
    const snapshot = await snapshotOf(name);
    for (const service of fifthOfServices(snapshot, name)) {
      const {findings, nodes} = await byChain(ofService(snapshot, service), service);
      expect(
        findings
          .filter(({node, code, severity}) => node !== undefined && severity !== 'info' && code !== 'ST901')
          .map(({message}) => message),
        namespacedName(service.metadata),
      ).toEqual([]);
      expect(new Set(nodes.flatMap(({read, status}) => (status === 'checked' ? [read] : [])))).toEqual(new Set(['reachable']));
    }
  });
});

describe('of a faulty node, the chains of one Service', () => {
  test.each(captureNames('faults').filter(isIptables))('%s: show that something is wrong', async name => {
    const snapshot = await snapshotOf(name);
    for (const service of fifthOfServices(snapshot, name)) {
      const part = ofService(snapshot, service);
      const whole = diagnose(part, options(service));
      const inParts = await byChain(part, service);
      const faulty = suspects(whole, ({severity}) => severity !== 'info');
      expect(
        suspects(inParts, () => true),
        namespacedName(service.metadata),
      ).toEqual(expect.arrayContaining([...faulty]));
    }
  });
});

test.each([
  ['an external IP', ({spec, ...rest}: ServiceObject) => ({...rest, spec: {...spec, externalIPs: []}})],
  [
    'node port',
    ({spec, ...rest}: ServiceObject) => ({...rest, spec: {...spec, ports: (spec?.ports ?? []).map(({nodePort: _, ...port}) => port)}}),
  ],
])('the chains of a Service show the rules for %s that it no longer has', async (_, change) => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  let compared = 0;
  for (const service of snapshot.api.services ?? []) {
    const changed = change(service) as ServiceObject;
    if (JSON.stringify(requestedEntries([changed], [], 10), sets) === JSON.stringify(requestedEntries([service], [], 10), sets)) continue;
    const part = ofService(snapshot, changed);
    const faulty = suspects(diagnose(part, options(changed)), ({severity}) => severity !== 'info');
    expect(
      suspects(await byChain(part, changed), () => true),
      namespacedName(service.metadata),
    ).toEqual(expect.arrayContaining([...faulty]));
    compared += faulty.length;
  }
  expect(compared).toBeGreaterThan(0);
});

test('the likely chains of a Service are those that a healthy node has, and reading them ahead changes nothing', async () => {
  const {api, nodes} = await snapshotOf('healthy/1.36-iptables');
  const dump = nodes[0]?.read('iptables-save')?.toString('latin1') ?? '';
  let ahead = 0;
  for (const service of api.services ?? []) {
    const requested = requestedEntries([service], api.endpointSlices ?? [], 10);
    const missing = requested.likelyChains.IPv4.filter(chain => !dump.includes(`\n:${chain} `));
    expect(missing, namespacedName(service.metadata)).toEqual([]);
    const without = {...requested, likelyChains: {IPv4: [], IPv6: []}};
    const [read, same] = [
      await readChains('iptables', requested, fakeIptables(dump)),
      await readChains('iptables', without, fakeIptables(dump)),
    ];
    expect(String(read), namespacedName(service.metadata)).toBe(String(same));
    ahead += requested.likelyChains.IPv4.filter(chain => String(read).includes(`\n:${chain} `)).length;
  }
  expect(ahead).toBeGreaterThan(10);
});

function sets(_: string, value: unknown): unknown {
  return value instanceof Set ? [...value] : value;
}

function options(service: ServiceObject) {
  return {toolVersion: '0.0.0', byName: true, selects: (other: ServiceObject) => other === service, concerns: () => false};
}

async function byChain(part: Snapshot, service: ServiceObject): Promise<Report> {
  const requested = requestedEntries([service], part.api.endpointSlices ?? [], 10);
  const nodes = await Promise.all(part.nodes.map(node => nodeByChain(node, requested)));
  return diagnose({...part, nodes}, options(service));
}

async function nodeByChain(node: NodeDump, requested: ReturnType<typeof requestedEntries>): Promise<NodeDump> {
  const read: Record<string, Buffer> = {};
  for (const tool of ['iptables', 'ip6tables'] as const) {
    const dump = node.read(`${tool}-save`);
    const chains = dump === null ? null : await readChains(tool, requested, fakeIptables(dump.toString('latin1')));
    if (chains !== null) read[`${tool}-save`] = chains;
  }
  return withFiles(node, read);
}

/** Nodes that are not simply in sync. */
function suspects({nodes, findings}: Report, counts: (finding: Report['findings'][number]) => boolean): readonly string[] {
  const named = new Set(findings.filter(counts).map(({node}) => node));
  return nodes.filter(({name, status}) => status !== 'checked' || named.has(name)).map(({name}) => name);
}

function ofService(snapshot: Snapshot, service: ServiceObject): Snapshot {
  const {api} = snapshot;
  const {namespace, name} = service.metadata;
  return {
    ...snapshot,
    api: {
      ...api,
      services: [service],
      namespaces: [],
      endpointSlices:
        api.endpointSlices?.filter(
          ({metadata}) => metadata.namespace === namespace && metadata.labels?.['kubernetes.io/service-name'] === name,
        ) ?? null,
      endpoints: api.endpoints?.filter(({metadata}) => metadata.namespace === namespace && metadata.name === name) ?? null,
    },
  };
}

function isIptables(name: string): boolean {
  return !/ipvs|nftables|userspace/.test(name);
}
