import {describe, expect, test} from 'vitest';
import {inferConfig} from '../../../src/expect/iptables/infer-config.ts';
import type {Family} from '../../../src/model/address.ts';
import type {Ruleset} from '../../../src/model/ruleset.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';

async function rulesetsOf(name: string): Promise<ReadonlyMap<Family, Ruleset>> {
  const [node] = (await snapshotOf(name)).nodes;
  const read = (file: string) => parseDumps(node?.read(file) ?? '')[0];
  const both = [read('iptables-save'), read('ip6tables-save')].flatMap(ruleset => (ruleset === undefined ? [] : [ruleset]));
  return new Map(both.map(ruleset => [ruleset.family, ruleset]));
}

describe('the rules of a node show', () => {
  test.each([
    [
      'healthy/1.36-iptables',
      {clusterCIDRs: ['10.244.0.0/16'], masqueradeAll: false, masqueradeBit: 14, nodePortAddresses: [], localhostNodePorts: true},
    ],
    ['settings/masquerade-all', {masqueradeAll: true}],
    ['settings/masquerade-bit-5', {masqueradeBit: 5}],
    ['settings/detect-bridge', {detectLocalMode: 'BridgeInterface', bridgeInterface: 'cbr0'}],
    ['settings/detect-interface-prefix', {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth'}],
    ['settings/no-localhost-nodeports', {localhostNodePorts: false}],
    ['settings/nodeport-primary', {nodePortAddresses: ['172.18.0.11/32']}],
    ['settings/detect-node-cidr', {clusterCIDRs: ['10.244.11.0/24']}],
  ])('the settings of its kube-proxy: %s', async (name, settings) => {
    expect(inferConfig(await rulesetsOf(name))).toMatchObject(settings);
  });

  test('how kube-proxy detects pods, even if the dump is truncated before the Services', async () => {
    const [node] = (await snapshotOf('healthy/1.36-iptables')).nodes;
    const whole = node?.read('iptables-save')?.toString('utf8') ?? '';
    const cut = whole.slice(0, whole.indexOf('\n-A KUBE-SEP-'));
    const rulesets = new Map(parseDumps(Buffer.from(cut)).map(ruleset => [ruleset.family, ruleset]));
    expect(inferConfig(rulesets)).toMatchObject({clusterCIDRs: ['10.244.0.0/16'], masqueradeAll: false});
  });

  test.each(captureNames('healthy', 'eras'))('an era that contains its version: %s', async name => {
    const minor = inferConfig(await rulesetsOf(name)).version?.minor ?? 0;
    const actual = Number(/1\.(\d+)/.exec(name)?.[1]);
    // From 1.27 on kube-proxy writes the rules of a plain cluster alike.
    expect(minor).toBe(actual >= 27 ? 36 : actual);
  });

  test.each([
    [
      'a named port, masqueraded in its own chain',
      ['-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "shop/web:http cluster IP" -j KUBE-MARK-MASQ'],
      23,
    ],
    [
      'a named port, masqueraded in KUBE-SERVICES',
      ['-A KUBE-SERVICES -d 10.96.0.1/32 -m comment --comment "shop/web:http cluster IP" -j KUBE-MARK-MASQ'],
      21,
    ],
    [
      'a port without a name',
      ['-A KUBE-SERVICES -d 10.96.0.1/32 -m comment --comment "shop/web: cluster IP" -j KUBE-SVC-AAAAAAAAAAAAAAAA'],
      18,
    ],
    [
      'a rule of table filter',
      [
        '-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment "shop/api:http has no endpoints" -j REJECT',
        '-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "shop/web:http" -j KUBE-SEP-BBBBBBBBBBBBBBBB',
      ],
      23,
    ],
  ])('an excerpt that uses KUBE-XLB is from 1.23 or older: %s', (_, lines, minor) => {
    const jump = '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-XLB-AAAAAAAAAAAAAAAA';
    const [ruleset] = parseDumps([jump, ...lines, ''].join('\n'));
    expect(ruleset === undefined ? null : inferConfig(new Map([['IPv4', ruleset]])).version?.minor).toBe(minor);
  });

  test('no masquerade bit if the mark has several bits, like that of kube-proxy 1.1', () => {
    const [ruleset] = parseDumps(
      '-A KUBE-SERVICES -d 10.0.0.1/32 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4d415351/0xffffffff\n',
    );
    expect(ruleset === undefined ? {} : inferConfig(new Map([['IPv4', ruleset]]))).not.toHaveProperty('masqueradeBit');
  });

  test('nothing without rules', () => {
    expect(inferConfig(new Map())).toEqual({});
    expect(inferConfig(new Map(parseDumps('*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n').map(ruleset => ['IPv4', ruleset])))).toEqual({});
  });
});
