import {describe, expect, test} from 'vitest';
import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {endpoint, gone, leaving, service, slice} from '../../cluster.ts';
import {expectedOf, type Setup, serviceRules} from '../../kube-proxy.ts';
import {
  a1,
  a2,
  a3,
  b3,
  b5,
  b6,
  c1,
  clusterIP,
  d1,
  d3,
  d3Last,
  d4,
  d5,
  external,
  externalLocal,
  here,
  local,
  localOut,
  nodePort,
  refusal,
  remark,
  remote,
  there,
  vip,
} from './templates.ts';

const balancer: ServiceSpec = {...nodePort, type: 'LoadBalancer'};
const localIn: ServiceSpec = {internalTrafficPolicy: 'Local'};
const port = [{name: 'http', port: 8080, protocol: 'TCP'}];

interface Row {
  readonly title: string;
  readonly spec: ServiceSpec;
  readonly ingress?: readonly {ip?: string; hostname?: string; ipMode?: string}[];
  readonly endpoints: readonly ReturnType<typeof endpoint>[];
  readonly rules: Readonly<Record<string, readonly string[]>>;
}

const rulesOf = ({spec, ingress = [], endpoints}: Omit<Row, 'title' | 'rules'>, setup: Setup = {}) =>
  serviceRules(
    expectedOf({services: [service('shop/web', spec, {ingress})], slices: [slice('shop/web', endpoints, {ports: port})], ...setup}),
  );

const cluster = {SVC: [d1, ...d4(local, remote)], ...d5(local, remote)};

