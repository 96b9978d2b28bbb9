import type {Entry} from '../../model/entry.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {PortalRule} from './portal-rules.ts';

/** One Service port with its entries and the rules that name them. */
export interface Portal {
  readonly port: ServicePort;
  readonly entries: readonly Entry[];
  readonly rules: readonly PortalRule[];
}

export function portalOf(port: ServicePort, rules: readonly PortalRule[]): Portal {
  const addresses: readonly Entry[] = [
    {kind: 'clusterIP', address: port.clusterIP, port: port.port},
    ...port.loadBalancerVIPs.map(address => ({kind: 'loadBalancerIP', address, port: port.port}) as const),
    ...port.externalIPs.map(address => ({kind: 'externalIP', address, port: port.port}) as const),
  ];
  const entries: readonly Entry[] =
    port.nodePort === 0 ? addresses : [...addresses, {kind: 'nodePort', address: null, port: port.nodePort}];
  return {port, entries, rules: rules.filter(rule => entries.some(entry => matchesEntry(rule, entry, port)))};
}

/** Whether a rule matches the packets of an entry of a Service port. */
export function matchesEntry(rule: PortalRule, entry: Entry, port: ServicePort): boolean {
  return rule.port === entry.port && rule.protocol === port.protocol.toLowerCase() && rule.address === entry.address;
}
