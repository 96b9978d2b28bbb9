import {internalIPs} from '../expect/api-index.ts';
import {addressesOfPod, eachPod, podCIDRsOf} from '../expect/node-context.ts';
import {canonicalAddress, families, parseAddress} from '../model/address.ts';
import {isReadyPod, type NodeObject, type PodObject} from '../model/api-objects.ts';
import {partition, uniqueBy} from '../model/lists.ts';
import {once} from '../model/once.ts';
import {whyWithoutKubeProxy, type NodeFacts, routeOf, unknownRoute} from '../model/node/node-facts.ts';
import {commandLine, someOf} from '../model/text.ts';
import {check} from './catalog.ts';
import {run, onNode} from './commands/commands.ts';
import {knownServiceRanges, nodesInRanges, overlaps} from '../expect/cluster/service-range.ts';
import {parseInterval} from '../parse/nftables/address-list.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {holdersOfClusterIPs} from './objects/local-endpoints.ts';

export const serviceRangeOverlap = check('ST118', {
  *cluster({api}) {
    const ranges = knownServiceRanges(api);
    const taken = addressesOfServices(api);
    if (taken.length > 0) {
      const message = `${someOf(taken.map(({text}) => text))}: the Service takes its ports there, and in IPVS mode the other nodes no longer reach the address`;
      yield {severity: 'error', message, ...run(commandLine`kubectl get services -A -o wide`)};
    }
    const free = nodesInRanges(api, ranges).filter(({address}) => !taken.some(other => other.address === address));
    if (free.length > 0)
      yield {
        message: `cluster IPs are allocated from ${ranges.map(({text}) => text).join(', ')}, which holds ${someOf(free.map(({text}) => text))}: a Service that gets one of these addresses takes its ports, and nftables mode from 1.33 on drops new connections to those that no Service has`,
        ...run(commandLine`kubectl get nodes -o wide`, commandLine`kubectl get servicecidrs`),
      };
  },
  *node({api, node, facts}) {
    const {routes} = facts.network;
    const ranges = knownServiceRanges(api);
    const networks = families.flatMap(family =>
      (routes[family] ?? []).flatMap(({kind, to, hops: [hop]}) =>
        kind === 'unicast' && isDocker(hop?.dev) ? {text: to.text, dev: hop?.dev} : [],
      ),
    );
    const inRange = networks.filter(({text}) => overlaps(text, ranges));
    const lost = nodesBehindDocker(api, facts);
    if (inRange.length === 0 && lost.length === 0) return;
    const place = {remedy: moveDocker, ...onNode({api, node}, commandLine`ip route`)};
    if (inRange.length > 0)
      yield {
        ...place,
        message: `${someOf(inRange.map(({text, dev}) => `the network ${text} of ${dev}`))} on ${node.name} shares addresses with the range of cluster IPs (${ranges.map(({text}) => text).join(', ')}): a container and a Service may get one address`,
      };
    if (lost.length > 0)
      yield {
        ...place,
        message: `${node.name} sends packets to ${someOf(lost)}, and so what goes to their pods, to a bridge of Docker whose network has these addresses too`,
      };
  },
});

const moveDocker = 'Give Docker other networks: bip and default-address-pools in /etc/docker/daemon.json, or subnet in the Compose file.';

/** The names that Docker gives to bridges. Pods may be at docker0 in old clusters; no nodes are. */
function isDocker(dev: string | null | undefined): boolean {
  return /^(?:docker\d+|br-[\da-f]{12})$/.test(dev ?? '');
}

/** Nodes to whose addresses the routes of this one lead by a bridge of Docker. */
function nodesBehindDocker({nodes}: ApiObjects, {name, network}: NodeFacts): readonly string[] {
  if (!network.links?.some(link => isDocker(link.name))) return [];
  const others = (nodes ?? []).filter(({metadata}) => metadata.name !== name);
  return others.flatMap(other =>
    internalIPs(other).flatMap(address => {
      const destination = parseAddress(address);
      const route = destination === null ? unknownRoute : routeOf(network, destination);
      return route.kind === 'unicast' && isDocker(route.dev) ? [`${other.metadata.name} (${address})`] : [];
    }),
  );
}

/** Addresses of nodes and pods that a Service has too. */
function addressesOfServices(api: ApiObjects): readonly {readonly address: string; readonly text: string}[] {
  const holders = holdersOfClusterIPs(api.services ?? []);
  const found: {readonly address: string; readonly text: string}[] = [];
  const note = (address: string, of: string | undefined): void => {
    const holder = holders.get(canonicalAddress(address) ?? '');
    if (holder !== undefined) found.push({address, text: `${address} of ${of} is the cluster IP of ${holder}`});
  };
  for (const {metadata, status} of api.nodes ?? [])
    for (const {type, address = ''} of status?.addresses ?? []) if (type !== 'Hostname') note(address, metadata.name);
  eachPod(api, (address, node) => {
    note(address, `a pod on ${node}`);
  });
  return uniqueBy(found, ({text}) => text);
}