/** Section 3.4 of the reference, row by row. */
const matrix: readonly Row[] = [
  {
    title: 'ClusterIP',
    spec: clusterIP,
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVC')], ...cluster},
  },
  {
    title: 'ClusterIP without endpoints',
    spec: clusterIP,
    endpoints: [],
    rules: {'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')]},
  },
  {
    title: 'ClusterIP, internal policy Local',
    spec: {...clusterIP, ...localIn},
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVL')], SVL: [d1, ...d4(local)], ...d5(local)},
  },
  {
    title: 'ClusterIP, internal policy Local, no endpoint on the node: no chain at all',
    spec: {...clusterIP, ...localIn},
    endpoints: [there],
    rules: {'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'drop')]},
  },
  {
    title: 'ClusterIP, internal policy Local, no endpoints',
    spec: {...clusterIP, ...localIn},
    endpoints: [],
    rules: {'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')]},
  },
  {
    title: 'NodePort',
    spec: nodePort,
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVC')], 'nat/KUBE-NODEPORTS': [c1], EXT: external, ...cluster},
  },
  {
    title: 'NodePort without endpoints',
    spec: nodePort,
    endpoints: [],
    rules: {'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')], 'filter/KUBE-EXTERNAL-SERVICES': [b5('reject')]},
  },
  {
    title: 'NodePort, external policy Local',
    spec: {...nodePort, ...localOut},
    endpoints: [here, there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVC')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: [...externalLocal, '-j SVL'],
      SVL: d4(local),
      ...cluster,
    },
  },
  {
    title: 'NodePort, external policy Local, no endpoint on the node: KUBE-EXT has no last rule',
    spec: {...nodePort, ...localOut},
    endpoints: [there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVC')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: externalLocal,
      SVC: [d1, ...d4(remote)],
      ...d5(remote),
      'filter/KUBE-EXTERNAL-SERVICES': [b5('drop')],
    },
  },
  {
    title: 'LoadBalancer',
    spec: balancer,
    ingress: vip,
    endpoints: [here, there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'EXT')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: external,
      ...cluster,
    },
  },
  {
    title: 'LoadBalancer without endpoints has no firewall chain, with ranges or without',
    spec: {...balancer, loadBalancerSourceRanges: ['203.0.113.0/24']},
    ingress: vip,
    endpoints: [],
    rules: {
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
      'filter/KUBE-EXTERNAL-SERVICES': [refusal('198.51.100.7', 'reject'), b5('reject')],
    },
  },
  {
    title: 'LoadBalancer, external policy Local, with its health check',
    spec: {...balancer, ...localOut, healthCheckNodePort: 32100},
    ingress: vip,
    endpoints: [here, there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'EXT')],
      'nat/KUBE-NODEPORTS': [c1],
      'filter/KUBE-NODEPORTS': [b6(32100)],
      EXT: [...externalLocal, '-j SVL'],
      SVL: d4(local),
      ...cluster,
    },
  },
  {
    title: 'LoadBalancer, external policy Local, no endpoint on the node',
    spec: {...balancer, ...localOut, healthCheckNodePort: 32100},
    ingress: vip,
    endpoints: [there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'EXT')],
      'nat/KUBE-NODEPORTS': [c1],
      'filter/KUBE-NODEPORTS': [b6(32100)],
      'filter/KUBE-EXTERNAL-SERVICES': [refusal('198.51.100.7', 'drop'), b5('drop')],
      EXT: externalLocal,
      SVC: [d1, ...d4(remote)],
      ...d5(remote),
    },
  },
  {
    title: 'LoadBalancer, external policy Local, no endpoints: the health check is still answered',
    spec: {...balancer, ...localOut, healthCheckNodePort: 32100},
    ingress: vip,
    endpoints: [],
    rules: {
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
      'filter/KUBE-NODEPORTS': [b6(32100)],
      'filter/KUBE-EXTERNAL-SERVICES': [refusal('198.51.100.7', 'reject'), b5('reject')],
    },
  },
  {
    title: 'LoadBalancer without an address yet, or with a host name only: like NodePort',
    spec: balancer,
    ingress: [{hostname: 'lb.example.org'}],
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVC')], 'nat/KUBE-NODEPORTS': [c1], EXT: external, ...cluster},
  },
  {
    title: 'LoadBalancer without node ports',
    spec: {...clusterIP, type: 'LoadBalancer'},
    ingress: vip,
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'EXT')], EXT: external, ...cluster},
  },
  {
    title: 'the status of a load balancer counts, whatever the type of the Service',
    spec: clusterIP,
    ingress: vip,
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'EXT')], EXT: external, ...cluster},
  },
  {
    title: 'external IPs, in their order, with duplicates',
    spec: {...clusterIP, externalIPs: ['198.51.100.9', '198.51.100.8', '198.51.100.9']},
    endpoints: [here, there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVC'), a2('198.51.100.9'), a2('198.51.100.8'), a2('198.51.100.9')],
      EXT: external,
      ...cluster,
    },
  },
  {
    title: 'external IPs without endpoints',
    spec: {...clusterIP, externalIPs: ['198.51.100.8']},
    endpoints: [],
    rules: {
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
      'filter/KUBE-EXTERNAL-SERVICES': [refusal('198.51.100.8', 'reject')],
    },
  },
  {
    title: 'an external IP that is also a load-balancer address',
    spec: {...clusterIP, externalIPs: ['198.51.100.7']},
    ingress: vip,
    endpoints: [here, there],
    rules: {'nat/KUBE-SERVICES': [a1('SVC'), a2('198.51.100.7'), a3('198.51.100.7', 'EXT')], EXT: external, ...cluster},
  },
  {
    title: 'NodePort, internal policy Local: both chains',
    spec: {...nodePort, ...localIn},
    endpoints: [here, there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVL')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: external,
      SVC: d4(local, remote),
      SVL: [d1, ...d4(local)],
      ...d5(local, remote),
    },
  },
  {
    title: 'NodePort, internal policy Local, no endpoint on the node',
    spec: {...nodePort, ...localIn},
    endpoints: [there],
    rules: {
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'drop')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: external,
      SVC: d4(remote),
      ...d5(remote),
    },
  },
  {
    title: 'NodePort, both policies Local, no endpoint on the node',
    spec: {...nodePort, ...localIn, ...localOut},
    endpoints: [there],
    rules: {
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'drop')],
      'filter/KUBE-EXTERNAL-SERVICES': [b5('drop')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: externalLocal,
      SVC: d4(remote),
      ...d5(remote),
    },
  },
  {
    title: 'NodePort, both policies Local',
    spec: {...nodePort, ...localIn, ...localOut},
    endpoints: [here, there],
    rules: {
      'nat/KUBE-SERVICES': [a1('SVL')],
      'nat/KUBE-NODEPORTS': [c1],
      EXT: [...externalLocal, '-j SVL'],
      SVC: d4(local, remote),
      SVL: [d1, ...d4(local)],
      ...d5(local, remote),
    },
  },
];

