import {parseChainName} from '../../expect/iptables/names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import type {EndpointTrace, EntryTrace, Mark, PortTrace} from '../../model/service-trace.ts';
import {walkPacket} from '../../trace/walk-packet.ts';
import {environmentOf} from '../environment.ts';
import {type Probe, probesFor} from '../probes.ts';
import {sourceNames} from '../sources.ts';
import {type Fate, sameFate, type Share} from '../fate.ts';
import {fateOf} from './iptables-fate.ts';

export interface TraceInput {
  readonly item: PortOnNode;
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
}

/** The way of a packet through the rules that a node really holds, by every entry of a Service port, beside the way it should take. */
export function tracePort({item, expected, actual}: TraceInput): PortTrace {
  const {port} = item;
  const environment = environmentOf(expected.context.facts);
  const entries = chooseProbes(probesFor({item, context: expected.context, hairpins: []})).map(probe => {
    const should = fateOf(walkPacket(expected, probe.packet, environment));
    return traceEntry(item, probe, should, fateOf(walkPacket(actual, probe.packet, environment)));
  });
  return {
    node: expected.context.facts.name,
    family: port.family,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
    entries,
  };
}

/** One packet for each entry: from a pod to the cluster IP, from outside to the others, from an allowed range where there are ranges. */
function chooseProbes(probes: readonly Probe[]): readonly Probe[] {
  const chosen = new Map<string, Probe>();
  for (const probe of probes) {
    if (probe.knownTo.size > 0) continue;
    const key = `${probe.entry.kind} ${probe.entry.address ?? ''}`;
    const before = chosen.get(key);
    if (before === undefined || preference(probe) < preference(before)) chosen.set(key, probe);
  }
  return [...chosen.values()];
}

function preference({entry, source}: Probe): number {
  const order = entry.kind === 'clusterIP' ? ['pod', 'outside', 'node'] : ['allowed', 'outside', 'remote-pod', 'pod', 'node'];
  const at = order.indexOf(source.kind);
  return at < 0 ? order.length : at;
}

function traceEntry(item: PortOnNode, probe: Probe, should: Fate, does: Fate): EntryTrace {
  const names = new Set([...should.destinations.keys(), ...does.destinations.keys()]);
  const endpoints = [...names]
    .sort()
    .map(hostPort => traceEndpoint(item, hostPort, should.destinations.get(hostPort), does.destinations.get(hostPort)));
  const path = does.outcomes[0]?.path ?? [];
  return {
    entry: probe.entry,
    from: sourceNames[probe.source.kind],
    mark: entryMark(should, does),
    steps: path
      .filter(rule => isWay(rule))
      .map(({table, chain, line, text, target}) => ({table, chain, line, text, to: target?.name ?? ''})),
    endpoints,
    end: endOf(does),
  };
}

function entryMark(should: Fate, does: Fate): Mark {
  if (sameFate(should, does)) return 'ok';
  return should.destinations.size > 0 && does.destinations.size === 0 ? 'missing' : 'wrong';
}

/** The jumps that lead to the chain that picks an endpoint. */
function isWay(rule: Rule): boolean {
  const role = parseChainName(rule.target?.name ?? '')?.role;
  return rule.table === 'nat' && (rule.target?.name === 'KUBE-NODEPORTS' || (role !== undefined && role !== 'SEP'));
}

function traceEndpoint({all}: PortOnNode, hostPort: string, should: Share | undefined, does: Share | undefined): EndpointTrace {
  const known = all.find(endpoint => endpoint.hostPort === hostPort);
  const pick = does?.path.findLast(({target}) => parseChainName(target?.name ?? '')?.role === 'SEP') ?? null;
  const mark: Mark =
    does === undefined
      ? 'missing'
      : should === undefined
        ? 'stale'
        : Math.abs(should.probability - does.probability) > 1e-4 || should.masquerade !== does.masquerade
          ? 'wrong'
          : 'ok';
  return {
    ...{hostPort, mark, pick},
    share: does?.probability ?? 0,
    expectedShare: should?.probability ?? null,
    masquerade: does?.masquerade ?? false,
    pod: known?.pod ?? null,
    nodeName: known?.nodeName ?? null,
    state: known === undefined ? null : known.ready ? 'ready' : known.terminating ? 'terminating' : 'not ready',
    rewrite: does?.path.findLast(({target}) => target?.name === 'DNAT') ?? null,
  };
}

function endOf(does: Fate): EntryTrace['end'] {
  const end = does.outcomes.find(({verdict, destination}) => verdict !== 'accept' || destination === null);
  if (end === undefined) return null;
  const verdicts = {accept: 'passed', reject: 'rejected', drop: 'dropped', undecided: 'undecided'} as const;
  return {
    verdict: verdicts[end.verdict],
    rule: end.verdict === 'accept' ? null : (end.path.at(-1) ?? null),
    ...(end.reason === undefined ? {} : {reason: end.reason}),
  };
}
