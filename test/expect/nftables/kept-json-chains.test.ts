import {expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectTable} from '../../../src/expect/nftables/expect-table.ts';
import {RecordedChains} from '../../../src/expect/nftables/kept-json-chains.ts';
import {nodeFacts} from '../../../src/expect/node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../../../src/expect/proxy-config.ts';
import {families} from '../../../src/model/address.ts';
import type {ApiObjects, NodeDump} from '../../../src/model/snapshot.ts';
import {seededRandom} from '../../bench/random.ts';
import {apiObjects, service} from '../../cluster.ts';
import {randomCluster} from '../../random-cluster.ts';

const settings: readonly ConfigOverrides[] = [
  {version: 'v1.35.0', clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56']},
  {version: 'v1.35.0', clusterCIDRs: ['10.245.0.0/16', 'fd00:10:245::/56']},
  {version: 'v1.35.0', masqueradeAll: true},
  {version: 'v1.35.0', masqueradeBit: 5},
  {version: 'v1.33.0', clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56']},
  {version: 'v1.36.0', clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/56']},
];

test('rules that were kept from another node are those that this node should have', () => {
  let kept = 0;
  const isKept = ({inOnePiece}: {readonly inOnePiece: boolean}): boolean => inOnePiece;
  const rulesOf = (written: ReturnType<typeof chainsOf>) => written.map(({chains}) => chains);
  for (let seed = 0; seed < 60; seed++) {
    const random = seededRandom(seed);
    const {api, nodes} = randomCluster(random, 35);
    const view = new ClusterView(api);
    for (let step = 0; step < 12; step++) {
      const node = named(random.pick(['node-a', 'node-b', 'node-c']), nodes[0]);
      const overrides = settings[random.chance(0.5) ? 0 : random.below(settings.length)] ?? {};
      const chains = chainsOf(view, api, {node, overrides});
      expect(rulesOf(chains), `seed ${seed}, step ${step}`).toEqual(rulesOf(chainsOf(new ClusterView(api), api, {node, overrides})));
      kept += chains.filter(isKept).length;
    }
  }
  expect(kept).toBeGreaterThan(500);
});

test('rules with the address of the node are not kept', () => {
  const web = service(
    'shop/web',
    {type: 'LoadBalancer', clusterIP: '10.96.1.1', ports: [{port: 80}], loadBalancerSourceRanges: ['172.18.0.11/32', '10.0.0.0/8']},
    {ingress: [{ip: '192.0.2.1'}]},
  );
  const api = apiObjects({services: [web]});
  const view = new ClusterView(api);
  const firewalls = ['node-a', 'node-b', 'node-c'].map((name, index) => {
    const given = {node: named(name, undefined), overrides: {version: 'v1.36.0', bindAddress: `172.18.0.1${index}`}};
    return JSON.stringify(chainsOf(view, api, given).flatMap(({chains}) => [...chains.values()]));
  });
  // The second one is among the sources that may connect: the address of the load balancer is, too.
  expect(firewalls.map(text => text.includes('192.0.2.1'))).toEqual([false, true, false]);
});

function chainsOf(view: ClusterView, api: ApiObjects, {node, overrides}: {readonly node: NodeDump; readonly overrides: ConfigOverrides}) {
  const {config} = resolveProxyConfig(node, api, {mode: 'nftables', ...overrides});
  return families.flatMap(family => {
    const table = expectTable({view, config, facts: nodeFacts(node, api), family, table: null});
    return table.ports.map(item => {
      const written = new RecordedChains();
      let inOnePiece = true;
      table.objectsOf(item).writeJson({
        chain: name => written.chain(name),
        rule: (pieces, count) => {
          inOnePiece &&= count === 1;
          written.rule(pieces, count);
        },
      });
      return {chains: written.chains, inOnePiece};
    });
  });
}

/** A node without settings of its own. */
function named(name: string, node: NodeDump | undefined): NodeDump {
  return {name, files: node?.files ?? [], read: file => (file === 'addresses.json' ? (node?.read(file) ?? null) : null)};
}
