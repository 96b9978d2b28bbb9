import type {ConfigOverrides} from '../../src/expect/proxy-config.ts';
import type {ApiObjects, Snapshot} from '../../src/model/snapshot.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {changeObjects} from './object-faults.ts';
import {randomCase} from './random-case.ts';

interface RandomChange {
  readonly snapshot: Snapshot;
  readonly overrides: ConfigOverrides;
  readonly apiAfter: ApiObjects;
}

/** A cluster of nodes with faults in any mode, with copies of each Service, and a change of kube-proxy's settings or of the objects. */
export function randomChange(seed: number): RandomChange {
  const random = seededRandom(seed + 1_000_000_007);
  const mode = random.pick(['iptables', 'iptables', 'nftables', 'ipvs'] as const);
  const snapshot = randomCase(seed, {mode, copies: 1 + random.below(2)});
  const apiAfter = random.chance(0.2) ? changeObjects(snapshot.api, random) : snapshot.api;
  return {snapshot, overrides: overridesOf(random), apiAfter};
}

function overridesOf(random: Random): ConfigOverrides {
  return {
    ...(random.chance(0.7) ? {mode: random.pick(['iptables', 'nftables', 'nftables', 'ipvs'] as const)} : {}),
    ...(random.chance(0.4) ? {version: random.pick(['v1.30.0', 'v1.34.0', 'v1.36.0', 'v1.37.0'])} : {}),
    ...(random.chance(0.2) ? {masqueradeAll: random.chance(0.5)} : {}),
    ...(random.chance(0.2) ? {clusterCIDRs: random.pick([['10.244.0.0/16', 'fd00:10::/32'], ['10.244.1.0/24'], ['10.0.0.0/8']])} : {}),
    ...(random.chance(0.2) ? {nodePortAddresses: random.pick([['192.168.1.0/24'], ['primary'], ['127.0.0.0/8']])} : {}),
  };
}
