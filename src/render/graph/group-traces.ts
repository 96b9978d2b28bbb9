import {type EndpointTrace, isFaulty, type PortTrace} from '../../model/service-trace.ts';
import {groupBy} from '../../model/lists.ts';

/** The traces of each Service port, in the order of the ports. */
export function portsOf(traces: readonly PortTrace[]): readonly (readonly PortTrace[])[] {
  return groupBy(traces, ({service, port}) => JSON.stringify([service.namespace, service.name, port.name, port.protocol, port.port]));
}

/** Nodes with the same traces, except for line numbers and counters, and the same likeness. */
export function groupNodes(
  traces: readonly PortTrace[],
  likeness: (trace: PortTrace) => string = () => '',
): readonly (readonly PortTrace[])[] {
  return groupBy(traces, trace =>
    JSON.stringify([trace.family, trace.entries, trace.unserved, likeness(trace)], (name, value: unknown) =>
      isOfOneNode.has(name) ? undefined : value,
    ),
  );
}

const isOfOneNode = new Set(['line', 'packets', 'bytes', 'connections', 'rounded']);

interface ChosenEndpoints {
  readonly shown: readonly EndpointTrace[];
  /** All of them in sync. */
  readonly hidden: readonly EndpointTrace[];
}

/** Every faulty endpoint; a few of the others when they are many. */
export function chooseEndpoints(endpoints: readonly EndpointTrace[]): ChosenEndpoints {
  const fine = endpoints.filter(({mark}) => !isFaulty(mark));
  const hidden = fine.length <= manyEndpoints ? [] : fine.slice(fewEndpoints);
  const isHidden = new Set(hidden);
  return {shown: endpoints.filter(endpoint => !isHidden.has(endpoint)), hidden};
}

const manyEndpoints = 12;
const fewEndpoints = 5;

/** The sum of their shares of new connections; null if one of them is unknown. */
export function shareOf(endpoints: readonly EndpointTrace[]): number | null {
  return endpoints.reduce<number | null>((sum, {share}) => (sum === null || share === null ? null : sum + share), 0);
}
