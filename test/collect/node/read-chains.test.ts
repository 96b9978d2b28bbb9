import {expect, test} from 'vitest';
import {readChains} from '../../../src/collect/node/read-chains.ts';
import {fakeIptables} from './fake-iptables.ts';

test('a jump of a third-party chain is followed', async () => {
  const dump = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:first - [0:0]
:second - [0:0]
:unused - [0:0]
-A PREROUTING -j first
-A PREROUTING -j KUBE-SERVICES
-A first -p tcp -j second
-A second -d 10.96.0.10/32 -j RETURN
-A unused -j DROP
COMMIT
`;
  const read = await readChains('iptables', entries, fakeIptables(dump));
  expect(String(read)).toContain('-A second -d 10.96.0.10/32 -j RETURN');
  expect(String(read)).not.toContain('unused');
});

const base = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
`;
const entries = {names: new Set(['shop/web']), addresses: new Set(['10.96.0.10']), nodePorts: new Set<number>(), chainsOfPort: 10};

test.each([
  ['with the legacy backend', {version: 'v1.8.9 (legacy)'}, `${base}:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\nCOMMIT\n`],
  ['with few Services', {many: false}, `${base}:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\nCOMMIT\n`],
  ['on which a chain disappears while it is read', {}, `${base}COMMIT\n`],
  ['without kube-proxy', {}, '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n'],
])('a node %s is read completely', async (_, how, dump) => {
  expect(await readChains('iptables', entries, fakeIptables(dump, how))).toBeNull();
});

test('a rule of another Service for the same address is read', async () => {
  const dump = `${base.replace('-A KUBE-SERVICES', '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-BBBBBBBBBBBBBBBB\n-A KUBE-SERVICES')}:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVC-BBBBBBBBBBBBBBBB - [0:0]
-A KUBE-SVC-BBBBBBBBBBBBBBBB -j DNAT --to-destination 10.0.0.1:80
COMMIT
`;
  expect(String(await readChains('iptables', entries, fakeIptables(dump)))).toContain('--to-destination 10.0.0.1:80');
});

test.each([
  ['an external IP', 'KUBE-SERVICES', '-d 192.0.2.7/32 -p tcp -m comment --comment "shop/web:http external IP" -m tcp --dport 80'],
  ['a node port', 'KUBE-NODEPORTS', '-p tcp -m comment --comment shop/web -m tcp --dport 30080'],
])('a rule for %s that the Service no longer has is read, one of another Service is not', async (_, chain, conditions) => {
  const other = conditions.replace('shop/web', 'shop/web-2');
  const dump = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-EXT-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-EXT-BBBBBBBBBBBBBBBB - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -j KUBE-NODEPORTS
-A ${chain} ${conditions} -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A ${chain} ${other} -j KUBE-EXT-BBBBBBBBBBBBBBBB
COMMIT
`;
  const read = String(await readChains('iptables', entries, fakeIptables(dump)));
  expect(read).toContain('-j KUBE-EXT-AAAAAAAAAAAAAAAA');
  expect(read).not.toContain('-j KUBE-EXT-BBBBBBBBBBBBBBBB');
});
