import {compareServers} from '../../compare/compare-ipvs.ts';
import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {ExpectedIpvs, IpvsAssumption} from '../../expect/ipvs/expected-ipvs.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import type {Symptom} from '../symptom.ts';

export type ExpectIpvs = (assumption: IpvsAssumption) => ExpectedIpvs;

export interface AdaptedIpvs {
  readonly expected: ExpectedIpvs;
  /** The name under which local endpoints are looked for. */
  readonly nodeName: string;
  /** What had to be assumed, each of it one finding in place of one for every Service. */
  readonly symptoms: readonly Symptom<Rule>[];
}

export interface AdaptInput {
  readonly expect: ExpectIpvs;
  readonly servers: readonly VirtualServer[];
  readonly nodeName: string;
  /** False where the Node was not read: then its zone is one more thing that the virtual servers have to show. */
  readonly knowsZone: boolean;
}

/** Where virtual servers of many Services differ for one reason, that reason is the finding; what it does not explain is judged as ever. */
export function adaptIpvs({expect, servers, nodeName, knowsZone}: AdaptInput): AdaptedIpvs {
  const actual = new Map(servers.map(server => [serverKey(server), server]));
  const symptoms: Symptom<Rule>[] = [];
  let assumption: IpvsAssumption = {picks: fittingPicks(expect, actual)};
  let expected = expect(assumption);
  const nowhere = fitting(expected, expect({...assumption, nodeName: ''}), actual);
  if (nowhere.length >= 2) {
    assumption = {...assumption, nodeName: ''};
    expected = expect(assumption);
    symptoms.push(nodeNameMismatch(expected, nowhere));
  }
  const isHinted = expected.ports.some(({all}) => all.some(({zoneHints}) => zoneHints !== null));
  if (isHinted && knowsZone) {
    const hinted = fitting(expected, expect({...assumption, zone: null}), actual);
    if (hinted.length > 0) {
      assumption = {...assumption, zone: null};
      expected = expect(assumption);
      symptoms.push(zoneUnknown(expected, hinted));
    }
  } else if (isHinted) {
    const zones = new Set(expected.ports.flatMap(({all}) => all.flatMap(({zoneHints}) => zoneHints ?? [])));
    const zone = [...zones].sort().find(name => fitting(expected, expect({...assumption, zone: name}), actual).length > 0);
    if (zone !== undefined) expected = expect({...assumption, zone});
  }
  return {expected, symptoms, nodeName: assumption.nodeName ?? nodeName};
}

/** The Service ports that an assumption changes, if the node's virtual servers agree with it, and not with what is expected, for all of them. */
function fitting(expected: ExpectedIpvs, other: ExpectedIpvs, actual: ReadonlyMap<string, VirtualServer>): readonly ServedPort[] {
  const texts = (world: ExpectedIpvs): ReadonlyMap<ServicePort, string> =>
    new Map(world.ports.map(item => [item.port, textOf(world, item)]));
  const before = texts(expected);
  const changed = other.ports.filter(item => before.get(item.port) !== textOf(other, item));
  const usual = new Map(expected.ports.map(item => [item.port, item]));
  const all = changed.every(item => {
    const same = usual.get(item.port);
    return fits(other, item, actual) && same !== undefined && !fits(expected, same, actual);
  });
  return all ? changed : [];
}

function serversOf(expected: ExpectedIpvs, {port}: ServedPort): readonly VirtualServer[] {
  let known = serversByPort.get(expected);
  if (known === undefined) {
    known = new Map();
    for (const {owner, server} of [...expected.servers.values()].flat()) known.set(owner.port, [...(known.get(owner.port) ?? []), server]);
    serversByPort.set(expected, known);
  }
  return known.get(port) ?? [];
}

const serversByPort = new WeakMap<ExpectedIpvs, Map<ServicePort, readonly VirtualServer[]>>();

function textOf(expected: ExpectedIpvs, item: ServedPort): string {
  return serversOf(expected, item)
    .map(
      ({text, realServers}) =>
        `${text} ${realServers
          .map(({hostPort}) => hostPort)
          .sort()
          .join(' ')}`,
    )
    .join('\n');
}

function fits(expected: ExpectedIpvs, item: ServedPort, actual: ReadonlyMap<string, VirtualServer>): boolean {
  return serversOf(expected, item).every(server => {
    const found = actual.get(serverKey(server));
    return found !== undefined && compareServers(server, found) === null;
  });
}

/** For Service ports with endpoints given twice: the list that the node's virtual servers fit, where the likeliest does not. */
function fittingPicks(expect: ExpectIpvs, actual: ReadonlyMap<string, VirtualServer>): ReadonlyMap<ServicePort, number> {
  const plain = expect({});
  const picks = new Map<ServicePort, number>();
  for (const item of plain.ports.filter(({lists}) => lists > 1)) {
    if (fits(plain, item, actual)) continue;
    for (let pick = 1; pick < item.lists; pick++) {
      const other = expect({picks: new Map([[item.port, pick]])});
      const counterpart = other.ports.find(({port}) => port === item.port);
      if (counterpart === undefined || !fits(other, counterpart, actual)) continue;
      picks.set(item.port, pick);
      break;
    }
  }
  return picks;
}

function nodeNameMismatch({context: {family, facts}}: ExpectedIpvs, ports: readonly ServedPort[]): Symptom<Rule> {
  const names = ports.slice(0, 3).map(({port}) => port.servicePortName);
  const detail = `none of the endpoints that the API places on ${facts.name} is treated as local (${ports.length} Service ports, such as ${names.join(', ')}): its kube-proxy runs under another node name`;
  return {kind: 'node-name-mismatch', family, port: null, detail, expected: [], actual: []};
}

function zoneUnknown({context: {family}}: ExpectedIpvs, ports: readonly ServedPort[]): Symptom<Rule> {
  const names = ports.slice(0, 3).map(({port}) => port.servicePortName);
  const detail = `for all Services with topology hints the node uses the endpoints that a node without a zone would use (${ports.length}, such as ${names.join(', ')}): its kube-proxy does not know the node's zone`;
  return {kind: 'zone-unknown-to-kube-proxy', family, port: null, detail, expected: [], actual: []};
}
