import {execFileSync, spawnSync} from 'node:child_process';
import {hostname, networkInterfaces} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import type {CollectedNode} from '../../../src/collect/node/transport.ts';
import {localTransport} from '../../../src/collect/transports/local.ts';
import {readFixture} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import {nodeAt} from './sshd.ts';

const signal = new AbortController().signal;

describe('local', () => {
  test('a node that is not this machine is refused', async () => {
    const opening = localTransport().open(nodeAt('192.0.2.1', 'not-this-machine'), signal);
    await expect(opening).rejects.toThrow(/not-this-machine \(192\.0\.2\.1\) is not this machine .*--node/);
  });

  test('a loopback address does not identify a node as this machine', async () => {
    await expect(localTransport().open(nodeAt('127.0.0.1', 'not-this-machine'), signal)).rejects.toThrow('is not this machine');
  });

  test('this machine is identified by its name, and by an address', async () => {
    const own = Object.values(networkInterfaces())
      .flat()
      .find(entry => entry?.internal === false)?.address;
    const nodes = [nodeAt('192.0.2.1', hostname()), ...(own === undefined ? [] : [nodeAt(own, 'other-name')])];
    for (const node of nodes) {
      await using shell = await localTransport().open(node, signal);
      expect(shell.description).toBe('on this machine');
    }
  });

  test('a node that is the only one requested may have any name', async () => {
    await using shell = await localTransport({onlyNode: true}).open(nodeAt('192.0.2.1'), signal);
    expect((await shell.run(['printf', '%s', "$(id) 'x"], signal)).toString()).toBe("$(id) 'x");
    await expect(shell.run(['no-such-program'], signal)).rejects.toMatchObject({notFound: true});
    await expect(shell.run(['false'], signal)).rejects.toMatchObject({notFound: false, exitCode: 1});
    await expect(shell.run(['sleep', '60'], AbortSignal.timeout(100))).rejects.toMatchObject({exitCode: null});
  });

  test('passes output on while it arrives, and stores none of it', async () => {
    await using shell = await localTransport({onlyNode: true}).open(nodeAt('192.0.2.1'), signal);
    const parts: Buffer[] = [];
    const rest = await shell.run(['printf', '%s', 'one two'], signal, part => void parts.push(part));
    expect({taken: Buffer.concat(parts).toString(), rest: rest.length}).toEqual({taken: 'one two', rest: 0});
  });
});

describeWith(['root', 'netns', 'ip', 'iptables', 'conntrack'], 'local, with the rules of a capture in the kernel', () => {
  const namespace = `svc-trace-local-${process.pid}`;
  const capture = 'captures/healthy/1.36-iptables/nodes/node-a';
  let node: CollectedNode & {readonly contents: Readonly<Record<string, string>>};

  beforeAll(() => {
    execFileSync('ip', ['netns', 'add', namespace]);
    for (const tool of ['iptables', 'ip6tables']) inNamespace([`${tool}-nft-restore`], loadable(`${tool}-save`));
    inNamespace(['iptables-legacy-restore'], '*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n');
    node = JSON.parse(inNamespace([process.execPath, join(import.meta.dirname, 'collect-here.ts')]));
  });

  afterAll(() => {
    spawnSync('ip', ['netns', 'del', namespace]);
  });

  /** A dump of the capture without what needs a counter of nfacct, which few machines have. */
  function loadable(file: string): string {
    return readFixture(join(capture, file))
      .toString('utf8')
      .replace(/ -m nfacct --nfacct-name {1,2}\S+/g, '');
  }

  function inNamespace(argv: readonly string[], input?: string): string {
    return execFileSync('ip', ['netns', 'exec', namespace, ...argv], {
      encoding: 'utf8',
      input,
      maxBuffer: 1 << 28,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
  }

  function rulesOf(dump: string): readonly string[] {
    return dump.split('\n').filter(line => line.startsWith('-A '));
  }

  test('all required files are read', () => {
    expect(node).toMatchObject({status: 'read', problems: [], via: 'on this machine'});
  });

  test('the rules are those of the capture', () => {
    for (const file of ['iptables-save', 'ip6tables-save']) {
      const captured = rulesOf(loadable(file));
      expect(captured.length).toBeGreaterThan(10);
      expect([...rulesOf(node.contents[file] ?? '')].sort()).toEqual([...captured].sort());
    }
  });

  test('the other backend is read if it contains rules, and the one in use not twice', () => {
    expect(rulesOf(node.contents['iptables-legacy-save'] ?? '')).toEqual(['-A PREROUTING -j KUBE-SERVICES']);
    expect(node.files).not.toContain('iptables-nft-save');
    expect(node.files).not.toContain('ip6tables-legacy-save');
  });

  test('addresses, settings and versions are as a bundle has them', () => {
    expect(JSON.parse(node.contents['addresses.json'] ?? '')).toMatchObject([{ifname: 'lo'}]);
    expect(node.contents['iptables-version']).toMatch(/^iptables-save v.* \(nf_tables\)/);
    expect(node.contents['sysctls']).toMatch(/^net\.ipv4\.ip_forward = \d$/m);
    expect(node.contents['sysctls']).toMatch(/^net\.netfilter\.nf_conntrack_tcp_be_liberal = \d$/m);
    expect(node.files).toContain('conntrack');
  });

  test('missing files are no problem', () => {
    expect(node.missing.map(({file}) => file)).toEqual(expect.arrayContaining(['kube-proxy-version', 'healthz.json', 'configz.json']));
  });
});