const versions = Array.from({length: 12}, (_, index) => `1.${25 + index}`);

describe('the rules of a Service, kube-proxy 1.25 to 1.36', () => {
  test.each(matrix)('$title', row => {
    for (const version of versions) expect(rulesOf(row, {version}), version).toEqual(row.rules);
  });
});

describe('source ranges', () => {
  const ranges = {...balancer, loadBalancerSourceRanges: ['203.0.113.0/24', '192.168.1.0/24']};
  const row = {spec: ranges, ingress: vip, endpoints: [here, there]};
  const own = d3('198.51.100.7/32');

  test.each(['1.27', '1.28', '1.30', '1.33', '1.36'])('are a chain of their own, and a DROP for the rest (%s)', version => {
    const sources = [d3('203.0.113.0/24'), d3('192.168.1.0/24')];
    expect(rulesOf(row, {version})).toEqual({
      'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'FW')],
      'nat/KUBE-NODEPORTS': [c1],
      'filter/KUBE-PROXY-FIREWALL': [b3('198.51.100.7')],
      // 192.168.1.0/24 holds the node, which kube-proxy before 1.28 does not know in dual stack.
      FW: [...sources, ...(version === '1.27' ? [] : [own]), d3Last],
      EXT: external,
      ...cluster,
    });
  });

  test.each(['1.25', '1.26'])('have no last rule that explains (%s)', version => {
    expect(rulesOf(row, {version})).toMatchObject({FW: [d3('203.0.113.0/24'), d3('192.168.1.0/24')]});
  });

  test('of several addresses are one chain, with each address once', () => {
    const two = {...row, ingress: [{ip: '198.51.100.7'}, {ip: '198.51.100.17'}]};
    expect(rulesOf(two)).toMatchObject({
      'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'FW'), a3('198.51.100.17', 'FW')],
      'filter/KUBE-PROXY-FIREWALL': [b3('198.51.100.7'), b3('198.51.100.17')],
      FW: [d3('203.0.113.0/24'), d3('192.168.1.0/24'), own, d3('198.51.100.17/32'), d3Last],
    });
  });

  test('with external policy Local and no local endpoint, packets match both DROPs', () => {
    const rules = rulesOf({...row, spec: {...ranges, ...localOut}, endpoints: [there]});
    expect(rules).toMatchObject({
      'nat/KUBE-SERVICES': [a1('SVC'), a3('198.51.100.7', 'FW')],
      'filter/KUBE-PROXY-FIREWALL': [b3('198.51.100.7')],
      'filter/KUBE-EXTERNAL-SERVICES': [refusal('198.51.100.7', 'drop'), b5('drop')],
      EXT: externalLocal,
    });
  });

  test('apply to load-balancer addresses only', () => {
    expect(rulesOf({spec: ranges, endpoints: [here]})).not.toHaveProperty('FW');
    expect(rulesOf({spec: {...ranges, externalIPs: ['198.51.100.8']}, endpoints: [here]})).toMatchObject({
      'nat/KUBE-SERVICES': [a1('SVC'), a2('198.51.100.8')],
    });
  });

  test('are trimmed and put into canonical form; invalid ones and those of the other family are ignored; duplicates are kept', () => {
    const ranges = [' 203.0.113.9/24 ', 'nonsense', 'fd00::/8', '203.0.113.0/24', '10.0.0.1'];
    expect(rulesOf({...row, spec: {...balancer, loadBalancerSourceRanges: ranges}})).toMatchObject({
      FW: [d3('203.0.113.0/24'), d3('203.0.113.0/24'), d3Last],
    });
  });

  test('of prefix 0 allow all clients: from 1.34 on like no range, before by a rule without a source', () => {
    const open = {...row, spec: {...balancer, loadBalancerSourceRanges: ['0.0.0.0/0', '203.0.113.0/24']}};
    expect(rulesOf(open, {version: '1.34'})).not.toHaveProperty('FW');
    expect(rulesOf(open, {version: '1.33'})).toMatchObject({
      FW: [`${remark('shop/web:http loadbalancer IP')} -j EXT`, d3('203.0.113.0/24'), own, d3Last],
    });
    // The unspecified address, which 1.27 takes for the node's, is in it too.
    expect(rulesOf(open, {version: '1.27'})).toMatchObject({FW: [expect.not.stringContaining('-s'), d3('203.0.113.0/24'), own, d3Last]});
  });
});

