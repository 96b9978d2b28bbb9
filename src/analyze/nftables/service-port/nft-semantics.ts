import type {RuleText} from '../../../model/ruleset.ts';
import type {Entry} from '../../../model/service-port.ts';
import type {Outcome} from '../../../trace/walked-packet.ts';
import type {Evidence, KeyedSymptom, Misdirected, ModeSemantics} from '../../outcomes/compare-endpoints.ts';
import {missingEndpoint, brokenJumps, deadEnd, interceptedBy} from '../../outcomes/compare-endpoints.ts';
import type {PathOutcome, ProbeComparison} from '../../outcomes/environment.ts';
import {evidenceOf} from '../../symptoms/port-symptoms.ts';
import {type NftPortCase, type NftPortDifference, targetsOf, pickingChain} from '../nft-case.ts';
import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import {joinHostPort} from '../../../model/address.ts';

/** What the rules and elements of one Service port show beside the outcomes of packets. */
export class NftSemantics implements ModeSemantics {
  readonly #case: NftPortCase;

  constructor(portCase: NftPortCase) {
    this.#case = portCase;
  }

  /** The packet passes, or expected rules and elements of the checks after the Services reject it. */
  isUnentered({verdict, destination, path}: Outcome): boolean {
    if (path.some(({chain}) => this.#isOwnChain(chain))) return false;
    if (verdict === 'accept') return destination === null;
    return (
      verdict !== 'undecided' &&
      isCheck(path.at(-1)?.chain ?? '') &&
      !this.#case.differences.some(one => one.kind === 'extra' && isRefusal(one))
    );
  }

  hasNoEntry(): boolean {
    const {item, expected, actual} = this.#case;
    const entries = expected.objectsOf(item).elements.filter(({set}) => isEntryMap(set));
    return entries.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value !== value);
  }

  refusedFor({verdict, path}: Outcome): 'ranges' | 'policy' | 'other' {
    const chain = path.at(-1)?.chain ?? '';
    if (chain.startsWith('firewall-')) return 'ranges';
    // A chain that drops packets of Services whose policy leaves them no endpoint on the node.
    return verdict === 'drop' && endpointChecks.has(chain) ? 'policy' : 'other';
  }

  policyOf({destinations}: PathOutcome): 'Cluster' | 'Local' | null {
    for (const {path} of destinations.values()) {
      const chain = pickingChain(path);
      if (chain !== null) return chain.startsWith('local-') ? 'Local' : 'Cluster';
    }
    return null;
  }

  misdirected(pathOutcome: PathOutcome): ReadonlyMap<string, Misdirected> {
    const found = new Map<string, Misdirected>();
    for (const [destination, {path}] of pathOutcome.destinations) {
      const rule = path.findLast(({text}) => text.includes('dnat '));
      const owner = rule === undefined ? null : this.#ownerOf(rule, destination, pathOutcome);
      if (rule !== undefined && owner !== null && owner !== destination) found.set(owner, {destination, rule});
    }
    return found;
  }

  /** The endpoint that a rule is for: by the name of its chain, or by its address if only the port differs. */
  #ownerOf({chain}: RuleText, destination: string, pathOutcome: PathOutcome): string | null {
    const {item} = this.#case;
    const named = item.endpoints.reachable.find(endpoint => item.names.endpoint(endpoint) === chain);
    if (named !== undefined) return named.hostPort;
    if (item.all.some(({hostPort}) => hostPort === destination)) return null;
    const replaced = this.#replacedIn(chain, destination);
    if (replaced !== null) return replaced;
    const address = destination.replace(/:\d+$/, '');
    const left = item.endpoints.reachable.filter(({hostPort}) => hostPort.replace(/:\d+$/, '') === address);
    return left.find(({hostPort}) => !pathOutcome.destinations.has(hostPort))?.hostPort ?? null;
  }