export const addressConflict = check('ST119', {
  *cluster({api}) {
    const [nodes, virtual] = partition(api.nodes ?? [], node => whyWithoutKubeProxy(node) === null);
    const isVirtual = new Set<string | undefined>(virtual.map(nameOfNode));
    const ready = (api.pods ?? []).filter(pod => isReadyWithOwnAddress(pod) && !isVirtual.has(pod.spec?.nodeName));
    const pods = shared(ready, pod => addressesOfPod(pod).flatMap(canonical), nameOfPod);
    if (pods.length > 0) {
      const gist = `pods share an address, connections reach the wrong one: ${someOf(pods, {max: 1})}`;
      const message = `ready pods share an address, so that packets to one of them reach another: ${someOf(pods)}`;
      yield {severity: 'error', variant: 'of-pods', gist, message, ...run(commandLine`kubectl get pods -A -o wide`)};
    }
    const networks = shared(nodes, podCIDRsOf, nameOfNode);
    if (networks.length > 0)
      yield {
        variant: 'of-pod-networks',
        gist: `nodes share a pod network: ${someOf(networks, {max: 1})}`,
        message: `nodes share a pod network, so that their pods get the same addresses, and routes lead to one node only: ${someOf(networks)}`,
        ...run(commandLine`kubectl get nodes -o custom-columns=NAME:.metadata.name,POD-CIDRS:.spec.podCIDRs`),
      };
    const addresses = shared(nodes, internalAddresses, nameOfNode);
    if (addresses.length > 0)
      yield {
        variant: 'of-nodes',
        gist: `nodes share an InternalIP: ${someOf(addresses, {max: 1})}`,
        message: `nodes share an InternalIP, so that what is sent there reaches one of them only: ${someOf(addresses)}`,
        remedy: 'Give each kubelet the address by which other nodes reach it: --node-ip.',
        ...run(commandLine`kubectl get nodes -o wide`),
      };
  },
  *node({api, facts, node, config}) {
    const {value, source} = config.clusterCIDRs;
    // Where nodes have no podCIDR, as in clouds whose pods are in the network of the nodes, that is by design.
    const overlap = (text: string) => (own: readonly string[]) => own.some(one => overlaps(one, [parseInterval(text) ?? []].flat()));
    const range = value.find(text => [facts.hostIPs, facts.podCIDRs].every(overlap(text)));
    if (range !== undefined) {
      const gist = `its address is in the range of pods ${range}`;
      const message = `the address ${someOf(facts.hostIPs)} of ${node.name} is in ${range}, the range of pods (clusterCIDR by ${source}): a pod may get the address of a machine, and rules take nodes for pods`;
      const remedy = 'Use a range of pods in which no machine has an address.';
      yield {gist, message, remedy, ...run(commandLine`kubectl get nodes -o wide`)};
    }
    const owners = podsByAddress(api.pods ?? []);
    const taken = facts.addresses
      .flatMap(canonical)
      .flatMap(address => (owners.has(address) ? `${address} of ${owners.get(address)}` : []));
    if (taken.length > 0) {
      const gist = `it has the address of a pod: ${someOf(taken, {max: 1})}`;
      const message = `an interface of ${node.name} has the address of a pod, so that the node itself answers there: ${someOf(taken)}`;
      yield {severity: 'error', gist, variant: 'of-pods', message, ...run(commandLine`kubectl get pods -A -o wide`)};
    }
    if (!facts.allAddresses) return;
    const object = api.nodes?.find(({metadata}) => metadata.name === node.name);
    const own = object === undefined ? [] : internalAddresses(object);
    // Clouds also name addresses of interfaces that only pods or programs of the node use.
    if (own.length === 0 || own.some(address => facts.addresses.flatMap(canonical).includes(address))) return;
    const gist = `its InternalIP ${someOf(own)} is on none of its interfaces`;
    const message = `the InternalIP ${someOf(own)} of ${node.name} is on none of its interfaces: its node ports do not answer there, and other nodes look for it in the wrong place`;
    const remedy = 'Give the kubelet an address of this machine: --node-ip.';
    yield {gist, variant: 'of-machine', message, remedy, ...run(commandLine`kubectl get nodes -o wide`)};
  },
});

/** Of pods with an address of their own. */
const podsByAddress = once(
  (pods: readonly PodObject[]) =>
    new Map(
      pods.flatMap(pod =>
        isReadyWithOwnAddress(pod)
          ? addressesOfPod(pod)
              .flatMap(canonical)
              .map(address => [address, nameOfPod(pod)] as const)
          : [],
      ),
    ),
);

/** What two have, with the names of those. */
function shared<T>(all: readonly T[], keysOf: (one: T) => readonly string[], nameOf: (one: T) => string): readonly string[] {
  const holders = Map.groupBy(
    all.flatMap(one => [...new Set(keysOf(one))].map(key => ({key, name: nameOf(one)}))),
    ({key}) => key,
  );
  return [...holders].flatMap(([key, of]) => {
    // Without EndpointSlices, pods are read for each Service that selects them.
    const names = [...new Set(of.map(({name}) => name))];
    return names.length < 2 ? [] : [`${key} of ${someOf(names)}`];
  });
}

/** A pod that ended, ends or does not answer may have an address that is given out again. */
function isReadyWithOwnAddress(pod: PodObject): boolean {
  return pod.spec?.hostNetwork !== true && isReadyPod(pod) && pod.metadata.deletionTimestamp === undefined;
}

function internalAddresses(node: NodeObject): readonly string[] {
  return internalIPs(node).flatMap(canonical);
}

function canonical(text: string): readonly string[] {
  const address = canonicalAddress(text);
  return address === null ? [] : [address];
}

function nameOfNode({metadata}: NodeObject): string {
  return metadata.name;
}

function nameOfPod({metadata, spec}: PodObject): string {
  return `${metadata.namespace ?? 'default'}/${metadata.name} on ${spec?.nodeName ?? 'no node'}`;
}
