import {heldIn, onceAsked} from '../../model/once.ts';
import {compareOwnChains, compareRulesets, type RulesetComparison} from '../../compare/compare-rulesets.ts';
import {chainName} from '../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {isLoopback, type NodeContext} from '../../expect/node-context.ts';
import {canonicalAddress, type Cidr, contains, parseCidr} from '../../model/address.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import type {ChainsByName, OwnerRules, Ruleset, RuleText} from '../../model/ruleset.ts';
import type {Entry} from '../../model/service-port.ts';
import {comparableProbability} from '../../parse/iptables/comparable-rule.ts';
import {missingEndpointText, staleEndpointText} from '../outcomes/compare-endpoints.ts';
import {entriesOf} from '../outcomes/probes.ts';
import {podBeside, podRanges} from '../outcomes/sources.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {asExpectation} from './resolve-version.ts';
import {endpointChange, type EndpointChange} from './service-port/endpoint-change.ts';
import type {KnownSymptoms} from '../analyze-family.ts';
import {chainText} from './chain-texts.ts';
import type {PortDifference} from './service-port/port-differences.ts';

interface FamilyComparison extends RulesetComparison<PortOnNode> {
  /** Service ports whose chains differ as by other endpoints alone: these differences are not in the list. */
  readonly changed: ReadonlyMap<PortOnNode, KnownSymptoms>;
  /** The differences in the own chains of such a Service port. */
  differencesOf(item: PortOnNode): readonly PortDifference[];
}

/**
 * Compares a node's rules with the expected ones. Where the chains of a Service port are exactly those that kube-proxy writes for other
 * endpoints, the symptoms are known without a walk, and no rule of it is parsed.
 */
export function compareFamily(expected: ExpectedRuleset, actual: Ruleset): FamilyComparison {
  const changed = new Map<PortOnNode, KnownSymptoms>();
  const isPlain = onceAsked(() => plainPaths(expected, actual));
  const expectation = asExpectation(expected);
  const explain = (item: PortOnNode, {own, isKept}: OwnerRules): readonly string[] | null => {
    // With an internal Local policy not all clients get the same endpoints.
    if (item.port.internalPolicyLocal) return null;
    const known = recallChange(item, own, actual);
    const change = known?.change ?? endpointChange(item, own, {expected, actual});
    if (change === null || !isPlain()(change)) return null;
    changed.set(item, known?.found() ?? (isKept ? rememberChange(change, expected, actual) : changedPort(change, actual)));
    return change.written.endpoints.reachable.map(item.endpointChain).filter(name => !own.has(name));
  };
  const isWhole = ['nat', 'filter'].every(table => actual.tables.get(table)?.complete === true);
  const compared = compareRulesets(isWhole ? {...expectation, explain} : expectation, actual);
  return {...compared, changed, differencesOf: item => compareOwnChains(expectation, actual, item)};
}

/** A change that was found on a node, with all chains that it was read from. */
interface KnownChange {
  readonly change: EndpointChange;
  readonly found: KnownSymptoms;
  /** By name; null for a chain that the node does not have. */
  readonly chains: ReadonlyMap<string, KnownChain | null>;
}

interface KnownChain {
  readonly text: string;
  /** The line of its first rule, null if it has none. */
  readonly line: number | null;
}

/** By the expected chains, which nodes share if the Service port, its endpoints and all settings are the same: see `portRules`. */
const knownChanges = new WeakMap<EndpointChange['own'], KnownChange>();

/** The change of an earlier node, if the same is expected here and all its chains have the same text here; otherwise null. */
function recallChange(item: PortOnNode, endpointChange: EndpointChange['own'], actual: Ruleset) {
  const known = knownChanges.get(endpointChange);
  const chains = actual.tables.get('nat')?.chains;
  // Symptoms also say in which state endpoints are that the node should not use.
  if (known === undefined || chains === undefined || known.change.item.all !== item.all) return null;
  const shifts = shiftsOf(known, chains);
  if (shifts === null) return null;
  const {written} = known.change;
  return {
    change: {item, own: endpointChange, written: {...item, endpoints: written.endpoints}},
    found: () => (shifts.size === 0 ? known.found : {...known.found, symptoms: () => shiftLines(known.found.symptoms(), shifts)}),
  };
}

