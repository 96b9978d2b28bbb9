import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {firstCommands, furtherCommands} from '../../src/collect/node/node-commands.ts';
import {deployFolder} from './overlays.ts';

describe('the image of the agents', () => {
  const text = readFileSync(join(deployFolder, 'Dockerfile'), 'utf8');
  const packages = /apt-get install -y --no-install-recommends (.*?) \\/.exec(text)?.[1]?.split(' ') ?? [];
  /** Which package of Debian has which programs. `grep` is in every image; `kube-proxy` is in none, and its version is known by its pod. */
  const programs: Readonly<Record<string, readonly string[]>> = {
    conntrack: ['conntrack'],
    curl: ['curl'],
    iproute2: ['ip'],
    ipset: ['ipset'],
    iptables: ['iptables', 'iptables-save', 'ip6tables-save', ...backends('iptables'), ...backends('ip6tables')],
    ipvsadm: ['ipvsadm', 'ipvsadm-save'],
    nftables: ['nft'],
  };

  function backends(tool: string): readonly string[] {
    return ['nft', 'legacy'].map(backend => `${tool}-${backend}-save`);
  }

  test('has exactly the programs that read a node', () => {
    const everything = new Map([
      ['addresses.json', Buffer.from('"kube-ipvs0"')],
      ['proxy-mode', Buffer.from('nftables')],
    ]);
    const asked = new Set(
      [...firstCommands, ...furtherCommands(everything)].flatMap(
        ({variants}) => variants[0]?.commands.map(([program = '']) => program) ?? [],
      ),
    );
    const there = new Set(packages.flatMap(name => programs[name] ?? []));
    expect([...asked].filter(program => !there.has(program))).toEqual(['grep', 'kube-proxy']);
    expect(packages.filter(name => !programs[name]?.some(program => asked.has(program)))).toEqual([]);
  });
});
