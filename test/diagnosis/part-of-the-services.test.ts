import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {ServiceObject} from '../../src/model/api-objects.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {namespacedName} from '../../src/model/text.ts';
import {captureNames, fifthOfServices, snapshotOf} from '../fixtures.ts';
import {someOf} from '../cases.ts';

/** What is left of a cluster when only these Services and their slices were read. */
function withServices(snapshot: Snapshot, services: readonly ServiceObject[], namespaces: readonly string[]): Snapshot {
  const names = new Set(services.map(({metadata}) => namespacedName(metadata)));
  const {api} = snapshot;
  return {
    ...snapshot,
    api: {
      ...api,
      services,
      namespaces,
      endpointSlices:
        api.endpointSlices?.filter(({metadata}) => names.has(`${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}`)) ??
        null,
      endpoints: api.endpoints?.filter(({metadata}) => names.has(`${metadata.namespace}/${metadata.name}`)) ?? null,
    },
  };
}

const options = {toolVersion: '0.0.0'};
/** Without what the version itself does wrong (ST703): the rules are right for it. */
const ofNodes = (findings: readonly Finding[]) =>
  findings.filter(({code, severity, node}) => severity !== 'info' && node !== undefined && code !== 'ST901' && code !== 'ST703');
const inWords = ({code, node, service, message}: Finding): string => `${code} ${node} ${service?.name ?? '-'} ${message}`;

describe('a healthy node of a cluster of which one Service was read', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras')))('%s: nothing is wrong', async name => {
    const snapshot = await snapshotOf(name);
    for (const service of fifthOfServices(snapshot, name)) {
      const {findings} = diagnose(withServices(snapshot, [service], []), {...options, byName: true});
      expect(ofNodes(findings).map(inWords)).toEqual([]);
      expect(findings.filter(({code}) => ['ST205', 'ST215', 'ST216'].includes(code)).map(inWords)).toEqual([]);
    }
  });
});

describe('a healthy node of a cluster of which one namespace was read', () => {
  test.each(someOf(captureNames('healthy')))('%s: nothing is wrong', async name => {
    const snapshot = await snapshotOf(name);
    const services = (snapshot.api.services ?? []).filter(({metadata}) => metadata.namespace === 'shop');
    const {findings} = diagnose(withServices(snapshot, services, ['shop']), options);
    expect(ofNodes(findings).map(inWords)).toEqual([]);
  });
});

describe('a faulty node of a cluster of which one Service was read', () => {
  test.each(someOf(captureNames('faults')))('%s: the same errors are found as when all were read', async name => {
    const snapshot = await snapshotOf(name);
    for (const service of fifthOfServices(snapshot, name)) {
      const selects = (other: ServiceObject) => other === service;
      const concerns = () => false;
      const all = ofNodes(diagnose(snapshot, {...options, selects, concerns, byName: true}).findings);
      const part = ofNodes(diagnose(withServices(snapshot, [service], []), {...options, selects, concerns, byName: true}).findings);
      expect(codesOf(part), namespacedName(service.metadata)).toEqual(codesOf(all));
    }
  });
});

/** What is wrong with the frame is as bad as what it does to the Services at hand, and to some it does nothing. */
const codesOf = (findings: readonly Finding[]) => {
  const errors = findings.filter(({severity, code}) => severity === 'error' && !code.startsWith('ST3'));
  return [...new Set(errors.map(({code, node}) => `${code} ${node}`))].sort();
};

test.each([
  ['faults/no-prerouting-hook', 'ST301'],
  ['faults/nat-flushed', 'ST305'],
])('%s: the base rules are checked when one Service was read', async (name, code) => {
  const snapshot = await snapshotOf(name);
  const web = (snapshot.api.services ?? []).filter(service => namespacedName(service.metadata) === 'shop/web');
  const {findings} = diagnose(withServices(snapshot, web, []), options);
  expect(findings.filter(({severity}) => severity === 'error').map(finding => finding.code)).toEqual([code]);
});

test.each(['healthy/1.23-iptables', 'settings/masquerade-all'])(
  '%s: of one Service, what breaks promises is said as it is of all, where it breaks one of that Service',
  async name => {
    const snapshot = await snapshotOf(name);
    const promised = (selects: (service: ServiceObject) => boolean): readonly Finding[] =>
      diagnose(snapshot, {...options, selects}).findings.filter(({code}) => code.startsWith('ST7'));
    const all = promised(() => true);
    expect(all).not.toEqual([]);
    const rare = new Set(all.flatMap(({affects = []}) => (affects.length < 3 ? affects.map(namespacedName) : [])));
    const isTried = ({metadata}: ServiceObject, index: number): boolean => index % 9 === 0 || rare.has(namespacedName(metadata));
    for (const service of (snapshot.api.services ?? []).filter(isTried)) {
      const own = all.filter(({affects = []}) => affects.some(one => namespacedName(one) === namespacedName(service.metadata)));
      expect(promised(other => other === service)).toEqual(own);
    }
  },
);

test('a stale Service is still reported if its namespace was read completely', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const services = (snapshot.api.services ?? []).filter(({metadata}) => metadata.namespace === 'shop' && metadata.name !== 'web');
  const {findings} = diagnose(withServices(snapshot, services, ['shop']), options);
  expect(findings.filter(({code}) => code === 'ST205').map(({service}) => service)).toContainEqual({namespace: 'shop', name: 'web'});
});

describe('a dump made by an iptables older than the one that wrote the rules', () => {
  /** Older ones print a DNAT that they do not know like this. */
  async function checked(name: string) {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const nodes = snapshot.nodes.map(node => ({
      ...node,
      read: (file: string) => {
        const content = node.read(file);
        if (content === null || !file.endsWith('tables-save')) return content;
        return Buffer.from(content.toString('latin1').replace(/--to-destination \S+/g, '[unsupported revision]'), 'latin1');
      },
    }));
    const service = snapshot.api.services?.find(object => namespacedName(object.metadata) === name);
    if (service === undefined) throw new Error(`no Service ${name}`);
    return diagnose({...withServices(snapshot, [service], []), nodes}, {...options, byName: true});
  }

  test('leaves the node unread also for a Service whose rules it shows as they are', async () => {
    const {nodes, findings} = await checked('shop/empty');
    expect(nodes.map(({status}) => status)).toEqual(['unread', 'unread', 'unread']);
    expect(findings.map(({code}) => code)).toContain('ST506');
  });

  test('is reported for a Service with such rules, and the node was not checked', async () => {
    const {nodes, findings} = await checked('shop/web');
    expect(nodes.map(({status}) => status)).not.toContain('checked');
    expect(findings.map(({code}) => code)).toContain('ST506');
  });
});
