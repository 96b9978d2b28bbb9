/** What `rules` prints for Services of every shape is loaded by the tools that it is meant for, and comes back as it was printed. */
import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import type {ExpectedRules} from '../../src/model/expected-rules.ts';
import {type Family, families} from '../../src/model/address.ts';
import {pushTo} from '../../src/model/lists.ts';
import {nodeSetup} from '../../src/preview/sides.ts';
import {expectedRules} from '../../src/preview/rules/write-expected-rules.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {rulesRenderers} from '../../src/render/rules/rules-report.ts';
import {nodeDump} from '../cluster.ts';
import {describeWith} from '../require.ts';
import {unusualServices} from '../unusual-services.ts';
import {Namespace} from './kernel/namespace.ts';

const api = unusualServices();

function rulesOf(mode: string, version: string, family: Family): ExpectedRules {
  const overrides = {mode, version, clusterCIDRs: ['10.244.0.0/16', 'fd00:10:244::/48']};
  const setup = nodeSetup({node: nodeDump('node-a'), api, view: new ClusterView(api), overrides});
  return expectedRules({setup, families: [family], isWanted: () => true});
}

const tool = {IPv4: 'iptables', IPv6: 'ip6tables'};

describeWith(['netns', 'iptables-nft-restore', 'iptables-legacy-restore', 'nft', 'ipset'], 'in a network namespace', () => {
  describe.each(['v1.18.0', 'v1.21.0', 'v1.23.0', 'v1.25.0', 'v1.27.0', 'v1.31.0', 'v1.36.2', 'v1.37.0'])(
    'iptables mode of %s',
    version => {
      test.each(families)('%s, in both backends', async family => {
        for (const backend of ['nft', 'legacy']) {
          await using namespace = await Namespace.open();
          const text = rulesRenderers['iptables-save'](rulesOf('iptables', version, family));
          namespace.run(`${tool[family]}-${backend}-restore`, ['--noflush'], `${text}\n`);
          expect(byChain(namespace.run(`${tool[family]}-${backend}-save`, []))).toEqual(byChain(text));
        }
      });
    },
  );

  describe.each(['v1.30.0', 'v1.31.0', 'v1.33.0', 'v1.35.0', 'v1.36.2', 'v1.37.0'])('nftables mode of %s', version => {
    test.each(families)('%s', async family => {
      await using namespace = await Namespace.open();
      const text = rulesRenderers.nft(rulesOf('nftables', version, family));
      namespace.run('nft', ['-f', '-'], text);
      expect(objectsOf(namespace.run('nft', ['list', 'ruleset']))).toEqual(objectsOf(text.replaceAll(/^#.*$/gm, '')));
    });
  });

  describe.each(['v1.21.0', 'v1.23.0', 'v1.25.0', 'v1.27.0', 'v1.31.0', 'v1.36.2'])('IPVS mode of %s', version => {
    test.each(families)('%s: the ipsets, and the iptables rules that match on them', async family => {
      await using namespace = await Namespace.open();
      const rules = rulesOf('ipvs', version, family);
      const sets = rules.families.flatMap(({ipvs}) => ipvs?.ipsets ?? []);
      const members = sets.flatMap(({name, members: all}) => all.map(member => `add ${name} ${member}`));
      const kind = (type: string): string => (type === 'bitmap:port' ? 'range 0-65535' : `family ${family === 'IPv4' ? 'inet' : 'inet6'}`);
      namespace.run(
        'ipset',
        ['restore'],
        [...sets.map(({name, type}) => `create ${name} ${type} ${kind(type)}`), ...members, ''].join('\n'),
      );
      const saved = namespace.run('ipset', ['save']).split('\n');
      expect(saved.filter(line => line.startsWith('add ')).toSorted()).toEqual(members.toSorted());
      // Few kernels have the match of IPVS; kube-proxy-ipvs.md has its spelling.
      const text = rulesRenderers['iptables-save'](rules).replaceAll(
        /^.* -m ipvs --vproto (?:6|17|132) --vaddr \S+ --vport \d+ -j DROP\n/gm,
        '',
      );
      namespace.run(`${tool[family]}-nft-restore`, ['--noflush'], `${text}\n`);
      expect(byChain(namespace.run(`${tool[family]}-nft-save`, []))).toEqual(byChain(text));
    });
  });
});

/** The rules of each chain in their order; chains without rules are left out. */
function byChain(text: string): ReadonlyMap<string, readonly string[]> {
  const chains = new Map<string, string[]>();
  let table = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) table = line;
    const [, chain] = /^-A (\S+) /.exec(line) ?? [];
    if (chain !== undefined) pushTo(chains, `${table} ${chain}`, line);
  }
  return chains;
}

/** Chains and sets; the order of elements is the kernel's. */
function objectsOf(text: string): readonly object[] {
  return [...parseNftDump(text).tables.values()].map(({id, chains, sets}) => ({
    id,
    chains: [...chains.values()].map(chain => ({name: chain.name, base: chain.base, text: withoutBraces(chain.text())})),
    sets: [...sets.values()].map(set => ({...set, elements: [...set.elements.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1))})),
  }));
}

/** Ranges that were merged into one keep their braces in the kernel that kube-proxy wrote them to; loaded again, they lose them. */
function withoutBraces(text: string): string {
  return text.replaceAll(/(saddr != )\{ ([^,{}]+) \}/g, '$1$2');
}
