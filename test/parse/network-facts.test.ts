import {describe, expect, test} from 'vitest';
import {parseConnectionStatistics, parseLinks, parsePolicyRules, parseRoutes, parseSysctls} from '../../src/parse/network-facts.ts';

// What iproute2 6.1.0 printed of a namespace, shortened.
const port = {
  ...{ifindex: 4, link: 'v1', ifname: 'v0', flags: ['BROADCAST', 'UP', 'LOWER_UP'], mtu: 1450, master: 'cni0', link_netnsid: 0},
  ...{promiscuity: 1, linkinfo: {info_kind: 'veth', info_slave_kind: 'bridge', info_slave_data: {state: 'forwarding', hairpin: false}}},
};
const vxlan = {ifindex: 5, ifname: 'vx', linkinfo: {info_kind: 'vxlan', info_data: {id: 1, link: 'eth0', port: 8472}}};

describe('interfaces', () => {
  test('have their kind, their bridge, their hairpin mode and their tunnel', () => {
    expect(parseLinks(JSON.stringify([port, vxlan, {ifindex: 2, ifname: 'eth0', promiscuity: 0, flags: []}]))).toEqual([
      {
        ...{
          name: 'v0',
          kind: 'veth',
          isUp: true,
          isPromiscuous: false,
          mtu: 1450,
          master: 'cni0',
          isPeerElsewhere: true,
          hairpin: false,
          isIsolated: false,
        },
        ...{vxlan: null, callsIptables: {IPv4: false, IPv6: false}},
      },
      expect.objectContaining({
        name: 'vx',
        kind: 'vxlan',
        hairpin: null,
        vxlan: {id: 1, name: 'vx', port: 8472, carrier: 'eth0', isExternal: false},
      }),
      expect.objectContaining({name: 'eth0', kind: '', isUp: false, mtu: null, master: null}),
    ]);
  });

  test('without details have no kind, which is not "physical"', () => {
    expect(parseLinks('[{"ifindex":3,"ifname":"cni0","flags":["UP"],"mtu":1500}]')?.[0]).toMatchObject({kind: null, hairpin: null});
  });

  test.each(['', '{}', 'null', '[{"dst":"default"}]', '[{"ifname":'])('%j is no list of interfaces', text => {
    expect(parseLinks(text)).toBeNull();
  });
});

describe('routes', () => {
  const printed = [
    {dst: 'default', gateway: '192.0.2.1', dev: 'eth0', flags: []},
    {
      dst: '10.9.0.0/16',
      flags: [],
      nexthops: [
        {gateway: '10.1.0.5', dev: 'cni0'},
        {dev: 'v1', flags: ['dead']},
        {dev: 'v2', flags: ['linkdown']},
      ],
    },
    {type: 'throw', dst: '10.11.0.0/16', table: '100', flags: []},
    {dst: '10.2.0.7', tos: '0x10', via: {family: 'inet6', host: 'fe80::2'}, dev: 'v1', flags: []},
    {dst: '10.3.0.0/24', dev: 'gone', flags: ['dead', 'linkdown']},
    {dst: 'default', gateway: 'fe80::1', dev: 'eth0', metric: 1024, flags: [], pref: 'medium'},
    {type: 'local', dst: '::1', dev: 'lo', table: 'local', metric: 0, pref: 'medium'},
  ];

  test('are those of both families, without dead ones', () => {
    const {IPv4, IPv6} = parseRoutes(JSON.stringify(printed));
    expect(
      IPv4?.map(
        ({to, table, kind, hops}) =>
          `${kind} ${to.text} ${table} ${hops.map(({dev, gateway, isDown}) => `${dev} ${gateway}${isDown === true ? ' down' : ''}`).join()}`,
      ),
    ).toEqual([
      'unicast 0.0.0.0/0 main eth0 192.0.2.1',
      'unicast 10.9.0.0/16 main cni0 10.1.0.5,v2 null down',
      'throw 10.11.0.0/16 100 null null',
      'unicast 10.2.0.7/32 main v1 fe80::2',
    ]);
    expect(IPv4?.map(({isConditional}) => isConditional)).toEqual([false, false, false, true]);
    expect(IPv6?.map(({to, table, metric}) => `${to.text} ${table} ${metric}`)).toEqual(['::/0 main 1024', '::1/128 local 0']);
  });

  test('of a family that was not printed are not seen', () => {
    expect(parseRoutes(JSON.stringify(printed.slice(0, 1))).IPv6).toBeNull();
    expect(parseRoutes('[{"ifname":"lo","addr_info":[]}]')).toEqual({IPv4: null, IPv6: null});
    expect(parseRoutes('')).toEqual({IPv4: null, IPv6: null});
  });
});

