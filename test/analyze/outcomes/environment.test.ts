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
