import {chainName} from '../../../expect/iptables/chain-names.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import type {Entry} from '../../../model/entry.ts';
import type {ChainsByName, RuleText, Ruleset} from '../../../model/ruleset.ts';
import {missingEndpointText, staleEndpointText} from '../../outcomes/compare-endpoints.ts';
import {comparableProbability} from '../../../parse/iptables/comparable-rule.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {type EndpointChange, textOf} from './endpoint-change.ts';

/**
 * The missing and the stale endpoints of a Service port whose chains are those of other endpoints: what a walk from a pod to its cluster IP
 * shows, with the same evidence and shares. Only for changes of which `plainPaths` says that such packets reach every endpoint.
 */
export function changeSymptoms({item, own, written}: EndpointChange, actual: Ruleset): readonly Symptom[] {
  const {port, endpoints, endpointChain} = item;
  const chains = actual.tables.get('nat')?.chains;
  if (chains === undefined) return [];
  const balancing = chainName('SVC', port.hash);
  const entry: Entry = {kind: 'clusterIP', address: port.clusterIP, port: port.port};
  const about = {family: port.family, port};
  const should = Map.groupBy(expectedLines(own, balancing), ({text}) => text.slice(text.lastIndexOf(' ') + 1));
  const picks = linesOf(chains, balancing).slice(-written.endpoints.cluster.length);
  const present = picks.slice(0, 3);
  const missing = without(endpoints.cluster, written.endpoints.cluster).map((endpoint): Symptom => {
    const chain = endpointChain(endpoint);
    const rules = [...(should.get(chain) ?? []), ...expectedLines(own, chain)];
    const detail = missingEndpointText(item, endpoint.hostPort, {entry});
    return {...about, kind: 'missing-endpoint', endpoint: endpoint.hostPort, detail, expected: rules, actual: present};
  });
  const shares = sharesOf(picks);
  const place = new Map(written.endpoints.cluster.map((endpoint, index) => [endpoint, index]));
  const stale = without(written.endpoints.cluster, endpoints.cluster).map((endpoint): Symptom => {
    const index = place.get(endpoint) ?? -1;
    const rewrite = linesOf(chains, endpointChain(endpoint)).slice(-1);
    const detail = staleEndpointText(item, endpoint.hostPort, {entry}, shares[index] ?? 0);
    const evidence = [...picks.slice(index, index + 1), ...rewrite];
    return {...about, kind: 'stale-endpoint', endpoint: endpoint.hostPort, detail, expected: [], actual: evidence};
  });
  return [...missing, ...stale];
}

/** In how many rules the chains differ. */
export function countChangedRules({item, own, written}: EndpointChange, actual: Ruleset): number {
  const chains = actual.tables.get('nat')?.chains;
  if (chains === undefined) return 0;
  let count = 0;
  for (const role of ['SVC', 'SVL'] as const) {
    const name = chainName(role, item.port.hash);
    const [should, does] = [linesIn(own.get(name) ?? ''), linesIn(textOf(chains, name) ?? '')];
    const expected = new Set(should.map(comparableLine));
    const common = does.filter(line => expected.has(comparableLine(line))).length;
    count += should.length + does.length - 2 * common;
  }
  const missing = without(item.endpoints.cluster, written.endpoints.cluster);
  return missing.reduce((sum, endpoint) => sum + expectedLines(own, item.endpointChain(endpoint)).length, count);
}

function linesIn(text: string): readonly string[] {
  return text === '' ? [] : text.split('\n');
}

/** Lines are compared with rounded probabilities, as everywhere. */
function comparableLine(line: string): string {
  const at = line.indexOf(probabilityFlag);
  if (at < 0) return line;
  const start = at + probabilityFlag.length;
  const end = line.indexOf(' ', start);
  return `${line.slice(0, at)} ${comparableProbability(line.slice(start, end))}${line.slice(end)}`;
}

const probabilityFlag = ' --probability ';

function without(endpoints: readonly Endpoint[], others: readonly Endpoint[]): readonly Endpoint[] {
  const names = new Set(others.map(({hostPort}) => hostPort));
  return endpoints.filter(({hostPort}) => !names.has(hostPort));
}

function expectedLines(own: ReadonlyMap<string, string>, chain: string): readonly RuleText[] {
  const text = own.get(chain);
  return text === undefined ? [] : text.split('\n').map(line => ({table: 'nat', chain, line: 0, text: line}));
}

function linesOf(chains: ChainsByName, chain: string): readonly RuleText[] {
  return chains.linesAt(chains.placeOf(chain)).map(({text, line}) => ({table: 'nat', chain, line, text}));
}

/** The share of the traffic that each of these rules picks, the last of which takes what is left. */
function sharesOf(picks: readonly RuleText[]): readonly number[] {
  let left = 1;
  return picks.map(({text}) => {
    const found = / --probability (\S+)/.exec(text)?.[1];
    const likelihood = found === undefined ? 1 : Number(found);
    const share = left * likelihood;
    left *= 1 - likelihood;
    return share;
  });
}
