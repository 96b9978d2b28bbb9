/** What `rules` prints is loaded by the tools that it is meant for. */
import {expect, test} from 'vitest';
import {capturePath} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {svcTrace} from '../svc-trace.ts';
import {Namespace} from './kernel/namespace.ts';

const services = ['rules', '-A', '--for-node', 'node-a'];

describeWith(['netns', 'iptables-restore', 'nft'], 'in a network namespace', () => {
  test.each([
    ['iptables', 'healthy/1.28-iptables', 'v1.28.0'],
    ['iptables', 'healthy/1.30-iptables', 'v1.30.0'],
    ['nftables', 'nftables/1.36', 'v1.30.0'],
    ['nftables', 'nftables/1.36', 'v1.33.0'],
    ['nftables', 'nftables/1.36', 'v1.36.2'],
    ['nftables', 'nftables/1.36', 'v1.37.0'],
  ])('%s mode of %s as %s is loaded in both families', async (mode, capture, version) => {
    await using namespace = await Namespace.open();
    for (const family of ['IPv4', 'IPv6']) {
      const source = ['--from', capturePath(capture), '--proxy-mode', mode, '--kube-proxy-version', version, '--family', family];
      const {stdout} = await svcTrace([...services, ...source]);
      const tool = family === 'IPv4' ? 'iptables-restore' : 'ip6tables-restore';
      if (mode === 'nftables') namespace.run('nft', ['-f', '-'], stdout);
      else namespace.run(tool, ['--noflush'], `${stdout}\n`);
    }
    const listed = mode === 'nftables' ? namespace.run('nft', ['list', 'ruleset']) : namespace.run('iptables-save', []);
    expect(listed).toContain(mode === 'nftables' ? 'map service-ips' : '-A PREROUTING');
    expect(listed).toContain('shop/web');
  });
});
