import {existsSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {describe, expect} from 'vitest';
import {testWith} from '../require.ts';
import {startApplyServer} from './apply-server.ts';
import {built, overlayNamed} from './overlays.ts';
import {podsOf} from './pods.ts';
import {clusterOf, unused} from './rights.ts';
import {runContainer} from './run-container.ts';

describe('the job of cronjob', () => {
  testWith(['kubectl'], 'may get no pages of the kubelets, and says so with -v', async () => {
    const objects = await built(overlayNamed('cronjob'));
    await using cluster = await clusterOf(objects, 'healthy/1.36-iptables');
    const [check] = podsOf(objects)[0]?.containers ?? [];
    const {exitCode, stdout} = await runContainer(check, {KUBECONFIG: cluster.kubeconfigOf('svc-trace-check')}, undefined, ['-v']);
    expect(exitCode).toBe(0);
    expect(stdout).not.toContain('ST901');
    expect(stdout).toContain('you may not get nodes/proxy, an optional right');
    expect(cluster.server.requests.filter(({resource}) => resource?.subresource === 'proxy').length).toBeGreaterThan(0);
  });

  testWith(['kubectl'], 'checks the whole cluster with the permissions of its Role, and uses all of them', async () => {
    const objects = await built(overlayNamed("cronjob that may read kube-proxy's pages"));
    await using cluster = await clusterOf(objects, 'faults/missing-endpoint');
    const [check] = podsOf(objects)[0]?.containers ?? [];
    const {exitCode, stdout, stderr} = await runContainer(check, {KUBECONFIG: cluster.kubeconfigOf('svc-trace-check')});
    expect({exitCode, stderr}).toEqual({exitCode: 1, stderr: ''});
    expect(stdout).toMatch(/^FAULTY: .*1 error on 1 of 3 nodes/);
    expect(stdout).not.toContain('ST901');
    // The log is read where kube-proxy may have failed.
    expect(unused(objects, 'svc-trace-check', cluster.server.requests)).toEqual(['get /pods/log']);
  });
});

describe.each([
  ['cronjob with OpenReports', '/apis/openreports.io/v1alpha1/namespaces/shop/reports/svc-trace'],
  ['cronjob with PolicyReports', '/apis/wgpolicyk8s.io/v1alpha2/namespaces/shop/policyreports/svc-trace'],
])('the job of %s', (name, path) => {
  testWith(['kubectl'], 'checks, applies the reports, and exits with the code of the check', async () => {
    const objects = await built(overlayNamed(name));
    await using cluster = await clusterOf(objects, 'faults/missing-endpoint');
    await using target = await startApplyServer(reportKinds);
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-job-'));
    try {
      const [pod] = podsOf(objects);
      const [check, apply] = pod?.initContainers ?? [];
      const [last] = pod?.containers ?? [];
      expect((await runContainer(check, {KUBECONFIG: cluster.kubeconfigOf('svc-trace-check')}, folder)).exitCode).toBe(0);
      expect(target.applied.size).toBe(0);
      const done = await runContainer(apply, {KUBECONFIG: target.kubeconfig}, folder, ['--validate=false']);
      expect({exitCode: done.exitCode, stderr: done.stderr}).toEqual({exitCode: 0, stderr: ''});
      expect(target.applied.get(path)).toMatchObject({metadata: {name: 'svc-trace', namespace: 'shop'}});
      expect([...new Set(target.requests.map(request => request.split(' ')[0]))].sort()).toEqual(['GET', 'PATCH']);
      expect((await runContainer(last, {}, folder)).exitCode).toBe(1);
    } finally {
      rmSync(folder, {recursive: true});
    }
  });

  testWith(['kubectl'], 'fails before it applies anything if the check itself fails', async () => {
    const [check] = podsOf(await built(overlayNamed(name)))[0]?.initContainers ?? [];
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-job-'));
    try {
      const {exitCode} = await runContainer(check, {KUBECONFIG: '/nowhere'}, folder);
      expect(exitCode).toBe(2);
      expect(existsSync(join(folder, 'reports.yaml'))).toBe(false);
      expect(readFileSync(join(folder, 'exit-code'), 'utf8')).toBe('2\n');
    } finally {
      rmSync(folder, {recursive: true});
    }
  });
});

const reportKinds = [
  {apiVersion: 'openreports.io/v1alpha1', kind: 'Report', plural: 'reports', namespaced: true},
  {apiVersion: 'openreports.io/v1alpha1', kind: 'ClusterReport', plural: 'clusterreports', namespaced: false},
  {apiVersion: 'wgpolicyk8s.io/v1alpha2', kind: 'PolicyReport', plural: 'policyreports', namespaced: true},
  {apiVersion: 'wgpolicyk8s.io/v1alpha2', kind: 'ClusterPolicyReport', plural: 'clusterpolicyreports', namespaced: false},
];
