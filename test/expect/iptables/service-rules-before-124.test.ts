import {describe, expect, test} from 'vitest';
import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {endpoint, service, slice} from '../../cluster.ts';
import {expectedOf, type Setup, serviceRules} from '../../kube-proxy.ts';
import {b6, clusterIP, d5, here, local, localOut, nodePort, refusal, remark, remote, there, vip} from './templates.ts';

/** Section 3.6 of the reference: the rules of kube-proxy 1.21, 1.22 and 1.23. */
const balancer: ServiceSpec = {...nodePort, type: 'LoadBalancer'};

const named = remark('shop/web:http');
const to = (address: string, what: string, target: string, before = '') =>
  `${before}-d ${address}/32 -p tcp ${remark(`shop/web:http ${what}`)} -m tcp --dport 80 -j ${target}`;
const notPods = '! -s 10.244.0.0/16 ';
const inside = to('10.96.1.1', 'cluster IP', 'SVC');
const insideMarked = to('10.96.1.1', 'cluster IP', 'KUBE-MARK-MASQ', notPods);
const onNode = (target: string, before = '') => `${before}-p tcp ${named} -m tcp --dport 30080 -j ${target}`;
const balanced = remark('shop/web:http loadbalancer IP');

/** Balancing over two endpoints or one, with the comment that the rules bear. */
const over = (comment: string, ...endpoints: readonly string[]) =>
  endpoints.map((hostPort, index) =>
    [comment, index < endpoints.length - 1 ? '-m statistic --mode random --probability 0.50000000000' : '', `-j SEP ${hostPort}`]
      .filter(part => part !== '')
      .join(' '),
  );

