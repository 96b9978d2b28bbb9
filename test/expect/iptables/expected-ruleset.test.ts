import {describe, expect, test} from 'vitest';
import {compareRulesets} from '../../../src/compare/compare-rulesets.ts';
import type {Ruleset} from '../../../src/model/ruleset.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {endpoint, service, slice} from '../../cluster.ts';
import {expectationOf} from '../../expectation.ts';
import {readFixture} from '../../fixtures.ts';
import {expectedOf, rulesIn, type Setup} from '../../kube-proxy.ts';

/** The objects of section 3.9 of the reference. */
const example: Setup = {
  version: '1.36.2',
  config: {clusterCIDRs: ['10.244.0.0/16']},
  services: [
    service('default/kubernetes', {clusterIP: '10.96.0.1', ports: [{name: 'https', port: 443, targetPort: 6443}]}),
    service(
      'shop/web',
      {
        type: 'LoadBalancer',
        clusterIP: '10.96.8.8',
        ports: [{name: 'http', port: 80, nodePort: 31080, targetPort: 8080}],
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 32100,
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}},
        loadBalancerSourceRanges: ['203.0.113.0/24', '192.168.1.0/24'],
      },
      {ingress: [{ip: '198.51.100.7'}]},
    ),
    service('shop/empty', {clusterIP: '10.96.9.9', ports: [{port: 53, protocol: 'UDP'}]}),
  ],
  slices: [
    slice('default/kubernetes', [endpoint('192.168.1.10')], {ports: [{name: 'https', port: 6443, protocol: 'TCP'}]}),
    slice('shop/web', [endpoint('10.244.2.7', 'node-b'), endpoint('10.244.1.5', 'node-a')], {
      ports: [{name: 'http', port: 8080, protocol: 'TCP'}],
    }),
  ],
};

const [dump] = parseDumps(readFixture('kube-proxy-example-1.36.iptables-save')) as readonly [Ruleset];

describe('the worked example of the reference', () => {
  test('matches the expected rules, chain by chain and rule by rule', () => {
    const expected = expectedOf(example);
    for (const item of expected.ports) expected.materialize(item);
    const chains = [...(dump.tables.get('nat')?.chains.values() ?? []), ...(dump.tables.get('filter')?.chains.values() ?? [])];
    const written = chains.filter(chain => chain.policy === null && chain.ruleCount > 0);
    expect(written.length).toBeGreaterThan(15);
    // The only rule that may bear the counter of this kernel.
    const plain = (text: string) => text.replace('-m nfacct --nfacct-name  ct_state_invalid_dropped_pkts ', '');
    for (const chain of written) expect(expected.chain(chain.table, chain.name)?.text(), chain.name).toBe(plain(chain.text()));
  });

  test('has no difference', () => {
    expect(compareRulesets(expectationOf(expectedOf(example)), dump).differences).toEqual([]);
  });

  test('lacks one rule if the kernel counts, as the example leaves it out', () => {
    const {differences} = compareRulesets(expectationOf(expectedOf({...example, nfacct: true})), dump);
    expect(differences).toMatchObject([{kind: 'missing', rule: {table: 'nat', chain: 'KUBE-NODEPORTS'}, owner: {port: {service: 'web'}}}]);
    expect(differences[0]?.rule.text).toContain('-d 127.0.0.0/8 -p tcp');
  });
});

describe('an extra rule', () => {
  const without: Setup = {...example, services: example.services?.slice(0, 1) ?? []};
  const differences = (setup: Setup, table: string, rule: string) => {
    const chain = rule.split(' ')[0] ?? '';
    const text = `*${table}\n:${chain} - [0:0]\n-A ${rule}\nCOMMIT\n`;
    const [actual] = parseDumps(text) as readonly [Ruleset];
    const {differences: all} = compareRulesets(expectationOf(expectedOf(setup)), actual);
    return all.filter(({kind}) => kind !== 'missing').map(({kind, rule: found}) => `${kind} ${found.text}`);
  };

  test.each([
    ['filter', 'KUBE-SERVICES -d 10.96.8.8/32 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable'],
    ['filter', 'KUBE-EXTERNAL-SERVICES -d 198.51.100.7/32 -p tcp -m tcp --dport 80 -j DROP'],
    ['filter', 'KUBE-PROXY-FIREWALL -d 198.51.100.7/32 -p tcp -m tcp --dport 80 -j DROP'],
    ['filter', 'KUBE-NODEPORTS -p tcp -m tcp --dport 32100 -j ACCEPT'],
    ['nat', 'KUBE-NODEPORTS -p tcp -m tcp --dport 31080 -j KUBE-EXT-67NZLRHBNDSAWJRO'],
  ])('is found in a chain that should be empty: %s %s', (table, rule) => {
    expect(differences(without, table, rule)).toEqual([`extra -A ${rule}`]);
  });

  test('of the kubelet is ignored in the chains that it writes too', () => {
    const six: Setup = {...without, family: 'IPv6'};
    expect(differences(six, 'filter', 'KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP')).toEqual([]);
    expect(differences({...without, version: '1.23'}, 'nat', 'KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000')).toEqual([]);
  });
});

