/** Missing and stale endpoints that are known without a walk are exactly those that walks show, and walks decide wherever they might not be. */
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {compareFamily} from '../../../../src/analyze/iptables/endpoint-changes.ts';
import {iptablesServiceView} from '../../../../src/analyze/iptables/rules-of-ports.ts';
import {analyzePort} from '../../../../src/analyze/iptables/service-port/analyze-port.ts';
import type {Symptom} from '../../../../src/analyze/symptoms/symptom.ts';
import {readBundle} from '../../../../src/collect/bundle/read-bundle.ts';
import {ClusterView} from '../../../../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../../../../src/expect/iptables/expect-ruleset.ts';
import type {PortOnNode} from '../../../../src/expect/iptables/service-rules.ts';
import {nodeFacts} from '../../../../src/expect/read-node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../../../../src/expect/resolve-proxy-config.ts';
import type {Family} from '../../../../src/model/address.ts';
import {ruleTextOf} from '../../../../src/model/ruleset.ts';
import type {Snapshot} from '../../../../src/model/snapshot.ts';
import {parseDumps} from '../../../../src/parse/iptables/iptables-save.ts';
import {buildCluster} from '../../../bench/build-cluster.ts';
import {withReplacedEndpoints} from '../../../bench/replace-endpoints.ts';
import {writeApiObjects, writeBundle} from '../../../bench/synthetic-cluster.ts';
import {withRule} from '../../../editable-dump.ts';

let temp: string;
/** A node whose kube-proxy stopped before a part of the endpoints got other addresses. */
let stopped: Snapshot;

beforeAll(async () => {
  temp = mkdtempSync(join(tmpdir(), 'svc-trace-changes-'));
  const cluster = buildCluster({services: 44, endpoints: 4, nodes: 1, seed: 3});
  writeBundle(temp, cluster);
  writeApiObjects(temp, withReplacedEndpoints(cluster, 0.3, 3));
  stopped = await readBundle(temp);
});

afterAll(() => rmSync(temp, {recursive: true}));

interface Compared {
  readonly changed: ReadonlyMap<PortOnNode, {readonly symptoms: readonly Symptom[]; readonly rules: number}>;
  /** The symptoms that all probes show, each of them walked; and the number of differing rules. */
  walked(item: PortOnNode): {readonly symptoms: readonly Symptom[]; readonly rules: number};
}

