import {describe, expect, test} from 'vitest';
import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {endpoint, service, slice} from '../../cluster.ts';
import {expectedOf, type Setup, serviceRules} from '../../kube-proxy.ts';
import {clusterIP, d5, here, local, localOut, nodePort, refusal, remark, remote, there, vip} from './templates.ts';

/** Sections 3.6 and 3.7 of the reference: the rules of kube-proxy 1.5 to 1.20. */
const balancer: ServiceSpec = {...nodePort, type: 'LoadBalancer', healthCheckNodePort: 32100};
const all = ['1.5', '1.11', '1.13', '1.14', '1.16', '1.17', '1.18', '1.19', '1.20'] as const;
const since = (first: number) => all.filter(text => Number(text.slice(2)) >= first);
const upTo = (last: number) => all.filter(text => Number(text.slice(2)) <= last);

const named = remark('shop/web:http');
const balanced = remark('shop/web:http loadbalancer IP');
const to = (address: string, what: string, target: string, {before = '', more = ''} = {}) =>
  `${before}-d ${address}/32 -p tcp ${remark(`shop/web:http ${what}`)} -m tcp --dport 80${more} -j ${target}`;
const before = '! -s 10.244.0.0/16 ';
const inside = [to('10.96.1.1', 'cluster IP', 'KUBE-MARK-MASQ', {before}), to('10.96.1.1', 'cluster IP', 'SVC')];
const onNode = (target: string, from = '') => `${from}-p tcp ${named} -m tcp --dport 30080 -j ${target}`;
const bridged = (address: string, target: string) => [
  to(address, 'external IP', target, {more: ' -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL'}),
  to(address, 'external IP', target, {more: ' -m addrtype --dst-type LOCAL'}),
];
const half = '-m statistic --mode random --probability 0.50000000000';

interface Row {
  readonly spec: ServiceSpec;
  readonly ingress?: readonly {ip?: string}[];
  readonly endpoints: readonly ReturnType<typeof endpoint>[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The rules of shop/web, whose endpoints stand in a slice as well as in an Endpoints object. */
const rulesOf = ({spec, ingress = [], endpoints, annotations = {}}: Row, version: string, setup: Setup = {}) => {
  const addresses = endpoints.map(({addresses, nodeName = null}) => ({ip: addresses?.[0] ?? '', nodeName}));
  const ports = [{name: 'http', port: 8080, protocol: 'TCP'}];
  return serviceRules(
    expectedOf({
      version,
      services: [service('shop/web', spec, {ingress, metadata: {annotations}})],
      slices: [slice('shop/web', endpoints, {ports})],
      api: {endpoints: [{metadata: {namespace: 'shop', name: 'web'}, subsets: [{addresses, ports}]}]},
      ...setup,
    }),
  );
};

describe('a cluster IP', () => {
  test.each(all)('is masqueraded in KUBE-SERVICES, and balanced without naming endpoints (%s)', version => {
    expect(rulesOf({spec: clusterIP, endpoints: [here, there]}, version)).toEqual({
      'nat/KUBE-SERVICES': inside,
      SVC: [`${named} ${half} -j SEP ${local}`, `${named} -j SEP ${remote}`],
      ...d5(local, remote),
    });
  });

  test('is not masqueraded without a pod network', () => {
    for (const version of all)
      expect(rulesOf({spec: clusterIP, endpoints: [here]}, version, {config: {clusterCIDRs: []}})['nat/KUBE-SERVICES']).toEqual([
        inside[1],
      ]);
  });

  test('is masqueraded for all clients with masqueradeAll; 1.5 adds a rule for other clients', () => {
    const everybody = to('10.96.1.1', 'cluster IP', 'KUBE-MARK-MASQ');
    const rules = (version: string) =>
      rulesOf({spec: clusterIP, endpoints: [here]}, version, {config: {masqueradeAll: true}})['nat/KUBE-SERVICES'];
    for (const version of since(11)) expect(rules(version), version).toEqual([everybody, inside[1]]);
    expect(rules('1.5')).toEqual([everybody, ...inside]);
  });

  test('without endpoints is rejected; 1.5 jumps to an empty chain as well', () => {
    const refused = {'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')]};
    for (const version of since(11)) expect(rulesOf({spec: clusterIP, endpoints: []}, version), version).toEqual(refused);
    expect(rulesOf({spec: clusterIP, endpoints: []}, '1.5')).toEqual({...refused, 'nat/KUBE-SERVICES': inside});
  });

  test('of a port without a name has a colon in its name up to 1.19, and other chains for it', () => {
    const chains = (version: string) => {
      const services = [service('default/hostnames', {clusterIP: '10.79.255.4', ports: [{port: 80}]})];
      const expected = expectedOf({
        version,
        services,
        slices: [slice('default/hostnames', [endpoint('10.76.0.9')], {ports: [{name: '', port: 9376}]})],
      });
      return expected.ports.flatMap(item => [item.port.servicePortName, ...expected.rulesOf(item).own.keys()]);
    };
    for (const version of upTo(19))
      expect(chains(version), version).toEqual(['default/hostnames:', 'KUBE-SVC-NWV5X2332I4OT4T3', 'KUBE-SEP-EV2NQKURMPKCP5UI']);
    expect(chains('1.20').slice(0, 2)).toEqual(['default/hostnames', 'KUBE-SVC-YN5D6RYVEVZOH44Q']);
  });

  test('has shares with five decimals up to 1.16 (section 3.1)', () => {
    const three = {spec: clusterIP, endpoints: [here, endpoint('10.244.1.6', 'node-a'), there]};
    const first = (version: string) => rulesOf(three, version)['SVC']?.[0]?.match(/--probability (\S+)/)?.[1];
    for (const version of upTo(16)) expect(first(version), version).toBe('0.33332999982');
    for (const version of since(17)) expect(first(version), version).toBe('0.33333333349');
  });

  test('records clients', () => {
    const recent = (chain: string) =>
      `-m recent --rcheck --seconds 10800 --reap --name ${chain} --mask 255.255.255.255 --rsource -j ${chain}`;
    for (const version of all)
      expect(rulesOf({spec: {...clusterIP, sessionAffinity: 'ClientIP'}, endpoints: [here]}, version)['SVC']).toEqual([
        `${named} ${recent(`SEP ${local}`)}`,
        `${named} -j SEP ${local}`,
      ]);
  });
});