describe('the node among the source ranges (section 3.8)', () => {
  const range = {...balancer, loadBalancerSourceRanges: ['192.168.1.0/24']};
  const has = (setup: Setup) => rulesOf({spec: range, ingress: vip, endpoints: [here]}, setup)['FW']?.includes(d3('198.51.100.7/32'));

  test.each([
    ['1.25', false],
    ['1.27', false],
    ['1.28', true],
    ['1.29', true],
    ['1.36', true],
  ])('%s: %s', (version, expected) => {
    expect(has({version})).toBe(expected);
  });

  test('a bindAddress replaces its address, in every version', () => {
    expect(has({version: '1.27', config: {bindAddress: '192.168.1.10'}})).toBe(true);
    expect(has({version: '1.36', config: {bindAddress: '10.9.9.9'}})).toBe(false);
  });

  test('1.28 uses the address of the first family only', () => {
    const six: ServiceSpec = {...balancer, clusterIP: 'fd00:96::1', loadBalancerSourceRanges: ['fd00:192::/64']};
    const own = (version: string, facts: Setup['facts'] = {}) =>
      serviceRules(
        expectedOf({
          version,
          family: 'IPv6',
          facts,
          services: [service('shop/web', six, {ingress: [{ip: 'fd00:99::7'}]})],
          slices: [slice('shop/web', [endpoint('fd00:10:1::5', 'node-a')], {ports: port})],
        }),
      )['FW']?.some(rule => rule.startsWith('-s fd00:99::7/128 '));
    expect(own('1.28')).toBe(false);
    expect(own('1.28', {hostIPs: ['fd00:192::10', '192.168.1.10']})).toBe(true);
    expect(own('1.29')).toBe(true);
    expect(own('1.27')).toBe(false);
  });

  test('a node without an address counts as 127.0.0.1', () => {
    expect(has({version: '1.36', facts: {hostIPs: []}})).toBe(false);
    const loopback = {...range, loadBalancerSourceRanges: ['127.0.0.0/8']};
    const rules = rulesOf({spec: loopback, ingress: vip, endpoints: [here]}, {facts: {hostIPs: []}});
    expect(rules['FW']).toContain(d3('198.51.100.7/32'));
  });
});

describe('affinity', () => {
  const sticky: ServiceSpec = {
    ...clusterIP,
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}},
  };

  test('matches known clients before it balances, and records them', () => {
    const known = (hostPort: string) =>
      `${remark(`shop/web:http -> ${hostPort}`)} -m recent --rcheck --seconds 60 --reap --name SEP ${hostPort} --mask 255.255.255.255 --rsource -j SEP ${hostPort}`;
    const set = (hostPort: string) =>
      `-p tcp ${remark('shop/web:http')} -m recent --set --name SEP ${hostPort} --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination ${hostPort}`;
    expect(rulesOf({spec: sticky, endpoints: [here, there]})).toEqual({
      'nat/KUBE-SERVICES': [a1('SVC')],
      SVC: [d1, known(local), known(remote), ...d4(local, remote)],
      [`SEP ${local}`]: [expect.stringContaining('-j KUBE-MARK-MASQ'), set(local)],
      [`SEP ${remote}`]: [expect.stringContaining('-j KUBE-MARK-MASQ'), set(remote)],
    });
  });

  test('has a wider mask in IPv6', () => {
    const rules = serviceRules(
      expectedOf({
        family: 'IPv6',
        services: [service('shop/web', {...sticky, clusterIP: 'fd00:96::1'})],
        slices: [slice('shop/web', [endpoint('fd00:10:1::5')], {ports: port})],
      }),
    );
    expect(rules['SVC']?.[1]).toContain('--mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource');
  });
});

