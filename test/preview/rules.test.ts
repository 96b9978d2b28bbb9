/** What `rules` prints is what the real kube-proxy wrote, line for line, on every healthy capture. */
import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import type {ExpectedRules} from '../../src/model/expected-rules.ts';
import {families} from '../../src/model/address.ts';
import type {NodeDump} from '../../src/model/snapshot.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {memberText, parseIpsetSave} from '../../src/parse/ipvs/ipset-save.ts';
import {nodeSetup} from '../../src/preview/sides.ts';
import {expectedRules} from '../../src/preview/rules/write-expected-rules.ts';
import {rulesRenderers} from '../../src/render/rules/rules-report.ts';
import {nodeDump, service} from '../cluster.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';

describe('iptables mode', () => {
  test.each(captureNames('healthy', 'settings'))('%s', async name => {
    for (const {node, rules} of await rulesOf(name)) {
      for (const {family, iptables} of rules.families) {
        const minor = Number(/v1\.(\d+)/.exec(rules.kubeProxyVersion)?.[1]);
        const [dump] = parseDumps(node.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save') ?? '', family);
        const actual = [...(dump?.tables.values() ?? [])].flatMap(table =>
          [...table.chains.values()].flatMap(chain =>
            chain
              .text()
              .split('\n')
              .filter(line => isOfKubeProxy(line, minor))
              .map(line => `${table.name} ${line}`),
          ),
        );
        const printed = iptables.flatMap(table => table.chains.flatMap(chain => chain.rules.map(line => `${table.name} ${line}`)));
        expect(printed.filter(line => isOfKubeProxy(line.replace(/^\w+ /, ''), minor)).sort(), `${node.name} ${family}`).toEqual(
          actual.sort(),
        );
      }
    }
  });

  /** Up to 1.26 the kubelet, and not kube-proxy, writes into KUBE-FIREWALL and leads there. */
  function isOfKubeProxy(line: string, minor: number): boolean {
    if (minor <= 26 && line.includes('KUBE-FIREWALL')) return false;
    return /^-A KUBE-(?!KUBELET|IPTABLES-HINT|MARK-DROP)/.test(line) || / -j KUBE-/.test(line);
  }
});

describe('nftables mode', () => {
  test.each(captureNames('nftables'))('%s', async name => {
    for (const {node, rules} of await rulesOf(name)) {
      const actual = parseNftDump(node.read('nft.txt')?.toString() ?? '');
      const printed = parseNftDump(rulesRenderers.nft(rules).replaceAll(/^#.*$/gm, ''));
      for (const [id, table] of actual.tables) {
        if (!id.endsWith(' kube-proxy')) continue;
        const own = printed.tables.get(id);
        for (const [chain, {text, base}] of Object.entries(chainsOf(table))) {
          const written = own?.chain(chain);
          expect({text: written?.text(), base: written?.base, chain}).toEqual({text, base, chain});
        }
        for (const set of table.sets.values()) {
          const written = own?.set(set.name);
          expect({
            ...written,
            elements: [...(written?.elements.values() ?? [])].map(element => ({...element, expires: null})).sort(byKey),
          }).toEqual({
            ...set,
            elements: [...set.elements.values()].map(element => ({...element, expires: null})).sort(byKey),
          });
        }
      }
    }
  });

  function chainsOf(table: ReturnType<ReturnType<typeof parseNftDump>['tables']['get']> & {}) {
    return Object.fromEntries(
      [...table.chains.values()]
        .filter(({ruleCount, base}) => ruleCount > 0 || base !== null)
        .map(chain => [
          chain.name,
          {
            base: chain.base,
            text: chain.text(),
          },
        ]),
    );
  }

  const byKey = (a: {readonly key: string}, b: {readonly key: string}): number => (a.key < b.key ? -1 : 1);
});

describe('IPVS mode', () => {
  test.each(captureNames('ipvs'))('%s', async name => {
    for (const {node, rules} of await rulesOf(name)) {
      const lines = (node.read('ipvsadm-save')?.toString() ?? '').trim().split('\n');
      expect(rulesRenderers['ipvsadm-save'](rules).split('\n').sort(), node.name).toEqual(lines.sort());
      for (const {family, iptables} of rules.families) {
        const [dump] = parseDumps(node.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save') ?? '', family);
        const kept = ['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER', 'KUBE-FORWARD'];
        for (const chain of kept)
          expect(
            iptables
              .find(({name: table}) => table === 'nat')
              ?.chains.find(one => one.name === chain)
              ?.rules.join('\n') ?? '',
          ).toBe(dump?.chain('nat', chain)?.text() ?? '');
      }
    }
  });
});

describe('the requirements of the rules', () => {
  test('name the counters of nfacct if the node counts with them', async () => {
    const rules = async (capture: string) => (await rulesOf(capture))[0]?.rules;
    const counting = await rules('healthy/1.36-iptables');
    expect(counting?.notes).toEqual([
      'the rules count with nfacct; make the counters before they are loaded: nfacct add ct_state_invalid_dropped_pkts; nfacct add localhost_nps_accepted_pkts',
    ]);
    expect(counting === undefined ? '' : rulesRenderers['iptables-save'](counting)).toMatch(/^# the rules count with nfacct/);
    expect((await rules('healthy/1.30-iptables'))?.notes).toEqual([]);
  });

  test('say which name nft refuses, up to 1.36', async () => {
    const {api} = await snapshotOf('nftables/1.36');
    const [namespace, name] = ['n'.repeat(63), 's'.repeat(63)];
    const long = service(`${namespace}/${name}`, {clusterIP: '10.96.9.9', ports: [{name: 'http', port: 80}]});
    const changed = {...api, services: [...(api.services ?? []), long]};
    const notes = (version: string): readonly string[] => {
      const setup = nodeSetup({
        ...{node: nodeDump('node-a'), api: changed, view: new ClusterView(changed)},
        overrides: {mode: 'nftables', version},
      });
      return expectedRules({setup, families, isWanted: () => true}).notes;
    };
    expect(notes('v1.36.2')).toEqual([
      expect.stringContaining(`${name}:http (132 bytes) as a comment: this kube-proxy cannot write the rules of IPv4`),
    ]);
    expect(notes('v1.37.0')).toEqual([]);
  });

  test('say which settings make every sync fail', async () => {
    const {api} = await snapshotOf('nftables/1.36');
    const overrides = {mode: 'nftables', detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth', version: 'v1.31.0'};
    const setup = nodeSetup({node: nodeDump('node-a'), api, view: new ClusterView(api), overrides});
    expect(expectedRules({setup, families, isWanted: () => true}).notes).toEqual([
      expect.stringContaining('writes iif "veth*" in nftables mode, which nft refuses: no rules are written'),
    ]);
  });

  test('contain the ipsets of IPVS mode that kube-proxy wrote, with their members', async () => {
    for (const name of captureNames('ipvs'))
      for (const {node, rules} of await rulesOf(name)) {
        const listed = rules.families.flatMap(({ipvs}) => ipvs?.ipsets ?? []);
        const printed = listed.map(({name: set, type, members}) => [set, type, ...[...members].toSorted()]);
        const dumped = parseIpsetSave(node.read('ipset-save')?.toString() ?? '').sets;
        const actual = [...dumped.values()]
          .filter(({name: set}) => set.startsWith('KUBE-'))
          .map(({name: set, type, elements}) => [set, type, ...elements.map(memberText).toSorted()]);
        expect(printed.toSorted()).toEqual(actual.toSorted());
        expect(rules.notes).toEqual([expect.stringContaining('match on ipsets')]);
      }
  });
});

async function rulesOf(capture: string): Promise<readonly {readonly node: NodeDump; readonly rules: ExpectedRules}[]> {
  const {api, nodes} = await snapshotOf(capture);
  const view = new ClusterView(api);
  return nodes.map(node => {
    const setup = nodeSetup({node, api, view, overrides: {}});
    return {node, rules: expectedRules({setup, families, isWanted: () => true})};
  });
}
