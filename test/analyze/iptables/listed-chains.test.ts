import {expect, test} from 'vitest';
import {joinChains} from '../../../src/analyze/iptables/chain-texts.ts';
import {iptablesServiceView} from '../../../src/analyze/iptables/rules-of-ports.ts';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../../../src/expect/iptables/expect-ruleset.ts';
import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../../../src/expect/resolve-proxy-config.ts';
import type {Chain, Ruleset} from '../../../src/model/ruleset.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {scenario} from '../../scenario.ts';

const tail = '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS';
const lines = [
  '-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "-j KUBE-NODEPORTS is no jump here" -m udp --dport 53 -j RETURN',
  tail,
  '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j RETURN',
  '-A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m tcp --dport 80 -j DROP',
];

function rulesetOf(rules: readonly string[]): Ruleset {
  const chains = [':PREROUTING ACCEPT [0:0]', ':KUBE-SERVICES - [0:0]', ':KUBE-NODEPORTS - [0:0]'];
  const [found] = parseDumps(['*nat', ...chains, ...rules, 'COMMIT', ''].join('\n'), 'IPv4');
  if (found === undefined) throw new Error('no rules');
  return found;
}

function servicesOf(ruleset: Ruleset): Chain {
  const chain = ruleset.chain('nat', 'KUBE-SERVICES');
  if (chain === undefined) throw new Error('no chain');
  return chain;
}

test('a joined chain has the chosen rules of both chains, in its text, as a list and one by one', () => {
  const [first, second] = [servicesOf(rulesetOf(lines)), servicesOf(rulesetOf([tail]))];
  const joined = joinChains(first, [
    {chain: first, indexes: [0, 2, 3]},
    {chain: second, indexes: [0]},
  ]);
  const expected = [lines[0], lines[2], lines[3], tail];
  expect(joined.text().split('\n')).toEqual(expected);
  expect(joined.rules().map(({text}) => text)).toEqual(expected);
  expect(expected.map((_, index) => joined.ruleAt?.(index)?.text)).toEqual(expected);
  expect(joined.ruleAt?.(4)).toBeUndefined();
  expect(joined.ruleCount).toBe(4);
  // Evidence names the lines of the dump.
  expect(joined.rules().map(({line}) => line)).toEqual([...[0, 2, 3].map(index => first.rules()[index]?.line), 5]);
});

test('the view of per-Service rules has the expected jump to the node ports, before third-party rules that stand behind the actual one', async () => {
  const {api, nodes} = (await scenario('healthy/1.36-iptables')).snapshot();
  const [node] = nodes;
  if (node === undefined) throw new Error('no node');
  const {config} = resolveProxyConfig(node, api, {});
  const shown = (rules: readonly string[]): readonly string[] => {
    const actual = rulesetOf(rules);
    const expected = expectRuleset({view: new ClusterView(api), config, facts: nodeFacts(node, api), family: 'IPv4', ruleset: actual});
    return iptablesServiceView(expected, actual).chain('nat', 'KUBE-SERVICES')?.text().split('\n') ?? [];
  };
  const jump = expect.stringMatching(/^-A KUBE-SERVICES .*--dst-type LOCAL -j KUBE-NODEPORTS$/);
  expect(shown(lines)).toEqual([lines[0], jump, lines[2], lines[3]]);
  // With a rule of kube-proxy behind it, the jump itself is in a wrong place.
  const service = '-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA';
  expect(shown([...lines, service])).toEqual([lines[0], lines[2], lines[3], service, jump]);
});
