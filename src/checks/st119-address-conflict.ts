import {internalIPs} from '../expect/api-index.ts';
import {addressesOfPod, podCIDRsOf} from '../expect/own-pods.ts';
import {canonicalAddress} from '../model/address.ts';
import type {NodeObject, PodObject} from '../model/api-objects.ts';
import {partition} from '../model/lists.ts';
import {whyWithoutKubeProxy} from '../model/node/node-facts.ts';
import {commandLine, someOf} from '../model/text.ts';
import type {Check} from './check.ts';
import {run} from './commands/commands.ts';

export const addressConflict: Check<'ST119'> = {
  code: 'ST119',
  name: 'address-conflict',
  severity: 'warning',
  summary: 'Nodes or pods share an address or a pod network, or a node lacks its own address',
  remedy: 'Find out what gave it out twice (the network plugin, the controller manager, a setting by hand), and recreate one of the two.',
  *cluster({api}) {
    const [nodes, virtual] = partition(api.nodes ?? [], node => whyWithoutKubeProxy(node) === null);
    const isVirtual = new Set<string | undefined>(virtual.map(nameOfNode));
    const ready = (api.pods ?? []).filter(pod => isReadyWithOwnAddress(pod) && !isVirtual.has(pod.spec?.nodeName));
    const pods = shared(ready, pod => addressesOfPod(pod).flatMap(canonical), nameOfPod);
    if (pods.length > 0)
      yield {
        severity: 'error',
        variant: 'of-pods',
        message: `ready pods share an address, so that packets to one of them reach another: ${someOf(pods)}`,
        ...run(commandLine`kubectl get pods -A -o wide`),
      };
    const networks = shared(nodes, podCIDRsOf, nameOfNode);
    if (networks.length > 0)
      yield {
        variant: 'of-pod-networks',
        message: `nodes share a pod network, so that their pods get the same addresses, and routes lead to one node only: ${someOf(networks)}`,
        ...run(commandLine`kubectl get nodes -o custom-columns=NAME:.metadata.name,POD-CIDRS:.spec.podCIDRs`),
      };
    const addresses = shared(nodes, internalAddresses, nameOfNode);
    if (addresses.length > 0)
      yield {
        variant: 'of-nodes',
        message: `nodes share an InternalIP, so that what is sent there reaches one of them only: ${someOf(addresses)}`,
        remedy: 'Give each kubelet the address by which other nodes reach it: --node-ip.',
        ...run(commandLine`kubectl get nodes -o wide`),
      };
  },
  *node({api, facts, node}) {
    if (!facts.allAddresses) return;
    const object = api.nodes?.find(({metadata}) => metadata.name === node.name);
    const own = object === undefined ? [] : internalAddresses(object);
    // Clouds also name addresses of interfaces that only pods or programs of the node use.
    if (own.length === 0 || own.some(address => facts.addresses.flatMap(canonical).includes(address))) return;
    yield {
      variant: 'of-machine',
      message: `the InternalIP ${someOf(own)} of ${node.name} is on none of its interfaces: its node ports do not answer there, and other nodes look for it in the wrong place`,
      remedy: 'Give the kubelet an address of this machine: --node-ip.',
      ...run(commandLine`kubectl get nodes -o wide`),
    };
  },
};

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
function isReadyWithOwnAddress({metadata, spec, status}: PodObject): boolean {
  const isReady = status?.conditions?.some(({type, status: state}) => type === 'Ready' && state === 'True');
  return spec?.hostNetwork !== true && isReady === true && metadata.deletionTimestamp === undefined;
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
