import {ofPort} from '../../model/finding.ts';
import {allowedBackends, isServedHere, type PromisedFrontend} from '../../expect/cilium/promised-frontends.ts';
import {podOf} from '../../model/endpoint.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {EndpointTrace, EntryTrace, PortTrace} from '../../model/service-trace.ts';
import {plural} from '../../model/text.ts';
import type {AgentFrontend} from '../../parse/cilium/agent-table.ts';
import type {MapEntry} from '../../parse/cilium/lb-map.ts';
import {sourceNames} from '../outcomes/sources.ts';
import {type ComparedPort, isComparable} from './agent-differences.ts';
import {isProxied, keysInMap} from './map-differences.ts';

type AgentTable = ReadonlyMap<string, AgentFrontend>;

/** The path of a Service port on a node of Cilium: entry, agent's table, kernel's map, endpoints. */
export function traceCiliumPort(compared: ComparedPort, table: AgentTable): PortTrace {
  const {port, promised, node} = compared;
  return {
    node: node.name,
    ...ofPort(port),
    entries: promised.flatMap(frontend => entryTrace(compared, frontend, table) ?? []),
    ...(isServedHere(port.object, node) === false
      ? {unserved: [{kind: 'clusterIP' as const, address: port.clusterIP, port: port.port, reason: leftOut}]}
      : {}),
  };
}

const leftOut = "the Service's annotation service.cilium.io/node-selector or service.cilium.io/node leaves this node out";

function entryTrace(compared: ComparedPort, frontend: PromisedFrontend, table: AgentTable): EntryTrace | null {
  const {node, found} = compared;
  const own = found.find(one => one.frontend === frontend)?.own ?? null;
  if (own === null && frontend.isOptional) return null;
  const {entry} = frontend;
  const base = {entry, from: clientOf(compared, frontend)};
  if (own === null)
    return {
      ...base,
      mark: 'missing',
      steps: [],
      endpoints: endpointTraces(compared, frontend, {own, entry: null}),
      end: {verdict: 'passed', rule: null, reason: 'the agent does not have it'},
    };
  const agent = {...agentRule(own, frontend.key), to: "agent's table"};
  // A node port is in the map at each address, after its own key: one that differs is shown, if there is one.
  const keys = keysInMap(own, node.state, table);
  const traces = (keys.length === 1 ? keys : keys.slice(1)).map((key): EntryTrace => {
    const known = node.state.map.get(key);
    // Nodes whose entries differ in the node's address alone have the same path.
    const inMap = known === undefined ? null : {...known, key: frontend.key};
    const endpoints = endpointTraces(compared, frontend, {own, entry: inMap});
    if (inMap === null)
      return {
        ...base,
        mark: 'missing',
        steps: [agent],
        endpoints,
        end: {verdict: 'passed', rule: null, reason: `the kernel's map does not have ${key}`},
      };
    const ended = endOf(inMap, endpoints);
    const to = ended.mark === 'ok' || key === frontend.key ? "kernel's map" : `kernel's map at ${key}`;
    return {...base, steps: [agent, {...slotRule(inMap, plural(inMap.count, 'backend')), to}], endpoints, ...ended};
  });
  return traces.find(({mark}) => mark !== 'ok') ?? traces[0] ?? null;
}

/** The client for whom a frontend is: where there is one of each scope, they are others. */
function clientOf({port, promised}: ComparedPort, {entry, isInternal}: PromisedFrontend): string {
  if (isInternal || entry.kind === 'clusterIP') return sourceNames.pod;
  if (entry.kind === 'loadBalancerIP' && port.sourceRanges.length > 0) return sourceNames.allowed;
  const hasTwo = promised.some(other => other.isInternal && other.entry === entry);
  return hasTwo || entry.kind !== 'nodePort' ? sourceNames.outside : 'any client';
}

function agentRule({type, backends}: AgentFrontend, key: string): RuleText {
  return {table: 'cilium', chain: key, line: 1, text: `${key} ${type}, ${plural(backends.length, 'backend')}`};
}

function endOf(entry: MapEntry, endpoints: readonly EndpointTrace[]): Pick<EntryTrace, 'mark' | 'end'> {
  if (isProxied(entry))
    return {mark: 'ok', end: {verdict: 'undecided', rule: null, reason: 'a proxy of Cilium on the node takes the connection'}};
  if (entry.backends.includes(null))
    return {mark: 'wrong', end: {verdict: 'dropped', rule: null, reason: 'a slot of the map has no backend'}};
  const isRight = endpoints.every(({mark}) => mark === 'ok');
  const mark = isRight ? 'ok' : entry.count === 0 ? 'missing' : 'wrong';
  const end = entry.count > 0 ? null : {verdict: 'rejected' as const, rule: null, ...(isRight ? {} : {reason: 'no backend in the map'})};
  return {mark, end};
}

/** What the API wants beside what the map has; only the latter for frontends whose backends the API does not decide. */
function endpointTraces(
  compared: ComparedPort,
  frontend: PromisedFrontend,
  {own, entry}: {readonly own: AgentFrontend | null; readonly entry: MapEntry | null},
): readonly EndpointTrace[] {
  const shares = entry === null ? new Map<string | null, number>() : sharesOf(entry);
  const does = new Set([...shares.keys()].filter(name => name !== null));
  const isOpen = (name: string): boolean =>
    compared.open.has(name) || own?.backends.some(({hostPort, state}) => hostPort === name && state === 'quarantined') === true;
  const choices = own === null || isComparable(own, compared) ? allowedBackends(compared, frontend) : [does];
  const should = nearestOf(choices, does);
  const names = [...should].filter(name => does.has(name) || !isOpen(name));
  return [...new Set([...names, ...does])].sort().map((hostPort): EndpointTrace => {
    const known = compared.endpoints.find(endpoint => endpoint.hostPort === hostPort);
    const share = shares.get(hostPort) ?? 0;
    const isExpected = should.has(hostPort) || isOpen(hostPort);
    return {
      hostPort,
      share,
      masquerade: false,
      rewrite: null,
      mark: share === 0 ? 'missing' : isExpected ? 'ok' : 'stale',
      expectedShare: isExpected ? 1 / Math.max(1, names.length) : null,
      pod: known === undefined ? null : podOf(known),
      nodeName: known?.nodeName ?? null,
      state: known === undefined ? null : known.ready ? 'ready' : known.terminating ? 'terminating' : 'not ready',
      pick: entry === null || share === 0 ? null : slotRule(entry, `→ ${hostPort}`),
    };
  });
}

function nearestOf(choices: readonly ReadonlySet<string>[], does: ReadonlySet<string>): ReadonlySet<string> {
  const distance = (choice: ReadonlySet<string>): number => choice.size + does.size - 2 * [...choice].filter(name => does.has(name)).length;
  return choices.toSorted((a, b) => distance(a) - distance(b))[0] ?? new Set();
}

/** One slot of an entry as a step of a path: it has no line. */
export function slotRule({key, flags}: MapEntry, text: string): RuleText {
  return {table: 'cilium', chain: key, line: 1, text: `${key} [${flags.filter(flag => flag !== '').join(', ')}] ${text}`};
}

/** The share of new connections of each backend of an entry, by `ip:port`; `null` for slots without a backend. */
export function sharesOf({backends, count}: MapEntry): ReadonlyMap<string | null, number> {
  const shares = new Map<string | null, number>();
  for (const backend of backends) {
    const name = backend?.slice(0, backend.lastIndexOf('/')) ?? null;
    shares.set(name, (shares.get(name) ?? 0) + 1 / Math.max(1, count));
  }
  return shares;
}
