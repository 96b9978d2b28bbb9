import type {Ruleset} from '../../../src/model/ruleset.ts';
import {describe, expect, test} from 'vitest';
import {compareMembers, compareServers} from '../../../src/compare/compare-ipvs.ts';
import {compareRulesets} from '../../../src/compare/compare-rulesets.ts';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectIpvs} from '../../../src/expect/ipvs/expected-ipvs.ts';
import {setName, setTypes} from '../../../src/expect/ipvs/ipvs-sets.ts';
import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../../../src/expect/resolve-proxy-config.ts';
import {hostFacts, readIpvsState} from '../../../src/analyze/ipvs/ipvs-state.ts';
import {families} from '../../../src/model/address.ts';
import {serverKey} from '../../../src/model/virtual-server.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';

describe.each(captureNames('ipvs'))('a healthy node holds what is expected: %s', name => {
  test.each(families)('%s', async family => {
    const {api, nodes} = await snapshotOf(name);
    const [node] = nodes;
    if (node === undefined) throw new Error('no node');
    const state = readIpvsState(node);
    expect(state.problems).toEqual([]);
    const {config} = resolveProxyConfig(node, api, {});
    const facts = hostFacts(nodeFacts(node, api), state, [], config.version.value);
    const expected = expectIpvs({view: new ClusterView(api), config, facts, family, bound: state.bound ?? []});

    const servers = (state.servers ?? []).filter(server => server.family === family);
    expect(servers.map(serverKey).sort()).toEqual([...expected.servers.keys()].sort());
    for (const server of servers) {
      const versions = expected.servers.get(serverKey(server)) ?? [];
      expect(versions.map(({server: wanted}) => compareServers(wanted, server))).toContain(null);
      expect(versions.map(({server: wanted}) => wanted.text)).toContain(server.text);
    }
    const bound = (state.bound ?? []).filter(address => address.includes(':') === (family === 'IPv6'));
    expect(bound.toSorted()).toEqual([...expected.bound.keys()].sort());
    for (const [role, members] of expected.members) {
      const set = state.sets?.get(setName(role, family));
      expect(set?.type, role).toBe(setTypes[role]);
      expect(compareMembers(new Set(members.keys()), set), role).toEqual({missing: [], extra: []});
    }
    const [ruleset] = parseDumps(node.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save') ?? '', family);
    if (ruleset === undefined) throw new Error('no rules');
    const baseRules = new Map([...expected.baseRules].map(([key, rules]) => [key, rules]));
    const {differences} = compareRulesets(
      {
        owners: expected.ports,
        rulesOf: owner => ({
          own: new Map(),
          shared: expected.outFilter(owner).map(text => ({table: 'filter', chain: 'KUBE-IPVS-OUT-FILTER', text})),
        }),
        baseRules: () => baseRules,
        open: new Set(),
        unordered: new Set(['filter/KUBE-IPVS-OUT-FILTER']),
      },
      ruleset,
    );
    expect(differences.map(({kind, rule}) => `${kind} ${rule.text}`)).toEqual([]);
    expect(ruleset.chainCount).toBe(new Set([...baseRules.keys(), ...baseChains(ruleset.tables)]).size);
  });
});

function baseChains(tables: Ruleset['tables']): readonly string[] {
  return [...tables].flatMap(([table, {chains}]) =>
    [...chains.values()].filter(({policy}) => policy !== null).map(({name}) => `${table}/${name}`),
  );
}
