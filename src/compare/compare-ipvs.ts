import type {RealServer, VirtualServer} from '../model/virtual-server.ts';
import type {IpSet} from '../parse/ipvs/ipset-save.ts';
import {memberText} from '../parse/ipvs/ipset-save.ts';

/** How one virtual server differs from the expected one. */
export interface ServerDifference {
  readonly expected: VirtualServer;
  readonly actual: VirtualServer;
  /** Real servers that accept connections and are not expected. One with weight 0 only waits for its last connections to end. */
  readonly extra: readonly RealServer[];
  /** Real servers with another weight, limit or forwarding method. */
  readonly changed: readonly {readonly expected: RealServer; readonly actual: RealServer}[];
  /** The scheduler or its flags. */
  readonly scheduling: boolean;
  readonly persistence: boolean;
}

/** Null if both do the same. */
export function compareServers(expected: VirtualServer, actual: VirtualServer): ServerDifference | null {
  const found = new Map(actual.realServers.map(real => [real.hostPort, real]));
  const wanted = new Map(expected.realServers.map(real => [real.hostPort, real]));
  const isMissing = expected.realServers.some(({hostPort}) => !found.has(hostPort));
  const extra = actual.realServers.filter(({hostPort, weight}) => weight > 0 && !wanted.has(hostPort));
  const changed = expected.realServers.flatMap(real => {
    const other = found.get(real.hostPort);
    return other === undefined || isAlike(real, other) ? [] : [{expected: real, actual: other}];
  });
  const scheduling = expected.scheduler !== actual.scheduler || !sameFlags(schedulerFlags(expected), schedulerFlags(actual));
  const persistence = expected.persistence !== actual.persistence || !sameFlags(netmasks(expected), netmasks(actual));
  if (!isMissing && extra.length + changed.length === 0 && !scheduling && !persistence) return null;
  return {expected, actual, extra, changed, scheduling, persistence};
}

function isAlike(a: RealServer, b: RealServer): boolean {
  return a.weight === b.weight && a.forwarding === b.forwarding && a.upperThreshold === b.upperThreshold;
}

function schedulerFlags({flags}: VirtualServer): readonly string[] {
  return flags.filter(flag => !flag.startsWith('netmask '));
}

function netmasks({flags}: VirtualServer): readonly string[] {
  return flags.filter(flag => flag.startsWith('netmask '));
}

function sameFlags(a: readonly string[], b: readonly string[]): boolean {
  return a.toSorted().join() === b.toSorted().join();
}

/** A missing set counts as empty. */
export function compareMembers(expected: ReadonlySet<string>, actual: IpSet | undefined) {
  const found = new Map((actual?.elements ?? []).map((element, index) => [memberText(element), actual?.lines[index] ?? 0]));
  return {
    missing: [...expected].filter(member => !found.has(member)),
    extra: [...found].filter(([member]) => !expected.has(member)).map(([member, line]) => ({member, line})),
  };
}
