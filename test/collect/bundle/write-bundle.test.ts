import {existsSync, mkdirSync, readFileSync, readdirSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';
import {refuseTarget, type BundleContent, type BundledNode, writeBundle} from '../../../src/collect/bundle/write-bundle.ts';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../../src/diagnose.ts';
import {noObjects, type Snapshot} from '../../../src/model/snapshot.ts';
import {captureNames, capturePath, snapshotOf} from '../../fixtures.ts';
import {filesOf, TestFolder} from '../bundle.ts';
import {someOf} from '../../cases.ts';

const folder = new TestFolder();

const record = {
  tool: {name: 'svc-trace', version: '1.2.3'},
  takenAt: '2026-11-21T09:31:23Z',
  origin: 'context prod',
  serverVersion: 'v1.36.2',
  redacted: false,
};

function contentOf({api, nodes, problems}: Pick<Snapshot, 'api' | 'nodes' | 'problems'>): BundleContent {
  return {record, api, nodes, problems};
}

function node(name: string, files: Readonly<Record<string, string>> = {}, rest: Partial<BundledNode> = {}): BundledNode {
  return {name, files: Object.keys(files), read: file => Buffer.from(files[file] ?? ''), ...rest};
}

const report = (snapshot: Snapshot) => diagnose(snapshot, {toolVersion: '0'});

let counter = 0;
const target = (name: string): string => join(folder.path, `${counter++}`, name);

describe('a written bundle is read back unchanged', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras', 'faults')))('%s', async name => {
    const before = await snapshotOf(name);
    const path = target('bundle.tgz');
    await writeBundle(path, contentOf(before));
    expect(report(await readBundle(path))).toEqual(report(before));
  });

  test('from a directory as from an archive, and tar converts one into the other', async () => {
    const before = await snapshotOf('faults/missing-endpoint');
    const [directory, archive] = [target('bundle'), target('bundle.tar.gz')];
    await writeBundle(directory, contentOf(before));
    await writeBundle(archive, contentOf(before));
    const unpacked = join(archive, '../unpacked');
    mkdirSync(unpacked);
    await execa('tar', ['xzf', archive, '-C', unpacked]);
    expect(readdirSync(unpacked)).toEqual(['bundle']);
    expect(filesOf(join(unpacked, 'bundle'))).toEqual(filesOf(directory));
  });

  test('with the file of the ServiceCIDRs only if they were read', async () => {
    const serviceCIDRs = [{metadata: {name: 'kubernetes'}, spec: {cidrs: ['10.96.0.0/16', 'fd00:96::/112']}}];
    const path = target('bundle');
    const before = {api: {...noObjects, services: [], serviceCIDRs}, nodes: [], problems: []};
    await writeBundle(path, contentOf({...before, nodes: [node('node-a')]}));
    expect((await readBundle(path)).api.serviceCIDRs?.map(({spec}) => spec?.cidrs)).toEqual([['10.96.0.0/16', 'fd00:96::/112']]);
    const without = target('without');
    await writeBundle(without, contentOf({...before, api: {...noObjects, services: []}, nodes: [node('node-a')]}));
    expect(existsSync(join(without, 'api/servicecidrs.json'))).toBe(false);
  });

  test('of chosen nodes only, without reporting the other nodes of the cluster as missing', async () => {
    const before = await snapshotOf('faults/missing-endpoint');
    const nodes = before.nodes.slice(1);
    const [whole, chosen] = [target('whole'), target('chosen')];
    await writeBundle(whole, contentOf({...before, nodes}));
    await writeBundle(chosen, {...contentOf({...before, nodes}), chosenNodes: true});
    expect(report(await readBundle(whole)).summary).toMatchObject({verdict: 'incomplete', nodesChecked: 2, nodesUnread: 1});
    expect(report(await readBundle(chosen)).summary).toMatchObject({verdict: 'findings', nodesChecked: 2, nodesUnread: 0});
  });

  test('dumps are written byte for byte', async () => {
    const path = target('bundle');
    await writeBundle(path, contentOf(await snapshotOf('healthy/1.36-iptables')));
    const dumps = (root: string) => Object.entries(filesOf(root)).filter(([file]) => file.startsWith('nodes/'));
    expect(dumps(path)).toEqual(dumps(capturePath('healthy/1.36-iptables')));
  });

  test('with a path that is too long for an archive header', async () => {
    const name = 'n'.repeat(240);
    const path = target('bundle.tgz');
    await writeBundle(path, contentOf({api: noObjects, problems: [], nodes: [node(name, {'iptables-save': '*nat\nCOMMIT\n'})]}));
    const {nodes} = await readBundle(path);
    expect(nodes.map(found => [found.name, found.read('iptables-save')?.toString()])).toEqual([[name, '*nat\nCOMMIT\n']]);
  });

  test.each(['bundle', 'bundle.tgz'])('as %s that only its owner may read', async name => {
    const path = target(name);
    await writeBundle(path, contentOf({api: noObjects, problems: [], nodes: [node('node-a', {'iptables-save': '*nat\nCOMMIT\n'})]}));
    expect((statSync(path).mode & 0o077).toString(8)).toBe('0');
  });

  test('into a folder that others may read, as files that only their owner may read', async () => {
    const path = target('open');
    mkdirSync(path, {recursive: true, mode: 0o755});
    await writeBundle(
      path,
      contentOf({api: {...noObjects, services: []}, problems: [], nodes: [node('node-a', {'iptables-save': '*nat\nCOMMIT\n'})]}),
    );
    const modes = readdirSync(path, {recursive: true}).map(file => [
      String(file),
      (statSync(join(path, String(file))).mode & 0o077).toString(8),
    ]);
    expect(modes.length).toBeGreaterThan(4);
    expect(modes.filter(([, mode]) => mode !== '0')).toEqual([]);
  });

  test('as an archive named like a folder of a bundle', async () => {
    const path = target('nodes.tgz');
    await writeBundle(path, contentOf(await snapshotOf('faults/missing-endpoint')));
    expect((await readBundle(path)).nodes.map(({name}) => name)).toEqual(['node-a', 'node-b', 'node-c']);
  });
});

