import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {permissionsFor} from '../../../src/collect/access/permissions.ts';
import {type TransportName, transports} from '../../../src/collect/transports/transports.ts';
import {resourceText} from '../../../src/model/permission.ts';
import {rbacFiles} from '../../../tools/rbac-files.ts';
import {allowedBy, urlsAllowedBy} from './roles.ts';

const folder = join(import.meta.dirname, '../../../docs/rbac');
const wordsFor = (transport: TransportName, namespace: string | null = null) =>
  permissionsFor({transport, namespace, debugNamespace: 'kube-system'}).map(
    permission => `${permission.verb} ${resourceText(permission)} ${permission.namespace ?? '(all)'}`,
  );

test.each(['ssh', 'docker', 'local'] as const)('%s only reads the API', transport => {
  expect(wordsFor(transport)).toEqual([
    'list services (all)',
    'get services (all)',
    'list endpointslices.discovery.k8s.io (all)',
    'list nodes (all)',
    'watch services (all)',
    'watch endpointslices.discovery.k8s.io (all)',
    'list pods kube-system',
    'list pods (all)',
    'get pods (all)',
    'get pods/log kube-system',
    'get configmaps/kube-proxy kube-system',
    'get configmaps/kube-proxy-config kube-system',
    'get configmaps/cilium-config kube-system',
    'list servicecidrs.networking.k8s.io (all)',
    'list networkpolicies.networking.k8s.io (all)',
  ]);
});

test('with one namespace only its Services, slices and pods are read', () => {
  expect(wordsFor('ssh', 'shop').filter(words => words.endsWith('(all)'))).toEqual([
    'list nodes (all)',
    'list servicecidrs.networking.k8s.io (all)',
  ]);
});

test('exec and debug list the permissions they use, and only debug creates and deletes', () => {
  const read = new Set(wordsFor('ssh'));
  const more = (transport: TransportName) => wordsFor(transport).filter(words => !read.has(words));
  expect(more('exec')).toEqual(['get pods/exec kube-system', 'create pods/exec kube-system', 'get nodes/proxy (all)']);
  expect(more('debug')).toEqual([
    'create pods kube-system',
    'get pods kube-system',
    'delete pods kube-system',
    'get pods/exec kube-system',
    'create pods/exec kube-system',
  ]);
});

test('no permission is listed twice', () => {
  for (const transport of Object.keys(transports) as TransportName[]) {
    for (const namespace of [null, 'shop', 'kube-system']) {
      const words = wordsFor(transport, namespace);
      expect(new Set(words).size).toBe(words.length);
    }
  }
});

describe('a file of docs/rbac', () => {
  test('is as tools/rbac.ts writes it ("npm run rbac" updates it)', () => {
    const files = Object.fromEntries(readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')]));
    expect(files).toEqual(Object.fromEntries(rbacFiles()));
  });

  const request = {verb: 'list', group: '', resource: 'services', subresource: '', namespace: '', name: ''} as const;
  test.each([
    ['read-only.yaml', {create: false, exec: false}],
    ['exec.yaml', {create: false, exec: true}],
    ['debug.yaml', {create: true, exec: true}],
    ['agents.yaml', {create: false, exec: false}],
    ['agents-pod.yaml', {create: false, exec: false}],
    ['agent.yaml', {create: false, exec: false}],
  ])('%s grants what its description says', (name, {create, exec}) => {
    const allow = allowedBy(readFileSync(join(folder, name), 'utf8'));
    const pods = {...request, resource: 'pods', namespace: 'kube-system'};
    expect(allow(request)).toBe(true);
    expect(allow({...pods, verb: 'create', subresource: 'exec'})).toBe(exec);
    expect(allow({...pods, verb: 'create'})).toBe(create);
    expect(allow({...pods, verb: 'delete'})).toBe(create);
    expect(allow({...pods, namespace: 'shop', verb: 'create'})).toBe(false);
    expect(allow({...request, resource: 'secrets'})).toBe(false);
    expect(allow({...request, verb: 'get', resource: 'nodes', subresource: 'proxy', name: 'node-a:10249'})).toBe(false);
    expect(allow({...request, verb: 'get', resource: 'configmaps', namespace: 'kube-system', name: 'other'})).toBe(false);
  });

  test.each([
    ['agents.yaml', {result: false, token: true, reviews: false}],
    ['agents-pod.yaml', {result: true, token: false, reviews: false}],
    ['agents-reader.yaml', {result: true, token: false, reviews: false}],
    ['agent.yaml', {result: false, token: false, reviews: true}],
  ])('%s grants what a client of agents needs', (name, {result, token, reviews}) => {
    const text = readFileSync(join(folder, name), 'utf8');
    const create = {...request, verb: 'create'} as const;
    const tokenOf = (account: string) =>
      allowedBy(text)({...create, resource: 'serviceaccounts', subresource: 'token', namespace: 'svc-trace', name: account});
    expect(urlsAllowedBy(text)({verb: 'get', path: '/result'})).toBe(result);
    expect(urlsAllowedBy(text)({verb: 'get', path: '/metrics'})).toBe(false);
    expect([tokenOf('svc-trace-reader'), tokenOf('svc-trace-agent')]).toEqual([token, false]);
    expect(allowedBy(text)({...create, group: 'authentication.k8s.io', resource: 'tokenreviews'})).toBe(reviews);
    expect(allowedBy(text)({...create, group: 'authorization.k8s.io', resource: 'subjectaccessreviews'})).toBe(reviews);
  });
});
