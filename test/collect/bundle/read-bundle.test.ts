import {mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync} from 'node:fs';
import {join, relative} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {create} from 'tar';
import {describe, expect, test} from 'vitest';
import {readBundle, UnreadableBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../../src/diagnose.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {captureNames, capturePath, fixture, snapshotOf} from '../../fixtures.ts';
import {findingsOf} from '../../scenario.ts';
import {filesOf, TestFolder} from '../bundle.ts';
import {someOf} from '../../cases.ts';

const folder = new TestFolder();
const capture = capturePath('healthy/1.36-iptables');

describe('a directory', () => {
  test.each([
    ['an absolute path', capture],
    ['a path with a slash at its end', `${capture}/`],
    ['a path with two slashes and a dot in it', capture.replace('/healthy/', '//./healthy/')],
    ['a relative path', relative(process.cwd(), capture)],
    ['a relative path that begins with a dot', `./${relative(process.cwd(), capture)}`],
  ])('is read by %s', async (_, path) => {
    const {nodes, api, problems} = await readBundle(path);
    expect({nodes: nodes.map(({name}) => name), services: api.services?.length, problems}).toEqual({
      nodes: ['node-a', 'node-b', 'node-c'],
      services: JSON.parse(readFileSync(join(capture, 'api/services.json'), 'utf8')).items.length,
      problems: [],
    });
  });

  test('has nodes whose folders are links, and ends at links in a circle and to nowhere', async () => {
    const path = folder.bundle({'api/services.json': '{"kind":"ServiceList","items":[]}'});
    mkdirSync(join(path, 'nodes'));
    mkdirSync(join(path, 'dumps'));
    writeFileSync(join(path, 'dumps/iptables-save'), readFileSync(join(capture, 'nodes/node-a/iptables-save')));
    symlinkSync('../dumps', join(path, 'nodes/node-a'));
    symlinkSync('nowhere', join(path, 'nodes/node-b'));
    symlinkSync('.', join(path, 'nodes/node-c'));
    const {nodes} = await readBundle(path);
    expect(nodes.map(({name}) => name)).toEqual(['node-a']);
    expect(nodes[0]?.read('iptables-save')).toEqual(readFileSync(join(capture, 'nodes/node-a/iptables-save')));
  });

  test('is read without what links lead to outside of it, and names them', async () => {
    const path = folder.bundle({'api/services.json': '{"kind":"ServiceList","items":[]}', 'nodes/node-a/iptables-save': '*nat\nCOMMIT\n'});
    writeFileSync(join(folder.path, 'secret'), 'secret');
    symlinkSync(join(folder.path, 'secret'), join(path, 'nodes/node-a/kube-proxy.log'));
    symlinkSync('../../secret', join(path, 'api/pods.json'));
    symlinkSync(join(capture, 'nodes/node-b'), join(path, 'nodes/node-b'));
    const {nodes, api, problems} = await readBundle(path);
    expect(nodes.map(({name, files}) => [name, files])).toEqual([['node-a', ['iptables-save']]]);
    expect([nodes[0]?.read('kube-proxy.log'), api.pods]).toEqual([null, null]);
    expect(problems.map(({message}) => message)).toEqual(
      ['api/pods.json', 'nodes/node-a/kube-proxy.log', 'nodes/node-b'].map(
        link => `${link} was not read: it is a link out of the bundle. Copy the file in its place`,
      ),
    );
  });

  test('that is not a bundle is refused with the missing file', async () => {
    const path = folder.bundle({'readme.txt': 'hello'});
    await expect(readBundle(path)).rejects.toThrow('it has neither api/services.json nor nodes/NODE/iptables-save');
  });

  test('names what is wrong with its lists in their order, not in that of reading', async () => {
    const path = folder.bundle({
      'api/endpointslices.json': '{}',
      'api/services.json': '{"items":[]}',
      'api/nodes.json': '{',
      'api/endpoints.json': '[]',
    });
    const {problems} = await readBundle(path);
    expect(problems.map(({message, list}) => [message.split(' ')[0], list])).toEqual([
      ['api/endpointslices.json', 'endpointSlices'],
      ['api/endpoints.json', 'endpoints'],
      ['api/nodes.json', undefined],
    ]);
  });

  test.each([
    ['an item of its Nodes is left out', '{"items":[{}]}', 'api/nodes.json: item 0 is left out: it has no metadata'],
    ['its Nodes are the first page of more', '{"metadata":{"continue":"x"},"items":[]}', 'only the first page of a longer list'],
    ['it has files of nodes and no Nodes', '{"items":[]}', 'api/nodes.json has no Nodes, and the bundle has files of nodes'],
  ])('does not take a node for unknown where %s', async (_, list, problem) => {
    const snapshot = await readBundle(folder.bundle({...filesOf(capture), 'api/nodes.json': list}));
    expect(snapshot.problems.map(({message}) => message)).toEqual([expect.stringContaining(problem)]);
    expect(snapshot.api.nodes).toBeNull();
    const codes = findingsOf(snapshot).map(({code}) => code);
    expect(codes).not.toContain('ST108');
    expect(codes).not.toContain('ST109');
  });

  test('that links to itself, or holds a pipe, is read to its end', async () => {
    const root = folder.bundle(filesOf(capture));
    symlinkSync('.', join(root, 'nodes/node-a/again'));
    symlinkSync('../..', join(root, 'nodes/node-b/top'));
    await execa('mkfifo', [join(root, 'nodes/node-c/pipe'), join(root, 'api/pods.json.fifo')]);
    rmSync(join(root, 'snapshot.json'), {force: true});
    await execa('mkfifo', [join(root, 'snapshot.json')]);
    expect((await readBundle(root)).nodes.map(({name}) => name)).toEqual(['node-a', 'node-b', 'node-c']);
  });

  test('with files larger than a text can be names them, and reads all others', async () => {
    const path = folder.bundle({
      'api/services.json': '{"items":[]}',
      'api/nodes.json': '',
      'nodes/node-a/iptables-save': '',
      'nodes/node-a/sysctls': 'net.ipv4.ip_forward = 1\n',
      'nodes/node-a/links.json': '',
      'nodes/node-a/metrics': '',
    });
    truncateSync(join(path, 'nodes/node-a/links.json'), 65 << 20);
    truncateSync(join(path, 'nodes/node-a/metrics'), 5 << 20);
    // Without content on the disk.
    for (const file of ['api/nodes.json', 'nodes/node-a/iptables-save']) truncateSync(join(path, file), 600 << 20);
    const {api, nodes, problems} = await readBundle(path);
    const tooLarge = 'it has 600 MiB, and of one file at most 512 MiB are read';
    const links = {file: 'links.json', reason: 'it has 65 MiB, and of one file at most 64 MiB are read'};
    const metrics = {file: 'metrics', reason: 'it has 5 MiB, and of one file at most 4 MiB are read'};
    expect(api.services).toEqual([]);
    const remedy = 'Write the file again: nothing of it was read.';
    expect(problems).toEqual([{message: `api/nodes.json was not read: ${tooLarge}`, remedy}]);
    expect(nodes).toMatchObject([
      {name: 'node-a', files: ['sysctls'], missing: [{file: 'iptables-save', reason: tooLarge}, links, metrics]},
    ]);
    const dump = join(path, 'nodes/node-a/iptables-save');
    await expect(readBundle(dump)).rejects.toThrow(`cannot read the bundle ${dump}: ${tooLarge}`);
  });

  test('that does not exist is refused', async () => {
    await expect(readBundle(join(folder.path, 'nowhere'))).rejects.toThrow(UnreadableBundle);
  });
});

test('a folder with a bundle further below is refused with the path of the bundle', async () => {
  const root = folder.bundle(withTop('ticket/dumps/bundle/'));
  await expect(readBundle(root)).rejects.toThrow(`is a folder of 1 bundle: ${join(root, 'ticket/dumps/bundle')}. Name it`);
});

test('folders of sources that are called api and nodes are no bundles below a folder', async () => {
  const root = folder.bundle({'package/lib/api/index.js': '', 'src/run/nodes/read.ts': '', 'node_modules/a/b/api/services.json': '{}'});
  await expect(readBundle(root)).rejects.toThrow('is no bundle: it has neither api/services.json nor');
});

describe('an archive', () => {
  test.each([
    ['bundle.tgz', true, 'with a top folder', ['bundle']],
    ['bundle.tar', false, 'with a top folder', ['bundle']],
    ['bundle.tgz', true, 'below several folders', ['ticket/node-dumps/bundle']],
    ['bundle.tgz', true, 'without one', ['api', 'nodes']],
    ['bundle.tgz', true, 'whose paths begin with a dot', ['.']],
  ] as const)('%s (gzipped: %s), %s, gives what the directory gives', async (name, gzip, _, entries) => {
    const root = folder.bundle(withTop(entries[0].endsWith('bundle') ? `${entries[0]}/` : ''));
    const file = join(folder.path, name);
    await create({file, gzip, cwd: root}, [...entries]);
    expect(view(await readBundle(file))).toEqual(view(await snapshotOf('healthy/1.36-iptables')));
  });

  test('that is truncated is refused, not read as a smaller bundle', async () => {
    const file = join(folder.path, 'whole.tgz');
    await create({file, gzip: true, cwd: capture}, ['api', 'nodes']);
    const cut = join(folder.path, 'cut.tgz');
    writeFileSync(cut, readFileSync(file).subarray(0, 20_000));
    await expect(readBundle(cut)).rejects.toThrow(/cannot read the bundle .*cut\.tgz/);
  });

  describe('that is made to fill the memory', () => {
    const zeros = Buffer.alloc(16 << 20);

    async function archive(files: Readonly<Record<string, Buffer>>): Promise<string> {
      const root = folder.bundle({...filesOf(capture), ...files});
      const file = join(folder.path, `${Object.keys(files).join('-').replaceAll('/', '_')}.tgz`);
      await create({file, gzip: true, cwd: root}, ['.']);
      return file;
    }

    test('is read without the files that nothing reads', async () => {
      const names = ['junk', 'api/more/services.json', 'nodes/node-a/core', 'nodes/node-a/deep/iptables-save'];
      const file = await archive(Object.fromEntries(names.map(name => [name, zeros])));
      const {nodes} = await readBundle(file, {archiveLimit: 15 << 20});
      expect(nodes.map(({name, files}) => [name, files.includes('core')])).toEqual(
        ['node-a', 'node-b', 'node-c'].map(name => [name, false]),
      );
    });

    test('is refused where a file is larger than half of the limit', async () => {
      await expect(readBundle(await archive({'nodes/node-a/metrics': zeros}), {archiveLimit: 26 << 20})).rejects.toThrow(
        /nodes\/node-a\/metrics in it has 16 MiB: at most 26 MiB are read, and 13 MiB of one file \(--max-archive-size raises both\)$/,
      );
    });

    test('is refused where all files together are larger than the limit', async () => {
      const file = await archive({'nodes/x/metrics': zeros, 'nodes/y/metrics': zeros, 'nodes/z/metrics': zeros});
      await expect(readBundle(file, {archiveLimit: 33 << 20})).rejects.toThrow(/its files have over 33 MiB/);
      expect((await readBundle(file, {archiveLimit: 65 << 20})).nodes).toHaveLength(6);
    });
  });

  test('is read through a pipe by the built program', async () => {
    const file = join(folder.path, 'piped.tgz');
    await create({file, gzip: true, cwd: capture}, ['api', 'nodes']);
    const executable = join(import.meta.dirname, '../../../bin/run.js');
    const {stdout, exitCode} = await execa(process.execPath, [executable, 'check', '-A', '--from', '-', '-o', 'json'], {
      input: readFileSync(file),
      reject: false,
    });
    expect({nodes: JSON.parse(stdout).summary.nodesChecked, exitCode}).toEqual({nodes: 3, exitCode: 0});
  });
});

describe('a bare dump', () => {
  const dump = join(capture, 'nodes/node-a/iptables-save');

  test('is one node, which cannot be checked without the API objects', async () => {
    const snapshot = await readBundle(dump);
    expect(snapshot.nodes.map(({name, files}) => ({name, files}))).toEqual([{name: 'iptables-save', files: ['iptables-save']}]);
    expect(findingsOf(snapshot).map(({code, message}) => ({code, message}))).toEqual([
      {code: 'ST901', message: expect.stringContaining('the Services were not read')},
    ]);
  });

  test('of ip6tables-save is recognized by its header', async () => {
    expect((await readBundle(join(capture, 'nodes/node-a/ip6tables-save'))).nodes[0]?.files).toEqual(['ip6tables-save']);
  });

  test.each(['txt', 'json'])('of nft is recognized by its start: %s', async type => {
    const snapshot = await readBundle(fixture(`captures/nftables/1.36/nodes/node-a/nft.${type}`));
    expect(snapshot.nodes.map(({name, files}) => ({name, files}))).toEqual([{name: `nft.${type}`, files: ['nft.json']}]);
  });

  const neither = 'is neither a bundle nor a dump of iptables-save or nft';
  test.each([
    ['text', 'Dear Sir or Madam\n', neither],
    ['JSON', '{"items": []}', neither],
    ['bytes', Buffer.from(Array.from({length: 4096}, (_, index) => (index * 7919) % 256)), neither],
    [
      'rows of a listing',
      '$ iptables -nL | grep web\nDROP       tcp  --  0.0.0.0/0            0.0.0.0/0\n',
      'on line 2: paste the whole listing',
    ],
    [
      'kube-ipvs0',
      '4: kube-ipvs0: <BROADCAST,NOARP> mtu 1500\n    inet 10.96.0.1/32 scope global\n',
      'addresses of kube-ipvs0, which is DOWN and NOARP wherever kube-proxy works, in which nothing',
    ],
    [
      'a description of a Service without endpoints',
      '> Name:         web\n> Namespace:    shop\n> Selector:     app=web\n> Endpoints:    <none>\n',
      'shop/web: no endpoint: kube-proxy refuses connections by design. Which pods it selects: kubectl get pods -n shop -l app=web',
    ],
    [
      'a description of Endpoints that are not ready',
      'Name: web\nNamespace: shop\nSubsets:\n  Addresses:          <none>\n  NotReadyAddresses:  10.244.0.9\n',
      'None of the addresses of shop/web is ready (10.244.0.9)',
    ],
  ])('that is %s is refused with what it is', async (_, content, why) => {
    await expect(readBundle(join(folder.bundle({file: content}), 'file'))).rejects.toThrow(why);
  });

  test('that is a list of tracked connections is told from rules, with where its first one leads', async () => {
    const flow = (to: string) =>
      `udp 17 29 src=172.18.0.1 dst=10.10.10.10 sport=6000 dport=80 [UNREPLIED] src=${to} dst=172.18.0.2 sport=80 dport=6000\n`;
    const refusal = async (to: string) => {
      const path = join(folder.bundle({file: flow(to)}), 'file');
      await readBundle(path);
    };
    await expect(refusal('10.10.10.10')).rejects.toThrow(
      'is a list of tracked connections, without rules: of the tracked connection on line 1, no rule translated 10.10.10.10',
    );
    await expect(refusal('10.244.1.7')).rejects.toThrow('packets go to 10.244.1.7:80');
    const opening = `tcp 6 119 SYN_SENT src=172.18.0.1 dst=10.10.10.10 sport=6000 dport=80 [UNREPLIED] src=10.244.1.7 dst=172.18.0.2 sport=80 dport=6000\n`;
    await expect(readBundle(join(folder.bundle({file: opening}), 'file'))).rejects.toThrow(
      '1 connection to 10.10.10.10:80 waits for 10.244.1.7:80: it does not answer',
    );
    // Of several, the one that goes nowhere.
    const both = join(folder.bundle({file: `${flow('10.244.1.7')}${flow('10.10.10.10')}`}), 'file');
    await expect(readBundle(both)).rejects.toThrow('of the tracked connection on line 2, no rule translated 10.10.10.10');
    // Or that goes to none of the endpoints that kubectl lists.
    const lists = (end: string) =>
      `NAME  TYPE       CLUSTER-IP   EXTERNAL-IP  PORT(S)  AGE\nweb   ClusterIP  10.10.10.10  <none>       80/UDP   3d\n\nNAME  ENDPOINTS  AGE\nweb   ${end}  3d\n\n`;
    const beside = (end: string) => join(folder.bundle({file: `${lists(end)}${flow('10.244.1.9')}${flow('10.244.1.7')}`}), 'file');
    await expect(readBundle(beside('10.244.1.9:80'))).rejects.toThrow(
      'of the tracked connection on line 8, packets go to 10.244.1.7:80, which is none of the endpoints that kubectl lists (10.244.1.9:80), and go there as long as they come',
    );
    await expect(readBundle(beside('10.244.1.7:80,10.244.1.9:80'))).rejects.toThrow(
      'is what kubectl prints, without rules. To see what a node does',
    );
    // A connection of the text does not hide what else it shows.
    const described = `Name: web\nNamespace: shop\nSelector: app=web\nEndpoints: <none>\n\n${flow('10.244.1.7')}`;
    await expect(readBundle(join(folder.bundle({file: described}), 'file'))).rejects.toThrow('shop/web: no endpoint');
  });

  test('that is empty is said to be empty', async () => {
    await expect(readBundle(join(folder.bundle({file: ''}), 'file'))).rejects.toThrow('/file is empty');
  });
});

describe('a dump of some megabytes, which is read while objects are parsed', () => {
  const dump = readFileSync(join(capture, 'nodes/node-a/iptables-save'));
  const large = Buffer.concat([dump, Buffer.alloc(5 << 20, '# a comment of the firewall on this node\n')]);
  const file = 'nodes/node-a/iptables-save';

  test('is its file byte for byte, also when it is read again', async () => {
    const {nodes} = await readBundle(folder.bundle({'api/services.json': '{"items":[]}', [file]: large}));
    const [first, second] = [nodes[0]?.read('iptables-save'), nodes[0]?.read('iptables-save')];
    expect([first?.equals(large), second?.equals(large)]).toEqual([true, true]);
  });

  test('is in memory before it is needed, and dropped when it was read', async () => {
    const path = folder.bundle({'api/services.json': '{"items":[]}', [file]: large});
    const {nodes} = await readBundle(path);
    writeFileSync(join(path, file), dump);
    const [first, second] = [nodes[0]?.read('iptables-save'), nodes[0]?.read('iptables-save')];
    expect([first?.equals(large), second?.equals(dump)]).toEqual([true, true]);
  });

  test('has its byte-order mark removed', async () => {
    const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), large]);
    const {nodes} = await readBundle(folder.bundle({'api/services.json': '{"items":[]}', [file]: marked}));
    expect(nodes[0]?.read('iptables-save')?.equals(large)).toBe(true);
  });

  test('is not read before it is needed where there are several nodes, which may not all be wanted', async () => {
    const path = folder.bundle({'api/services.json': '{"items":[]}', [file]: large, 'nodes/node-b/iptables-save': dump});
    const {nodes} = await readBundle(path);
    writeFileSync(join(path, file), dump);
    expect(nodes[0]?.read('iptables-save')?.equals(dump)).toBe(true);
  });
});