describe('API objects', () => {
  const managed = {metadata: {name: 'web', namespace: 'shop', managedFields: [{manager: 'kubectl'}]}, spec: {type: 'ClusterIP'}};

  async function written(items: readonly object[]): Promise<string> {
    const path = target('bundle');
    await writeBundle(path, contentOf({api: {...noObjects, services: items as never}, nodes: [], problems: []}));
    return readFileSync(join(path, 'api/services.json'), 'utf8');
  }

  test('are a List as kubectl prints it', async () => {
    expect(await written([managed])).toBe(`{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "web",
                "namespace": "shop"
            },
            "spec": {
                "type": "ClusterIP"
            }
        }
    ],
    "kind": "List",
    "metadata": {
        "resourceVersion": ""
    }
}
`);
  });

  test('are without the last applied configuration, and keep other annotations', async () => {
    const annotations = {'kubectl.kubernetes.io/last-applied-configuration': '{"secret": 1}', team: 'a'};
    const items = [{metadata: {name: 'a', annotations}}, {metadata: {name: 'b', annotations: {...annotations, team: undefined}}}];
    const text = await written(items);
    expect(JSON.parse(text).items.map((item: {metadata: object}) => item.metadata)).toEqual([
      {name: 'a', annotations: {team: 'a'}},
      {name: 'b', annotations: {}},
    ]);
    expect(text).not.toContain('secret');
  });

  test('that were not read have no file, and an empty list has one', async () => {
    const path = target('bundle');
    await writeBundle(path, contentOf({api: {...noObjects, services: [], pods: null}, nodes: [], problems: []}));
    expect(readdirSync(join(path, 'api'))).toEqual(['services.json']);
    expect((await readBundle(path)).api).toMatchObject({services: [], pods: null});
  });
});

