import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import type {Entry} from '../../../model/service-port.ts';
import type {Evidence, Subject} from '../../outcomes/mode-semantics.ts';
import type {PathOutcome, ProbeComparison} from '../../outcomes/path-outcome.ts';
import type {NftPortCase, NftPortDifference} from '../nft-case.ts';
import {pickingChain} from '../nft-outcome.ts';

/** The missing and the unexpected rules and elements of the Service port that explain a symptom. */
export function nftEvidence(portCase: NftPortCase, subject: Subject<RuleText>): Evidence<RuleText> {
  switch (subject.kind) {
    case 'service':
      return pick(portCase, ({what}) => what === 'element', 6);
    case 'entry':
      return pick(portCase, ({name, key}) => key === elementKey(portCase, subject.entry) && isEntryMap(name));
    case 'endpoint':
      return ofEndpoint(portCase, subject.endpoint, subject.comparison);
    case 'shares':
      return pick(portCase, ({rule}) => rule.text.includes('numgen'));
    case 'affinity':
      return pick(portCase, ({rule, what}) => what === 'set' || rule.text.includes('@affinity-') || rule.text.includes('dnat'));
    case 'masquerade':
      return ofMasquerade(portCase, subject.comparison);
    case 'policy':
      return ofPolicy(portCase, subject.comparison);
  }
}

function ofEndpoint(portCase: NftPortCase, endpoint: string, {expected, actual}: ProbeComparison<RuleText>): Evidence<RuleText> {
  const {item} = portCase;
  const known = item.all.find(({hostPort}) => hostPort === endpoint);
  const names = known === undefined ? [] : [item.names.endpoint(known), `${known.address} . ${known.port}`, known.hostPort];
  const own = pick(portCase, ({rule, name}) => names.some(text => name === text || rule.text.includes(text)));
  const chain = pickingChain(expected.destinations.get(endpoint)?.path ?? []);
  const present = extraOf(portCase).flatMap(({name, rule}) => (name === chain ? [rule] : []));
  const path = actual.destinations.get(endpoint)?.path.filter(rule => isOwnChain(portCase, rule.chain)) ?? [];
  const should = expected.destinations.get(endpoint)?.path.slice(-1) ?? [];
  return {
    expected: own.expected.length > 0 ? own.expected : should,
    actual: path.length > 0 ? path.slice(-2) : [...own.actual, ...present].slice(0, 3),
  };
}

function ofMasquerade(portCase: NftPortCase, {expected, actual, probe}: ProbeComparison<RuleText>): Evidence<RuleText> {
  const own = pick(
    portCase,
    ({rule, name}) =>
      / mark|masquerade/.test(` ${rule.text}`) ||
      (name === 'hairpin-connections' && probe.endpoint !== undefined) ||
      (name === 'cluster-ips' && probe.entry.kind === 'clusterIP'),
  );
  if (own.expected.length + own.actual.length > 0) return own;
  const marks = ({destinations}: PathOutcome<RuleText>): readonly RuleText[] =>
    [...destinations.values()].flatMap(({path}) => path.filter(({text}) => / mark/.test(` ${text}`))).slice(0, 2);
  return {expected: marks(expected), actual: marks(actual)};
}

/** The rules at which the two paths of a packet diverge; the path between entry and endpoint if there are none. */
function ofPolicy(portCase: NftPortCase, {expected, actual, probe}: ProbeComparison<RuleText>): Evidence<RuleText> {
  const own = pick(portCase, ({name, key}) => name.startsWith('external-') || key === elementKey(portCase, probe.entry));
  const path = ({outcomes}: PathOutcome<RuleText>): readonly RuleText[] => {
    const rules = outcomes.flatMap(({path}) => path.filter(({chain}) => isOwnChain(portCase, chain)));
    return [...new Map(rules.map(rule => [`${rule.chain} ${rule.text}`, rule])).values()].slice(0, 4);
  };
  return {
    expected: own.expected.length > 0 ? own.expected : path(expected),
    actual: own.actual.length > 0 ? own.actual : [...elementsAt(portCase, probe.entry), ...path(actual)].slice(0, 4),
  };
}

function pick({differences}: NftPortCase, concerns: (difference: NftPortDifference) => boolean, most = 4): Evidence<RuleText> {
  const concerned = differences.filter(concerns);
  const rules = (missing: boolean): readonly RuleText[] =>
    concerned.flatMap(({kind, rule}) => ((kind === 'missing') === missing ? [rule] : [])).slice(0, most);
  return {expected: rules(true), actual: rules(false)};
}

/** Rules and elements of the Service port that are not on the node. */
export function missingOf({differences}: NftPortCase): readonly NftPortDifference[] {
  return differences.filter(({kind}) => kind === 'missing');
}

/** Rules and elements that kube-proxy would not have written. */
export function extraOf({differences}: NftPortCase): readonly NftPortDifference[] {
  return differences.filter(({kind}) => kind === 'extra');
}

export function isOwnChain({expected, item}: NftPortCase, chain: string): boolean {
  return expected.ownerOf(chain) === item || parseNftName(chain)?.base === item.names.base;
}

/** The actual elements that match an entry's packets. */
export function elementsAt(portCase: NftPortCase, entry: Entry): readonly RuleText[] {
  const {actual, expected} = portCase;
  const key = elementKey(portCase, entry);
  const name = entry.address === null ? 'service-nodeports' : 'service-ips';
  const value = actual.set(name)?.elements.get(key)?.value ?? null;
  return value === null ? [] : [{table: expected.id, chain: name, line: 1, isOrdinal: true, text: `${key} : ${value}`}];
}

/** The key of an entry in the maps of kube-proxy: `10.96.1.1 . tcp . 80`, or `tcp . 30080` for a node port. */
function elementKey({item}: NftPortCase, {address, port}: Entry): string {
  const protocol = item.port.protocol.toLowerCase();
  return `${address === null ? '' : `${address} . `}${protocol} . ${port}`;
}

/** A map that leads into the chains of Services. */
export function isEntryMap(map: string): boolean {
  return map === 'service-ips' || map === 'service-nodeports';
}

/** An element that refuses packets. */
export function isRefusal({name}: NftPortDifference): boolean {
  return name === 'no-endpoint-services' || name === 'no-endpoint-nodeports';
}

const endpointChecks: ReadonlySet<string> = new Set(['service-endpoints-check', 'nodeport-endpoints-check', 'endpoints-check']);

/** A chain that checks the packets that no Service matches. */
export function isCheck(chain: string): boolean {
  return endpointChecks.has(chain) || chain === 'cluster-ips-check' || chain === 'reject-chain';
}

/** A chain that drops packets of Services whose policy leaves them no endpoint on the node. */
export function isEndpointCheck(chain: string): boolean {
  return endpointChecks.has(chain);
}
