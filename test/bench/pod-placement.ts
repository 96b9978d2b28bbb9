import {clusterNode, MAX_NODES, podAddress} from './address-plan.ts';
import type {ClusterSize} from './cluster-size.ts';
import type {ClusterNode, Family, Pod} from './model.ts';
import type {Random} from './random.ts';

const PODS_ON_A_NODE = 100;

/** A pod and its address in each family. */
export interface PlacedPod {
  pod: Pod;
  address: Record<Family, string>;
}

export interface Placement {
  captured: ClusterNode[];
  fleet: ClusterNode[];
  /** A pod on any node of the cluster. */
  anywhere(owner: string): PlacedPod;
  /** A pod on a node whose rules are not written. */
  elsewhere(owner: string): PlacedPod;
  on(node: ClusterNode, owner: string): PlacedPod;
}

/**
 * The cluster has as many nodes as its pods need, and only some of them are
 * looked at: as with a bundle taken from a few nodes of a large cluster, nearly
 * all endpoints are remote ones.
 */
export function podPlacement(size: ClusterSize, random: Random): Placement {
  const wanted = Math.ceil((size.services * size.endpoints) / PODS_ON_A_NODE);
  // Past the most nodes there can be, each has more pods.
  const needed = Math.min(wanted, MAX_NODES - size.nodes);
  const count = size.nodes + Math.max(3, needed);
  if (count > MAX_NODES) {
    throw new RangeError(`${count} nodes would be needed and ${MAX_NODES} are the most`);
  }
  const fleet = Array.from({length: count}, (_, index) => ({node: clusterNode(index), index}));
  const pods = new Uint32Array(count);

  function placeOn(index: number, owner: string): PlacedPod {
    const number = pods[index] ?? 0;
    pods[index] = number + 1;
    const node = fleet[index]?.node;
    if (node === undefined) {
      throw new RangeError(`no node ${index}`);
    }
    return {
      pod: {name: `${owner}-${random.suffix()}${number.toString(36)}`, uid: random.uuid(), node},
      address: {
        IPv4: podAddress('IPv4', index, number),
        IPv6: podAddress('IPv6', index, number),
      },
    };
  }

  return {
    captured: fleet.slice(0, size.nodes).map(({node}) => node),
    fleet: fleet.map(({node}) => node),
    anywhere: owner => placeOn(random.below(count), owner),
    elsewhere: owner => placeOn(size.nodes + random.below(count - size.nodes), owner),
    on: (node, owner) =>
      placeOn(
        fleet.findIndex(entry => entry.node === node),
        owner,
      ),
  };
}
