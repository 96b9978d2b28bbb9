import {expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectTable} from '../../../src/expect/nftables/expect-table.ts';
import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../../../src/expect/resolve-proxy-config.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../../cluster.ts';

test('forgetting drops the chains of Service ports that were made since then, and no others', () => {
  const names = ['shop/web', 'shop/api'];
  const api = apiObjects({
    services: names.map((name, at) => service(name, {clusterIP: `10.96.1.${at + 1}`, ports: [{port: 80}]})),
    endpointSlices: names.map((name, at) => slice(name, [endpoint(`10.244.1.${at + 1}`)])),
  });
  const node = nodeDump('node-a');
  const {config} = resolveProxyConfig(node, api, {mode: 'nftables', version: 'v1.35.0'});
  const table = expectTable({view: new ClusterView(api), config, facts: nodeFacts(node, api), family: 'IPv4', table: null});
  const chains = table.ports.map(item => item.names.service);
  const [kept = '', dropped = ''] = chains;
  const before = {own: table.chain(kept), shared: table.chain('services')};
  const during = table.forgetting(() => ({own: table.chain(dropped), other: table.chain(kept)}));
  expect(chains).toHaveLength(2);
  expect(during.own?.text()).toContain('10.244.1.');
  expect(during.other).toBe(before.own);
  expect(table.chain(kept)).toBe(before.own);
  expect(table.chain('services')).toBe(before.shared);
  expect(table.chain(dropped)).not.toBe(during.own);
  expect(table.chain(dropped)?.text()).toBe(during.own?.text());
});
