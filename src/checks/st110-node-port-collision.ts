import type {ServicePort} from '../model/service-port.ts';
import {families} from '../model/family.ts';
import type {Check, ClusterContext} from './check.ts';
import {ofPort, someOf} from './service-observation.ts';

export const nodePortCollision: Check<'ST110'> = {
  code: 'ST110',
  name: 'node-port-collision',
  severity: 'warning',
  summary: 'Two Service ports claim the same address, protocol and port',
  remedy: 'Change one of them: on each node the rule that happens to stand first wins.',
  *cluster(context) {
    for (const [claim, ports] of claims(context)) {
      const [first] = ports;
      if (first === undefined || ports.length < 2 || !ports.some(port => context.services.includes(port.object))) continue;
      yield {...ofPort(first), message: `${someOf(ports.map(({servicePortName}) => servicePortName))} all claim ${claim}`};
    }
  },
};

function claims({view, proxy}: ClusterContext): ReadonlyMap<string, readonly ServicePort[]> {
  const byClaim = new Map<string, ServicePort[]>();
  const claim = (key: string, port: ServicePort): void => {
    const list = byClaim.get(key);
    if (list === undefined) byClaim.set(key, [port]);
    else if (!list.includes(port)) list.push(port);
  };
  for (const family of families) {
    for (const {port} of view.entries(family, proxy)) {
      for (const address of [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs])
        claim(`${address} port ${port.port}/${port.protocol}`, port);
      if (port.nodePort !== 0) claim(`node port ${port.nodePort}/${port.protocol}${family === 'IPv6' ? ' (IPv6)' : ''}`, port);
    }
  }
  return byClaim;
}