describe('traffic of pods', () => {
  const spec = {...nodePort, ...localOut};
  const both = (setup: Setup) => {
    const rules = rulesOf({spec, endpoints: [here]}, setup);
    return [rules['SVC']?.[0], rules['EXT']?.[0]];
  };
  const text = `${remark('shop/web:http cluster IP')} -m tcp --dport 80 -j KUBE-MARK-MASQ`;
  const short = `${remark('pod traffic for shop/web:http external destinations')} -j SVC`;

  test.each<readonly [string, Setup['config'], string, string]>([
    ['their network', {clusterCIDRs: ['10.244.0.0/16']}, `! -s 10.244.0.0/16 -d 10.96.1.1/32 -p tcp ${text}`, `-s 10.244.0.0/16 ${short}`],
    [
      'their network with host bits, and that of the other family',
      {clusterCIDRs: ['fd00:10::/32', '10.244.3.4/16']},
      `! -s 10.244.0.0/16 -d 10.96.1.1/32 -p tcp ${text}`,
      `-s 10.244.0.0/16 ${short}`,
    ],
    [
      'the network of the node',
      {detectLocalMode: 'NodeCIDR'},
      `! -s 10.244.1.0/24 -d 10.96.1.1/32 -p tcp ${text}`,
      `-s 10.244.1.0/24 ${short}`,
    ],
    [
      'their bridge',
      {detectLocalMode: 'BridgeInterface', bridgeInterface: 'cbr0'},
      `-d 10.96.1.1/32 ! -i cbr0 -p tcp ${text}`,
      `-i cbr0 ${short}`,
    ],
    [
      'the names of their interfaces',
      {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth'},
      `-d 10.96.1.1/32 ! -i veth+ -p tcp ${text}`,
      `-i veth+ ${short}`,
    ],
    ['their network, even with masqueradeAll', {masqueradeAll: true}, `-d 10.96.1.1/32 -p tcp ${text}`, `-s 10.244.0.0/16 ${short}`],
  ])('is detected by %s', (_, config, first, second) => {
    expect(both({config})).toEqual([first, second]);
  });

  test.each<readonly [string, Setup]>([
    ['no network is known', {config: {clusterCIDRs: []}}],
    ['the network is of the other family', {config: {clusterCIDRs: ['fd00:10::/32']}}],
    ['the node has no network', {config: {detectLocalMode: 'NodeCIDR'}, facts: {podCIDRs: []}}],
    ['the bridge has no name', {config: {detectLocalMode: 'BridgeInterface'}}],
    ['the prefix is empty', {config: {detectLocalMode: 'InterfaceNamePrefix'}}],
  ])('is not detected if %s', (_, setup) => {
    const rules = rulesOf({spec, endpoints: [here]}, setup);
    expect(rules['SVC']).toEqual(d4(local));
    expect(rules['EXT']).toEqual([...externalLocal.slice(1), '-j SVL']);
  });

  test('without a network, masqueradeAll still masquerades', () => {
    expect(both({config: {clusterCIDRs: [], masqueradeAll: true}})[0]).toBe(`-d 10.96.1.1/32 -p tcp ${text}`);
  });

  test('in IPv6 is detected by the network of that family', () => {
    const rules = serviceRules(
      expectedOf({
        family: 'IPv6',
        services: [service('shop/web', {...clusterIP, clusterIP: 'fd00:96::1'})],
        slices: [slice('shop/web', [endpoint('fd00:10:1::5')], {ports: port})],
      }),
    );
    expect(rules).toEqual({
      'nat/KUBE-SERVICES': [`-d fd00:96::1/128 -p tcp ${remark('shop/web:http cluster IP')} -m tcp --dport 80 -j SVC`],
      SVC: [
        `! -s fd00:10::/32 -d fd00:96::1/128 -p tcp ${remark('shop/web:http cluster IP')} -m tcp --dport 80 -j KUBE-MARK-MASQ`,
        `${remark('shop/web:http -> [fd00:10:1::5]:8080')} -j SEP [fd00:10:1::5]:8080`,
      ],
      'SEP [fd00:10:1::5]:8080': [
        `-s fd00:10:1::5/128 ${remark('shop/web:http')} -j KUBE-MARK-MASQ`,
        `-p tcp ${remark('shop/web:http')} -m tcp -j DNAT --to-destination [fd00:10:1::5]:8080`,
      ],
    });
  });
});

describe('names, protocols and ports', () => {
  test('an unnamed port has no colon', () => {
    const rules = rulesOf({spec: {clusterIP: '10.96.1.1', ports: [{port: 80}]}, endpoints: []});
    expect(rules['filter/KUBE-SERVICES']?.[0]).toContain('--comment "shop/web has no endpoints"');
  });

  test.each(['UDP', 'SCTP'])('%s is written in lower case everywhere', protocol => {
    const spec: ServiceSpec = {clusterIP: '10.96.1.1', type: 'NodePort', ports: [{name: 'http', port: 80, protocol, nodePort: 30080}]};
    const rules = serviceRules(
      expectedOf({
        services: [service('shop/web', spec)],
        slices: [slice('shop/web', [here], {ports: [{name: 'http', port: 8080, protocol}]})],
      }),
    );
    const lower = protocol.toLowerCase();
    expect(rules['nat/KUBE-SERVICES']).toEqual([a1('SVC').replaceAll('tcp', lower)]);
    expect(rules['nat/KUBE-NODEPORTS']).toEqual([c1.replaceAll('tcp', lower)]);
    expect(rules[`SEP ${local}`]?.[1]).toBe(d5(local)[`SEP ${local}`]?.[1]?.replaceAll('tcp', lower));
  });

  test('each port of a Service has its own health check rule, for the same port', () => {
    const spec: ServiceSpec = {
      ...balancer,
      ...localOut,
      healthCheckNodePort: 32100,
      ports: [
        {name: 'http', port: 80, nodePort: 30080},
        {name: 'https', port: 443, nodePort: 30443},
      ],
    };
    const rules = serviceRules(expectedOf({services: [service('shop/web', spec)]}));
    expect(rules['filter/KUBE-NODEPORTS']).toEqual([
      b6(32100),
      `-p tcp ${remark('shop/web:https health check node port')} -m tcp --dport 32100 -j ACCEPT`,
    ]);
  });

  test('IPv6 is rejected with its own type', () => {
    const rules = serviceRules(expectedOf({family: 'IPv6', services: [service('shop/web', {...nodePort, clusterIP: 'fd00:96::1'})]}));
    expect(rules).toEqual({
      'filter/KUBE-SERVICES': [
        `-d fd00:96::1/128 -p tcp ${remark('shop/web:http has no endpoints')} -m tcp --dport 80 -j REJECT --reject-with icmp6-port-unreachable`,
      ],
      'filter/KUBE-EXTERNAL-SERVICES': [
        `-p tcp ${remark('shop/web:http has no endpoints')} -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp6-port-unreachable`,
      ],
    });
  });
});

describe('terminating endpoints', () => {
  test('are used if there are no others, first those of the node for Local policy', () => {
    const rules = rulesOf({
      spec: {...nodePort, ...localOut},
      endpoints: [endpoint('10.244.1.5', 'node-a', leaving), endpoint('10.244.1.6', 'node-a', gone), there],
    });
    expect(rules).toMatchObject({
      SVC: [d1, ...d4(remote)],
      SVL: d4(local),
      ...d5(local, remote),
    });
    expect(rules).not.toHaveProperty('SEP 10.244.1.6:8080');
  });

  test('on another node keep the Service from being rejected there', () => {
    const rules = rulesOf({spec: {...nodePort, ...localOut}, endpoints: [endpoint('10.244.2.7', 'node-b', leaving)]});
    expect(rules).toMatchObject({'filter/KUBE-EXTERNAL-SERVICES': [b5('drop')], SVC: [d1, ...d4(remote)]});
    const inside = rulesOf({spec: {...clusterIP, ...localIn}, endpoints: [endpoint('10.244.2.7', 'node-b', leaving)]});
    expect(inside).toEqual({'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'drop')]});
  });
});

describe('a cluster of more than 1,000 endpoints', () => {
  const many = (count: number) =>
    Array.from({length: count}, (_, index) => endpoint(`10.245.${index >> 8}.${index & 255}`, 'node-b', gone));
  const setup = (count: number): Setup => ({
    services: [service('shop/web', {...nodePort, ...localOut}), service('shop/big', {...clusterIP, clusterIP: '10.96.1.2'})],
    slices: [slice('shop/web', [here], {ports: port}), slice('shop/big', many(count), {ports: port})],
  });
  const bare = (rule: string) => !rule.includes('comment');

  test('has no comments in the rules of endpoints, also when they are not ready', () => {
    const rules = serviceRules(expectedOf(setup(1000)));
    expect(rules['SVL shop/web:http']).toEqual([`-j SEP ${local} shop/web:http`]);
    expect(rules['SVC shop/web:http']).toEqual([d1, `-j SEP ${local} shop/web:http`]);
    expect(rules[`SEP ${local} shop/web:http`]).toEqual([
      '-s 10.244.1.5/32 -j KUBE-MARK-MASQ',
      `-p tcp -m tcp -j DNAT --to-destination ${local}`,
    ]);
    expect([...(rules['EXT shop/web:http']?.slice(0, 3) ?? []), ...(rules['nat/KUBE-SERVICES'] ?? [])].some(bare)).toBe(false);
  });

  test('begins with the 1,001st endpoint', () => {
    expect(serviceRules(expectedOf(setup(999)))['SVL shop/web:http']?.some(bare)).toBe(false);
  });

  test('is large in each family separately', () => {
    const six = service('shop/six', {...clusterIP, clusterIP: 'fd00:96::1', ipFamilies: ['IPv6'], clusterIPs: ['fd00:96::1']});
    const both = {...setup(1000), services: [...(setup(0).services ?? []), six]};
    const slices = [...(setup(1000).slices ?? []), slice('shop/six', [endpoint('fd00:10:1::5')], {ports: port})];
    expect(serviceRules(expectedOf({...both, slices, family: 'IPv6'}))['SVC']?.[1]).toContain('--comment');
  });
});

describe('gates', () => {
  test('AllowServiceExternalIPs off, from 1.36: the addresses are not served, their chains are written', () => {
    const row = {spec: {...clusterIP, externalIPs: ['198.51.100.8']}, endpoints: [here, there]};
    const config = {featureGates: {AllowServiceExternalIPs: false}};
    expect(rulesOf(row, {version: '1.36', config})).toEqual({'nat/KUBE-SERVICES': [a1('SVC')], EXT: external, ...cluster});
    expect(rulesOf(row, {version: '1.35', config})).toMatchObject({'nat/KUBE-SERVICES': [a1('SVC'), a2('198.51.100.8')]});
    expect(rulesOf({...row, endpoints: []}, {version: '1.36', config})).toEqual({
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
    });
  });
});

describe('node ports', () => {
  const row = {spec: nodePort, endpoints: [here, there]};
  const deadEnds = {nodePortAddresses: ['172.16.0.0/12']};
  const counted = `-d 127.0.0.0/8 -p tcp ${remark('shop/web:http')} -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j EXT`;

  test.each(['1.25', '1.26'])('on no address of the node are not written (%s), but their chain is', version => {
    expect(rulesOf(row, {version, config: deadEnds})).toEqual({'nat/KUBE-SERVICES': [a1('SVC')], EXT: external, ...cluster});
    expect(rulesOf({...row, endpoints: []}, {version, config: deadEnds})).toEqual({
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
    });
  });

  test.each(['1.27', '1.36'])('on no address of the node are written anyway (%s)', version => {
    expect(rulesOf(row, {version, config: deadEnds})).toMatchObject({'nat/KUBE-NODEPORTS': [c1]});
    expect(rulesOf({...row, endpoints: []}, {version, config: deadEnds})).toMatchObject({
      'filter/KUBE-EXTERNAL-SERVICES': [b5('reject')],
    });
  });

  test('on loopback addresses are counted if the node counts, from 1.31 on, in IPv4', () => {
    expect(rulesOf(row, {version: '1.31', nfacct: true})['nat/KUBE-NODEPORTS']).toEqual([counted, c1]);
    expect(rulesOf(row, {version: '1.30', nfacct: true})['nat/KUBE-NODEPORTS']).toEqual([c1]);
    expect(rulesOf(row, {version: '1.31', nfacct: false})['nat/KUBE-NODEPORTS']).toEqual([c1]);
    expect(rulesOf(row, {nfacct: true, config: {localhostNodePorts: false}})['nat/KUBE-NODEPORTS']).toEqual([c1]);
    expect(rulesOf(row, {nfacct: true, config: {nodePortAddresses: ['10.0.0.0/8']}})['nat/KUBE-NODEPORTS']).toEqual([c1]);
    const six = {...nodePort, clusterIP: 'fd00:96::1'};
    const rules = serviceRules(
      expectedOf({
        family: 'IPv6',
        nfacct: true,
        services: [service('shop/web', six)],
        slices: [slice('shop/web', [endpoint('fd00:10:1::5')], {ports: port})],
      }),
    );
    expect(rules['nat/KUBE-NODEPORTS']).toEqual([c1]);
  });

  test('of one number over TCP and UDP are two', () => {
    const spec: ServiceSpec = {
      ...nodePort,
      ports: [
        {name: 'http', port: 80, protocol: 'TCP', nodePort: 30080},
        {name: 'quic', port: 80, protocol: 'UDP', nodePort: 30080},
      ],
    };
    const rules = serviceRules(expectedOf({services: [service('shop/web', spec)]}));
    expect(rules['filter/KUBE-EXTERNAL-SERVICES']).toEqual([b5('reject'), b5('reject').replaceAll('tcp', 'udp').replace('http', 'quic')]);
  });
});

describe('kube-proxy 1.24', () => {
  const version = '1.24';

  const marked = `${remark('shop/web:http has no local endpoints')} -j KUBE-MARK-DROP`;

  test('drops packets without a local endpoint by a mark, in KUBE-SVL', () => {
    const rules = rulesOf({spec: {...balancer, ...localOut}, ingress: vip, endpoints: [there]}, {version});
    expect(rules['EXT']).toEqual([...externalLocal, '-j SVL']);
    expect(rules['SVL']).toEqual([marked]);
    expect(rules).not.toHaveProperty('filter/KUBE-EXTERNAL-SERVICES');
  });

  test('leads the cluster IP to KUBE-SVL under the internal policy Local, with or without a local endpoint', () => {
    const rules = rulesOf({spec: {...clusterIP, ...localIn}, endpoints: [there]}, {version});
    expect(rules['nat/KUBE-SERVICES']?.join()).toMatch(/cluster IP" -m tcp --dport 80 -j SVL$/);
    expect(rules['SVL']).toEqual([expect.stringMatching(/cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ$/), marked]);
    expect(rules).not.toHaveProperty('filter/KUBE-SERVICES');
  });

  test('repeats the source ranges and the mark in KUBE-FW for each load-balancer address', () => {
    const spec = {...balancer, loadBalancerSourceRanges: ['203.0.113.0/24']};
    const rules = rulesOf({spec, ingress: [...vip, {ip: '198.51.100.77'}], endpoints: [here]}, {version});
    const end = `${remark('shop/web:http loadbalancer IP')} -j KUBE-MARK-DROP`;
    expect(rules['FW']).toEqual([d3('203.0.113.0/24'), end, d3('203.0.113.0/24'), end]);
  });

  test('ends the chain of source ranges with a mark, and has no KUBE-PROXY-FIREWALL', () => {
    const spec = {...balancer, loadBalancerSourceRanges: ['203.0.113.0/24']};
    const rules = rulesOf({spec, ingress: vip, endpoints: [here]}, {version});
    expect(rules['FW']).toEqual([d3('203.0.113.0/24'), `${remark('shop/web:http loadbalancer IP')} -j KUBE-MARK-DROP`]);
    expect(rules).not.toHaveProperty('filter/KUBE-PROXY-FIREWALL');
  });
});
