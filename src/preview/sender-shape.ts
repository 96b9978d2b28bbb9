import {podNetworkOf, sourcesFor} from '../analyze/outcomes/sources.ts';
import type {ServedPort} from '../expect/cluster/served-port.ts';
import type {NodeContext} from '../expect/node-context.ts';
import {type Cidr, contains, parseAddress, parseCidr} from '../model/address.ts';
import {endpointHere} from './preview-probes.ts';

/**
 * What kube-proxy's rules match of the senders of packets to a Service port: whether its endpoint that connects to it is a pod for the
 * detectors of both sides, and which senders are in its source ranges. Two Service ports that differ in this are not alike.
 */
export function senderShape(item: ServedPort, contexts: readonly [NodeContext, NodeContext]): string {
  const [before] = contexts;
  const here = endpointHere(item, before)?.address;
  const ofEndpoint = here === undefined ? 'none' : inside(here, podNetworksOf(contexts));
  if (item.port.sourceRanges.length === 0) return ofEndpoint;
  const ranges = item.port.sourceRanges.map(range => parseCidr(range));
  const taken = new Set(item.all.map(({address}) => address));
  const senders = contexts.flatMap(context => sourcesFor(item.port, context, taken).map(({address}) => address));
  const nodes = contexts.map(({nodeIP}) => nodeIP);
  return [ofEndpoint, ...[...senders, ...nodes, ...(here === undefined ? [] : [here])].map(address => inside(address, ranges))].join();
}

/** For each side, the network of the sending pods and that of the detector. */
function podNetworksOf(contexts: readonly NodeContext[]): readonly (Cidr | null)[] {
  return contexts.flatMap(context => [podNetworkOf(context), context.detector.kind === 'cidr' ? parseCidr(context.detector.cidr) : null]);
}

/** A digit for each network: whether the address is in it. */
function inside(text: string, networks: readonly (Cidr | null)[]): string {
  const address = parseAddress(text);
  return networks.map(network => (network !== null && address !== null && contains(network, address) ? '1' : '0')).join('');
}
