import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import type {ConfigOverrides} from '../../../src/expect/resolve-proxy-config.ts';
import {families} from '../../../src/model/address.ts';
import type {NodeDump, Snapshot} from '../../../src/model/snapshot.ts';
import {nodeSetup} from '../../../src/preview/sides.ts';
import {expectedRules} from '../../../src/preview/rules/write-expected-rules.ts';
import {rulesRenderers} from '../../../src/render/rules/rules-report.ts';

/** A capture in which a node holds what `rules` prints for other settings, in place of what its kube-proxy wrote. */
export function withPrintedRules(snapshot: Snapshot, name: string, overrides: ConfigOverrides): Snapshot {
  const {api, nodes} = snapshot;
  return {...snapshot, nodes: nodes.map(node => (node.name === name ? printed(node) : node))};

  function printed(node: NodeDump): NodeDump {
    const setup = nodeSetup({node, api, view: new ClusterView(api), overrides});
    const text = (family: (typeof families)[number], format: 'nft' | 'iptables-save'): string =>
      `${rulesRenderers[format](expectedRules({setup, families: [family], isWanted: () => true}))}\n`.replaceAll(/^#.*\n/gm, '');
    const files: Readonly<Record<string, string>> =
      setup.config.mode.value === 'nftables'
        ? {'nft.json': families.map(family => text(family, 'nft')).join('')}
        : {'iptables-save': text('IPv4', 'iptables-save'), 'ip6tables-save': text('IPv6', 'iptables-save')};
    return {name: node.name, files: Object.keys(files), read: file => (files[file] === undefined ? null : Buffer.from(files[file]))};
  }
}
