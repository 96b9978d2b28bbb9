import type {Family} from '../model/address.ts';
import type {RuleText} from '../model/ruleset.ts';
import type {CountedRule, EntryTrace, PortTrace} from '../model/service-trace.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {pickLines, ruleCounters} from '../parse/iptables/rule-counters.ts';

/**
 * Adds the counters of their rules to traces, if the dump has them. They are read from the lines of these rules, so that the parser need
 * not keep the counters of a million others. The files in `uncounted` are known to have none.
 */
export function countTraces(
  traces: readonly PortTrace[],
  node: NodeDump,
  uncounted: ReadonlySet<string> = new Set(),
): readonly PortTrace[] {
  const sources = new Map<Family, readonly ReadonlyMap<number, string>[]>();
  const sourcesOf = (family: Family): readonly ReadonlyMap<number, string>[] => {
    const known =
      sources.get(family) ??
      readLines(
        node,
        filesOf(family).filter(file => !uncounted.has(file)),
        linesOf(traces, family),
      );
    sources.set(family, known);
    return known;
  };
  return traces.map(trace => {
    const lines = sourcesOf(trace.family);
    return lines.length === 0 ? trace : {...trace, entries: trace.entries.map(entry => countEntry(entry, lines))};
  });
}

/** These lines of each dump. The text of a rule identifies its dump. Whether there are counters, its lines show: to search all for them takes longer. */
function readLines(node: NodeDump, files: readonly string[], wanted: ReadonlySet<number>): readonly ReadonlyMap<number, string>[] {
  return files.flatMap(file => {
    const content = wanted.size === 0 ? null : node.read(file);
    return content === null ? [] : [pickLines(content, wanted)];
  });
}

function filesOf(family: Family): readonly string[] {
  const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
  return [`${tool}-save`, `${tool}-nft-save`, `${tool}-legacy-save`, 'nft.txt'];
}

function linesOf(traces: readonly PortTrace[], family: Family): ReadonlySet<number> {
  const own = traces.filter(trace => trace.family === family).flatMap(({entries}) => entries);
  const rules = own.flatMap(({steps, endpoints, end}) => [
    ...steps,
    ...endpoints.flatMap(({pick, rewrite}) => [pick, rewrite]),
    end?.rule ?? null,
  ]);
  return new Set(rules.flatMap(rule => (rule === null || rule.line === 0 ? [] : [rule.line])));
}

type Sources = readonly ReadonlyMap<number, string>[];

function countEntry(entry: EntryTrace, sources: Sources): EntryTrace {
  const {steps, endpoints, end} = entry;
  return {
    ...entry,
    steps: steps.map(step => ({...step, ...countersOf(step, sources)})),
    endpoints: endpoints.map(endpoint => ({
      ...endpoint,
      pick: counted(endpoint.pick, sources),
      rewrite: counted(endpoint.rewrite, sources),
    })),
    end: end === null ? null : {...end, rule: counted(end.rule, sources)},
  };
}

function counted(rule: CountedRule | null, sources: Sources): CountedRule | null {
  return rule === null ? null : {...rule, ...countersOf(rule, sources)};
}

function countersOf({line, text}: RuleText, sources: Sources): Pick<CountedRule, 'packets' | 'bytes' | 'rounded'> {
  for (const lines of sources) {
    const counters = ruleCounters(lines.get(line) ?? '', text);
    if (counters !== null) return counters;
  }
  return {};
}
