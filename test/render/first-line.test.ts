import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import {json} from '../../src/render/json.ts';
import {table} from '../../src/render/table/table.ts';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {kernel} from '../incidents/changes.ts';
import {nftScenario, withRules} from '../nft-scenario.ts';
import {type Scenario, scenario} from '../scenario.ts';
import {plain} from './report.ts';

const reported = async (change: (given: Scenario) => void) => {
  const given = await scenario();
  change(given);
  return diagnose(given.snapshot(), {toolVersion: '0.0.0'});
};

const pods = '-A FORWARD -s 10.244.0.0/16 -j ACCEPT';

describe('the first line says what happens, not that something is wrong', () => {
  test.each<readonly [says: string, change: (given: Scenario) => void]>([
    [
      // Without an endpoint at all, or without one on this node.
      'node-b: connections to Services without endpoints hang instead of being refused (ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 26 in sync, 5 with findings, 3 without rules)',
      given => given.rules('node-b').delete('-A FORWARD', '-j KUBE-SERVICES'),
    ],
    [
      'node-b: connections to Services without endpoints hang or leave the node in place of a refusal (ST212); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 28 in sync, 3 with findings, 3 without rules)',
      given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-SERVICES'], pods),
    ],
    [
      'node-b: loadBalancerSourceRanges are not enforced (ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 27 in sync, 4 with findings, 3 without rules)',
      given => given.rules('node-b').delete('-A FORWARD', '-j KUBE-PROXY-FIREWALL'),
    ],
    [
      'node-b: node ports of 14 Services do not work (ST304); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 15 in sync, 16 with findings, ',
      given => given.rules('node-b').delete('-A KUBE-SERVICES', '-j KUBE-NODEPORTS'),
    ],
    [
      'shop/lb-ranges on node-b: clients that loadBalancerSourceRanges allow are dropped (ST210)',
      given => given.rules('node-b').deleteAll('-A KUBE-FW-', ' -s '),
    ],
    [
      'shop/lb-local on node-b: pods of the node cannot reach all endpoints, because the Local policy is applied to them (ST207)',
      given => given.rules('node-b').delete('-A KUBE-EXT-', 'pod traffic for shop/lb-local:http'),
    ],
    [
      'node-b: packets in tunnels are masqueraded twice (ST302)',
      given => given.rules('node-b').delete('-A KUBE-POSTROUTING', '--set-xmark'),
    ],
    [
      'node-a: the table of tracked connections is full, new connections are dropped (ST605)',
      given => kernel(given, {sysctls: {'net.netfilter.nf_conntrack_count': 65_536}}),
    ],
    [
      "node-a: the node's own processes have no route to Services (ST611)",
      given => kernel(given, {routes: [{type: 'blackhole', dst: '10.96.0.1'}]}),
    ],
    [
      'INCOMPLETE: 1 of 3 nodes was not checked (node-b): its mode is nftables (proxy-mode), and it has no nft.json. shop/empty and 2 more Services: no ready endpoint (ST101); 3 warnings, no errors on the other 2 (34 Services: ',
      given => given.file('node-b', 'proxy-mode', 'nftables'),
    ],
    [
      'no node was checked: no nodes were found; shop/empty and 2 more Services: no ready endpoint (ST101); 34 Services',
      given => given.leaveOutNodes(),
    ],
  ])('%s', async (says, change) => {
    expect(headlineOf(await reported(change))).toContain(says);
  });
});

test.each<readonly [says: string, chain: string]>([
  ['(ST212); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 28 in sync, 3 with findings, 3 without rules)', 'reject-chain'],
  ['(ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 28 in sync, 3 with findings, 3 without rules)', 'filter-forward'],
  [
    '(ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 27 in sync, 4 with findings, 3 without rules)',
    'filter-prerouting-pre-dnat',
  ],
])('in nftables mode only the Services that it hits are counted: %s', async (says, chain) => {
  const given = await nftScenario(withRules(chain));
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toContain(says);
});

test.each<readonly [code: string, nodes: string, change: (given: Scenario) => void]>([
  ['ST212', 'node-b', given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-SERVICES'], pods)],
  ['ST203', 'node-a, node-b, node-c', given => given.slices('shop/web', slice => ({...slice, endpoints: []}))],
])('neither a block nor JSON says that connections are refused beside %s of the same Service', async (code, nodes, change) => {
  const report = await reported(change);
  const {findings} = JSON.parse(json(report, plain)) as {readonly findings: readonly Finding[]};
  const own = findings.filter(finding => finding.code === 'ST101' && finding.message.includes(`and on ${nodes} are not (${code})`));
  expect(own.length).toBeGreaterThan(0);
  expect(own.map(({remedy}) => remedy).join()).not.toContain('by design');
  const text = table(report, {...plain, width: Infinity});
  expect(text).toContain(`Connections should be refused, and on ${nodes} are not (${code})`);
  const [, block = ''] = text.split(`are not (${code})`);
  expect(block.split('\n\n')[0]).not.toContain('by design');
});
