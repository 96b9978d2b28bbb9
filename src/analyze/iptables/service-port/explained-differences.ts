import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Difference} from '../../../model/difference.ts';
import type {Rule} from '../../../model/ruleset.ts';
import {isEntryRule} from '../entry-rule.ts';
import type {Symptom, SymptomKind} from '../../symptoms/symptom.ts';

/** The differences of a Service port that its symptoms already explain. */
export class Explained {
  readonly #item: PortOnNode;
  readonly #symptoms: readonly Symptom<Rule>[];
  readonly #kinds: ReadonlySet<SymptomKind>;
  readonly #endpoints: ReadonlySet<string>;
  readonly #rules: ReadonlySet<Rule>;
  /** Chains that are reported as empty. */
  readonly #emptyChains: ReadonlySet<string>;

  constructor(item: PortOnNode, symptoms: readonly Symptom<Rule>[]) {
    this.#item = item;
    this.#symptoms = symptoms;
    this.#kinds = new Set(symptoms.map(({kind}) => kind));
    this.#endpoints = new Set(symptoms.flatMap(({endpoint}) => endpoint ?? []));
    this.#emptyChains = new Set(
      symptoms.flatMap(({kind, actual}) => (kind === 'broken-jump' ? actual.map(({target}) => target?.name ?? '') : [])),
    );
    this.#rules = new Set(symptoms.flatMap(({expected, actual}) => [...expected, ...actual]));
  }

  covers(difference: Difference<PortOnNode>): boolean {
    const {rule} = difference;
    if (this.#kinds.has('service-not-programmed') || this.#rules.has(rule)) return true;
    if (this.#isOfEndpoint(rule) || this.#emptyChains.has(rule.chain)) return true;
    // A Service that is refused although it has endpoints has none of its other rules.
    if (difference.kind === 'missing' && rule.table === 'nat' && this.#kinds.has('unexpected-reject')) return true;
    // All remaining rules of a Service that lost its last endpoint have one cause.
    if (!this.#item.endpoints.hasAny && this.#kinds.has('stale-endpoint') && rule.table === 'nat') return true;
    const role = parseChainName(rule.chain)?.role;
    const target = parseChainName(rule.target?.name ?? '')?.role;
    const recent = rule.matches.some(match => match.name === 'recent');
    if (
      target === 'SEP' &&
      this.#kinds.has('stale-endpoint') &&
      !this.#item.endpoints.reachable.some(endpoint => this.#item.endpointChain(endpoint) === rule.target?.name)
    )
      return true;
    if (target === 'SEP' && !recent) return [...balancingKinds].some(kind => this.#kinds.has(kind));
    if (recent || rule.target?.name === 'DNAT') return this.#kinds.has('session-affinity-mismatch');
    if (rule.target?.name === 'KUBE-MARK-MASQ')
      return this.#kinds.has('masquerade-mismatch') || this.#kinds.has('traffic-policy-mismatch') || this.#atMissingEntry(rule);
    if (role === 'EXT' || role === 'XLB') return this.#kinds.has('traffic-policy-mismatch') || this.#kinds.has('broken-jump');
    if (role === 'FW')
      return ['source-ranges-mismatch', 'broken-jump', 'unexpected-reject'].some(kind => this.#kinds.has(kind as SymptomKind));
    if (rule.chain === 'KUBE-SERVICES' && this.#atEntryOf('traffic-policy-mismatch', rule)) return true;
    // With ranges, the load-balancer address leads to KUBE-FW, and without them past it.
    if (rule.chain === 'KUBE-SERVICES' && this.#kinds.has('source-ranges-mismatch') && this.#isOfBalancer(rule)) return true;
    if (rule.chain === 'KUBE-PROXY-FIREWALL') return this.#kinds.has('source-ranges-mismatch') || this.#atMissingEntry(rule);
    if (rule.table === 'filter' && rule.chain !== 'KUBE-NODEPORTS') return this.#coversFilter(rule);
    if (rule.table === 'filter') return this.#kinds.has('health-check-port-blocked');
    return this.#atMissingEntry(rule) || (role !== undefined && this.#kinds.has('broken-jump'));
  }

  /** The endpoint's own chain, and rules that lead there. */
  #isOfEndpoint(rule: Rule): boolean {
    const known = this.#item.endpoints.reachable.find(endpoint => {
      const chain = this.#item.endpointChain(endpoint);
      return rule.chain === chain || rule.target?.name === chain;
    });
    return known !== undefined && this.#endpoints.has(known.hostPort) && !this.#onlyMasquerade(known.hostPort);
  }

  /** A hairpin finding explains the mark in the endpoint's chain, and nothing else of the endpoint. */
  #onlyMasquerade(endpoint: string): boolean {
    return this.#symptoms.every(symptom => symptom.endpoint !== endpoint || symptom.kind === 'masquerade-mismatch');
  }

  #coversFilter(rule: Rule): boolean {
    if (['missing-reject', 'traffic-policy-mismatch', 'unexpected-reject'].some(kind => this.#kinds.has(kind as SymptomKind))) return true;
    // All endpoints of the Service appeared or disappeared in the API: the refusal has the same cause.
    const refusal = rule.target?.name === 'REJECT' || rule.target?.name === 'DROP';
    return this.#atMissingEntry(rule) || (refusal && this.#kinds.has('stale-endpoint'));
  }

  #isOfBalancer(rule: Rule): boolean {
    const {loadBalancerVIPs, port} = this.#item.port;
    return loadBalancerVIPs.some(address => isEntryRule(rule, {kind: 'loadBalancerIP', address, port}));
  }

  #atMissingEntry(rule: Rule): boolean {
    return this.#atEntryOf('missing-entry', rule);
  }

  #atEntryOf(wanted: SymptomKind, rule: Rule): boolean {
    return this.#symptoms.some(
      ({kind, entry, entries = entry === undefined ? [] : [entry]}) => kind === wanted && entries.some(one => isEntryRule(rule, one)),
    );
  }
}

const balancingKinds: ReadonlySet<SymptomKind> = new Set([
  'missing-endpoint',
  'stale-endpoint',
  'wrong-endpoint-address',
  'uneven-balance',
  'traffic-policy-mismatch',
  'broken-jump',
]);
