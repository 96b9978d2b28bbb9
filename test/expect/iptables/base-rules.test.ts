import {describe, expect, test} from 'vitest';
import {baseRuleChains} from '../../../src/expect/iptables/base-rules.ts';
import {expectedOf, rulesIn, type Setup} from '../../kube-proxy.ts';
import {remark} from './templates.ts';

const baseRules = (setup: Setup, place: string) => rulesIn(expectedOf(setup), place);
const jump = (text: string, chain: string) => `-m conntrack --ctstate NEW ${remark(text)} -j ${chain}`;

const firewall = jump('kubernetes load balancer firewall', 'KUBE-PROXY-FIREWALL');
const external = jump('kubernetes externally-visible service portals', 'KUBE-EXTERNAL-SERVICES');
const services = jump('kubernetes service portals', 'KUBE-SERVICES');
const nodePorts = `${remark('kubernetes health check service ports')} -j KUBE-NODEPORTS`;
const forward = `${remark('kubernetes forwarding rules')} -j KUBE-FORWARD`;
const martians = '-j KUBE-FIREWALL';

const numbers = Array.from({length: 16}, (_, index) => 21 + index);

describe('the jumps from base chains (section 2.1)', () => {
  test.each(numbers)('of 1.%i, both families', minor => {
    for (const family of ['IPv4', 'IPv6'] as const) {
      const of = (chain: string) => baseRules({version: `1.${minor}`, family}, chain);
      const proxyFirewall = minor >= 25 ? [firewall] : [];
      const kubeFirewall = minor >= 27 ? [martians] : [];
      expect(of('filter/INPUT')).toEqual([...kubeFirewall, ...proxyFirewall, nodePorts, external]);
      expect(of('filter/FORWARD')).toEqual([...proxyFirewall, forward, services, external]);
      expect(of('filter/OUTPUT')).toEqual([...kubeFirewall, ...proxyFirewall, services]);
      expect(of('nat/PREROUTING')).toEqual([`${remark('kubernetes service portals')} -j KUBE-SERVICES`]);
      expect(of('nat/OUTPUT')).toEqual([`${remark('kubernetes service portals')} -j KUBE-SERVICES`]);
      expect(of('nat/POSTROUTING')).toEqual([`${remark('kubernetes postrouting rules')} -j KUBE-POSTROUTING`]);
    }
  });
});

describe('masquerading (section 2.3)', () => {
  test.each([
    [14, '0x4000'],
    [5, '0x20'],
    [0, '0x1'],
    [31, '0x80000000'],
  ])('with bit %i', (masqueradeBit, mark) => {
    for (const family of ['IPv4', 'IPv6'] as const) {
      const setup = {family, config: {masqueradeBit}};
      expect(baseRules(setup, 'nat/KUBE-POSTROUTING')).toEqual([
        `-m mark ! --mark ${mark}/${mark} -j RETURN`,
        `-j MARK --set-xmark ${mark}/0x0`,
        `${remark('kubernetes service traffic requiring SNAT')} -j MASQUERADE --random-fully`,
      ]);
      expect(baseRules(setup, 'nat/KUBE-MARK-MASQ')).toEqual([`-j MARK --set-xmark ${mark}/${mark}`]);
      expect(baseRules(setup, 'filter/KUBE-FORWARD')).toContain(
        `${remark('kubernetes forwarding rules')} -m mark --mark ${mark}/${mark} -j ACCEPT`,
      );
    }
  });
});

