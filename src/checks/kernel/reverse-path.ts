import {type Address, parseAddress} from '../../model/address.ts';
import {routeOf} from '../../model/node/node-facts.ts';
import {isReversePathStrict, outsideOf} from '../../model/node/policy-routing.ts';
import {type CommandLine, commandLine, plural, someOf} from '../../model/text.ts';
import type {NodeCheckContext} from '../check.ts';
import {interfaceSwitch, networkOf, podAddresses} from './node-paths.ts';

/** Packets that strict reverse path filtering drops, and what ends that on the node. */
export interface Asymmetric {
  readonly severity?: 'error';
  readonly message: string;
  readonly commands: readonly (CommandLine | null)[];
}

/** Packets to node ports that go on to a pod whose own packets leave by another interface, as with secondary interfaces for pods. */
export function* asymmetricPods(context: NodeCheckContext): Iterable<Asymmetric> {
  const {dev, address: own} = primary(context) ?? {};
  if (dev === undefined || own === undefined || !isReversePathStrict(networkOf(context), dev)) return;
  const back = outsideOf('IPv4')
    .map(client => ({client, route: wayBack(context, client, own)}))
    .find(({route}) => route === dev);
  if (back === undefined) return;
  const pods = (podAddresses(context, 'IPv4').get(context.node.name) ?? []).filter(({isExternal}) => isExternal);
  const lost = pods.flatMap(({address}) => {
    const pod = parseAddress(address);
    const other = pod === null ? null : wayBack(context, back.client, pod);
    return other === null || other === dev ? [] : [{address, other}];
  });
  const [first] = lost;
  if (first === undefined) return;
  yield {
    severity: 'error',
    message: `rp_filter of ${dev} is strict (1), and policy rules route packets of ${plural(lost.length, 'pod')} (${someOf(lost.map(({address}) => address))}) by ${first.other}: the kernel drops what arrives on ${dev} for ${lost.length === 1 ? 'it' : 'them'} through node ports and load balancers.`,
    commands: [commandLine`sysctl -w ${interfaceSwitch(dev, 'rp_filter')}=2`],
  };
}

/** Packets to the node's address, from networks that its interface leads to, whose replies leave by another interface. */
export function* asymmetricNode(context: NodeCheckContext): Iterable<Asymmetric> {
  const {dev, address: own} = primary(context) ?? {};
  const {routes, links} = networkOf(context);
  if (dev === undefined || own === undefined || !isReversePathStrict(networkOf(context), dev)) return;
  const isWired = (name: string): boolean =>
    links?.some(link => link.name === name && /^(?:|vlan|bond|team|macvlan)$/.test(link.kind ?? '-')) ?? false;
  for (const {to, hops, kind} of routes.IPv4 ?? []) {
    if (kind !== 'unicast' || !hops.some(hop => hop.dev === dev && hop.gateway !== null)) continue;
    const client = to.prefix === 0 ? outsideOf('IPv4')[0] : parseAddress(hostInside(to.text));
    const other = client === undefined || client === null ? null : wayBack(context, client, own);
    if (other === null || other === dev || !isWired(other)) continue;
    yield {
      message: `rp_filter of ${dev} is strict (1), and the replies to packets from ${to.prefix === 0 ? 'outside' : to.text}, which ${dev} has a route to as well, leave by ${other}: the kernel drops such packets when they arrive on ${dev}.`,
      commands: [commandLine`sysctl -w ${interfaceSwitch(dev, 'rp_filter')}=2`],
    };
    return;
  }
}

/** The first host of a network. */
function hostInside(network: string): string {
  const [base = '', prefix = '32'] = network.split('/');
  return prefix === '32' ? base : base.replace(/\d+$/, last => String(Number(last) + 1));
}

function primary({facts}: NodeCheckContext): {readonly dev: string; readonly address: Address} | null {
  const address = facts.hostIPs.flatMap(text => parseAddress(text) ?? []).find(({family}) => family === 'IPv4');
  return address === undefined || facts.primaryInterface === null ? null : {dev: facts.primaryInterface, address};
}

/** The kernel looks for the way back with the addresses turned. Null if it is unknown or there is none. */
function wayBack(context: NodeCheckContext, client: Address, source: Address): string | null {
  const route = routeOf(networkOf(context), client, {source, mark: 0, iif: 'lo'});
  return route !== 'unknown' && route.kind === 'unicast' ? route.dev : null;
}