describe('an external IP', () => {
  const spec = {...nodePort, externalIPs: ['198.51.100.8']};
  const marked = to('198.51.100.8', 'external IP', 'KUBE-MARK-MASQ');

  test.each(all)('is masqueraded for all, and matched unless the packet came from a bridge (%s)', version => {
    expect(rulesOf({spec, endpoints: [here]}, version)['nat/KUBE-SERVICES']).toEqual([
      ...inside,
      marked,
      ...bridged('198.51.100.8', 'SVC'),
    ]);
  });

  test('follows the Local policy from 1.20 on', () => {
    const rules = (version: string) => rulesOf({spec: {...spec, ...localOut}, endpoints: [here]}, version)['nat/KUBE-SERVICES']?.slice(2);
    for (const version of upTo(19).slice(1)) expect(rules(version), version).toEqual([marked, ...bridged('198.51.100.8', 'SVC')]);
    expect(rules('1.20')).toEqual(bridged('198.51.100.8', 'XLB'));
  });
});

describe('a node port', () => {
  test.each(all)('is masqueraded in KUBE-NODEPORTS (%s)', version => {
    expect(rulesOf({spec: nodePort, endpoints: [here]}, version)['nat/KUBE-NODEPORTS']).toEqual([onNode('KUBE-MARK-MASQ'), onNode('SVC')]);
  });

  const cut = [
    `${remark('masquerade LOCAL traffic for shop/web:http LB IP')} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
    `${remark('route LOCAL traffic for shop/web:http LB IP to service chain')} -m addrtype --src-type LOCAL -j SVC`,
  ];
  const pods = `-s 10.244.0.0/16 ${remark('Redirect pods trying to reach external loadbalancer VIP to clusterIP')} -j SVC`;
  const numbered = (index: number) => remark(`Balancing rule ${index} for shop/web:http`);

  test('under Local policy has KUBE-XLB, which from 1.16 on lets the node itself use all endpoints', () => {
    const row = {spec: {...nodePort, ...localOut}, endpoints: [here, endpoint('10.244.1.6', 'node-a'), there]};
    for (const version of since(11)) {
      const rules = rulesOf(row, version);
      expect(rules['nat/KUBE-NODEPORTS'], version).toEqual([onNode('KUBE-MARK-MASQ', '-s 127.0.0.0/8 '), onNode('XLB')]);
      expect(rules['XLB'], version).toEqual([
        pods,
        ...(Number(version.slice(2)) >= 16 ? cut : []),
        `${numbered(0)} ${half} -j SEP ${local}`,
        `${numbered(1)} -j SEP 10.244.1.6:8080`,
      ]);
    }
  });

  test('under Local policy and without a local endpoint is marked for dropping', () => {
    for (const version of since(11))
      expect(rulesOf({spec: {...nodePort, ...localOut}, endpoints: [there]}, version)['XLB']?.at(-1)).toBe(
        `${remark('shop/web:http has no local endpoints')} -j KUBE-MARK-DROP`,
      );
  });

  test('is Local by an annotation in 1.5, and by nothing else', () => {
    const annotations = {'service.beta.kubernetes.io/external-traffic': 'OnlyLocal'};
    expect(rulesOf({spec: nodePort, endpoints: [here], annotations}, '1.5')).toMatchObject({
      'nat/KUBE-NODEPORTS': [onNode('XLB')],
      XLB: [pods, `${numbered(0)} -j SEP ${local}`],
    });
    expect(rulesOf({spec: nodePort, endpoints: [here], annotations}, '1.11')).not.toHaveProperty('XLB');
  });
});

describe('a load-balancer address', () => {
  test.each(all)('has KUBE-FW, and no rule for its health checks (%s)', version => {
    const rules = rulesOf({spec: balancer, ingress: vip, endpoints: [here]}, version);
    expect(rules['nat/KUBE-SERVICES']).toContain(to('198.51.100.7', 'loadbalancer IP', 'FW'));
    expect(rules['FW']).toEqual([`${balanced} -j KUBE-MARK-MASQ`, `${balanced} -j SVC`, `${balanced} -j KUBE-MARK-DROP`]);
    expect(rules).not.toHaveProperty('filter/KUBE-NODEPORTS');
  });

  test('accepts its own packets if the Node is in the ranges, whatever kube-proxy binds to', () => {
    const spec = {...balancer, loadBalancerSourceRanges: ['192.168.1.0/24']};
    for (const version of all)
      expect(rulesOf({spec, ingress: vip, endpoints: [here]}, version)['FW']).toContain(`-s 198.51.100.7/32 ${balanced} -j SVC`);
  });

  test('without endpoints is rejected in KUBE-EXTERNAL-SERVICES by 1.20, in KUBE-SERVICES from 1.14 on, nowhere before', () => {
    const row = {spec: {...balancer, externalIPs: ['198.51.100.8']}, ingress: vip, endpoints: []};
    const onPort = `-p tcp ${remark('shop/web:http has no endpoints')} -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable`;
    const [own, external, address] = ['10.96.1.1', '198.51.100.8', '198.51.100.7'].map(ip => refusal(ip, 'reject'));
    for (const version of ['1.14', '1.16', '1.17', '1.18'])
      expect(rulesOf(row, version), version).toEqual({
        'filter/KUBE-SERVICES': [own, address],
        'filter/KUBE-EXTERNAL-SERVICES': [external, onPort],
      });
    for (const version of ['1.11', '1.13'])
      expect(rulesOf(row, version), version).toEqual({'filter/KUBE-SERVICES': [own], 'filter/KUBE-EXTERNAL-SERVICES': [external, onPort]});
    expect(rulesOf(row, '1.20')).toEqual({
      'filter/KUBE-SERVICES': [own],
      'filter/KUBE-EXTERNAL-SERVICES': [external, address, onPort],
    });
    expect(rulesOf(row, '1.5')['filter/KUBE-SERVICES']).toEqual([own]);
    expect(rulesOf(row, '1.5')).not.toHaveProperty('filter/KUBE-EXTERNAL-SERVICES');
  });
});

describe('endpoints', () => {
  const ports = [{name: 'http', port: 8080}];

  test('are read from Endpoints up to 1.18, in the order of the object, and from slices later', () => {
    const setup = (version: string): Setup => ({
      version,
      services: [service('shop/web', clusterIP)],
      slices: [slice('shop/web', [endpoint('10.244.9.9')], {ports})],
      api: {
        endpoints: [{metadata: {namespace: 'shop', name: 'web'}, subsets: [{addresses: [{ip: '10.244.2.7'}, {ip: '10.244.1.5'}], ports}]}],
      },
    });
    const destinations = (version: string) => serviceRules(expectedOf(setup(version)))['SVC']?.map(rule => rule.split('SEP ')[1]);
    expect(destinations('1.18')).toEqual([remote, local]);
    expect(destinations('1.20')).toEqual(['10.244.9.9:8080']);
  });

  test('that are not ready do not exist up to 1.20, and are not counted', () => {
    const many = Array.from({length: 1001}, (_, index) => endpoint(`10.250.${index >> 8}.${index & 255}`, 'node-b', {ready: index === 0}));
    const setup = (version: string): Setup => ({
      version,
      services: [service('shop/web', clusterIP)],
      slices: [slice('shop/web', many, {ports})],
    });
    expect(serviceRules(expectedOf(setup('1.20')))['SVC']).toEqual([`${named} -j SEP 10.250.0.0:8080`]);
    expect(serviceRules(expectedOf(setup('1.21')))['SVC']).toEqual(['-j SEP 10.250.0.0:8080']);
  });

  test('of discovery.k8s.io/v1beta1 name their node as a label', () => {
    const old = {addresses: ['10.244.1.5'], topology: {'kubernetes.io/hostname': 'node-a'}};
    const rules = serviceRules(
      expectedOf({
        version: '1.20',
        services: [service('shop/web', {...nodePort, ...localOut})],
        slices: [slice('shop/web', [old, {...there}], {ports})],
      }),
    );
    expect(rules['XLB']?.at(-1)).toBe(`${remark('Balancing rule 0 for shop/web:http')} -j SEP ${local}`);
  });

  describe('selected by topologyKeys', () => {
    const zoned = (address: string, nodeName: string, zone: string) => ({...endpoint(address, nodeName), zone});
    const slices = [
      slice(
        'shop/web',
        [zoned('10.244.1.5', 'node-a', 'zone-1'), zoned('10.244.2.7', 'node-b', 'zone-2'), zoned('10.244.3.8', 'node-c', 'zone-1')],
        {ports},
      ),
    ];
    const labels = {'kubernetes.io/hostname': 'node-a', 'topology.kubernetes.io/zone': 'zone-1'};
    const picked = (topologyKeys: readonly string[], gates: Readonly<Record<string, boolean>>, spec: ServiceSpec = clusterIP) =>
      serviceRules(
        expectedOf({
          version: '1.20',
          services: [service('shop/web', {...spec, topologyKeys})],
          slices,
          facts: {labels},
          config: {featureGates: gates},
        }),
      );
    const on = {ServiceTopology: true};
    const addresses = (rules: Readonly<Record<string, readonly string[]>>) => rules['SVC']?.map(rule => rule.split('SEP ')[1]);
    const third = '10.244.3.8:8080';

    test.each([
      [['kubernetes.io/hostname'], [local]],
      [['topology.kubernetes.io/zone'], [local, third]],
      [['topology.kubernetes.io/region', 'kubernetes.io/hostname'], [local]],
      [
        ['topology.kubernetes.io/region', '*'],
        [local, remote, third],
      ],
      [[], [local, remote, third]],
    ])('%j', (keys, expected) => {
      expect(addresses(picked(keys, on))).toEqual(expected);
      expect(addresses(picked(keys, {}))).toEqual([local, remote, third]);
    });

    test('are none if no key matches any: the Service is rejected', () => {
      expect(picked(['topology.kubernetes.io/region'], on)).toEqual({'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')]});
    });

    test('do not apply under Local policy', () => {
      expect(addresses(picked(['kubernetes.io/hostname'], on, {...nodePort, ...localOut}))).toEqual([local, remote, third]);
    });
  });
});
