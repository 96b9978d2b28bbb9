import {execFileSync, spawnSync} from 'node:child_process';
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {NodeObject, PodObject} from '../../src/model/api-objects.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {editService, patchService, showArguments, showService, showSlices} from '../../src/checks/commands/commands.ts';
import {commandLine, shellWord} from '../../src/model/text.ts';
import {table} from '../../src/render/table/table.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {kubectl, testWith} from '../require.ts';
import {plain} from '../render/report.ts';

const proxyPod = (
  node: string,
  change: {readonly annotations?: Readonly<Record<string, string>>; readonly name?: string} = {},
): PodObject => ({
  metadata: {
    ...{namespace: 'kube-system', name: change.name ?? `kube-proxy-${node}`, labels: {'k8s-app': 'kube-proxy'}},
    annotations: change.annotations ?? {},
  },
  spec: {nodeName: node, hostNetwork: true, containers: [{name: 'kube-proxy', image: ''}]},
  status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
});

async function findingsOf(capture: string, pods: readonly PodObject[], change: Partial<ApiObjects> = {}): Promise<readonly Finding[]> {
  const snapshot = await snapshotOf(capture);
  const api = {...snapshot.api, ...change, pods: [...(snapshot.api.pods ?? []), ...pods]};
  return diagnose({...snapshot, api}, {toolVersion: ''}).findings;
}

const missing = 'faults/missing-endpoint';

async function commandsFor(code: string, pods: readonly PodObject[], change: Partial<ApiObjects> = {}): Promise<readonly string[]> {
  const found = (await findingsOf(missing, pods, change)).find(finding => finding.code === code);
  return found?.command?.split('\n') ?? [];
}

/** The Nodes of the capture, each with this version of its kubelet. */
async function nodesWith(kubeletVersion: string, metadata: Partial<NodeObject['metadata']> = {}): Promise<readonly NodeObject[]> {
  const {nodes} = (await snapshotOf(missing)).api;
  return (nodes ?? []).map(node => ({
    metadata: {...node.metadata, ...metadata},
    status: {nodeInfo: {kubeletVersion} as NonNullable<NonNullable<NodeObject['status']>['nodeInfo']>},
  }));
}

describe('a finding whose remedy is a restart of kube-proxy has the command', () => {
  const logs = 'kubectl -n kube-system logs pod/kube-proxy-node-a --tail=300';
  const mirror = {annotations: {'kubernetes.io/config.mirror': 'abc'}};

  test('that deletes the pod on its node, after the one for its log, which a new pod lacks', async () => {
    const pods = ['node-a', 'node-b'].map(node => proxyPod(node));
    expect(await commandsFor('ST202', pods)).toEqual([logs, 'kubectl -n kube-system delete pod/kube-proxy-node-a']);
  });

  test('that stops the container of a static pod on the node, as deleting its mirror pod does not stop it', async () => {
    expect(await commandsFor('ST202', [proxyPod('node-a', mirror)])).toEqual([logs, "crictl stop $(crictl ps --name '^kube-proxy$' -q)"]);
    const [, stop = ''] = await commandsFor('ST202', [proxyPod('node-a', mirror)], {nodes: await nodesWith('v1.36.2+rke2r1')});
    expect(stop).toContain('CRI_CONFIG_FILE=/var/lib/rancher/rke2/agent/etc/crictl.yaml');
    expect(spawnSync('sh', ['-n', '-c', stop]).status).toBe(0);
  });

  test.each([
    ['of an agent of k3s', 'k3s-agent', {annotations: {'k3s.io/node-args': '["agent"]'}}],
    ['of a server of k3s', 'k3s', {annotations: {'k3s.io/node-args': '["server"]'}}],
    ['of a server of k3s, by its label', 'k3s', {labels: {'node-role.kubernetes.io/control-plane': 'true'}}],
  ])('that restarts the unit %s', async (_, unit, metadata) => {
    const nodes = await nodesWith('v1.36.2+k3s1', metadata);
    expect(await commandsFor('ST202', [], {nodes})).toEqual([`journalctl -u ${unit} -n 300`, `systemctl restart ${unit}`]);
  });

  test('that lists the pods of the node, if it is unknown how kube-proxy runs', async () => {
    expect(await commandsFor('ST202', [])).toEqual(['kubectl get pods -A -o wide --field-selector spec.nodeName=node-a']);
  });

  test.each([
    ['the API has other Nodes', 'node-a', {nodes: [{metadata: {name: 'node-b'}}]}],
    ['no Nodes were read and none can have this name', 'pasted text', {nodes: null}],
  ])('that names a node is not given where %s', async (_, name, change) => {
    const {api, nodes, ...snapshot} = await snapshotOf(missing);
    const findings = diagnose(
      {...snapshot, api: {...api, ...change}, nodes: nodes.slice(0, 1).map(node => ({...node, name, read: file => node.read(file)}))},
      {toolVersion: ''},
    ).findings.filter(({node}) => node === name);
    expect(findings.map(({code}) => code)).toContain('ST202');
    expect(findings.flatMap(({command = ''}) => (command.includes('spec.nodeName') ? [command] : []))).toEqual([]);
  });
});

