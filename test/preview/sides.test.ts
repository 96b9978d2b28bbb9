/** Both sides of a preview are walked as `check` and `packet` walk a node. */
import {describe, expect, test} from 'vitest';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import {readFixture} from '../fixtures.ts';
import {previewFrom} from './previews.ts';

/** What changes on node-a if its nftables are these: `shop/web shares`. */
async function effects(capture: string, tables: string | null, overrides: ConfigOverrides): Promise<readonly string[]> {
  const files = ['nft-ruleset.json', 'nft.json', 'nft.txt'];
  const {changes} = await previewFrom(
    capture,
    overrides,
    given => {
      for (const file of tables === null ? [] : files) given.file('node-a', file, tables);
    },
    {nodes: ['node-a']},
  );
  return [...new Set(changes.map(({service, effect}) => `${service.namespace}/${service.name} ${effect}`))].toSorted();
}

describe('of two NAT chains with one priority, that of the younger table runs first', () => {
  const kubeProxy = readFixture('captures/nftables/1.36/nodes/node-a/nft.txt').toString('utf8');
  const hostPort = `table ip portmap {
	chain prerouting {
		type nat hook prerouting priority dstnat; policy accept;
		ip daddr 10.96.1.1 tcp dport 80 dnat to 10.244.9.9:80
	}
}
`;

  test.each([
    ['its new table runs before an old one, as the table of iptables did', 'healthy/1.36-iptables', withNat(hostPort), 'nftables', []],
    ['its table that stays is older than the other one', 'nftables/1.36', kubeProxy + hostPort, 'nftables', []],
    ['its new tables of iptables are younger', 'nftables/1.36', kubeProxy + hostPort, 'iptables', ['shop/web shares']],
    ['its table was younger, and so are those of iptables', 'nftables/1.36', hostPort + kubeProxy, 'iptables', []],
  ] as const)('%s', async (_, capture, tables, mode, expected) => {
    const overrides = {mode, version: 'v1.37.0'};
    const usual = await effects(capture, null, overrides);
    const found = await effects(capture, tables, overrides);
    expect(found.filter(effect => !usual.includes(effect))).toEqual(expected);
  });

  /** A host port before the tables of iptables, as nft lists them. */
  function withNat(tables: string): string {
    return `${tables}table ip nat {\n\tchain PREROUTING {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t}\n}\n`;
  }
});

test('rules that iptables shows are not walked a second time where nft added a chain to their table', async () => {
  const nat = `table ip nat {
	chain KUBE-SERVICES {
		ip daddr 10.96.1.1 tcp dport 80 dnat to 10.244.9.9:80
	}
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
		jump KUBE-SERVICES
	}
	chain added {
		type nat hook prerouting priority -90; policy accept;
		ip daddr 192.0.2.77 dnat to 10.244.9.9
	}
}
`;
  const overrides = {mode: 'nftables'} as const;
  expect(await effects('healthy/1.36-iptables', nat, overrides)).toEqual(await effects('healthy/1.36-iptables', null, overrides));
});

test('a table without its end makes outcomes undetermined, also of the family whose table is not in the dump', async () => {
  const whole = readFixture('captures/nftables/1.36/nodes/node-a/nft.txt').toString('utf8');
  const found = await effects('nftables/1.36', whole.slice(0, whole.indexOf('set cluster-ips')), {mode: 'iptables'});
  expect(found).toContain('shop/web undetermined');
  expect(found).toContain('infra/six undetermined');
  expect(found.filter(effect => !effect.endsWith(' undetermined'))).toEqual([]);
});
