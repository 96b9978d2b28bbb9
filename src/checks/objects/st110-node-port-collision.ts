import {someOf} from '../../model/text/some-of.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {families} from '../../model/family.ts';
import type {Check, ClusterContext} from '../check.ts';
import {nameOf, ofPort} from '../service-observation.ts';
import {editService} from '../commands/service-commands.ts';

export const nodePortCollision: Check<'ST110'> = {
  code: 'ST110',
  name: 'node-port-collision',
  severity: 'warning',
  summary: 'Two Service ports claim the same address, protocol and port',
  remedy: 'Change one of them: on each node the rule that happens to stand first wins.',
  *cluster(context) {
    const claimed = claims(context);
    if (claimed.size === 0) return;
    const asked = new Set(context.services);
    for (const [claim, ports] of claimed) {
      const [first] = ports;
      if (first === undefined || ports.size < 2 || ![...ports].some(({object}) => asked.has(object))) continue;
      yield {
        ...ofPort(first),
        message: `${someOf([...ports].map(({servicePortName}) => servicePortName))} all claim ${claim}: one of them gets all connections`,
        ...editService(nameOf(first.object)),
      };
    }
  },
};

/** Claims by more than one Service port. Few addresses have several ports, so claims are only compared in detail for those. */
function claims({view, proxy}: ClusterContext): ReadonlyMap<string, ReadonlySet<ServicePort>> {
  const byClaim = new Map<string, Set<ServicePort>>();
  for (const [place, ports] of sharedPlaces(families.map(family => view.entries(family, proxy)))) {
    for (const port of ports) {
      const claim = typeof place === 'string' ? `${place} port ${port.port}/${port.protocol}` : nodePortText(port);
      byClaim.set(claim, (byClaim.get(claim) ?? new Set()).add(port));
    }
  }
  return byClaim;
}

/** By address, and by node port number: the Service ports that claim it, if there is more than one. */
function sharedPlaces(ofFamilies: readonly (readonly PortEntry[])[]): ReadonlyMap<string | number, readonly ServicePort[]> {
  const firsts = new Map<string | number, ServicePort>();
  const shared = new Map<string | number, ServicePort[]>();
  const claim = (place: string | number, port: ServicePort): void => {
    const first = firsts.get(place);
    if (first === undefined) firsts.set(place, port);
    else if (shared.has(place)) shared.get(place)?.push(port);
    else shared.set(place, [first, port]);
  };
  for (const entries of ofFamilies) {
    for (const {port} of entries) {
      claim(port.clusterIP, port);
      for (const address of port.externalIPs) claim(address, port);
      for (const address of port.loadBalancerVIPs) claim(address, port);
      if (port.nodePort !== 0) claim(port.nodePort, port);
    }
  }
  return shared;
}

function nodePortText({nodePort, protocol, family}: ServicePort): string {
  return `node port ${nodePort}/${protocol}${family === 'IPv6' ? ' (IPv6)' : ''}`;
}