test('third-party rules are listed with the program, table and chain in which they were found', async () => {
  const command = async (capture: string, code: string, pods: readonly PodObject[]) =>
    (await findingsOf(capture, pods)).find(finding => finding.code === code)?.command;
  expect(await command('faults/hostport-hijack', 'ST401', [])).toBe('iptables -t nat -S PREROUTING');
  expect(await command('faults/hostport-hijack', 'ST401', [proxyPod('node-c')])).toBe(
    'kubectl -n kube-system exec pod/kube-proxy-node-c -- iptables -t nat -S PREROUTING',
  );
});

test('ST101 lists the pods that the selector of the Service matches, or the slices of a Service without a selector', async () => {
  const findings = await findingsOf(missing, []);
  expect(findings.find(({code, service}) => code === 'ST101' && service?.name === 'empty')?.command).toBe(
    'kubectl -n shop get pods -l app=nobody -o wide',
  );
});

describe('a name from the cluster', () => {
  test.each(["it's", 'a b;c', '$(id)', '`id`', '\u{1f600}', '*?[a]~', 'back\\slash', "\\'; id; '", 'new\nline'])(
    'is one word for the shell: %j',
    name => {
      for (const shell of ['bash', 'dash'])
        expect(execFileSync(shell, ['-c', `printf %s ${shellWord(name)}`], {encoding: 'utf8', env: {LC_ALL: 'C.UTF-8'}})).toBe(name);
    },
  );

  test('that a terminal must not get gives no command', () => {
    for (const name of ['\u001b[31mred', 'tab\tnew\nline', 'é\u202e']) expect(commandLine`kubectl get ${name}`).toBeNull();
  });

  test('that looks like an option gives no command', () => {
    expect(commandLine`kubectl delete ${'--all'}`).toBeNull();
    expect(commandLine`iptables -S ${'-F'}`).toBeNull();
    expect(commandLine`kubectl get ${''}`).toBeNull();
  });

  test('of a pod cannot add anything to the command that deletes it', async () => {
    const [, deletion = ''] = await commandsFor('ST202', [proxyPod('node-a', {name: "x' --all; id #"})]);
    const words = execFileSync('bash', ['-c', `kubectl() { printf '%s\\0' "$@"; }; ${deletion}`], {encoding: 'utf8'}).split('\0');
    expect(words).toEqual(['-n', 'kube-system', 'delete', "pod/x' --all; id #", '']);
  });
});