/** What a change shows that is found on one node. */
function changedPort(change: EndpointChange, actual: Ruleset): KnownSymptoms {
  const symptoms = changeSymptoms(change, actual);
  return {symptoms: () => symptoms, parts: Array.from({length: countChangedRules(change, actual)}, () => 'nat')};
}

/** The same, kept for the next nodes, which get the same expected chains (`isKept`). */
function rememberChange(change: EndpointChange, expected: ExpectedRuleset, actual: Ruleset): KnownSymptoms {
  const found = changedPort(change, actual);
  const chains = new Map<string, KnownChain | null>();
  const all = actual.tables.get('nat')?.chains;
  for (const name of chainsOf(change, expected)) {
    const place = all?.placeOf(name) ?? -1;
    chains.set(name, all === undefined || place < 0 ? null : {text: all.textAt(place), line: all.lineAt(place)});
  }
  knownChanges.set(change.own, {change, found, chains});
  return found;
}

/** Every chain that an EndpointChange is read from, and every one that must be missing. */
function chainsOf({item, own, written}: EndpointChange, expected: ExpectedRuleset): Iterable<string> {
  const picking = [chainName('SVC', item.port.hash), chainName('SVL', item.port.hash)];
  return new Set([...picking, ...expected.rulesOf(written).own.keys(), ...own.keys()]);
}

/** By how many lines chains moved, of those that did; null if a chain has another text, or its lines are not consecutive. */
function shiftsOf(knownChange: KnownChange, chains: ChainsByName): ReadonlyMap<string, number> | null {
  const shifts = new Map<string, number>();
  for (const [name, chain] of knownChange.chains) {
    const place = chains.placeOf(name);
    if (chain === null || place < 0) {
      if (chain !== null || place >= 0) return null;
      continue;
    }
    if (chains.textAt(place) !== chain.text) return null;
    if (chain.text === '') continue;
    const line = chains.lineAt(place);
    if (line === null || chain.line === null) return null;
    if (line !== chain.line) shifts.set(name, line - chain.line);
  }
  return shifts;
}

/** The same symptoms with the line numbers of another node. Symptoms share evidence, and still do. */
function shiftLines(symptoms: readonly Symptom[], shifts: ReadonlyMap<string, number>): readonly Symptom[] {
  const shifted = new Map<readonly RuleText[], readonly RuleText[]>();
  return symptoms.map(symptom => {
    const shift = (rules: readonly RuleText[]) => rules.map(rule => ({...rule, line: rule.line + (shifts.get(rule.chain) ?? 0)}));
    return {...symptom, actual: heldIn(shifted, symptom.actual, shift)};
  });
}

/**
 * The missing and the stale endpoints of a Service port whose chains are those of other endpoints: what a walk from a pod to its cluster IP
 * shows, with the same evidence and shares. Only for changes of which `plainPaths` says that such packets reach every endpoint.
 */
function changeSymptoms({item, own, written}: EndpointChange, actual: Ruleset): readonly Symptom[] {
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
    const share = shares[index] ?? 0;
    const rewrite = linesOf(chains, endpointChain(endpoint)).slice(-1);
    const detail = staleEndpointText(item, endpoint.hostPort, {entry}, share);
    const evidence = [...picks.slice(index, index + 1), ...rewrite];
    return {...about, kind: 'stale-endpoint', endpoint: endpoint.hostPort, detail, expected: [], actual: evidence, share};
  });
  return [...missing, ...stale];
}