  /** kube-proxy writes endpoints in order. If one replaces another out of order, its address is the wrong one. */
  #replacedIn(chain: string, destination: string): string | null {
    const {actual, expected} = this.#case;
    const pickedIn = (rules: readonly RuleText[] = []): readonly string[] =>
      endpointsIn(rules.find(({text}) => text.includes(' dnat '))?.text ?? '');
    const found = pickedIn(actual.chain(chain)?.rules());
    const should = pickedIn(expected.chain(chain)?.rules());
    const off = should.filter((hostPort, at) => found[at] !== hostPort);
    if (found.length !== should.length || off.length !== 1 || !found.includes(destination)) return null;
    return found.join() === found.toSorted().join() ? null : (off[0] ?? null);
  }

  /** Symptoms that replace all others of a probe: a broken jump, a third-party rule, a chain that leads nowhere. */
  special(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const broken = this.#leadsNowhere(comparison);
    if (broken.length > 0) return broken;
    return this.#intercepted(comparison) ?? this.#endsBefore(comparison) ?? [];
  }

  /** A rule or element on the path leads to a chain that is missing or empty. */
  #leadsNowhere(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {item, expected} = this.#case;
    const leads = [...this.#elementsAt(comparison.probe.entry), ...this.#rulesOnPath(comparison.actual)];
    const targets = new Map(leads.flatMap(rule => targetsOf(rule).map(target => [target, rule])));
    const broken = new Map([...targets].filter(([target]) => this.#isEmpty(target)));
    return brokenJumps(broken, comparison, {
      endpointOf: chain => item.endpoints.reachable.find(one => item.names.endpoint(one) === chain),
      has: chain => this.#case.actual.chain(chain) !== undefined,
      rulesOf: chain => expected.chain(chain)?.rules() ?? [],
    });
  }

  /** The rules that matched, and all rules of the Service's own chains on the path, each once: the paths to all endpoints begin alike. */
  #rulesOnPath({outcomes}: PathOutcome): readonly RuleText[] {
    const passed = new Set(outcomes.filter(({verdict}) => verdict !== 'undecided').flatMap(({path}) => path));
    const chains = new Set([...passed].flatMap(rule => [rule.chain, ...targetsOf(rule)]));
    const own = new Set([...chains].filter(chain => this.#isOwnChain(chain)));
    return [...[...passed].filter(({chain}) => own.has(chain)), ...[...own].flatMap(chain => this.#case.view.chain(chain)?.rules() ?? [])];
  }

  #isEmpty(name: string): boolean {
    if (!this.#isOwnChain(name)) return false;
    const chain = this.#case.actual.chain(name);
    const empty = chain === undefined ? this.#case.actual.complete : chain.ruleCount === 0 && chain.complete;
    return empty && (this.#case.expected.chain(name)?.ruleCount ?? 0) > 0;
  }

  /** A third-party rule in a chain of the Service intercepts all packets before they reach an endpoint. */
  #intercepted(comparison: ProbeComparison): readonly KeyedSymptom[] | null {
    const passed = new Set(comparison.actual.outcomes.flatMap(({path}) => path));
    const others = new Set([...passed].filter(rule => this.#isThirdParty(rule)));
    if (others.size === 0) return null;
    const takers = comparison.actual.outcomes.map(({verdict, path}) =>
      verdict === 'accept' ? path.find(rule => others.has(rule)) : undefined,
    );
    const [rule] = takers;
    if (rule === undefined || takers.includes(undefined)) return null;
    return [interceptedBy(rule, rule.chain, comparison)];
  }

  /** An extra rule that ends the path and replaces none of kube-proxy's rules. */
  #isThirdParty(rule: RuleText): boolean {
    const isThis = ({kind, rule: other}: NftPortDifference): boolean =>
      kind === 'extra' && other.chain === rule.chain && other.text === rule.text;
    if (!this.#case.differences.some(isThis) || !/(?:^| )(?:accept|return|dnat|redirect)(?: |$)/.test(rule.text)) return false;
    return !this.#rulesOf('missing', rule.chain).some(({text}) => shapeOf(text) === shapeOf(rule.text));
  }

  /** The entry leads to a chain that returns packets unchanged: the rule that leads to the endpoints is missing. */
  #endsBefore(comparison: ProbeComparison): readonly KeyedSymptom[] | null {
    const {expected, actual, probe} = comparison;
    const back = actual.outcomes.every(({verdict, destination, path}) =>
      verdict === 'accept' ? destination === null : verdict !== 'undecided' && isCheck(path.at(-1)?.chain ?? ''),
    );
    const [lead] = this.#elementsAt(probe.entry);
    const chain = lead === undefined ? undefined : targetsOf(lead)[0];
    if (!back || expected.destinations.size === 0 || lead === undefined || chain === undefined || !this.#isOwnChain(chain)) return null;
    const picking = pickingChain([...expected.destinations.values()][0]?.path ?? []);
    if (chain === picking || actual.outcomes.some(({path}) => path.some(one => targetsOf(one).includes(picking ?? ''))))
      // The chain that picks the endpoint is entered and picks none.
      return [...expected.destinations.keys()].map(endpoint => {
        const evidence = this.evidence.endpoint(endpoint, comparison);
        return missingEndpoint(this.#case.item, endpoint, comparison, evidence, expected.destinations.size);
      });
    const evidence = {expected: this.#rulesOf('missing', chain), actual: [lead]};
    return [deadEnd(this.#case.item, comparison, {chain, policy: this.policyOf(expected), evidence})];
  }

  /** The missing and the unexpected rules and elements of the Service port that explain a symptom. */
  readonly evidence: ModeSemantics['evidence'] = {
    service: () => this.#pick(({what}) => what === 'element', 6),
    entry: entry => this.#ofEntry(entry),
    endpoint: (endpoint, comparison) => this.#ofEndpoint(endpoint, comparison),
    shares: () => this.#pick(({rule}) => rule.text.includes('numgen')),
    affinity: () => this.#pick(({rule, what}) => what === 'set' || rule.text.includes('@affinity-') || rule.text.includes('dnat')),
    masquerade: comparison => this.#ofMasquerade(comparison),
    policy: comparison => this.#ofPolicy(comparison),
  };

  #ofEntry(entry: Entry): Evidence {
    const own = this.#elementKey(entry);
    return this.#pick(({rule, key}) => key === own && isEntryMap(rule.chain));
  }

  #ofEndpoint(endpoint: string, {expected, actual, probe}: ProbeComparison): Evidence {
    const {item} = this.#case;
    const known = item.all.find(({hostPort}) => hostPort === endpoint);
    const names = known === undefined ? [] : [item.names.endpoint(known), `${known.address} . ${known.port}`, known.hostPort];
    const own = this.#pick(({rule}) => names.some(text => rule.chain === text || rule.text.includes(text)));
    const chain = pickingChain(expected.destinations.get(endpoint)?.path ?? []);
    const present = this.#rulesOf('extra', chain);
    const path = actual.destinations.get(endpoint)?.path.filter(rule => this.#isOwnChain(rule.chain)) ?? [];
    // The entry may lead to the chains of another Service.
    const atEntry = this.#ofEntry(probe.entry);
    const should = atEntry.expected.length > 0 ? atEntry.expected : (expected.destinations.get(endpoint)?.path.slice(-1) ?? []);
    return {
      expected: own.expected.length > 0 ? own.expected : should,
      actual: path.length > 0 ? path.slice(-2) : [...own.actual, ...present, ...atEntry.actual].slice(0, 3),
    };
  }

  #ofMasquerade({expected, actual, probe}: ProbeComparison): Evidence {
    const own = this.#pick(
      ({rule}) =>
        / mark|masquerade/.test(` ${rule.text}`) ||
        (rule.chain === 'hairpin-connections' && probe.endpoint !== undefined) ||
        (rule.chain === 'cluster-ips' && probe.entry.kind === 'clusterIP'),
    );
    if (own.expected.length + own.actual.length > 0) return own;
    const marks = ({destinations}: PathOutcome): readonly RuleText[] =>
      [...destinations.values()].flatMap(({path}) => path.filter(({text}) => / mark/.test(` ${text}`))).slice(0, 2);
    return {expected: marks(expected), actual: marks(actual)};
  }

  /** The rules at which the two paths of a packet diverge; the path between entry and endpoint if there are none. */
  #ofPolicy({expected, actual, probe}: ProbeComparison): Evidence {
    const key = this.#elementKey(probe.entry);
    const own = this.#pick(difference => difference.rule.chain.startsWith('external-') || difference.key === key);
    const path = ({outcomes}: PathOutcome): readonly RuleText[] => {
      const rules = outcomes.flatMap(({path}) => path.filter(({chain}) => this.#isOwnChain(chain)));
      return [...new Map(rules.map(rule => [`${rule.chain} ${rule.text}`, rule])).values()].slice(0, 4);
    };
    return {
      expected: own.expected.length > 0 ? own.expected : path(expected),
      actual: own.actual.length > 0 ? own.actual : [...this.#elementsAt(probe.entry), ...path(actual)].slice(0, 4),
    };
  }

  #pick(concerns: (difference: NftPortDifference) => boolean, most = 4): Evidence {
    return evidenceOf(this.#case.differences.filter(concerns), most);
  }

  /** Rules and elements of a chain or map that are missing, or that kube-proxy would not have written. */
  #rulesOf(kind: 'missing' | 'extra', chain: string | null): readonly RuleText[] {
    return this.#case.differences.flatMap(one => (one.kind === kind && one.rule.chain === chain ? [one.rule] : []));
  }

  #isOwnChain(chain: string): boolean {
    const {expected, item} = this.#case;
    return expected.ownerOf(chain) === item || parseNftName(chain)?.base === item.names.base;
  }

  /** The actual elements that match an entry's packets. */
  #elementsAt(entry: Entry): readonly RuleText[] {
    const {actual, expected} = this.#case;
    const key = this.#elementKey(entry);
    const name = entry.address === null ? 'service-nodeports' : 'service-ips';
    const value = actual.set(name)?.elements.get(key)?.value ?? null;
    return value === null ? [] : [{table: expected.id, chain: name, line: 1, isOrdinal: true, text: `${key} : ${value}`}];
  }

  /** The key of an entry in the maps of kube-proxy: `10.96.1.1 . tcp . 80`, or `tcp . 30080` for a node port. */
  #elementKey({address, port}: Entry): string {
    const protocol = this.#case.item.port.protocol.toLowerCase();
    return `${address === null ? '' : `${address} . `}${protocol} . ${port}`;
  }
}

/** The endpoints of a rule that picks one of them at random by a map, in its order. */
export function endpointsIn(rule: string): readonly string[] {
  return [...rule.matchAll(/\d+ : (\S+) \. (\d+)/g)].map(([, address = '', port = '']) => joinHostPort(address, port));
}

/** The purpose of a rule, whatever endpoints it names. One that picks is written in another form where clients are remembered. */
function shapeOf(text: string): string {
  if (text.includes('numgen random ')) return 'picks';
  return text
    .replace(/ comment ".*"$/, '')
    .replace(/dnat to \S+/, 'dnat to')
    .replace(/goto \S+/, 'goto');
}

/** A map that leads into the chains of Services. */
export function isEntryMap(map: string): boolean {
  return map === 'service-ips' || map === 'service-nodeports';
}

/** An element that refuses packets. */
export function isRefusal({rule: {chain}}: NftPortDifference): boolean {
  return chain === 'no-endpoint-services' || chain === 'no-endpoint-nodeports';
}

const endpointChecks: ReadonlySet<string> = new Set(['service-endpoints-check', 'nodeport-endpoints-check', 'endpoints-check']);

/** A chain that checks the packets that no Service matches. */
function isCheck(chain: string): boolean {
  return endpointChecks.has(chain) || chain === 'cluster-ips-check' || chain === 'reject-chain';
}
