import {expect, test} from 'vitest';
import {environmentOf} from '../../../src/analyze/outcomes/environment.ts';
import {parseAddress} from '../../../src/model/address.ts';
import {holds} from '../../../src/model/intervals.ts';
import {noNetworkFacts} from '../../../src/model/node/node-facts.ts';
import {parsePolicyRules, parseRoutes} from '../../../src/parse/network-facts.ts';
import {packetOf} from '../../trace/send.ts';

const facts = {
  name: 'node-a',
  addresses: ['172.18.0.11', '2001:db8:1::11'],
  allAddresses: true,
  hostIPs: ['172.18.0.11', '2001:db8:1::11'],
  podCIDRs: [],
  zone: null,
  labels: {},
  primaryInterface: 'eth0',
  network: noNetworkFacts,
};

test("REDIRECT leads to the address of the packet's own family", () => {
  const {redirectAddress} = environmentOf(facts);
  expect(redirectAddress(packetOf({from: '198.18.0.1', to: '198.18.0.2', port: 80}))?.text).toBe('172.18.0.11');
  expect(redirectAddress(packetOf({from: '2001:db8::1', to: '2001:db8::2', port: 80}))?.text).toBe('2001:db8:1::11');
});

test('an address of the node is behind the loopback, by which it asks itself', () => {
  const {behind} = environmentOf({
    ...facts,
    network: {
      ...noNetworkFacts,
      policyRules: {IPv4: [], IPv6: []},
      routes: parseRoutes('[{"dst":"default","gateway":"172.18.0.1","dev":"eth0"}]'),
    },
  });
  const own = parseAddress('172.18.0.11')?.value ?? 0n;
  expect(holds(behind?.('eth0', 'IPv4') ?? [], own)).toBe(false);
  expect(holds(behind?.('lo', 'IPv4') ?? [], own)).toBe(true);
});

test('the address of a network for all its routers is behind its interface as the others are', () => {
  const routes = [
    '{"dst":"2001:db8:2::/64","dev":"virbr0"}',
    ...['anycast', 'local'].map((type, host) => `{"type":"${type}","dst":"2001:db8:2::${host || ''}","dev":"virbr0","table":"local"}`),
  ];
  const policyRules = parsePolicyRules('[{"priority":0,"table":"local"},{"priority":32766,"table":"main"}]', 'IPv6') ?? [];
  const {interfaceOf} = environmentOf({
    ...facts,
    addresses: [...facts.addresses, '2001:db8:2::1'],
    network: {...noNetworkFacts, policyRules: {IPv4: [], IPv6: policyRules}, routes: parseRoutes(`[${routes.join(',')}]`)},
  });
  const way = (text: string): string | null | undefined => interfaceOf?.(parseAddress(text) ?? {family: 'IPv6', value: 0n, text});
  expect(['2001:db8:2::', '2001:db8:2::2'].map(way)).toEqual(['virbr0', 'virbr0']);
  expect(way('2001:db8:2::1')).toBeNull();
});

test('MASQUERADE gives an address of the interface by which a packet leaves', () => {
  const onLink = [
    {name: 'lo', network: '127.0.0.1/8'},
    {name: 'eth0', network: '172.18.0.11/16'},
    {name: 'eth0', network: 'fe80::11/64'},
    {name: 'eth0', network: '2001:db8:1::11/64'},
    {name: 'eth1', network: '10.9.0.4/24'},
    {name: 'eth1', network: '10.9.1.4/24'},
  ];
  const {masqueradeAddress} = environmentOf({...facts, addresses: [...facts.addresses, '10.9.0.4', '10.9.1.4'], onLink});
  const to = (destination: string): string | undefined =>
    masqueradeAddress?.(packetOf({from: destination.includes(':') ? 'fd00::1' : '198.18.0.1', to: destination, port: 80}))?.text;
  expect(to('172.18.0.12')).toBe('172.18.0.11');
  expect(to('10.9.1.77')).toBe('10.9.1.4');
  // By the loopback, packets get the first address that the node has; in IPv6 the one to which they are sent.
  expect(to('10.9.0.4')).toBe('172.18.0.11');
  expect(to('2001:db8:1::11')).toBe('2001:db8:1::11');
  // Nothing says by which interface these leave.
  expect(to('198.51.100.1')).toBeUndefined();
});
