import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {PodObject} from '../../src/model/api-objects.ts';
import type {Finding} from '../../src/model/finding.ts';
import {table} from '../../src/render/table/table.ts';
import {snapshotOf} from '../fixtures.ts';
import {plain} from '../render/report.ts';

const proxyPod = (node: string, annotations = {}): PodObject => ({
  metadata: {namespace: 'kube-system', name: `kube-proxy-${node}`, labels: {'k8s-app': 'kube-proxy'}, annotations},
  spec: {nodeName: node, hostNetwork: true, containers: [{name: 'kube-proxy', image: ''}]},
  status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
});

async function findingsOf(capture: string, pods: readonly PodObject[]): Promise<readonly Finding[]> {
  const snapshot = await snapshotOf(capture);
  return diagnose({...snapshot, api: {...snapshot.api, pods: [...(snapshot.api.pods ?? []), ...pods]}}, {toolVersion: ''}).findings;
}

const missing = 'faults/missing-endpoint';

test('a finding whose remedy is a restart has the command for the pod of kube-proxy on its node', async () => {
  const findings = await findingsOf(
    missing,
    ['node-a', 'node-b'].map(node => proxyPod(node)),
  );
  expect(findings.find(({code}) => code === 'ST202')).toMatchObject({
    node: 'node-a',
    remedy: expect.stringMatching(/^Restart kube-proxy/),
    command: 'kubectl -n kube-system delete pod kube-proxy-node-a',
  });
});

test.each([
  ['whose pod is not known', []],
  ['of a static pod, which deleting its mirror does not restart', [proxyPod('node-a', {'kubernetes.io/config.mirror': 'abc'})]],
])('a kube-proxy %s gets no command', async (_, pods) => {
  const findings = await findingsOf(missing, pods);
  expect(findings.find(({code}) => code === 'ST202')?.command).toBeUndefined();
});

test('ST101 shows the pods that the selector of the Service matches', async () => {
  const findings = await findingsOf(missing, []);
  expect(findings.find(({code, service}) => code === 'ST101' && service?.name === 'empty')?.command).toBe(
    'kubectl -n shop get pods -l app=nobody -o wide',
  );
});

test('the command stands in one piece under the remedy, and only for one node', async () => {
  const snapshot = await snapshotOf(missing);
  const pods = [...(snapshot.api.pods ?? []), proxyPod('node-a')];
  const report = diagnose({...snapshot, api: {...snapshot.api, pods}}, {toolVersion: ''});
  expect(table(report, {...plain, width: 40}).split('\n')).toContain('  run       kubectl -n kube-system delete pod kube-proxy-node-a');
  const lost = report.findings.filter(({code}) => code === 'ST202').map(finding => ({...finding, message: 'it is lost'}));
  const twice = [...lost, ...lost.map(finding => ({...finding, node: 'node-b'}))];
  expect(table({...report, findings: twice}, plain)).not.toContain('delete pod');
});

test('findings of several endpoints of a Service port say of how many', async () => {
  const report = diagnose(await snapshotOf(missing), {toolVersion: ''});
  const lost = report.findings.find(({code}) => code === 'ST202');
  expect(lost).toMatchObject({endpoint: '10.244.11.5:8080', endpoints: 3});
  if (lost === undefined) return;
  const several = ['10.244.11.4:8080', '10.244.11.5:8080', '10.244.12.4:8080'].map((endpoint, at) => ({
    ...{...lost, endpoint, endpoints: 6},
    message: `shop/web:http: endpoint ${endpoint} gets no traffic ${at}`,
  }));
  expect(table({...report, findings: several}, plain)).toContain('3 of 6 endpoints of shop/web:http');
});
