import {expect, test} from 'vitest';
import {environmentOf} from '../../../src/analyze/outcomes/environment.ts';
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
};

test("REDIRECT leads to the address of the packet's own family", () => {
  const {redirectAddress} = environmentOf(facts);
  expect(redirectAddress(packetOf({from: '198.18.0.1', to: '198.18.0.2', port: 80}))?.text).toBe('172.18.0.11');
  expect(redirectAddress(packetOf({from: '2001:db8::1', to: '2001:db8::2', port: 80}))?.text).toBe('2001:db8:1::11');
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
