import {compareServers} from '../../compare/compare-ipvs.ts';
import {once} from '../../model/once.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {Hypothesis} from '../../expect/node-context.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import {inferHypothesis, type Inferred} from '../infer-hypothesis.ts';
import {pushTo} from '../../model/lists.ts';

export type ExpectIpvs = (hypothesis: Hypothesis) => ExpectedIpvs;

interface InferIpvsCase {
  readonly expect: ExpectIpvs;
  /** The expectation without a hypothesis. */
  readonly plain: ExpectedIpvs;
  readonly servers: readonly VirtualServer[];
  readonly knowsZone: boolean;
  readonly eachService: boolean;
}

/** If the node's virtual servers show that one hypothesis explains many differences, it is the finding. */
export function inferIpvsSettings({expect, plain, servers, knowsZone, eachService}: InferIpvsCase): Inferred<ExpectedIpvs> {
  const actual = new Map(servers.map(server => [serverKey(server), server]));
  return inferHypothesis<ExpectedIpvs, ServedPort>({
    expect,
    plain,
    knowsZone,
    eachService,
    textOf: serversText,
    fits: (expected, item) => fits(expected, item, actual),
    // Pods are detected by sets and one base rule, which is evaluated separately.
    otherDetector: () => null,
  });
}

/** The virtual servers of a Service port, found by one pass over all of them. */
export function serversOf(expected: ExpectedIpvs, {port}: ServedPort): readonly VirtualServer[] {
  return serversByPort(expected).get(port) ?? [];
}

const serversByPort = once(({servers}: ExpectedIpvs) => {
  const byPort = new Map<ServicePort, VirtualServer[]>();
  for (const {owner, server} of [...servers.values()].flat()) pushTo(byPort, owner.port, server);
  return byPort;
});

function serversText(expected: ExpectedIpvs, item: ServedPort): string {
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
