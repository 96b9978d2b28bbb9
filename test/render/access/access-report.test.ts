import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import type {AccessReport, Permission, ReviewedPermission} from '../../../src/model/permission.ts';
import {accessRenderers, bindCommands, roleManifest} from '../../../src/render/access/access-report.ts';

const options = {color: false, width: Infinity};
const permission = (change: Partial<Permission>): Permission => ({
  ...{verb: 'list', group: '', resource: 'pods', namespace: null, purpose: 'this', without: 'that', needed: true},
  ...change,
});
const reportOf = (permissions: readonly ReviewedPermission[]): AccessReport => ({
  ...{cluster: 'context "kind"', transport: 'exec', namespace: null},
  permissions,
});
const linesOf = (permissions: readonly ReviewedPermission[]) => accessRenderers.table(reportOf(permissions), options).split('\n');

describe('the table', () => {
  test('has the result in its first line, and prints no unneeded Role', () => {
    expect(linesOf([{...permission({}), allowed: true}])).toEqual([
      'Allowed: 1 required permission for --transport exec (context "kind").',
      '',
      'REQUIRED  RESOURCE  NAMESPACE  ALLOWED  FOR',
      'list      pods      (all)      yes      this',
    ]);
  });

  test('names the missing permissions, their effect, and how to get them', () => {
    const exec = permission({verb: 'create', subresource: 'exec', namespace: 'kube-system', without: 'no node is read'});
    const lines = linesOf([
      {...permission({}), allowed: true},
      {...exec, allowed: false},
    ]);
    expect(lines[0]).toBe('1 of 2 required permissions is missing for --transport exec (context "kind"): create pods/exec.');
    expect(lines[4]).toBe('create    pods/exec  kube-system  no       this; without it no node is read');
    expect(lines).toContain('kind: ClusterRole');
    expect(lines.at(-1)).toBe('  kubectl create rolebinding svc-trace --namespace=kube-system --role=svc-trace --user=NAME');
  });

  test('required and optional permissions are two tables, and the counts are those of each', () => {
    const lines = linesOf([
      {...permission({}), allowed: true},
      {...permission({resource: 'nodes', needed: false}), allowed: false},
    ]);
    expect(lines.slice(0, 7)).toEqual([
      'Allowed: 1 required permission for --transport exec (context "kind"). 1 of 1 optional permissions is missing.',
      '',
      'REQUIRED  RESOURCE  NAMESPACE  ALLOWED  FOR',
      'list      pods      (all)      yes      this',
      '',
      'OPTIONAL  RESOURCE  NAMESPACE  ALLOWED  FOR',
      'list      nodes     (all)      no       this; without it that',
    ]);
  });

  test('escapes the values of the kubeconfig', () => {
    const report = {...reportOf([]), cluster: 'context "\u001b[2J"'};
    expect(accessRenderers.table(report, options)).toContain('context "\\x1b[2J"');
  });
});

test('JSON and YAML contain the same', () => {
  const report = reportOf([{...permission({name: 'one'}), allowed: false}]);
  const json = JSON.parse(accessRenderers.json(report));
  expect(load(accessRenderers.yaml(report))).toEqual(json);
  expect(json).toMatchObject({schemaVersion: 1, transport: 'exec', namespace: null, allowed: false});
  expect(json.permissions).toEqual([
    {
      verb: 'list',
      group: '',
      resource: 'pods',
      name: 'one',
      namespace: null,
      allowed: false,
      needed: true,
      purpose: 'this',
      without: 'that',
    },
  ]);
});

describe('the Roles', () => {
  test('are as few and as small as possible', () => {
    const permissions = [
      permission({verb: 'get', resource: 'services'}),
      permission({resource: 'services'}),
      permission({resource: 'nodes'}),
      permission({}),
      permission({namespace: 'kube-system'}),
      permission({verb: 'delete', namespace: 'kube-system'}),
      permission({verb: 'get', resource: 'configmaps', name: 'b', namespace: 'kube-system'}),
      permission({verb: 'get', resource: 'configmaps', name: 'a', namespace: 'kube-system'}),
      permission({verb: 'get', resource: 'secrets', namespace: 'kube-system'}),
    ];
    expect(roleManifest(permissions)).toBe(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: svc-trace
rules:
  - apiGroups: ['']
    resources: [services]
    verbs: [get, list]
  - apiGroups: ['']
    resources: [nodes, pods]
    verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: svc-trace
  namespace: kube-system
rules:
  - apiGroups: ['']
    resources: [pods]
    verbs: [delete]
  - apiGroups: ['']
    resources: [configmaps]
    resourceNames: [a, b]
    verbs: [get]
  - apiGroups: ['']
    resources: [secrets]
    verbs: [get]`);
  });

  test('of one namespace need no ClusterRole', () => {
    const permissions = [permission({namespace: 'shop'})];
    expect(roleManifest(permissions)).not.toContain('ClusterRole');
    expect(bindCommands(permissions)).toEqual(['kubectl create rolebinding svc-trace --namespace=shop --role=svc-trace --user=NAME']);
  });
});
