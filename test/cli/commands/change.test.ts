/** `preview` and `rules` against an API server, with different permissions. */
import {writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {afterEach, describe, expect, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer, ApiServerOptions} from '../../stand-in/api-server.ts';
import {proxyPod, startBundleCluster} from '../../stand-in/bundle-cluster.ts';
import {svcTrace as runSvcTrace} from '../../svc-trace.ts';

const bundle = capturePath('healthy/1.36-iptables');
const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function start(options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await startBundleCluster(bundle, options);
  servers.push(server);
  return server;
}

function svcTrace({kubeconfig}: Pick<ApiServer, 'kubeconfig'>, ...args: readonly string[]) {
  return runSvcTrace(args, {env: {KUBECONFIG: kubeconfig}});
}

interface PreviewJson {
  readonly summary: {readonly verdict: string; readonly lost: number; readonly nodesChecked: number; readonly nodesUnread: number};
  readonly nodes: readonly {readonly name: string; readonly basis: string; readonly reason?: string}[];
  readonly changes: readonly object[];
  readonly notes: readonly string[];
}

const toNftables = ['preview', '-A', '--proxy-mode', 'nftables', '-o', 'json'];

describe('preview', () => {
  test('prints the same for a cluster as for its bundle', async () => {
    // The bundle is of a time without ServiceCIDRs.
    const server = await start({faults: [{kind: 'status', match: /servicecidrs/, status: 404, message: '404 page not found'}]});
    const [live, replayed] = await Promise.all([svcTrace(server, ...toNftables), svcTrace(server, ...toNftables, '--from', bundle)]);
    const changes = ({stdout}: {readonly stdout: string}) => (JSON.parse(stdout) as PreviewJson).changes;
    expect(changes(live)).toEqual(changes(replayed));
    expect([live.exitCode, replayed.exitCode, live.stderr]).toEqual([1, 1, '']);
  });

  test('computes both sides if the user may not exec into nodes, and says so', async () => {
    const server = await start({allow: ({subresource}) => subresource !== 'exec'});
    const {stdout, exitCode} = await svcTrace(server, ...toNftables);
    const {nodes, summary} = JSON.parse(stdout) as PreviewJson;
    expect(nodes.map(({basis}) => basis)).toEqual(['expected', 'expected', 'expected']);
    expect(nodes[0]?.reason).toContain('pods/exec');
    expect(summary).toMatchObject({verdict: 'changes', nodesChecked: 3, nodesUnread: 0});
    expect(exitCode).toBe(1);
    const text = await svcTrace(server, ...toNftables.slice(0, -2));
    expect(text.stdout).toContain('both sides are computed');
    expect(text.stdout).toContain(
      "the proxy mode of today is not known on node-a, node-b, node-c: iptables, kube-proxy's default, is taken",
    );
  });

  test('reads no node with --expected-only, and accepts --node if Nodes may not be listed', async () => {
    const server = await start({allow: ({resource}) => resource !== 'nodes'});
    const named = await svcTrace(server, ...toNftables, '--expected-only', '--node', 'node-a');
    expect((JSON.parse(named.stdout) as PreviewJson).nodes).toEqual([{name: 'node-a', basis: 'expected'}]);
    const none = await svcTrace(server, ...toNftables, '--expected-only');
    expect((JSON.parse(none.stdout) as PreviewJson).summary).toMatchObject({verdict: 'incomplete', nodesChecked: 0});
    expect(none.exitCode).toBe(3);
    expect(server.requests.filter(({resource}) => resource?.subresource === 'exec')).toEqual([]);
  });

  test.each(['services', 'endpointslices'])('without the right to list %s nothing is compared', async resource => {
    const server = await start({allow: request => request.resource !== resource});
    const {stdout, stderr, exitCode} = await svcTrace(server, ...toNftables);
    expect(stdout).toBe('');
    expect(stderr.replaceAll(/\s*›?\s+/g, ' ')).toContain(`cannot list resource "${resource}"`);
    expect(exitCode).toBe(3);
  });
});

test.each([
  ['a manifest', 'kind: Service', 'its kind is Service'],
  ['an object without a kind', 'mode: nftables', 'it names no kind'],
])('--config refuses %s', async (_, text, why) => {
  const server = await start();
  const file = join(dirname(server.kubeconfig), 'config.yaml');
  writeFileSync(file, text);
  const {stderr, exitCode} = await svcTrace(server, 'preview', '-A', '--config', file, '--from', bundle);
  expect(stderr).toContain(`is not a KubeProxyConfiguration: ${why}`);
  expect(exitCode).toBe(2);
});

test('what ipvsadm-restore does not accept as a comment is printed on stderr', async () => {
  const server = await start();
  const ipvs = ['rules', '-A', '--for-node', 'node-a', '--from', bundle, '--proxy-mode', 'ipvs', '-o', 'ipvsadm-save'];
  const {stdout, stderr} = await svcTrace(server, ...ipvs);
  expect(stdout.split('\n').filter(line => !/^-[Aa] /.test(line))).toEqual([]);
  expect(stderr).toContain('match on ipsets');
});

test('a version without known rules proves nothing, and the one that stands in is named', async () => {
  const server = await start();
  const asked = ['--from', bundle, '--kube-proxy-version', 'v1.99'];
  const {stdout, exitCode} = await svcTrace(server, 'preview', '-A', ...asked);
  expect(stdout).toMatch(
    /^INCOMPLETE: the rules of kube-proxy v1\.99 are not known, and those of 1\.37 stand in for them; with these no packet/,
  );
  expect(stdout).toContain('0 are the same for every packet, 0 differ, 35 are not proved');
  expect(stdout).not.toMatch(/\bmet\b/);
  expect(exitCode).toBe(3);
  const {stdout: text} = await svcTrace(server, 'rules', '-A', '--for-node', 'node-a', ...asked);
  expect(text).toContain('# the rules of kube-proxy v1.99 are not known, and those of 1.37 stand in for them\n');
});

test.each([
  ['iptables', ['*nat'], /^-A KUBE-(?:SERVICES|SVC-\S+|SEP-\S+) .*shop\/web:http/],
  ['nftables', ['table ip kube-proxy {', '\tcomment "rules for kube-proxy"', '}'], /^\t/],
])('rules of a named Service in %s mode are its rules alone, which no tool loads in place of all', async (mode, frame, own) => {
  const server = await start();
  const asked = ['rules', 'shop/web', '--for-node', 'node-a', '--from', bundle, '--proxy-mode', mode];
  const {stdout} = await svcTrace(server, ...asked);
  expect(stdout).toContain('# only the rules of the named Services; --full adds the base rules');
  const lines = stdout.split('\n').filter(line => line !== '' && !line.startsWith('#') && !frame.includes(line));
  expect(lines.filter(line => !own.test(line))).toEqual([]);
  expect(stdout).not.toMatch(/^:|COMMIT|hook/m);
  expect((await svcTrace(server, ...asked, '--full')).stdout).toMatch(/^COMMIT$|hook prerouting/m);
});

describe('rules', () => {
  const rules = ['rules', '-A', '--for-node', 'node-a', '--cluster-cidr', '10.244.0.0/16'];

  /** kube-proxy's pod with an image whose tag is its version. */
  const pods = [
    {...proxyPod('node-a'), spec: {nodeName: 'node-a', hostNetwork: true, containers: [{name: 'kube-proxy', image: 'kube-proxy:v1.30.4'}]}},
  ];

  test("takes kube-proxy's version from its pod, and reads no node", async () => {
    const server = await start({objects: {pods}});
    const {stdout, stderr, exitCode} = await svcTrace(server, ...rules, '-o', 'json');
    expect(JSON.parse(stdout)).toMatchObject({node: 'node-a', kubeProxyVersion: 'v1.30.4', notes: []});
    expect([stderr, exitCode]).toEqual(['', 0]);
    expect(server.requests.filter(({resource}) => resource?.subresource === 'exec')).toEqual([]);
  });

  test('reports an unknown version if pods may not be listed', async () => {
    const server = await start({objects: {pods}, allow: ({resource}) => resource !== 'pods'});
    const {stdout, exitCode} = await svcTrace(server, ...rules);
    expect(stdout).toMatch(/^# the version of kube-proxy is not known: these are the rules of 1\.\d+/m);
    expect(exitCode).toBe(0);
  });

  test.each(['services', 'endpointslices'])('prints nothing without the right to list %s', async resource => {
    const server = await start({allow: request => request.resource !== resource});
    const {stdout, stderr, exitCode} = await svcTrace(server, ...rules);
    expect(stdout).toBe('');
    expect(stderr.replaceAll(/\s*›?\s+/g, ' ')).toContain(`cannot list resource "${resource}"`);
    expect(exitCode).toBe(3);
  });

  test('adds the objects of -f to a given cluster, and reads them alone without one', async () => {
    const server = await start({objects: {pods}});
    const file = join(dirname(server.kubeconfig), 'service.yaml');
    writeFileSync(
      file,
      'apiVersion: v1\nkind: Service\nmetadata: {name: new, namespace: shop}\nspec: {clusterIP: 10.96.9.9, ports: [{port: 80, targetPort: 8080}]}\n',
    );
    const manifest = ['-f', file, '--endpoint', '10.244.1.5@node-a'];
    const added = await svcTrace(server, ...rules, ...manifest, '--kubeconfig', server.kubeconfig);
    expect(added.stdout).toContain('shop/new');
    expect(added.stdout).toContain('shop/web');
    const alone = await svcTrace(server, ...rules, ...manifest);
    expect(alone.stdout).toContain('shop/new');
    expect(alone.stdout).not.toContain('shop/web');
  });

  test.each([
    [
      'a Deployment',
      'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n',
      [],
      /no Service, EndpointSlice or Node in .*: only Deployment/,
    ],
    ['a Node', 'apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\n', [], /no Service in .*: only Node/],
    [
      'a Service of another namespace',
      'apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n',
      ['-n', 'other'],
      /shop\/web of -f is not in namespace other: leave out -n, or use -A/,
    ],
    [
      'the cluster IP of another Service',
      'apiVersion: v1\nkind: Service\nmetadata: {name: new, namespace: shop}\nspec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n',
      ['--from', bundle, '--for-node', 'node-a'],
      /would refuse Service shop\/new: the cluster IP 10\.96\.0\.10 belongs to infra\/dns/,
    ],
  ])('of a manifest of %s alone are refused', async (_, text, more, message) => {
    const server = await start();
    const file = join(dirname(server.kubeconfig), 'manifest.yaml');
    writeFileSync(file, text);
    const {stdout, stderr, exitCode} = await svcTrace(server, 'rules', '-f', file, ...more);
    expect(stderr.replaceAll(/\s*›?\s+/g, ' ')).toMatch(message);
    expect([stdout, exitCode]).toEqual(['', 2]);
  });
});
