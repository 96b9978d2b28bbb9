import {expect, test} from 'vitest';
import {ApiError} from '../../../src/collect/kube/kube-api.ts';
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
const entries = {
  ...{names: new Set(['shop/web']), addresses: new Set(['10.96.0.10']), nodePorts: new Set<number>(), chainsOfPort: 10},
  likelyChains: {IPv4: [], IPv6: []} as Record<'IPv4' | 'IPv6', readonly string[]>,
};

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

const [portChain, endpointChain, orphan] = ['KUBE-SVC-AAAAAAAAAAAAAAAA', 'KUBE-SEP-AAAAAAAAAAAAAAAA', 'KUBE-SEP-BBBBBBBBBBBBBBBB'];
const likely = {...entries, likelyChains: {IPv4: [portChain, endpointChain, orphan], IPv6: ['KUBE-SEP-CCCCCCCCCCCCCCCC']}};
const whole = `${base}:${portChain} - [0:0]
:${endpointChain} - [0:0]
:${orphan} - [0:0]
-A ${portChain} -j ${endpointChain}
-A ${endpointChain} -j DNAT --to-destination 10.0.0.1:80
-A ${orphan} -j DNAT --to-destination 10.0.0.2:80
COMMIT
`;

test('likely chains are read ahead, each once, and the dump is the same', async () => {
  const node = fakeIptables(whole);
  const asked: string[] = [];
  const read = await readChains('iptables', likely, argv => {
    asked.push(argv.join(' '));
    return node(argv);
  });
  expect(String(read)).toBe(String(await readChains('iptables', entries, fakeIptables(whole))));
  expect(asked).toEqual(expect.arrayContaining([portChain, endpointChain, orphan].map(chain => `iptables -t nat -S ${chain}`)));
  expect(asked.filter(command => command.includes('CCCC'))).toEqual([]);
  expect(asked.toSorted()).toEqual([...new Set(asked)].sort());
});

test('a chain that nothing jumps to is not part of the dump, though it was read ahead', async () => {
  expect(String(await readChains('iptables', likely, fakeIptables(whole)))).not.toContain(orphan);
});

test('a likely chain that did not exist is read again if a rule jumps to it', async () => {
  const before = fakeIptables(base);
  const node = fakeIptables(whole);
  const seen = new Set<string>();
  const read = await readChains('iptables', likely, argv => {
    const command = argv.join(' ');
    const isFirst = !seen.has(command);
    seen.add(command);
    return isFirst && /KUBE-(?:SVC|SEP)/.test(command) ? before(argv) : node(argv);
  });
  expect(String(read)).toContain('--to-destination 10.0.0.1:80');
});

test('a likely chain that does not exist makes no node be read completely', async () => {
  const absent = {...entries, likelyChains: {IPv4: ['KUBE-SEP-DDDDDDDDDDDDDDDD'], IPv6: []}};
  expect(String(await readChains('iptables', absent, fakeIptables(whole)))).toContain('--to-destination 10.0.0.1:80');
});

test('a likely chain that hangs up the connection is an error, and not a chain that does not exist', async () => {
  const node = fakeIptables(whole);
  const read = readChains('iptables', likely, argv =>
    argv.includes(endpointChain ?? '') ? Promise.reject(new ApiError('the connection was closed', {status: null})) : node(argv),
  );
  await expect(read).rejects.toThrow('the connection was closed');
});

test('nothing is read ahead with the legacy backend', async () => {
  const asked: string[] = [];
  const read = await readChains('iptables', likely, async argv => {
    asked.push(argv.join(' '));
    return Buffer.from('iptables-save v1.8.9 (legacy)\n');
  });
  expect([read, asked]).toEqual([null, ['iptables-save --version']]);
});
