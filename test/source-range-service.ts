import {scenario} from './scenario.ts';

interface RangedService {
  readonly ranges: readonly string[];
  readonly balancer: readonly string[];
  readonly externalIPs?: readonly string[];
}

/** What ST114 and ST115 say of a dual-stack Service with these addresses and source ranges. */
export async function rangesOf({ranges, balancer, externalIPs = []}: RangedService) {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('shop/external-ips', ({metadata, spec}) => ({
    metadata,
    spec: {
      ...spec,
      type: 'LoadBalancer',
      ipFamilies: ['IPv4', 'IPv6'],
      clusterIPs: [spec?.clusterIP ?? '', 'fd00:10:96::77'],
      externalIPs,
      loadBalancerSourceRanges: ranges,
    },
    status: {loadBalancer: {ingress: balancer.map(ip => ({ip}))}},
  }));
  const found = given.findings().filter(({code}) => code === 'ST114' || code === 'ST115');
  return found.map(({code, severity, service}) => [code, severity, `${service?.namespace}/${service?.name}`]);
}
