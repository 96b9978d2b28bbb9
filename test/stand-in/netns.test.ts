import {execa} from 'execa';
import {expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../src/collect/kube/load-connection.ts';
import {describeWith} from '../require.ts';
import {startApiServer} from './api-server.ts';

describeWith(['root', 'netns', 'ip'], 'a node that is a network namespace', () => {
  test('its pods run their commands in their network namespaces', async () => {
    const netns = `svc-trace-stand-in-${process.pid}`;
    await execa('ip', ['netns', 'add', netns]);
    onTestFinished(async () => void (await execa('ip', ['netns', 'delete', netns])));
    const pod = {metadata: {name: 'kube-proxy-a', namespace: 'kube-system'}, spec: {nodeName: 'node-a'}};
    await using server = await startApiServer({objects: {pods: [pod]}, nodes: {'node-a': {enter: ['ip', 'netns', 'exec', netns]}}});
    const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}));
    const target = {namespace: 'kube-system', pod: 'kube-proxy-a', container: 'kube-proxy'};
    const links = await api.exec(target, ['ip', '-o', 'link'], new AbortController().signal);
    api.close();
    expect(links.toString()).toMatch(/\blo\b.*state DOWN/);
    expect(links.toString()).not.toContain('eth0');
  });
});
