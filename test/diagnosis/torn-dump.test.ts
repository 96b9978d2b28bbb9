import {expect, test} from 'vitest';
import {Diagnosis} from '../../src/diagnosis/diagnosis.ts';
import type {NodeDump} from '../../src/model/snapshot.ts';
import type {StateChange} from '../../src/model/state-history.ts';
import {seededRandom} from '../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../cluster.ts';
import {withRules} from '../rendered-dump.ts';

const files = {
  'kube-proxy-version': 'Kubernetes v1.36.2\n',
  'proxy-mode': 'iptables',
  'kube-proxy-config.yaml': 'clusterCIDR: 10.244.0.0/16\n',
};
const web = service('shop/web', {
  clusterIP: '10.96.0.10',
  clusterIPs: ['10.96.0.10'],
  ipFamilies: ['IPv4'],
  ports: [{port: 80, protocol: 'TCP'}],
});
const full = slice('shop/web', [endpoint('10.244.1.2', 'node-a')]);
const empty = {...full, endpoints: []};
const other = service('shop/other', {
  clusterIP: '10.96.0.11',
  clusterIPs: ['10.96.0.11'],
  ipFamilies: ['IPv4'],
  ports: [{port: 80, protocol: 'TCP'}],
});
const otherSlice = slice('shop/other', [endpoint('10.244.1.3', 'node-a')]);
const nodes = [{metadata: {name: 'node-a'}, spec: {podCIDRs: ['10.244.1.0/24']}}];
const apiWith = (ofWeb: typeof full) => apiObjects({services: [web, other], endpointSlices: [ofWeb, otherSlice], nodes});

function saved(ofWeb: typeof full): string {
  const [node] = withRules({origin: '', api: apiWith(ofWeb), problems: [], nodes: [nodeDump('node-a', files)]}, seededRandom(1)).nodes;
  return node?.read('iptables-save')?.toString() ?? '';
}

/** The tables of a dump by name. */
function tables(dump: string): ReadonlyMap<string, string> {
  return new Map([...dump.matchAll(/^\*(\S+)\n[\s\S]*?^COMMIT\n/gm)].map(([text, name]) => [name ?? '', text]));
}

function diagnosed(dump: string) {
  const node: NodeDump = nodeDump('node-a', {...files, 'iptables-save': dump});
  const changes: readonly StateChange[] = [{kind: 'EndpointSlice', at: 99_000, before: full, now: empty}];
  const diagnosis = new Diagnosis(apiWith(empty), {toolVersion: '0.0.0', nodesOnly: true});
  diagnosis.add(node, {from: 100_000, to: 100_300, history: {since: 0, changes}});
  return {
    mixed: diagnosis.resultOf('node-a')?.perhapsTorn,
    found: diagnosis.findingsOn('node-a').filter(({severity}) => severity !== 'info'),
  };
}

test('a dump with the tables of two states is distinguished from one that no kube-proxy wrote', () => {
  const [before, after] = [tables(saved(full)), tables(saved(empty))];
  const mixed = [...before].map(([name, text]) => (name === 'filter' ? (after.get(name) ?? '') : text)).join('');
  expect(mixed).toContain('REJECT');
  expect(mixed).toContain('10.244.1.2:8080');
  const {mixed: services, found} = diagnosed(mixed);
  expect(found).not.toEqual([]);
  expect(services).toEqual(['shop/web']);
});

test('the time between two tables does not explain a missing rule', () => {
  const without = saved(full).replace(/^-A KUBE-SERVICES .*10\.96\.0\.10\/32 .*-j KUBE-SVC-\S+\n/m, '');
  const {mixed: services, found} = diagnosed(without);
  expect(found.map(({service: of}) => of?.name)).toContain('web');
  expect(services).toEqual([]);
});

test('a node that lags needs no explanation', () => {
  expect(diagnosed(saved(full))).toEqual({mixed: [], found: []});
  expect(diagnosed(saved(empty))).toEqual({mixed: [], found: []});
});