function compared(family: Family, change: (dump: string) => string = dump => dump, overrides: ConfigOverrides = {}): Compared {
  const {api, nodes} = stopped;
  const [node] = nodes;
  const [actual] = parseDumps(change(node?.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save')?.toString() ?? ''), family);
  if (node === undefined || actual === undefined) throw new Error('the bundle has no rules');
  const {config} = resolveProxyConfig(node, api, overrides);
  const expected = expectRuleset({view: new ClusterView(api), config, facts: nodeFacts(node, api), family, ruleset: actual});
  const {changed, differencesOf} = compareFamily(expected, actual);
  const view = iptablesServiceView(expected, actual);
  return {
    changed: new Map([...changed].map(([item, {symptoms, parts}]) => [item, {symptoms: symptoms(), rules: parts.length}])),
    walked: item => {
      const differences = differencesOf(item);
      const symptoms = analyzePort({
        item,
        differences,
        expected,
        actual,
        view,
        isBesideBroadRules: true,
        senders: () => ({pods: new Map(), nodes: new Map()}),
      });
      return {
        rules: differences.length,
        symptoms: symptoms.map(symptom => ({
          ...symptom,
          expected: symptom.expected.map(ruleTextOf),
          actual: symptom.actual.map(ruleTextOf),
        })),
      };
    },
  };
}

describe('all probes show the same symptoms', () => {
  test.each(['IPv4', 'IPv6'] as const)('%s', family => {
    const {changed, walked} = compared(family);
    expect(changed.size).toBeGreaterThan(1);
    for (const [item, found] of changed)
      expect({name: item.port.servicePortName, ...found}).toEqual({name: item.port.servicePortName, ...walked(item)});
  });

  test('with session affinity and with an external Local policy', () => {
    const ports = [...compared('IPv4').changed.keys()].map(({port}) => port);
    expect(ports.some(({affinitySeconds}) => affinitySeconds !== null)).toBe(true);
    expect(ports.some(({externalPolicyLocal}) => externalPolicyLocal)).toBe(true);
  });
});

/** A Service port with one endpoint that stayed. */
function target(): {readonly item: PortOnNode; readonly svc: string; readonly sep: string; readonly address: string; readonly at: string} {
  const {changed} = compared('IPv4');
  for (const [item, {symptoms}] of changed) {
    const missing = new Set(symptoms.map(({endpoint}) => endpoint));
    const stayed = item.endpoints.cluster.find(({hostPort}) => !missing.has(hostPort));
    if (stayed === undefined || item.port.nodePort !== 0 || item.port.protocol !== 'TCP') continue;
    const {clusterIP, port, hash} = item.port;
    const at = `-d ${clusterIP}/32 -p tcp -m tcp --dport ${port}`;
    return {item, svc: `KUBE-SVC-${hash}`, sep: item.endpointChain(stayed), address: stayed.address, at};
  }
  throw new Error('no Service port has an endpoint that stayed');
}

function isKnownWithoutWalk(change: (dump: string) => string, overrides?: ConfigOverrides): boolean {
  const {port} = target().item;
  return [...compared('IPv4', change, overrides).changed.keys()].some(item => item.port.hash === port.hash);
}

describe('all probes of a Service port are walked', () => {
  test.each<readonly [what: string, table: string, rule: (given: ReturnType<typeof target>) => string]>([
    ['if a rule of its own matches a mark', 'nat', ({svc}) => `-A ${svc} -m mark --mark 0x1/0x1 -j RETURN`],
    ['if one matches an interface', 'nat', ({svc}) => `-A ${svc} -i eth7 -j RETURN`],
    ['if one matches by chance', 'nat', ({svc}) => `-A ${svc} -m statistic --mode random --probability 0.1 -j ACCEPT`],
    ['if a rule of an endpoint matches a set', 'nat', ({sep}) => `-A ${sep} -m set --match-set blocked src -j RETURN`],
    [
      'if one matches a rate',
      'nat',
      ({sep}) => `-A ${sep} -m hashlimit --hashlimit-upto 5/sec --hashlimit-burst 5 --hashlimit-name x -j RETURN`,
    ],
    ['if one matches a state', 'nat', ({sep}) => `-A ${sep} -m conntrack --ctstate NEW -j RETURN`],
    ['if another rule has its cluster IP', 'nat', ({at}) => `-A KUBE-SERVICES ${at} -j ACCEPT`],
    ['if a shared rule matches a source', 'nat', () => '-A KUBE-SERVICES -s 10.128.0.0/22 -j ACCEPT'],
    ['if a shared rule matches a source and its cluster IP', 'nat', ({at}) => `-A KUBE-SERVICES -s 10.128.0.0/22 ${at} -j ACCEPT`],
    ['if a shared rule matches a set', 'nat', () => '-A KUBE-SERVICES -m set --match-set blocked dst -j ACCEPT'],
    ['if a shared rule excludes a network', 'nat', () => '-A KUBE-SERVICES ! -d 10.0.0.0/8 -j ACCEPT'],
    ['if a filter rule has the address of an endpoint', 'filter', ({address}) => `-A KUBE-SERVICES -d ${address}/32 -j DROP`],
    ['if a filter rule has its network', 'filter', () => '-A KUBE-EXTERNAL-SERVICES -d 10.128.0.0/9 -j DROP'],
    ['if a filter rule has a port alone', 'filter', () => '-A KUBE-PROXY-FIREWALL -p tcp -m tcp --dport 8080 -j DROP'],
    ['if a filter rule matches a mark', 'filter', () => '-A KUBE-SERVICES -m mark --mark 0x1/0x1 -j DROP'],
    ['if a filter rule is for what is not local', 'filter', () => '-A KUBE-EXTERNAL-SERVICES -m addrtype ! --dst-type LOCAL -j DROP'],
    [
      'if a comment alone names local packets',
      'filter',
      () => '-A KUBE-SERVICES -m comment --comment "x -m addrtype --dst-type LOCAL y" -j DROP',
    ],
  ])('%s', (_, table, rule) => {
    expect(isKnownWithoutWalk(dump => dump)).toBe(true);
    expect(isKnownWithoutWalk(withRule(table, rule(target())))).toBe(false);
  });

  test('if its jump in KUBE-SERVICES is missing or different', () => {
    const {svc} = target();
    expect(isKnownWithoutWalk(dump => dump.replace(new RegExp(`^-A KUBE-SERVICES .* -j ${svc}\n`, 'm'), ''))).toBe(false);
    expect(isKnownWithoutWalk(dump => dump.replace(new RegExp(`^(-A KUBE-SERVICES .*) -j ${svc}$`, 'm'), '$1 -j ACCEPT'))).toBe(false);
  });

  test('if one of its own rules is missing, duplicate, or in another position', () => {
    const {svc, sep} = target();
    const rules = new RegExp(`^-A ${sep} .*\n`, 'gm');
    expect(isKnownWithoutWalk(dump => dump.replace(rules, line => (line.includes('DNAT') ? '' : line)))).toBe(false);
    expect(isKnownWithoutWalk(dump => dump.replace(rules, line => line + line))).toBe(false);
    expect(isKnownWithoutWalk(dump => dump.replace(new RegExp(`^(-A ${svc} .*\n)(-A ${svc} .*\n)`, 'm'), '$2$1'))).toBe(false);
  });

  test('if the dump is truncated', () => {
    expect(isKnownWithoutWalk(dump => dump.slice(0, dump.lastIndexOf('COMMIT')))).toBe(false);
  });

  test('if packets from pods are masqueraded', () => {
    expect(isKnownWithoutWalk(dump => dump, {masqueradeAll: true})).toBe(false);
    expect(isKnownWithoutWalk(dump => dump, {clusterCIDRs: ['10.0.0.0/24']})).toBe(false);
  });
});

describe('rules in base chains, which are evaluated separately, change nothing', () => {
  test.each([
    ['raw', 'PREROUTING', '-j CT --notrack'],
    ['mangle', 'FORWARD', '-j DROP'],
    ['filter', 'FORWARD', '-j DROP'],
    ['nat', 'POSTROUTING', '-j MASQUERADE'],
  ])('%s %s', (table, chain, action) => {
    const {item, address} = target();
    const {changed, walked} = compared('IPv4', withRule(table, `-A ${chain} -d ${address}/32 ${action}`));
    const [found] = [...changed].filter(([{port}]) => port.hash === item.port.hash);
    expect(found?.[1]).toEqual(found === undefined ? null : walked(found[0]));
  });
});

test('an endpoint whose address is in the node, its cluster IPs or a shared rule is walked', () => {
  const {item, address} = target();
  const services = (stopped.api.services ?? []).map(service =>
    service.metadata.name === 'kubernetes' ? {...service, spec: {...service.spec, externalIPs: [address]}} : service,
  );
  const before = stopped;
  stopped = {...before, api: {...before.api, services}};
  try {
    const names = [...compared('IPv4').changed.keys()].map(({port}) => port.hash);
    expect(names.length).toBeGreaterThan(2);
    expect(names).not.toContain(item.port.hash);
  } finally {
    stopped = before;
  }
});
