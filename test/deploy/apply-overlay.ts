import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {dump} from 'js-yaml';
import {kubectl} from '../kubectl.ts';
import {type AppliedKind, startApplyServer} from './apply-server.ts';
import {built, type Overlay} from './overlays.ts';

const kinds: readonly AppliedKind[] = [
  {apiVersion: 'v1', kind: 'Namespace', plural: 'namespaces', namespaced: false},
  {apiVersion: 'v1', kind: 'ServiceAccount', plural: 'serviceaccounts', namespaced: true},
  {apiVersion: 'v1', kind: 'Secret', plural: 'secrets', namespaced: true},
  {apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true},
  {apiVersion: 'v1', kind: 'ResourceQuota', plural: 'resourcequotas', namespaced: true},
  {apiVersion: 'apps/v1', kind: 'DaemonSet', plural: 'daemonsets', namespaced: true},
  {apiVersion: 'batch/v1', kind: 'CronJob', plural: 'cronjobs', namespaced: true},
  {apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', plural: 'networkpolicies', namespaced: true},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', plural: 'roles', namespaced: true},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding', plural: 'rolebindings', namespaced: true},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', plural: 'clusterroles', namespaced: false},
  {apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding', plural: 'clusterrolebindings', namespaced: false},
  {apiVersion: 'monitoring.coreos.com/v1', kind: 'PodMonitor', plural: 'podmonitors', namespaced: true},
  {apiVersion: 'monitoring.coreos.com/v1', kind: 'PrometheusRule', plural: 'prometheusrules', namespaced: true},
];

/** The paths that a real kubectl writes to when it applies an overlay. Rejects when kubectl has something to complain of. */
export async function applied(overlay: Overlay): Promise<readonly string[]> {
  await using server = await startApplyServer(kinds);
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-apply-overlay-'));
  try {
    const file = join(folder, 'all.yaml');
    writeFileSync(file, (await built(overlay)).map(object => dump(object)).join('---\n'));
    await execa(kubectl, ['apply', '--kubeconfig', server.kubeconfig, '--server-side', '--validate=false', '-f', file]);
    return [...server.applied.keys()];
  } finally {
    rmSync(folder, {recursive: true});
  }
}
