/** A node whose kube-proxy has no `ip`, as upstream's image: which addresses it has is known, and not on which interface. */
import {expect, test} from 'vitest';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {askNodes} from '../../../src/run/packet/packet-flags.ts';
import {previewOf} from '../../preview/previews.ts';
import {type Scenario, scenario} from '../../scenario.ts';

const capture = 'ipvs/1.36';

/** The node without what `ip` prints, and with the addresses that the kernel lists, less some. */
async function withoutIp(lost: readonly string[] = []): Promise<Scenario> {
  const given = await scenario(capture);
  const [node] = given.snapshot().nodes;
  const bound = JSON.parse(node?.read('kube-ipvs0.json')?.toString() ?? '[]') as {addr_info: {local: string}[]}[];
  const addresses = bound.flatMap(({addr_info: infos}) => infos.map(({local}) => local)).filter(address => !lost.includes(address));
  given.file('node-a', 'kube-ipvs0.json', null);
  given.file('node-a', 'local-addresses', ['127.0.0.1', '::1', '172.18.0.11', '10.244.11.1', ...addresses, ''].join('\n'));
  return given;
}

test('it is checked, and finds what it finds where the interface is known', async () => {
  const whole = await scenario(capture);
  expect(whole.snapshot().nodes[0]?.files).not.toContain('addresses.json');
  const given = await withoutIp();
  expect(given.summaries()).toEqual(whole.summaries());
});

test('packets are answered, and a preview made, as where the interface is known', async () => {
  const [whole, given] = [(await scenario(capture)).snapshot(), (await withoutIp()).snapshot()];
  const changesIn = (snapshot: Snapshot) => previewOf(snapshot, {mode: 'nftables'}, snapshot.api, {nodes: ['node-a']}).changes;
  expect(changesIn(whole)).not.toEqual([]);
  expect(changesIn(given)).toEqual(changesIn(whole));
  const flow = {source: '10.244.11.4', destination: '10.96.1.1', port: '80', node: ['node-a']};
  const outcomesIn = (snapshot: Snapshot) => askNodes(flow, snapshot).map(({outcomes}) => outcomes);
  expect(outcomesIn(given)).toEqual(outcomesIn(whole));
});

test('where nothing lists addresses, a preview takes them to be as expected', async () => {
  const [whole, given] = [(await scenario(capture)).snapshot(), await withoutIp()];
  given.file('node-a', 'local-addresses', null);
  const changesIn = (snapshot: Snapshot) => previewOf(snapshot, {mode: 'nftables'}, snapshot.api, {nodes: ['node-a']}).changes;
  expect(changesIn(given.snapshot())).toEqual(changesIn(whole));
});

test('the address of a Service that no interface has is missing from kube-ipvs0', async () => {
  const given = await withoutIp(['10.96.1.1']);
  expect(given.newFindings()).toEqual([
    expect.objectContaining({
      severity: 'error',
      node: 'node-a',
      family: 'IPv4',
      message: expect.stringContaining('kube-ipvs0 does not have the address'),
    }),
  ]);
});

test('without a list of addresses nothing is said about Services', async () => {
  const given = await withoutIp();
  given.file('node-a', 'local-addresses', null);
  expect(given.newFindings().map(({code, family}) => `${code} ${family}`)).toEqual(['ST902 IPv4', 'ST902 IPv6']);
});

test('where the addresses of IPv6 were not listed, they are not said to be missing', async () => {
  const given = await withoutIp();
  given.file('node-a', 'local-addresses', (given.snapshot().nodes[0]?.read('local-addresses')?.toString() ?? '').replace(/^.*:.*\n/gm, ''));
  expect(given.newFindings()).toEqual([]);
});
