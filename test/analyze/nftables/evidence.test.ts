/** The rules and elements that a finding in nftables mode shows: what should be on the node, and what is there, with its line. */
import {expect, test} from 'vitest';
import {explainNftResidualDifferences} from '../../../src/analyze/nftables/service-port/analyze-nft-port.ts';
import type {NftPortCase, NftPortDifference} from '../../../src/analyze/nftables/nft-case.ts';
import {SymptomList} from '../../../src/analyze/symptoms/symptom-list.ts';
import {servicesInRules} from '../../../src/analyze/services-in-rules/services-in-rules.ts';
import type {ServicePort} from '../../../src/model/service-port.ts';
import {snapshotOf} from '../../fixtures.ts';
import {nftScenario, replaced, withRules} from '../../nft-scenario.ts';

const web = 'shop/web/tcp/http';
const balanced = (count: number, ...endpoints: readonly string[]): string =>
  `meta l4proto tcp dnat ip to numgen random mod ${count} map { ${endpoints.map((endpoint, index) => `${index} : ${endpoint} . 8080`).join(', ')} }`;
const right = balanced(3, '10.244.11.4', '10.244.11.5', '10.244.12.4');
const short = balanced(2, '10.244.11.4', '10.244.12.4');
const uneven = balanced(4, '10.244.11.4', '10.244.11.5', '10.244.12.4', '10.244.11.4');
const yesterday = balanced(3, '10.244.11.3', '10.244.11.5', '10.244.12.4');
const ofWeb = (rule: string) => withRules(`service-KHN6ECMT-${web}`, rule);
const external = 'external-5C7MGBTD-shop/nodeport-local/tcp/http';
const toCluster = 'goto service-5C7MGBTD-shop/nodeport-local/tcp/http';
const mark = 'meta mark set meta mark | 0x00004000';
const toWeb = '10.96.1.1 . tcp . 80 : goto service-KHN6ECMT-shop/web/tcp/http';

interface Shown {
  readonly code: string;
  readonly expected?: readonly string[];
  readonly actual?: readonly string[];
}

/** Line 372 is the first rule of Service web; the lines of elements are their index in the set. */
test.each<[what: string, change: (ruleset: string) => string, shown: readonly Shown[]]>([
  ['an entry that is missing: its element', replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,\s+/, ''), [{code: 'ST201', expected: [toWeb]}]],
  [
    'an endpoint that is missing: the rule that picks without it',
    ofWeb(short),
    [{code: 'ST202', expected: [right], actual: [`372: ${short}`]}],
  ],
  [
    'a stale endpoint: the rule that picks it',
    ofWeb(yesterday),
    [
      {code: 'ST202', expected: [right], actual: [`372: ${yesterday}`]},
      {code: 'ST203', actual: [`372: ${yesterday}`]},
    ],
  ],
  ['an uneven share: the rules that pick', ofWeb(uneven), [{code: 'ST208', expected: [right], actual: [`372: ${uneven}`]}]],
  [
    'another time to remember clients: the sets',
    replaced('timeout 10m', 'timeout 20m'),
    [
      {
        code: 'ST209',
        expected: ['type ipv4_addr; flags timeout; timeout 600s'],
        actual: ['1: type ipv4_addr; flags timeout; timeout 1200s'],
      },
    ],
  ],
  [
    'another policy: the rules that should lead on, and those that do',
    withRules(external, `${mark} comment "masquerade"`, toCluster),
    [
      {
        code: 'ST207',
        expected: [
          'goto local-5C7MGBTD-shop/nodeport-local/tcp/http',
          `fib saddr type local ${toCluster} comment "short-circuit local traffic"`,
          `fib saddr type local ${mark} comment "masquerade local traffic"`,
          `ip saddr 10.244.0.0/16 ${toCluster} comment "short-circuit pod traffic"`,
        ],
        actual: [`512: ${mark} comment "masquerade"`, `513: ${toCluster}`],
      },
    ],
  ],
  [
    'a refusal in the map of entries: the element that refuses',
    replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,/, '10.96.1.1 . tcp . 80 : drop,'),
    [{code: 'ST213', expected: [toWeb], actual: ['8: 10.96.1.1 . tcp . 80 : drop']}],
  ],
  [
    'a stale entry: its element',
    replaced('tcp . 30080 : goto', 'tcp . 31999 : goto external-6HDZL72K-shop/nodeport/tcp/http, tcp . 30080 : goto'),
    [{code: 'ST205', actual: ['1: tcp . 31999 : goto external-6HDZL72K-shop/nodeport/tcp/http']}],
  ],
  [
    'rules without effect: where they are',
    replaced(`\tchain service-KHN6ECMT-${web} {\n`, `\tchain service-KHN6ECMT-${web} {\n\t\tip saddr 192.0.2.1 counter\n\t\tcounter\n`),
    [{code: 'ST216', actual: ['372: ip saddr 192.0.2.1 counter', '373: counter']}],
  ],
])('%s', async (_, change, shown) => {
  const news = (await nftScenario(change)).newFindings();
  expect(news.map(({code, expected, actual}) => ({code, ...(expected && {expected}), ...(actual && {actual})}))).toEqual(shown);
});