describe('forwarding (section 2.5)', () => {
  const invalid = '-m conntrack --ctstate INVALID -j DROP';
  const counted = '-m conntrack --ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP';
  const marked = `${remark('kubernetes forwarding rules')} -m mark --mark 0x4000/0x4000 -j ACCEPT`;
  const known = (text: string) => `${remark(text)} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`;

  test('has one rule for known connections from 1.23 on, two before', () => {
    const both = [known('kubernetes forwarding conntrack pod source rule'), known('kubernetes forwarding conntrack pod destination rule')];
    for (const minor of numbers) {
      const last = minor >= 23 ? [known('kubernetes forwarding conntrack rule')] : both;
      expect(baseRules({version: `1.${minor}`}, 'filter/KUBE-FORWARD'), `1.${minor}`).toEqual([invalid, marked, ...last]);
    }
  });

  test('does not drop INVALID packets when conntrack is liberal, from 1.29 on', () => {
    const first = (version: string) => baseRules({version, config: {tcpBeLiberal: true}}, 'filter/KUBE-FORWARD')?.[0];
    expect(first('1.28')).toBe(invalid);
    expect(first('1.29')).toBe(marked);
    expect(first('1.36')).toBe(marked);
  });

  test('counts them if the node counts, from 1.31 on, in both families', () => {
    const first = (version: string, family: 'IPv4' | 'IPv6') => baseRules({version, family, nfacct: true}, 'filter/KUBE-FORWARD')?.[0];
    expect(first('1.30', 'IPv4')).toBe(invalid);
    expect(first('1.31', 'IPv4')).toBe(counted);
    expect(first('1.36', 'IPv6')).toBe(counted);
  });
});

describe('KUBE-FIREWALL (section 2.4)', () => {
  const rule = `! -s 127.0.0.0/8 -d 127.0.0.0/8 ${remark('block incoming localnet connections')} -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP`;

  test('is kube-proxy’s from 1.27 on, in IPv4', () => {
    expect(baseRules({version: '1.26'}, 'filter/KUBE-FIREWALL')).toBeNull();
    expect(baseRules({version: '1.27'}, 'filter/KUBE-FIREWALL')).toEqual([rule]);
    expect(baseRules({version: '1.27', family: 'IPv6'}, 'filter/KUBE-FIREWALL')).toEqual([]);
    expect(baseRules({version: '1.26', family: 'IPv6'}, 'filter/KUBE-FIREWALL')).toBeNull();
  });

  test.each([
    [{localhostNodePorts: false}, []],
    [{nodePortAddresses: ['10.0.0.0/8']}, []],
    [{nodePortAddresses: ['127.0.0.0/8', '10.0.0.0/8']}, [rule]],
    [{nodePortAddresses: ['127.0.0.1/32']}, [rule]],
    [{nodePortAddresses: ['126.0.0.0/7']}, [rule]],
    [{nodePortAddresses: ['0.0.0.0/0']}, [rule]],
    [{nodePortAddresses: ['fd00::/8']}, [rule]],
    [{nodePortAddresses: ['primary']}, []],
  ])('contains a rule if node ports answer on loopback addresses: %j', (config, rules) => {
    expect(baseRules({config}, 'filter/KUBE-FIREWALL')).toEqual(rules);
  });
});