describe('the chains of an expected ruleset', () => {
  test('that belong to a Service port are found by its hash', () => {
    const expected = expectedOf(example);
    expect(expected.portOfHash('67NZLRHBNDSAWJRO')?.port.servicePortName).toBe('shop/web:http');
    expect(expected.portOfHash('AAAAAAAAAAAAAAAA')).toBeUndefined();
    expect(expected.chain('nat', 'KUBE-EXT-67NZLRHBNDSAWJRO')).toMatchObject({table: 'nat', policy: null, complete: true, ruleCount: 4});
    expect(expected.chain('nat', 'KUBE-SVC-AAAAAAAAAAAAAAAA')).toBeUndefined();
    expect(expected.chain('filter', 'KUBE-EXT-67NZLRHBNDSAWJRO')).toBeUndefined();
  });

  test('that belong to endpoints exist once those of their Service port are rendered', () => {
    const expected = expectedOf(example);
    expect(expected.chain('nat', 'KUBE-SEP-34ZZ2QFGO32YYXXO')).toBeUndefined();
    expected.chain('nat', 'KUBE-SVC-67NZLRHBNDSAWJRO');
    expect(expected.chain('nat', 'KUBE-SEP-34ZZ2QFGO32YYXXO')?.ruleCount).toBe(2);
  });

  test('that the Service port does not use do not exist', () => {
    const expected = expectedOf(example);
    expect(expected.chain('nat', 'KUBE-SVL-NPX46M4PTMTKRN6Y')).toBeUndefined();
    expect(expected.chain('nat', 'KUBE-XLB-67NZLRHBNDSAWJRO')).toBeUndefined();
  });

  test('include the base chains with a policy, and the tables, of every node', () => {
    const expected = expectedOf(example);
    for (const name of ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING', 'FORWARD'])
      expect(expected.chain('mangle', name)).toMatchObject({policy: 'ACCEPT', ruleCount: 0});
    expect(expected.chain('filter', 'FORWARD')).toMatchObject({policy: 'ACCEPT', ruleCount: 4});
    expect([expected.hasTable('nat'), expected.hasTable('raw')]).toEqual([true, false]);
  });

  test('are the same object for every request', () => {
    const expected = expectedOf(example);
    expect(expected.chain('nat', 'KUBE-SERVICES')).toBe(expected.chain('nat', 'KUBE-SERVICES'));
  });

  test('without a rule of a Service are parsed once for all Services and nodes with the same settings', () => {
    const [one, other] = [
      expectedOf(example),
      expectedOf({...example, services: example.services?.slice(0, 1) ?? [], facts: {name: 'node-b'}}),
    ];
    const apart = expectedOf({...example, config: {...example.config, masqueradeAll: true, clusterCIDRs: []}});
    for (const [table, name] of [
      ['nat', 'KUBE-POSTROUTING'],
      ['nat', 'KUBE-MARK-MASQ'],
      ['filter', 'KUBE-FORWARD'],
      ['filter', 'FORWARD'],
    ] as const) {
      expect(one.chain(table, name)?.rules()[0]).toBe(other.chain(table, name)?.rules()[0]);
      expect(one.chain(table, name)).not.toBe(apart.chain(table, name));
    }
    expect(one.chain('nat', 'KUBE-SERVICES')?.text()).not.toBe(other.chain('nat', 'KUBE-SERVICES')?.text());
  });

  test('that are shared contain the rules of all, with the last rules at the end', () => {
    const rules = rulesIn(expectedOf(example), 'nat/KUBE-SERVICES');
    expect(rules).toHaveLength(4);
    expect(rules?.at(-1)).toContain('must be the last rule');
    expect(rulesIn(expectedOf({}), 'filter/KUBE-SERVICES')).toEqual([]);
  });
});