const xlb = [
  `-s 10.244.0.0/16 ${remark('Redirect pods trying to reach external loadbalancer VIP to clusterIP')} -j SVC`,
  `${remark('masquerade LOCAL traffic for shop/web:http LB IP')} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
  `${remark('route LOCAL traffic for shop/web:http LB IP to service chain')} -m addrtype --src-type LOCAL -j SVC`,
];

interface Row {
  readonly spec: ServiceSpec;
  readonly ingress?: readonly {ip?: string}[];
  readonly endpoints: readonly ReturnType<typeof endpoint>[];
}

const rulesOf = ({spec, ingress = [], endpoints}: Row, version: string, setup: Setup = {}) =>
  serviceRules(
    expectedOf({
      version,
      services: [service('shop/web', spec, {ingress})],
      slices: [slice('shop/web', endpoints, {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]})],
      ...setup,
    }),
  );

describe('a cluster IP', () => {
  const row = {spec: clusterIP, endpoints: [here, there]};

  test('is masqueraded in KUBE-SERVICES by 1.21, in KUBE-SVC by 1.22 and 1.23', () => {
    expect(rulesOf(row, '1.21')).toEqual({
      'nat/KUBE-SERVICES': [insideMarked, inside],
      SVC: over(named, local, remote),
      ...d5(local, remote),
    });
    for (const version of ['1.22', '1.23']) {
      expect(rulesOf(row, version)).toEqual({
        'nat/KUBE-SERVICES': [inside],
        SVC: [insideMarked, ...over(named, local, remote)],
        ...d5(local, remote),
      });
    }
  });

  test('is masqueraded for all clients with masqueradeAll, for none without a pod network', () => {
    const first = (version: string, config: Setup['config']) => {
      const rules = rulesOf(row, version, {config});
      return rules[version === '1.21' ? 'nat/KUBE-SERVICES' : 'SVC']?.[0];
    };
    for (const version of ['1.21', '1.22', '1.23']) {
      expect(first(version, {masqueradeAll: true})).toBe(to('10.96.1.1', 'cluster IP', 'KUBE-MARK-MASQ'));
      expect(first(version, {clusterCIDRs: []})).not.toContain('KUBE-MARK-MASQ');
    }
  });

  test('without endpoints is rejected', () => {
    for (const version of ['1.21', '1.22', '1.23'])
      expect(rulesOf({...row, endpoints: []}, version)).toEqual({'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')]});
  });
});

describe('a node port', () => {
  test('under Cluster policy', () => {
    const row = {spec: nodePort, endpoints: [here, there]};
    expect(rulesOf(row, '1.21')).toMatchObject({
      'nat/KUBE-NODEPORTS': [onNode('KUBE-MARK-MASQ'), onNode('SVC')],
      SVC: over(named, local, remote),
    });
    for (const version of ['1.22', '1.23']) {
      expect(rulesOf(row, version)).toMatchObject({
        'nat/KUBE-NODEPORTS': [onNode('SVC')],
        SVC: [insideMarked, onNode('KUBE-MARK-MASQ'), ...over(named, local, remote)],
      });
    }
  });

  test.each([
    ['1.21', (_: string, index: number) => remark(`Balancing rule ${index} for shop/web:http`)],
    ['1.22', (_: string, index: number) => remark(`Balancing rule ${index} for shop/web:http`)],
    ['1.23', () => named],
  ])('under Local policy has KUBE-XLB (%s)', (version, comment) => {
    const second = endpoint('10.244.1.6', 'node-a');
    const rules = rulesOf({spec: {...nodePort, ...localOut}, endpoints: [here, second, there]}, version);
    expect(rules['nat/KUBE-NODEPORTS']).toEqual([onNode('KUBE-MARK-MASQ', '-s 127.0.0.0/8 '), onNode('XLB')]);
    expect(rules['XLB']).toEqual([
      ...xlb,
      `${comment('', 0)} -m statistic --mode random --probability 0.50000000000 -j SEP ${local}`,
      `${comment('', 1)} -j SEP 10.244.1.6:8080`,
    ]);
    expect(rules['SVC']?.filter(rule => rule.includes('30080'))).toEqual([]);
  });

  test('in IPv6 under Local policy matches its own loopback', () => {
    const rules = serviceRules(
      expectedOf({
        version: '1.23',
        family: 'IPv6',
        services: [service('shop/web', {...nodePort, ...localOut, clusterIP: 'fd00:96::1'})],
        slices: [slice('shop/web', [endpoint('fd00:10:1::5', 'node-a')], {ports: [{name: 'http', port: 8080}]})],
      }),
    );
    expect(rules['nat/KUBE-NODEPORTS']).toEqual([onNode('KUBE-MARK-MASQ', '-s ::1/128 '), onNode('XLB')]);
  });

  test('without a local endpoint is marked for dropping, not dropped in the filter table', () => {
    for (const version of ['1.21', '1.22', '1.23']) {
      const rules = rulesOf({spec: {...nodePort, ...localOut}, endpoints: [there]}, version);
      expect(rules['XLB']).toEqual([...xlb, `${remark('shop/web:http has no local endpoints')} -j KUBE-MARK-DROP`]);
      expect(rules).not.toHaveProperty('filter/KUBE-EXTERNAL-SERVICES');
    }
  });

  test('without a pod network, KUBE-XLB does not detect pods', () => {
    const rules = rulesOf({spec: {...nodePort, ...localOut}, endpoints: [here]}, '1.23', {config: {clusterCIDRs: []}});
    expect(rules['XLB']?.slice(0, 2)).toEqual(xlb.slice(1));
  });

  test('on no address of the node is not written, nor masqueraded', () => {
    const config = {nodePortAddresses: ['172.16.0.0/12']};
    const rules = rulesOf({spec: nodePort, endpoints: [here]}, '1.23', {config});
    expect(rules).toEqual({'nat/KUBE-SERVICES': [inside], SVC: [insideMarked, ...over(named, local)], ...d5(local)});
    expect(rulesOf({spec: nodePort, endpoints: []}, '1.23', {config})).toEqual({
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
    });
  });
});

describe('an external IP', () => {
  const row = {spec: {...clusterIP, externalIPs: ['198.51.100.8', '198.51.100.9']}, endpoints: [here]};
  const marked = (address: string) => to(address, 'external IP', 'KUBE-MARK-MASQ', notPods);

  test('is masqueraded for all but pods, in KUBE-SERVICES by 1.21, in KUBE-SVC by 1.22 and 1.23', () => {
    expect(rulesOf(row, '1.21')).toMatchObject({
      'nat/KUBE-SERVICES': [
        insideMarked,
        inside,
        marked('198.51.100.8'),
        to('198.51.100.8', 'external IP', 'SVC'),
        marked('198.51.100.9'),
        to('198.51.100.9', 'external IP', 'SVC'),
      ],
      SVC: over(named, local),
    });
    for (const version of ['1.22', '1.23']) {
      expect(rulesOf(row, version)).toMatchObject({
        'nat/KUBE-SERVICES': [inside, to('198.51.100.8', 'external IP', 'SVC'), to('198.51.100.9', 'external IP', 'SVC')],
        SVC: [insideMarked, marked('198.51.100.8'), marked('198.51.100.9'), ...over(named, local)],
      });
    }
  });

  test('is masqueraded for all clients without a pod network; masqueradeAll changes nothing', () => {
    const second = (config: Setup['config']) => rulesOf(row, '1.23', {config})['SVC']?.find(rule => rule.includes('198.51.100.8'));
    expect(second({clusterCIDRs: []})).toBe(to('198.51.100.8', 'external IP', 'KUBE-MARK-MASQ'));
    expect(second({masqueradeAll: true})).toBe(marked('198.51.100.8'));
  });

  test('under Local policy jumps to KUBE-XLB and is not masqueraded', () => {
    const rules = rulesOf({...row, spec: {...nodePort, ...localOut, externalIPs: ['198.51.100.8']}}, '1.21');
    expect(rules['nat/KUBE-SERVICES']).toEqual([insideMarked, inside, to('198.51.100.8', 'external IP', 'XLB')]);
  });

  test('of a ClusterIP Service ignores the Local policy', () => {
    const rules = rulesOf({...row, spec: {...row.spec, ...localOut}}, '1.23');
    expect(rules).not.toHaveProperty('XLB');
    expect(rules['nat/KUBE-SERVICES']).toContain(to('198.51.100.8', 'external IP', 'SVC'));
  });
});

describe('a load-balancer address', () => {
  const drop = `${balanced} -j KUBE-MARK-DROP`;

  test('has KUBE-FW, with ranges and without', () => {
    for (const version of ['1.21', '1.22', '1.23']) {
      const rules = rulesOf({spec: balancer, ingress: vip, endpoints: [here]}, version);
      expect(rules['nat/KUBE-SERVICES']).toContain(to('198.51.100.7', 'loadbalancer IP', 'FW'));
      expect(rules['FW']).toEqual([`${balanced} -j KUBE-MARK-MASQ`, `${balanced} -j SVC`, drop]);
    }
    const spec = {...balancer, loadBalancerSourceRanges: ['203.0.113.0/24', '192.168.1.0/24']};
    expect(rulesOf({spec, ingress: vip, endpoints: [here]}, '1.23')['FW']).toEqual([
      `${balanced} -j KUBE-MARK-MASQ`,
      `-s 203.0.113.0/24 ${balanced} -j SVC`,
      `-s 192.168.1.0/24 ${balanced} -j SVC`,
      drop,
    ]);
  });

  test('accepts its own packets if the node is in the ranges', () => {
    const spec = {...balancer, loadBalancerSourceRanges: ['192.168.1.0/24']};
    const config = {bindAddress: '192.168.1.10'};
    expect(rulesOf({spec, ingress: vip, endpoints: [here]}, '1.23', {config})['FW']).toEqual([
      `${balanced} -j KUBE-MARK-MASQ`,
      `-s 192.168.1.0/24 ${balanced} -j SVC`,
      `-s 198.51.100.7/32 ${balanced} -j SVC`,
      drop,
    ]);
  });

  test('repeats its rules for every address, in one chain', () => {
    const rules = rulesOf({spec: balancer, ingress: [...vip, {ip: '198.51.100.17'}], endpoints: [here]}, '1.22');
    const each = [`${balanced} -j KUBE-MARK-MASQ`, `${balanced} -j SVC`, drop];
    expect(rules['FW']).toEqual([...each, ...each]);
  });

  test('under Local policy jumps to KUBE-XLB', () => {
    const spec = {...balancer, ...localOut, healthCheckNodePort: 32100, loadBalancerSourceRanges: ['203.0.113.0/24']};
    const rules = rulesOf({spec, ingress: vip, endpoints: [here]}, '1.23');
    expect(rules['FW']).toEqual([`-s 203.0.113.0/24 ${balanced} -j XLB`, drop]);
    expect(rules['XLB']).toEqual([...xlb, ...over(named, local)]);
    expect(rules['filter/KUBE-NODEPORTS']).toEqual([b6(32100)]);
  });

  test('without endpoints is rejected, like external IPs and node ports', () => {
    const spec = {...balancer, externalIPs: ['198.51.100.8'], loadBalancerSourceRanges: ['203.0.113.0/24']};
    expect(rulesOf({spec, ingress: vip, endpoints: []}, '1.23')).toEqual({
      'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
      'filter/KUBE-EXTERNAL-SERVICES': [
        refusal('198.51.100.8', 'reject'),
        refusal('198.51.100.7', 'reject'),
        `-p tcp ${remark('shop/web:http has no endpoints')} -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable`,
      ],
    });
  });
});

describe('internal policy Local', () => {
  const spec: ServiceSpec = {...nodePort, internalTrafficPolicy: 'Local'};

  test('replaces all endpoints in 1.22 and 1.23, including those of node ports', () => {
    for (const version of ['1.22', '1.23']) {
      expect(rulesOf({spec, endpoints: [here, there]}, version)).toMatchObject({
        'nat/KUBE-NODEPORTS': [onNode('SVC')],
        SVC: [insideMarked, onNode('KUBE-MARK-MASQ'), ...over(named, local)],
      });
      expect(rulesOf({spec, endpoints: [there]}, version)).toEqual({
        'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')],
        'filter/KUBE-EXTERNAL-SERVICES': [
          `-p tcp ${remark('shop/web:http has no endpoints')} -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable`,
        ],
      });
    }
  });

  test('is unknown to 1.21', () => {
    expect(rulesOf({spec, endpoints: [here, there]}, '1.21')['SVC']).toEqual(over(named, local, remote));
  });

  test('yields to external policy Local', () => {
    const rules = rulesOf({spec: {...spec, ...localOut}, endpoints: [here, there]}, '1.23');
    expect(rules['SVC']).toEqual([insideMarked, ...over(named, local, remote)]);
    expect(rules['XLB']).toEqual([...xlb, ...over(named, local)]);
  });
});

describe('affinity', () => {
  const spec: ServiceSpec = {
    ...nodePort,
    ...localOut,
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}},
  };
  const known = (hostPort: string) =>
    `${named} -m recent --rcheck --seconds 10800 --reap --name SEP ${hostPort} --mask 255.255.255.255 --rsource -j SEP ${hostPort}`;

  test('is checked in KUBE-SVC and in KUBE-XLB, under the name of the Service', () => {
    const rules = rulesOf({spec, endpoints: [here, there]}, '1.21');
    expect(rules['SVC']).toEqual([known(local), known(remote), ...over(named, local, remote)]);
    expect(rules['XLB']).toEqual([...xlb, known(local), `${remark('Balancing rule 0 for shop/web:http')} -j SEP ${local}`]);
  });
});

describe('endpoints that are not ready', () => {
  const asleep = endpoint('10.244.2.9', 'node-b', {ready: false});
  const unready = '10.244.2.9:8080';

  test('count alone up to 1.22.3: nothing is rejected, and KUBE-SVC leads nowhere', () => {
    const row = {spec: clusterIP, endpoints: [asleep]};
    for (const version of ['1.22.0', '1.22.3'])
      expect(rulesOf(row, version)).toEqual({'nat/KUBE-SERVICES': [inside], SVC: [insideMarked], ...d5(unready)});
    for (const version of ['1.21.14', '1.22.4', '1.23.0'])
      expect(rulesOf(row, version)).toEqual({'filter/KUBE-SERVICES': [refusal('10.96.1.1', 'reject')]});
  });

  test('get no new clients up to 1.22.3, and keep those that they have', () => {
    const spec: ServiceSpec = {...clusterIP, sessionAffinity: 'ClientIP'};
    const sticky = (version: string) => rulesOf({spec, endpoints: [here, asleep]}, version);
    const targets = (version: string) => sticky(version)['SVC']?.map(rule => rule.replace(/^.* -j /, ''));
    expect(targets('1.22.3')).toEqual(['KUBE-MARK-MASQ', `SEP ${local}`, `SEP ${unready}`, `SEP ${local}`]);
    expect(sticky('1.22.3')['SVC']?.[2]).toContain('--rcheck --seconds 10800');
    expect(targets('1.22.4')).toEqual(['KUBE-MARK-MASQ', `SEP ${local}`, `SEP ${local}`]);
    expect(sticky('1.22.4')).not.toHaveProperty(`SEP ${unready}`);
  });
});

describe('a cluster of more than 1,000 endpoints', () => {
  const many = Array.from({length: 1000}, (_, index) => endpoint(`10.245.${index >> 8}.${index & 255}`, 'node-b'));
  const rules = (version: string) =>
    serviceRules(
      expectedOf({
        version,
        services: [
          service('shop/web', {...nodePort, ...localOut, sessionAffinity: 'ClientIP'}),
          service('shop/big', {...clusterIP, clusterIP: '10.96.1.2'}),
        ],
        slices: [
          slice('shop/web', [here], {ports: [{name: 'http', port: 8080}]}),
          slice('shop/big', many, {ports: [{name: 'http', port: 8080}]}),
        ],
      }),
    );
  const comments = (list: readonly string[] | undefined) => list?.map(rule => rule.includes('--comment'));

  test('has no comments in the rules of endpoints; those of KUBE-XLB keep them up to 1.22', () => {
    expect(comments(rules('1.23')['XLB shop/web:http'])).toEqual([true, true, true, false, false]);
    expect(comments(rules('1.22')['XLB shop/web:http'])).toEqual([true, true, true, true, true]);
    expect(comments(rules('1.21')['XLB shop/web:http'])).toEqual([true, true, true, true, true]);
    expect(comments(rules('1.21')['SVC shop/web:http'])).toEqual([false, false]);
    expect(comments(rules('1.23')['SVC shop/web:http'])).toEqual([true, false, false]);
    expect(comments(rules('1.23')[`SEP ${local} shop/web:http`])).toEqual([false, false]);
  });
});