describe('policy rules', () => {
  const rule = (fields: object) => parsePolicyRules(JSON.stringify([{priority: 10, ...fields}]), 'IPv4')?.[0];

  test('have their conditions and their action', () => {
    expect(rule({src: '10.0.0.0', srclen: 8, fwmark: '0x10', fwmask: '0xff', table: '100'})).toMatchObject({
      from: {text: '10.0.0.0/8'},
      mark: {value: 16, mask: 255},
      action: {kind: 'lookup', table: '100', suppressedPrefix: null},
    });
    expect(rule({not: null, src: 'all', dst: '192.0.2.4', action: 'unreachable'})).toMatchObject({
      ...{isInverted: true, from: null, to: {text: '192.0.2.4/32'}, action: {kind: 'unreachable'}},
    });
    expect(rule({src: 'all', goto: 32766})?.action).toEqual({kind: 'goto', priority: 32766});
    expect(rule({src: 'all', table: 'main', suppress_prefixlen: 0})?.action).toMatchObject({suppressedPrefix: 0});
    expect(rule({src: 'all', l3mdev: null})).toMatchObject({unevaluated: ['l3mdev'], action: {kind: 'unknown'}});
    expect(rule({src: 'all', uid_start: 0, uid_end: 9, table: '1'})).toMatchObject({users: [0, 9], unevaluated: []});
    const ports = {ipproto: 'tcp', sport: 8080, dport_start: 100, dport_end: 200};
    expect(rule({src: 'all', ...ports, table: '1'})).toMatchObject({protocol: 'tcp', sourcePorts: [8080, 8080], ports: [100, 200]});
    expect(rule({src: 'all', tun_id: 5, table: '1'})?.unevaluated).toEqual(['tun_id']);
    expect(rule({src: 'all', flow_to: '5', table: '1'})?.unevaluated).toEqual([]);
  });

  test('are not seen in something else', () => {
    expect(parsePolicyRules('', 'IPv4')).toBeNull();
    expect(parsePolicyRules('[{"ifname":"lo"}]', 'IPv4')).toBeNull();
  });
});

test('sysctls have one spelling, as sysctl and as files', () => {
  const text = 'net.ipv4.conf.eth0/7.rp_filter = 1\nnet.ipv4.ip_local_port_range = 32768\t60999\nnet.ipv4.ip_local_reserved_ports = \n';
  expect([...(parseSysctls(text) ?? [])]).toEqual([
    ['net.ipv4.conf.eth0.7.rp_filter', '1'],
    ['net.ipv4.ip_local_port_range', '32768\t60999'],
    ['net.ipv4.ip_local_reserved_ports', ''],
  ]);
  expect(parseSysctls('')).toBeNull();
});

test('connections are counted over all processors, as the program and as the kernel print them', () => {
  const program = [1, 2].map(n => `cpu=${n}\tfound=0 invalid=5 insert=0 insert_failed=${n} drop=${n * 10} early_drop=4 error=0`).join('\n');
  expect(parseConnectionStatistics(program)).toEqual({insertFailed: 3, dropped: 30, earlyDropped: 8});
  const kernel =
    'entries  clashres insert_failed drop early_drop icmp_error\n0000000a 00000000 00000010 00000000 00000001 00000000\n0000000a 00000000 00000001 00000002 00000000 00000000\n';
  expect(parseConnectionStatistics(kernel)).toEqual({insertFailed: 17, dropped: 2, earlyDropped: 1});
  expect(parseConnectionStatistics('udp 17 30 src=10.0.0.1')).toBeNull();
});