const port = {family: 'IPv4'} as ServicePort;

function difference(kind: NftPortDifference['kind'], what: NftPortDifference['what'], name: string, text: string): NftPortDifference {
  return {kind, what, rule: {table: 'ip kube-proxy', chain: name, line: kind === 'missing' ? 0 : 7, text}, owner: null};
}

test.each<[text: string, differences: readonly NftPortDifference[], changesOutcome?: boolean]>([
  ['an element of firewall-ips is missing: no traffic is affected', [difference('missing', 'element', 'firewall-ips', 'a')]],
  ['a rule of service-a is missing: traffic is affected', [difference('missing', 'rule', 'service-a', 'a')], true],
  [
    '2 elements of firewall-ips, service-ips were not written by kube-proxy: no traffic is affected',
    [difference('extra', 'element', 'firewall-ips', 'a'), difference('extra', 'element', 'service-ips', 'b')],
  ],
  [
    '2 rules of service-a, service-ips were not written by kube-proxy: no traffic is affected',
    [difference('extra', 'rule', 'service-a', 'a'), difference('extra', 'element', 'service-ips', 'b')],
  ],
  ['a rule of services was not written by kube-proxy: no traffic is affected', [difference('extra', 'hook', 'services', 'a')]],
  ['a set of affinity-a was not written by kube-proxy: no traffic is affected', [difference('extra', 'set', 'affinity-a', 'a')]],
  ['a rule of service-a is there twice: no traffic is affected', [difference('duplicate', 'rule', 'service-a', 'a')]],
  ['a rule of service-a is out of order: no traffic is affected', [difference('reordered', 'rule', 'service-a', 'a')]],
])('what is left is told as: %s', (text, differences, changesOutcome = false) => {
  const symptoms = new SymptomList(port);
  explainNftResidualDifferences(
    {item: {}, differences} as unknown as NftPortCase,
    symptoms,
    changesOutcome ? null : () => 'no traffic is affected',
  );
  const [{kind} = {kind: 'extra'}] = differences;
  const rules = differences.map(({rule}) => rule);
  expect(symptoms.all.map(({detail, severity, expected, actual}) => ({detail, severity, expected, actual}))).toEqual([
    {
      ...{detail: text, severity: changesOutcome ? 'error' : 'info'},
      ...(kind === 'missing' ? {expected: rules, actual: []} : {expected: [], actual: rules}),
    },
  ]);
});

test('of rules without the API, entries are node ports, cluster IPs and external addresses', async () => {
  const [node] = (await snapshotOf('nftables/1.36')).nodes;
  const entries = new Map(
    (node === undefined ? [] : servicesInRules(node))
      .filter(({family}) => family === 'IPv4')
      .map(({service, port: {name}, entries: all}) => [`${service.name}:${name}`, all.map(({entry}) => entry)]),
  );
  expect(entries.get('lb-local:http')).toEqual([
    {kind: 'clusterIP', address: '10.96.1.6', port: 80},
    {kind: 'externalIP', address: '203.0.113.12', port: 80},
    {kind: 'nodePort', address: null, port: 30084},
  ]);
  // Its cluster IP leads to the chain local-….
  expect(entries.get('internal-local:http')).toEqual([{kind: 'clusterIP', address: '10.96.1.12', port: 80}]);
  // Without endpoints: it is refused.
  expect(entries.get('empty:http')).toEqual([{kind: 'clusterIP', address: '10.96.1.14', port: 80}]);
});
