import type {Entry} from '../../model/service-port.ts';
import {type RuleText, ruleTextOf} from '../../model/ruleset.ts';
import {groupBy} from '../../model/lists.ts';
import type {CountedRule, EndpointTrace, EntryTrace, PortTrace, TraceStep} from '../../model/service-trace.ts';
import {sourceNames} from '../outcomes/sources.ts';

/** The path from one entry to the endpoints, as the rules show it. */
export interface ShownPath {
  readonly steps: readonly TraceStep[];
  readonly picks: readonly ShownPick[];
  readonly masquerade: boolean;
  /** Why packets may not reach an endpoint. */
  readonly end: EntryTrace['end'];
}

/** An endpoint with its share of the packets. */
export interface ShownPick {
  readonly hostPort: string;
  /** Null where the text does not show it. */
  readonly share: number | null;
  readonly pick: CountedRule;
  /** Null where the chain of the endpoint is not in the text. */
  readonly rewrite: RuleText | null;
}

/** An entry of a Service port that rules show. */
export interface ShownEntry {
  readonly entry: Entry;
  readonly service: PortTrace['service'];
  readonly portName: string;
  readonly protocol: string;
  readonly path: ShownPath;
}

/** The entries by Service port. Its own port is that of its first entry that is known and no node port. */
export function portTraces(node: string, family: PortTrace['family'], all: readonly ShownEntry[]): readonly PortTrace[] {
  const byPort = groupBy(all, ({service, portName, protocol}) => `${service.namespace}/${service.name}:${portName}/${protocol}`);
  return byPort.flatMap(items => {
    const [first] = items;
    if (first === undefined) return [];
    const port = items.find(({entry}) => entry.kind !== 'nodePort' && entry.port !== 0)?.entry.port ?? 0;
    const {service, portName: name, protocol} = first;
    return {node, family, service, port: {name, protocol, port}, entries: entryTraces(items)};
  });
}

/** Each entry once: what is stopped where it is sent nowhere else shows the rule that stops it. */
function entryTraces(items: readonly ShownEntry[]): readonly EntryTrace[] {
  const entries = new Map<string, EntryTrace>();
  for (const {entry, path} of items) {
    const key = `${entry.address} ${entry.port}`;
    const known = entries.get(key);
    const isStopped = path.end?.verdict === 'rejected' || path.end?.verdict === 'dropped';
    if (known === undefined) entries.set(key, entryTrace(entry, path));
    else if (known.endpoints.length === 0 && isStopped) entries.set(key, {...known, end: path.end});
  }
  return [...entries.values()];
}

export function entryTrace(entry: Entry, {steps, picks, masquerade, end}: ShownPath): EntryTrace {
  return {
    entry,
    from: entry.kind === 'clusterIP' ? sourceNames.pod : sourceNames.outside,
    mark: 'shown',
    steps,
    end,
    endpoints: picks.map(
      ({hostPort, share, pick, rewrite}): EndpointTrace => ({
        hostPort,
        share,
        pick,
        rewrite,
        masquerade,
        mark: 'shown',
        expectedShare: null,
        pod: null,
        nodeName: null,
        state: null,
      }),
    ),
  };
}

export function stepOf(rule: RuleText, to: string): TraceStep {
  return {...ruleTextOf(rule), to};
}

/** An entry that the text does not show: only the chain that it leads to is there. */
export const unseenEntry: Entry = {kind: 'clusterIP', address: null, port: 0};

/** A chain on the path that the text does not show. */
export function notInText(what: string): EntryTrace['end'] {
  return {verdict: 'undecided', rule: null, reason: `${what} is not in this text`};
}