describe('in a table', () => {
  test('each command is on one line under the remedy', async () => {
    const snapshot = await snapshotOf(missing);
    const pods = [...(snapshot.api.pods ?? []), proxyPod('node-a')];
    const report = diagnose({...snapshot, api: {...snapshot.api, pods}}, {toolVersion: ''});
    expect(table(report, {...plain, width: 40}).split('\n')).toEqual(
      expect.arrayContaining([
        '  run       kubectl -n kube-system logs pod/kube-proxy-node-a --tail=300',
        '  run       kubectl -n kube-system delete pod/kube-proxy-node-a',
      ]),
    );
  });

  const onNodes = async (command: (node: string) => string, count: number, width = 100): Promise<readonly string[]> => {
    const report = diagnose(await snapshotOf(missing), {toolVersion: ''});
    const lost = report.findings.filter(({code}) => code === 'ST202').slice(0, 1);
    const nodes = Array.from({length: count}, (_, index) => `n${index}`);
    const findings = lost.flatMap(finding => nodes.map(node => ({...finding, node, message: 'it is lost', command: command(node)})));
    return table({...report, findings}, {...plain, width})
      .split('\n')
      .filter(line => /^ {2}(run|on node) |and likewise/.test(line))
      .map(line => line.trim());
  };

  test('one command deletes the pods of several nodes, on a terminal up to ten', async () => {
    const deletion = (node: string): string => `kubectl -n kube-system delete pod/p-${node}`;
    expect(await onNodes(deletion, 3)).toEqual(['run       kubectl -n kube-system delete pod/p-n0 pod/p-n1 pod/p-n2']);
    expect((await onNodes(deletion, 12)).at(-1)).toBe('and likewise on 2 more nodes; -o json has each command');
    const [all = '', ...others] = await onNodes(deletion, 300, Infinity);
    expect(others).toEqual([]);
    expect(all.split(' pod/')).toHaveLength(301);
  });

  test('of other commands that of the first node is shown, and one to run on the node is labeled', async () => {
    expect(await onNodes(node => `systemctl restart ${node}`, 2)).toEqual([
      'on node   systemctl restart n0',
      'and likewise on 1 more node; -o json has each command',
    ]);
    expect(await onNodes(() => 'conntrack -L', 2)).toEqual(['on node   conntrack -L']);
  });
});

describe('every command', () => {
  const web = {namespace: 'shop', name: 'web'};
  const place = {api: {pods: [proxyPod('node-a')]}, node: {name: 'node-a'}} as unknown as Parameters<typeof showArguments>[0];
  const ofServices = [
    ...[editService(web), patchService(web, {spec: {internalTrafficPolicy: 'Cluster'}}), showService(web), showSlices(web, 'yaml')],
    ...[showSlices(web, 'labels'), showArguments(place)],
  ].map(({command = ''}) => command);

  const ofCaptures = async (): Promise<readonly string[]> => {
    const commands = new Set<string>();
    for (const name of captureNames('faults'))
      for (const pods of [[], ['node-a', 'node-b', 'node-c'].map(node => proxyPod(node))])
        for (const {command = ''} of await findingsOf(name, pods))
          for (const line of command.split('\n')) if (line !== '') commands.add(line);
    return [...commands];
  };
  const all = ofCaptures();

  test('can be parsed by a shell', async () => {
    const commands = await all;
    expect(commands.length).toBeGreaterThan(10);
    expect(spawnSync('sh', ['-n'], {input: commands.join('\n')})).toMatchObject({status: 0});
  });

  testWith(['kubectl'], 'has flags and arguments of kubectl', async () => {
    const shapes = new Map(
      [...(await all), ...ofServices].filter(line => /^kubectl (?!svc-trace)/.test(line)).map(line => [shapeOf(line), line]),
    );
    for (const line of shapes.values()) {
      const {stderr} = spawnSync('sh', ['-c', line.replace(/^kubectl/, '"$0" --server=http://127.0.0.1:1 --request-timeout=2s'), kubectl], {
        ...{encoding: 'utf8', input: '', env: {PATH: process.env['PATH'], HOME: '/nonexistent', EDITOR: 'true'}},
      });
      expect(`${line}: ${stderr}`).toMatch(/connect|refused/i);
    }
  });
});

/** A command without the names of objects: what kubectl parses alike. */
function shapeOf(line: string): string {
  return line.replace(/(pod|service|configmap)\/\S+/g, '$1').replace(/-n \S+|-l \S+|nodeName=\S+| -- .*/g, '');
}

test('findings of several endpoints of a Service port contain the number of its endpoints', async () => {
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
