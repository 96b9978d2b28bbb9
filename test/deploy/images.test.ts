import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {expect, test} from 'vitest';
import {firstCommands, furtherCommands, journal, versionCommand} from '../../src/collect/node/node-commands.ts';
import {deployFolder} from './overlays.ts';

const files = readFileSync(join(deployFolder, 'images/root-file-system'), 'utf8');
/** Which package of Debian has which programs, of those that an agent may run. */
const programs: Readonly<Record<string, readonly string[]>> = {
  conntrack: ['conntrack'],
  curl: ['curl'],
  grep: ['grep'],
  iproute2: ['ip'],
  ipset: ['ipset'],
  iptables: ['iptables', 'ip6tables'].flatMap(tool => [tool, ...['', '-nft', '-legacy'].map(backend => `${tool}${backend}-save`)]),
  ipvsadm: ['ipvsadm'],
  nftables: ['nft'],
};

test('the image of the agents has exactly the packages whose programs read a node', () => {
  const everything = new Map([
    ['addresses.json', Buffer.from('"kube-ipvs0"')],
    ['proxy-mode', Buffer.from('nftables')],
    ['conntrack-stats', Buffer.from('')],
  ]);
  const packages = (/^ +packages=(.*curl.*)$/m.exec(files)?.[1] ?? '').split(',');
  const there = new Set(packages.flatMap(name => programs[name] ?? []));
  const used = new Set<string>();
  const unread: string[] = [];
  for (const {file, variants} of [versionCommand, ...firstCommands, ...furtherCommands(everything), journal]) {
    const variant = variants.find(({commands}) => commands.every(([program = '']) => there.has(program)));
    for (const [program = ''] of variant?.commands ?? []) used.add(program);
    if (variant === undefined) unread.push(file);
  }
  // The version of kube-proxy is that of its pod, and its log is not read by an agent: the journal of the node is not in the container.
  expect(unread).toEqual(['kube-proxy-version', 'kube-proxy.log']);
  expect(packages.filter(name => !programs[name]?.some(program => used.has(program)))).toEqual([]);
});

test('the images are built from base images of a fixed digest, and run as nobody where they can', () => {
  const text = readFileSync(join(deployFolder, 'images/Dockerfile'), 'utf8');
  expect(readFileSync(join(deployFolder, '../.devcontainer/Dockerfile'), 'utf8')).toContain(
    /^FROM (node:\S+@sha256:\S+) AS node$/m.exec(text)?.[1],
  );
  const stages = new Set([...text.matchAll(/ AS (\S+)$/gm)].map(([, name = '']) => name));
  const bases = [...text.matchAll(/^FROM (?:--platform=\S+ )?(\S+)/gm)].map(([, base = '']) => base).filter(base => !stages.has(base));
  expect(bases.filter(base => base !== 'scratch' && !/^[\w./:-]+@sha256:[0-9a-f]{64}$/.test(base))).toEqual([]);
  expect([...text.matchAll(/^USER (.*)$/gm)].map(([, user]) => user)).toEqual(['65534:65534', '0:0']);
});