describe('snapshot.json', () => {
  test('contains when, by what, from where, and what failed on which node', async () => {
    const path = target('bundle');
    const problem = {node: 'node-c', message: 'iptables-save: killed', remedy: 'Try again.'};
    const nodes = [
      node('node-b', {}, {status: 'unread', reason: 'no pod to exec into', remedy: 'Use --transport ssh.'}),
      node('node-c', {}, {status: 'partial', problems: [problem]}),
      node(
        'node-a',
        {'iptables-save': '*nat\nCOMMIT\n'},
        {status: 'read', via: 'exec into x', missing: [{file: 'nft.json', reason: 'nft is not there'}]},
      ),
    ];
    await writeBundle(path, contentOf({api: noObjects, nodes, problems: [{message: 'pods: forbidden', isMinor: true}]}));
    expect(JSON.parse(readFileSync(join(path, 'snapshot.json'), 'utf8'))).toEqual({
      ...record,
      nodes: {
        'node-a': {status: 'read', via: 'exec into x', missing: [{file: 'nft.json', reason: 'nft is not there'}]},
        'node-b': {status: 'unread', reason: 'no pod to exec into', remedy: 'Use --transport ssh.'},
        'node-c': {status: 'partial'},
      },
      problems: [{message: 'pods: forbidden', isMinor: true}, problem],
    });
  });

  test('failures are known when the bundle is read, and are findings', async () => {
    const path = target('bundle.tgz');
    const why = {reason: 'no pod to exec into', remedy: 'Use --transport ssh.'};
    const problem = {node: 'node-c', message: 'iptables-save: killed', remedy: 'Try again.'};
    const nodes = [node('node-b', {sysctls: ''}, {status: 'unread', ...why}), node('node-c', {}, {problems: [problem]})];
    await writeBundle(path, contentOf({api: {...noObjects, services: []}, nodes, problems: []}));
    const read = await readBundle(path);
    expect({...read, nodes: read.nodes.map(({name, files}) => [name, files])}).toMatchObject({
      nodes: [['node-c', []]],
      unread: [{name: 'node-b', ...why}],
      problems: [problem],
      takenAt: record.takenAt,
      serverVersion: 'v1.36.2',
    });
    expect(report(read).findings).toContainEqual(
      expect.objectContaining({code: 'ST901', node: 'node-b', message: 'node-b was not checked: no pod to exec into', remedy: why.remedy}),
    );
  });

  test('a node that was unread is read if its dump was added by hand', async () => {
    const nodes = {'node-b': {status: 'unread', reason: 'no pod to exec into'}};
    const path = folder.bundle({'nodes/node-b/iptables-save': '*nat\nCOMMIT\n', 'snapshot.json': JSON.stringify({nodes})});
    const read = await readBundle(path);
    expect([read.nodes.map(({name}) => name), read.unread]).toEqual([['node-b'], undefined]);
  });

  test('of an earlier svc-trace has no version of the API server', async () => {
    const path = folder.bundle({'api/services.json': '{"items": []}', 'snapshot.json': '{"takenAt": "2026-11-21T09:31:23Z"}'});
    expect((await readBundle(path)).serverVersion).toBeUndefined();
  });

  test.each(['', '{', '[]', '{"nodes": 3, "serverVersion": 4, "problems": [1, {"message": 2}]}'])(
    'that contains %j is not used',
    async text => {
      const path = folder.bundle({'api/services.json': '{"items": []}', 'snapshot.json': text});
      expect((await readBundle(path)).nodes).toEqual([]);
    },
  );
});