/** In how many rules the chains differ. */
function countChangedRules({item, own, written}: EndpointChange, actual: Ruleset): number {
  const chains = actual.tables.get('nat')?.chains;
  if (chains === undefined) return 0;
  let count = 0;
  for (const role of ['SVC', 'SVL'] as const) {
    const name = chainName(role, item.port.hash);
    const [should, does] = [linesIn(own.get(name) ?? ''), linesIn(chainText(chains, name) ?? '')];
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

function expectedLines(textByChain: ReadonlyMap<string, string>, chain: string): readonly RuleText[] {
  const text = textByChain.get(chain);
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

/**
 * Decides whether packets from a pod to the cluster IP of a Service port reach the chain that picks an endpoint, are not masqueraded, and
 * reach every endpoint that it picks. This holds under the expected base rules if no rule in a shared chain, whosever it is, can match
 * their address: the shared chains tell packets apart by cluster IP, external IP, load-balancer IP or local address alone.
 */
function plainPaths(expected: ExpectedRuleset, actual: Ruleset): (change: EndpointChange) => boolean {
  const {context} = expected;
  const {podNetworks, local} = podRanges(context);
  const pods = podNetworks.length > 0 ? podNetworks : local === null ? [] : [local];
  if (pods.length === 0 || !pods.every(network => isKnownAsPod(network, context))) return () => false;
  const shared = sharedRules(actual);
  if (shared === null) return () => false;
  const claims = countClaims(expected);
  const special = new Set([...shared.hosts, ...claims.addresses, ...context.facts.addresses.map(text => canonicalAddress(text) ?? text)]);
  return ({item, written}) => {
    const {port, endpoints, all} = item;
    const key = entryKey(port.clusterIP, port.protocol, port.port);
    const entry = shared.byEntry.get(key) ?? [];
    if (claims.byEntry.get(key) !== 1 || entry.length !== 1 || !entry[0]?.endsWith(` -j ${chainName('SVC', port.hash)}`)) return false;
    // The rule for an endpoint's own packets must not match.
    const source = podBeside(new Set(all.map(({address}) => address)), context);
    if (source === null) return false;
    const isPlain = ({address}: Endpoint): boolean =>
      address !== source && canonicalAddress(address) === address && !isLoopback(address) && !special.has(address);
    const own = new Set(endpoints.cluster);
    return endpoints.cluster.every(isPlain) && written.endpoints.cluster.every(endpoint => own.has(endpoint) || isPlain(endpoint));
  };
}

/** The rule for clients that are no pods of this node does not match a packet from this network. */
function isKnownAsPod(pods: Cidr, {detector, masqueradeAll}: NodeContext): boolean {
  if (masqueradeAll) return false;
  if (detector.kind !== 'cidr') return true;
  const cluster = parseCidr(detector.cidr);
  return cluster !== null && cluster.prefix <= pods.prefix && contains(cluster, {family: pods.family, value: pods.base});
}

/**
 * Null if some rule may match any address. `hosts`: every address for which a rule was written. `byEntry`: the rules of KUBE-SERVICES in
 * table nat, by `address protocol port`.
 */
function sharedRules(actual: Ruleset) {
  const hosts = new Set<string>();
  const byEntry = new Map<string, string[]>();
  for (const [table, chain] of sharedChains) {
    const text = actual.chain(table, chain)?.text() ?? '';
    for (const line of text === '' ? [] : text.split('\n')) {
      const rule = line.replace(/"(?:[^"\\]|\\.)*"/g, '""');
      // The jump to the node ports comes last, after that of the cluster IP.
      if (rule.endsWith(' -j KUBE-NODEPORTS')) continue;
      const host = /^-A \S+ -d ([^/ ]+)\/(?:32|128) /.exec(rule)?.[1];
      if (host === undefined) {
        // It matches packets to the node itself alone.
        if (!rule.includes(' -m addrtype --dst-type LOCAL ')) return null;
        continue;
      }
      hosts.add(host);
      if (table !== 'nat') continue;
      const [, protocol, port] = /(?<!!) -p (\S+) .*(?<!!) --dport (\d+) /.exec(rule) ?? [];
      if (protocol === undefined || port === undefined) return null;
      const key = entryKey(host, protocol, port);
      byEntry.set(key, [...(byEntry.get(key) ?? []), rule]);
    }
  }
  return {hosts, byEntry};
}

const sharedChains = [
  ['nat', 'KUBE-SERVICES'],
  ['filter', 'KUBE-SERVICES'],
  ['filter', 'KUBE-EXTERNAL-SERVICES'],
  ['filter', 'KUBE-PROXY-FIREWALL'],
] as const;

/** `byEntry`: how many Service ports claim an entry, by `address protocol port`. */
function countClaims({ports, context}: ExpectedRuleset) {
  const addresses = new Set<string>();
  const byEntry = new Map<string, number>();
  for (const {port} of ports) {
    for (const entry of entriesOf(port, context)) {
      if (entry.address === null) continue;
      const key = entryKey(entry.address, port.protocol, entry.port);
      addresses.add(entry.address);
      byEntry.set(key, (byEntry.get(key) ?? 0) + 1);
    }
  }
  return {addresses, byEntry};
}

function entryKey(address: string, protocol: string, port: number | string): string {
  return `${address} ${protocol.toLowerCase()} ${port}`;
}
