import type {Entry} from '../../model/service-port.ts';
import {type RuleText, ruleTextOf} from '../../model/ruleset.ts';
import type {CountedRule, EndpointTrace, EntryTrace, TraceStep} from '../../model/service-trace.ts';
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

/** Each entry once: what is stopped where it is sent nowhere else shows the rule that stops it. */
export function entryTraces(items: readonly {readonly entry: Entry; readonly path: ShownPath}[]): readonly EntryTrace[] {
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
