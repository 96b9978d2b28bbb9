import {knownServiceRanges, nodesInRanges} from '../expect/cluster/service-range.ts';
import {podsByNode} from '../expect/own-pods.ts';
import {canonicalAddress, families} from '../model/address.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {commandLine, someOf} from '../model/text.ts';
import type {Check} from './check.ts';
import {run} from './commands/commands.ts';
import {holdersOfClusterIPs} from './objects/local-endpoints.ts';

export const serviceRangeOverlap: Check<'ST118'> = {
  code: 'ST118',
  name: 'service-range-overlap',
  severity: 'warning',
  summary: 'The range of cluster IPs holds addresses of nodes or pods',
  remedy: 'Give the cluster a Service range that no node or pod uses, or renumber what is inside it.',
  *cluster({api}) {
    const ranges = knownServiceRanges(api);
    const taken = addressesOfServices(api);
    if (taken.length > 0)
      yield {
        severity: 'error',
        message: `${someOf(taken.map(({text}) => text))}: the Service takes its ports there, and in IPVS mode the other nodes no longer reach the address`,
        ...run(commandLine`kubectl get services -A -o wide`),
      };
    const free = nodesInRanges(api, ranges).filter(({address}) => !taken.some(other => other.address === address));
    if (free.length > 0)
      yield {
        message: `cluster IPs are allocated from ${ranges.map(({text}) => text).join(', ')}, which holds ${someOf(free.map(({text}) => text))}: a Service that gets one of these addresses takes its ports, and nftables mode from 1.33 on drops new connections to those that no Service has`,
        ...run(commandLine`kubectl get nodes -o wide`, commandLine`kubectl get servicecidrs`),
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