describe('files as Windows writes them', () => {
  test.each([
    ['a UTF-8 byte-order mark', (text: string) => Buffer.from(`\ufeff${text}`)],
    ['UTF-16, as PowerShell 5.1 redirects output', (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')],
    ['UTF-16 with the higher byte first', (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le').swap16()],
    ['lines that end in CR LF', (text: string) => Buffer.from(text.replaceAll('\n', '\r\n'))],
    ['lines that end in CR CR LF', (text: string) => Buffer.from(text.replaceAll('\n', '\r\r\n'))],
  ])('%s: nothing else is found', async (_, change) => {
    const names = someOf(['healthy/1.36-iptables', 'ipvs/1.36', 'nftables/1.36', ...captureNames('faults')]);
    for (const name of names) {
      const files = Object.entries(filesOf(capturePath(name))).map(([path, content]) => [path, change(content.toString())] as const);
      const snapshot = await readBundle(folder.bundle(Object.fromEntries(files)));
      expect(findingsOf(snapshot), name).toEqual(findingsOf(await snapshotOf(name)));
    }
  });
});

function withTop(top: string): Record<string, Buffer> {
  return Object.fromEntries(Object.entries(filesOf(capture)).map(([path, content]) => [`${top}${path}`, content]));
}

function view(snapshot: Snapshot): unknown {
  const {nodes, findings} = diagnose(snapshot, {toolVersion: '0.0.0'});
  return {nodes, findings, problems: snapshot.problems};
}