describe('the jump to node ports (sections 2.6 and 6.2)', () => {
  const note = remark('kubernetes service nodeports; NOTE: this must be the last rule in this chain');
  const all = (except = '') => `${except}${note} -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`;
  const one = (address: string) => `-d ${address} ${note} -j KUBE-NODEPORTS`;

  const rows: readonly (readonly [title: string, setup: Setup, rules: readonly string[]])[] = [
    ['all addresses', {}, [all()]],
    ['a zero network is all addresses', {config: {nodePortAddresses: ['10.0.0.0/8', '0.0.0.0/0']}}, [all()]],
    ['without loopback', {config: {localhostNodePorts: false}}, [all('! -d 127.0.0.0/8 ')]],
    ['without loopback is not known to 1.25', {version: '1.25', config: {localhostNodePorts: false}}, [all()]],
    ['in IPv6 never on loopback', {family: 'IPv6'}, [all('! -d ::1/128 ')]],
    ['in IPv6 of 1.25 on loopback too', {family: 'IPv6', version: '1.25'}, [all()]],
    ['some addresses', {config: {nodePortAddresses: ['192.168.0.0/16']}}, [one('192.168.1.10/32')]],
    ['several networks', {config: {nodePortAddresses: ['192.168.0.0/16', '10.0.0.0/8']}}, [one('192.168.1.10/32'), one('10.9.9.9/32')]],
    [
      'the other family has none of its own: all addresses',
      {family: 'IPv6', config: {nodePortAddresses: ['192.168.0.0/16']}},
      [all('! -d ::1/128 ')],
    ],
    ['both families', {family: 'IPv6', config: {nodePortAddresses: ['192.168.0.0/16', 'fd00:192::/64']}}, [one('fd00:192::10/128')]],
    [
      'loopback among the networks',
      {config: {nodePortAddresses: ['127.0.0.0/8', '10.0.0.0/8']}},
      [one('127.0.0.1/32'), one('10.9.9.9/32')],
    ],
    [
      'loopback among the networks, and off',
      {config: {nodePortAddresses: ['127.0.0.0/8', '10.0.0.0/8'], localhostNodePorts: false}},
      [one('10.9.9.9/32')],
    ],
    [
      'loopback among the networks of IPv6',
      {family: 'IPv6', config: {nodePortAddresses: ['::1/128', 'fd00:192::/64']}},
      [one('fd00:192::10/128')],
    ],
    [
      'loopback among the networks of IPv6 in 1.25',
      {family: 'IPv6', version: '1.25', config: {nodePortAddresses: ['::1/128', 'fd00:192::/64']}},
      [one('::1/128'), one('fd00:192::10/128')],
    ],
    ['no address of the node is among them', {config: {nodePortAddresses: ['172.16.0.0/12']}}, []],
    [
      'an address that two interfaces bear is one',
      {config: {nodePortAddresses: ['10.0.0.0/8']}, facts: {addresses: ['10.9.9.9', '127.0.0.1', '10.9.9.9']}},
      [one('10.9.9.9/32')],
    ],
    ['primary', {config: {nodePortAddresses: ['primary']}}, [one('192.168.1.10/32')]],
    ['primary in IPv6', {family: 'IPv6', config: {nodePortAddresses: ['primary']}}, [one('fd00:192::10/128')]],
    [
      'primary on a node of one family: the other has all addresses',
      {family: 'IPv6', config: {nodePortAddresses: ['primary']}, facts: {hostIPs: ['192.168.1.10']}},
      [all('! -d ::1/128 ')],
    ],
    ['primary with a bindAddress', {config: {nodePortAddresses: ['primary'], bindAddress: '10.9.9.9'}}, [one('10.9.9.9/32')]],
    ['primary on a node whose address is not known', {config: {nodePortAddresses: ['primary']}, facts: {hostIPs: []}}, [all()]],
  ];

  test.each(rows)('%s', (_, setup, rules) => {
    expect(baseRules(setup, 'nat/KUBE-SERVICES')).toEqual(rules);
  });
});

describe('chains that exist whether they contain rules or not', () => {
  test.each([
    ['1.21', ['nat/KUBE-MARK-DROP'], ['filter/KUBE-PROXY-FIREWALL', 'filter/KUBE-FIREWALL']],
    ['1.24', ['nat/KUBE-MARK-DROP'], ['filter/KUBE-PROXY-FIREWALL', 'filter/KUBE-FIREWALL']],
    ['1.25', ['filter/KUBE-PROXY-FIREWALL'], ['nat/KUBE-MARK-DROP', 'filter/KUBE-FIREWALL']],
    ['1.27', ['filter/KUBE-PROXY-FIREWALL', 'filter/KUBE-FIREWALL'], ['nat/KUBE-MARK-DROP']],
  ])('in %s', (version, there, not) => {
    const names = baseRuleChains(expectedOf({version}).context).map(([table, chain]) => `${table}/${chain}`);
    const always = ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'].map(chain => `nat/${chain}`);
    const filter = ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-FORWARD', 'KUBE-NODEPORTS'].map(chain => `filter/${chain}`);
    expect(names.sort()).toEqual([...always, ...filter, ...there].sort());
    for (const name of not) expect(names).not.toContain(name);
  });
});