describe('the target', () => {
  const content = contentOf({api: {...noObjects, services: []}, nodes: [], problems: []});

  test('is never overwritten if it is not empty', async () => {
    const path = folder.bundle({'notes.txt': 'mine'});
    await expect(writeBundle(path, content)).rejects.toThrow(/is not empty/);
    expect(readdirSync(path)).toEqual(['notes.txt']);
  });

  test('may be an empty directory', async () => {
    const path = folder.bundle({});
    await writeBundle(path, content);
    expect(readdirSync(path).sort()).toEqual(['api', 'snapshot.json']);
  });

  test.each(['old.tgz', 'plain'])('that is a file (%s) is left alone', async name => {
    const path = join(folder.bundle({[name]: 'mine'}), name);
    await expect(writeBundle(path, content)).rejects.toThrow(/is there already/);
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  test('cannot be standard output', async () => {
    await expect(writeBundle('-', content)).rejects.toThrow(/standard output/);
  });

  test.each(['bundle', 'bundle.tgz'])('%s is not created, nor anything else, if reading fails halfway', async name => {
    const path = target(name);
    const parent = join(path, '..');
    mkdirSync(parent, {recursive: true});
    async function* nodes() {
      yield node('node-a', {'iptables-save': 'x'.repeat(100_000)});
      throw new Error('the connection is gone');
    }
    await expect(writeBundle(path, {...content, nodes: nodes()})).rejects.toThrow('the connection is gone');
    expect(readdirSync(parent)).toEqual([]);
  });

  test.each(['bundle', 'a/b/bundle.tgz'])('below a file is refused before anything is read (%s)', name => {
    const file = join(folder.bundle({blocked: ''}), 'blocked');
    expect(() => refuseTarget(join(file, name))).toThrow(/^cannot write to .*: a part of the path is not a directory$/);
  });

  test('without a name is refused', () => {
    expect(() => refuseTarget('')).toThrow(/needs a name/);
  });

  test('that is an empty directory stays the same directory', async () => {
    const path = folder.bundle({});
    const {ino} = statSync(path);
    await writeBundle(path, content);
    expect(statSync(path).ino).toBe(ino);
  });

  test.each(['bundle', 'bundle.tgz'])('that another run writes meanwhile (%s) is left alone, and this bundle is kept', async name => {
    const path = target(name);
    async function* nodes() {
      yield node('second', {sysctls: ''});
      await writeBundle(path, {...content, nodes: [node('first', {sysctls: ''})]});
    }
    const second = writeBundle(path, {...content, nodes: nodes()});
    const message = await second.then(() => '', String);
    expect(message).toMatch(/was written meanwhile by another run, and is left as it is\. This bundle is /);
    const namesIn = async (bundle: string) => (await readBundle(bundle)).nodes.map(read => read.name);
    expect(await namesIn(path)).toEqual(['first']);
    expect(await namesIn(message.replace(/^.*This bundle is /, ''))).toEqual(['second']);
    expect(readdirSync(join(path, '..')).filter(entry => entry.includes('unfinished'))).toEqual([]);
  });
});

test.each(['../x', '..', '.', 'a/b', 'a\\b', 'a\nb', ''])('a node named %j is left out and reported', async name => {
  const path = target('bundle');
  const nodes = [node(name, {'iptables-save': 'x'}), node('node-a', {'iptables-save': '*nat\nCOMMIT\n'})];
  await writeBundle(path, contentOf({api: noObjects, nodes, problems: []}));
  expect(existsSync(join(path, '../x'))).toBe(false);
  const read = await readBundle(path);
  expect(read.nodes.map(found => found.name)).toEqual(['node-a']);
  expect(read.problems).toEqual([{message: expect.stringContaining('cannot be that of a folder')}]);
});

test('nodes are written one at a time: the next is requested when the last is written', async () => {
  const path = target('bundle');
  const written: string[] = [];
  async function* nodes() {
    for (const name of ['a', 'b', 'c']) {
      yield node(name, {sysctls: name});
      const unfinished = readdirSync(join(path, '..')).find(entry => entry.includes('unfinished')) ?? '';
      written.push(readFileSync(join(path, '..', unfinished, 'nodes', name, 'sysctls'), 'utf8'));
    }
  }
  await writeBundle(path, {...contentOf({api: noObjects, nodes: [], problems: []}), nodes: nodes()});
  expect(written).toEqual(['a', 'b', 'c']);
});
