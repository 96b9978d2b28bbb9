import {mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../src/diagnose.ts';
import {describeWith} from '../require.ts';
import {endpointChain, servicePortHash} from './chain-names.ts';
import type {ClusterSize} from './cluster-size.ts';
import {writeCluster} from './synthetic-cluster.ts';

const sizes = {
  small: {services: 40, endpoints: 5, nodes: 2, seed: 1},
  // More than 1,000 endpoints in IPv4, fewer in IPv6: only the first loses its comments.
  large: {services: 40, endpoints: 40, nodes: 2, seed: 2},
  nftables: {services: 60, endpoints: 5, nodes: 2, seed: 1, proxyMode: 'nftables'},
} as const satisfies Record<string, ClusterSize>;
const iptables = ['small', 'large'] as const;

let temp: string;

beforeAll(() => {
  temp = mkdtempSync(join(tmpdir(), 'svc-trace-cluster-'));
  for (const [name, size] of Object.entries(sizes)) writeCluster(join(temp, name), size);
});

afterAll(() => rmSync(temp, {recursive: true}));

function dump(cluster: string, program: string): string {
  return ['worker-00000', 'worker-00001'].map(node => readFileSync(join(temp, cluster, 'nodes', node, program), 'utf8')).join('');
}

/** What does not depend on when a dump was taken. */
function withoutTimes(text: string): string[] {
  return text.split('\n').filter(line => line !== '' && !line.startsWith('#'));
}

describeWith(['netns', 'iptables-nft-restore', 'ip6tables-nft-restore'], 'the kernel takes the rules and gives back the same text', () => {
  const path = `${process.env['PATH']}:/usr/sbin:/sbin`;
  const cases = iptables.flatMap(cluster =>
    ['worker-00000', 'worker-00001'].flatMap(node => ['iptables', 'ip6tables'].map(program => ({cluster, node, program}))),
  );

  test.each(cases)('$cluster, $node, $program', async ({cluster, node, program}) => {
    const file = join(temp, cluster, 'nodes', node, `${program}-save`);
    const script = `${program}-nft-restore "$1" && ${program}-nft-save`;
    const {stdout} = await execa('unshare', ['--net', 'sh', '-c', script, 'sh', file], {env: {PATH: path}});
    expect(withoutTimes(stdout)).toEqual(withoutTimes(readFileSync(file, 'utf8')));
  });
});

describeWith(['netns', 'nft'], 'the kernel takes the table of nftables mode and gives back the same objects', () => {
  test.each(['worker-00000', 'worker-00001'])('%s', async node => {
    const file = join(temp, 'nftables', 'nodes', node, 'nft.json');
    const env = {PATH: `${process.env['PATH']}:/usr/sbin:/sbin`};
    const toLoad = join(temp, `${node}.json`);
    writeFileSync(toLoad, chainsFirst(readFileSync(file, 'utf8')));
    const {stdout} = await execa('unshare', ['--net', 'sh', '-c', 'nft -j -f "$1" && nft -j list ruleset', 'sh', toLoad], {env});
    expect(nftObjects(stdout)).toEqual(nftObjects(readFileSync(file, 'utf8')));
  });

  /** nft prints sets first, and takes no element that leads to a chain before the chain. */
  function chainsFirst(text: string): string {
    const {nftables} = JSON.parse(text) as {nftables: readonly object[]};
    const kinds = ['metainfo', 'table', 'chain', 'set', 'map', 'rule'];
    return JSON.stringify({nftables: kinds.flatMap(kind => nftables.filter(object => kind in object))});
  }

  /** Without what a kernel numbers or orders by itself. */
  function nftObjects(text: string): readonly string[] {
    const {nftables} = JSON.parse(text) as {nftables: readonly object[]};
    const sortedElements = (key: string, value: unknown): unknown =>
      key === 'handle' ? undefined : key === 'elem' && Array.isArray(value) ? value.map(one => JSON.stringify(one)).sort() : value;
    return nftables
      .slice(1)
      .map(object => JSON.stringify(object, sortedElements))
      .sort();
  }
});

test('svc-trace reports the nftables table as in sync', async () => {
  const snapshot = await readBundle(join(temp, 'nftables'));
  const {findings, summary} = diagnose(snapshot, {toolVersion: '0.0.0', nodes: name => snapshot.nodes.some(node => node.name === name)});
  expect(summary.nodesChecked).toBe(2);
  expect(findings.filter(({code, severity}) => severity !== 'info' && !code.startsWith('ST1'))).toEqual([]);
});

describe('every kind of rule occurs', () => {
  test.each([
    ['a Service without endpoints', /^-A KUBE-SERVICES .* has no endpoints".* -j REJECT/m],
    ['a node port without endpoints', /^-A KUBE-EXTERNAL-SERVICES -p .* has no endpoints".*--dst-type LOCAL .* -j REJECT/m],
    ['a local Service without a local endpoint', /^-A KUBE-SERVICES .* has no local endpoints".* -j DROP/m],
    ['a load balancer without a local endpoint', /^-A KUBE-EXTERNAL-SERVICES -d .* has no local endpoints".* -j DROP/m],
    ['a health check port', /^-A KUBE-NODEPORTS .* health check node port".* -j ACCEPT/m],
    ['a load balancer with source ranges', /^-A KUBE-PROXY-FIREWALL .* -j DROP/m],
    ['a node port', /^-A KUBE-NODEPORTS .* -j KUBE-EXT-/m],
    ['an external IP', /^-A KUBE-SERVICES .* external IP".* -j KUBE-EXT-/m],
    ['a load balancer that may send from its own address', /^-A KUBE-FW-\S+ -s 198\.18\.\S+\/32 /m],
    ['a balancer over local endpoints', /^-A KUBE-SVL-\S+ .* -j KUBE-SEP-/m],
    ['a sticky Service', /^-A KUBE-SVC-\S+ .* --rcheck --seconds 10800 --reap /m],
    ['a UDP Service', /^-A KUBE-SEP-\S+ -p udp .* -m udp -j DNAT/m],
  ])('%s', (_, rule) => {
    expect(dump('small', 'iptables-save') + dump('large', 'iptables-save')).toMatch(rule);
  });

  test('comments at endpoints only below the large-cluster limit, for each family by itself', () => {
    const commented = /^-A KUBE-SEP-\S+ -s \S+ -m comment /m;
    const bare = /^-A KUBE-SEP-\S+ -s \S+ -j KUBE-MARK-MASQ$/m;
    expect(dump('small', 'iptables-save')).toMatch(commented);
    expect(dump('small', 'iptables-save')).not.toMatch(bare);
    expect(dump('large', 'iptables-save')).toMatch(bare);
    expect(dump('large', 'iptables-save')).not.toMatch(commented);
    expect(dump('large', 'ip6tables-save')).toMatch(commented);
  });
});

describe('a synthetic cluster', () => {
  const text = (dir: string) =>
    readdirSync(dir, {recursive: true, withFileTypes: true})
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name))
      .sort()
      .map(file => file.slice(dir.length) + readFileSync(file, 'utf8'));

  test('is the same in every run for one seed', () => {
    writeCluster(join(temp, 'again'), sizes.small);
    expect(text(join(temp, 'again'))).toEqual(text(join(temp, 'small')));
  });

  test('differs for another seed', () => {
    writeCluster(join(temp, 'other'), {...sizes.small, seed: 3});
    expect(text(join(temp, 'other'))).not.toEqual(text(join(temp, 'small')));
  });
});

test('chain names are those that kube-proxy derives', () => {
  const https = {name: 'https', protocol: 'TCP', port: 443, targetPort: 6443, nodePort: 0} as const;
  const http = {...https, name: 'http'};
  expect(servicePortHash('default/kubernetes:https', https)).toBe('NPX46M4PTMTKRN6Y');
  expect(endpointChain('default/nginx:http', http, '192.168.196.131:80')).toBe('KUBE-SEP-5V2UTJDVBQ73MZHD');
  expect(endpointChain('default/kubernetes:https', https, '[fd00::1]:6443')).toBe('KUBE-SEP-7YRPYSN65VLT7QRK');
});
