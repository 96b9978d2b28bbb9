import {someOf} from '../../model/text/some-of.ts';
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
    const asked = new Set(context.services);
    for (const [claim, ports] of claims(context)) {
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
  for (const [address, ports] of claimedPlaces(families.flatMap(family => view.entries(family, proxy).map(({port}) => port)))) {
    if (!Array.isArray(ports)) continue;
    for (const port of ports) {
      const claim = typeof address === 'string' ? `${address} port ${port.port}/${port.protocol}` : nodePortText(port);
      byClaim.set(claim, (byClaim.get(claim) ?? new Set()).add(port));
    }
  }
  return byClaim;
}

/** By address, and by node port number: the Service ports that claim it. Nearly all have one, which needs no list. */
type ClaimedPlaces = Map<string | number, ServicePort | ServicePort[]>;

function claimedPlaces(ports: readonly ServicePort[]): ClaimedPlaces {
  const places: ClaimedPlaces = new Map();
  for (const port of ports) {
    claim(places, port.clusterIP, port);
    for (const address of port.externalIPs) claim(places, address, port);
    for (const address of port.loadBalancerVIPs) claim(places, address, port);
    if (port.nodePort !== 0) claim(places, port.nodePort, port);
  }
  return places;
}

function claim(places: ClaimedPlaces, place: string | number, port: ServicePort): void {
  const known = places.get(place);
  if (known === undefined) places.set(place, port);
  else if (Array.isArray(known)) known.push(port);
  else places.set(place, [known, port]);
}

function nodePortText({nodePort, protocol, family}: ServicePort): string {
  return `node port ${nodePort}/${protocol}${family === 'IPv6' ? ' (IPv6)' : ''}`;
}
