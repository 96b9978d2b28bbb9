import {droppedRanges} from '../expect/nftables/base-chains.ts';
import {knownServiceRanges, nodesInRanges, rangeOf, routesIntoRanges} from '../expect/cluster/service-range.ts';
import {podsByNode} from '../expect/own-pods.ts';
import {canonicalAddress, families} from '../model/address.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {commandLine, plural, someOf} from '../model/text.ts';
import type {Check, NodeCheckContext} from './check.ts';
import {run} from './commands/commands.ts';
import {networkOf} from './kernel/node-paths.ts';
import {holdersOfClusterIPs} from './objects/local-endpoints.ts';

export const serviceRangeOverlap: Check<'ST118'> = {
  code: 'ST118',
  name: 'service-range-overlap',
  severity: 'warning',
  summary: 'The range of cluster IPs holds addresses of nodes, of pods or of a network that the nodes reach',
  remedy: 'Give the cluster a Service range that no node, pod or other network uses, or renumber what is inside it.',
  *cluster({api}) {
    const ranges = knownServiceRanges(api);
    const inside = nodesInRanges(api, ranges);
    const taken = addressesOfServices(api);
    if (taken.length > 0)
      yield {
        severity: 'error',
        message: `${someOf(taken.map(({text}) => text))}: the Service takes its ports there, and in IPVS mode the other nodes no longer reach the address`,
        ...run(commandLine`kubectl get services -A -o wide`),
      };
    const free = inside.filter(({address}) => !taken.some(other => other.address === address));
    if (free.length > 0)
      yield {
        message: `cluster IPs are allocated from ${ranges.map(({text}) => text).join(', ')}, which holds ${someOf(free.map(({text}) => text))}: a Service that gets one of these addresses takes its ports from the node or pod`,
        ...run(commandLine`kubectl get nodes -o wide`, commandLine`kubectl get servicecidrs`),
      };
  },
  *node(context) {
    const dropped = context.config.mode.value === 'nftables' ? droppedOn(context) : [];
    const others = nodesInRanges(context.api, dropped).filter(({node, address}) => address === null || node !== context.node.name);
    const drops = `its kube-proxy (${context.config.version.value.text}, nftables mode) drops new connections to addresses of the Service range that no Service has`;
    if (others.length > 0)
      yield {
        node: context.node.name,
        severity: 'error',
        message: `${drops}, and ${someOf(others.map(({text}) => text))} may be among them`,
      };
    const routes = foreignRoutes(context, dropped.length > 0 ? dropped : knownServiceRanges(context.api));
    if (routes.length === 0) return;
    const networks = `${plural(routes.length, 'network')} inside the Service range (${someOf(routes.map(({to, hops}) => `${to.text} by ${hops[0]?.gateway ?? hops[0]?.dev ?? 'a route'}`))})`;
    yield {
      node: context.node.name,
      message: `the node has routes to ${networks}: ${dropped.length > 0 ? drops : 'packets to a host there that has the address of a Service go to the Service'}`,
      ...(dropped.length > 0 ? {severity: 'error' as const} : {}),
      ...run(...routes.slice(0, 3).map(({to}) => commandLine`ip route show ${to.text}`)),
    };
  },
};

/** Addresses of nodes and pods that a Service has too. */
function addressesOfServices(api: ApiObjects): readonly {readonly address: string; readonly text: string}[] {
  const holders = holdersOfClusterIPs(api.services ?? []);
  const nodes = (api.nodes ?? []).flatMap(({metadata, status}) =>
    (status?.addresses ?? []).flatMap(({type, address = ''}) => (type === 'Hostname' ? [] : {address, of: metadata.name})),
  );
  const pods = families.flatMap(family =>
    [...podsByNode(api, family)].flatMap(([node, addresses]) => [...addresses].map(address => ({address, of: `a pod on ${node}`}))),
  );
  return [...nodes, ...pods].flatMap(({address, of}) => {
    const holder = holders.get(canonicalAddress(address) ?? '');
    return holder === undefined ? [] : [{address, text: `${address} of ${of} is the cluster IP of ${holder}`}];
  });
}

function droppedOn({api, config}: NodeCheckContext) {
  return families.flatMap(family => droppedRanges({api, config, family, table: null}) ?? []).flatMap(rangeOf);
}

/** Routes to networks: those to nodes and pods inside the range are told by the API. */
function foreignRoutes(context: NodeCheckContext, ranges: ReturnType<typeof knownServiceRanges>) {
  const routes = families.flatMap(family => networkOf(context).routes[family] ?? []);
  const inside = routesIntoRanges(routes, ranges).filter(({to}) => to.prefix < (to.family === 'IPv4' ? 32 : 128));
  return inside.filter(({to}) => nodesInRanges(context.api, rangeOf(to.text)).length === 0);
}
