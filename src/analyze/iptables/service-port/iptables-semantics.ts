import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {Rule} from '../../../model/ruleset.ts';
import type {Outcome} from '../../../trace/outcome.ts';
import type {PathOutcome, ProbeComparison} from '../../outcomes/path-outcome.ts';
import type {Evidence, KeyedSymptom, Misdirected, ModeSemantics, Subject} from '../../outcomes/mode-semantics.ts';
import {isEntryRule} from '../entry-rule.ts';
import {balancingRole} from '../iptables-outcome.ts';
import type {PortCase, PortDifferences} from './port-differences.ts';
import {isOfAffinity, isPick, isShared, hasMatch} from './rule-roles.ts';
import {brokenJumps, isDeadEnd, fallsThrough, type SpecialCase, intercepted} from './special-probes.ts';

/** What the iptables rules of one Service port show beside the outcomes of packets. */
export class IptablesSemantics implements ModeSemantics<Rule> {
  readonly #case: PortCase;
  readonly #own: PortDifferences;
  readonly #special: SpecialCase;

  constructor(given: PortCase, own: PortDifferences) {
    this.#case = given;
    this.#own = own;
    this.#special = {
      ...{...given, own},
      isPassedBy: outcome => this.#isPassedBy(outcome),
      misdirected: ({actual}) => this.misdirected(actual),
      endpointEvidence: (endpoint, comparison) => this.#endpointEvidence(endpoint, comparison),
    };
  }

  /** None of the Service port's own chains is entered. */
  isUnentered(outcome: Outcome): boolean {
    return this.#isPassedBy(outcome) && !outcome.path.some(rule => this.#own.isOwn(rule.target?.name ?? ''));
  }

  /** The packet passes without an endpoint, or a later rule of kube-proxy in table filter drops it. */
  #isPassedBy({verdict, path, destination}: Outcome): boolean {
    const last = path.at(-1);
    if (verdict === 'accept') return destination === null;
    return verdict === 'drop' && last?.table === 'filter' && !this.#own.extraRules().some(({text}) => text === last.text);
  }

  hasNoEntry(): boolean {
    const {expected, item} = this.#case;
    const missing = new Set(this.#own.missingRules().map(({text}) => text));
    return expected
      .rulesOf(item)
      .shared.every(({table, chain, text}) => table !== 'nat' || text.endsWith(' KUBE-MARK-MASQ') || missing.has(`-A ${chain} ${text}`));
  }

  refusedFor({path}: Outcome): 'ranges' | 'policy' | 'other' {
    if (this.#isSourceRangeDrop(path)) return 'ranges';
    return isNoLocalDrop(path) ? 'policy' : 'other';
  }

  /** By KUBE-PROXY-FIREWALL, or before 1.25 by the mark that KUBE-FW sets. */
  #isSourceRangeDrop(path: readonly Rule[]): boolean {
    if (path.at(-1)?.chain === 'KUBE-PROXY-FIREWALL') return true;
    const ranges = this.#case.item.port.sourceRanges.length > 0 || this.#own.extraRules().some(isRange);
    return ranges && isFirewallMark(path);
  }

  policyOf(pathOutcome: PathOutcome): 'Cluster' | 'Local' | null {
    const role = balancingRole(pathOutcome);
    return role === null ? null : role === 'SVC' ? 'Cluster' : 'Local';
  }

  misdirected({outcomes}: PathOutcome): ReadonlyMap<string, Misdirected<Rule>> {
    const {endpoints, endpointChain} = this.#case.item;
    const found = new Map<string, Misdirected<Rule>>();
    for (const {path, destination} of outcomes) {
      const rule = path.findLast(({target}) => target?.name === 'DNAT');
      const owner = endpoints.reachable.find(endpoint => endpointChain(endpoint) === rule?.chain);
      if (rule !== undefined && owner !== undefined && destination !== null && owner.hostPort !== destination)
        found.set(owner.hostPort, {rule, destination});
    }
    return found;
  }

  special(comparison: ProbeComparison): readonly KeyedSymptom<Rule>[] {
    const {expected, actual} = comparison;
    const isUnentered = actual.destinations.size === 0 && actual.outcomes.every(outcome => this.isUnentered(outcome));
    if (isUnentered) return intercepted(this.#special, comparison);
    const broken = brokenJumps(this.#special, comparison);
    if (broken.length > 0 || expected.destinations.size === 0) return broken;
    for (const cause of [intercepted, isDeadEnd, fallsThrough]) {
      const said = cause(this.#special, comparison);
      if (said.length > 0) return said;
    }
    return [];
  }

  evidence(subject: Subject<Rule>): Evidence<Rule> {
    switch (subject.kind) {
      case 'service':
        return this.#serviceEvidence();
      case 'entry':
        return {expected: this.#own.missingRules().filter(rule => isEntryRule(rule, subject.entry)), actual: []};
      case 'shares':
        return this.#own.evidence(({rule}) => isPick(rule) && !hasMatch(rule, 'recent'));
      case 'affinity':
        return this.#own.evidence(({rule}) => isOfAffinity(rule));
      case 'policy':
        return {expected: this.#turns(subject.comparison.expected, 'missing'), actual: this.#turns(subject.comparison.actual, 'extra')};
      case 'masquerade':
        return this.#masqueradeEvidence(subject.comparison);
      case 'endpoint':
        return this.#endpointEvidence(subject.endpoint, subject.comparison);
    }
  }

  #serviceEvidence(): Evidence<Rule> {
    const rules = this.#own.missingRules();
    return {expected: [...rules.filter(isShared), ...rules.filter(rule => !isShared(rule))].slice(0, 6), actual: []};
  }

  /** The rules at which the two paths of a packet diverge; the whole path between entry and endpoint if there are none. */
  #turns({outcomes}: PathOutcome, kind: 'missing' | 'extra'): readonly Rule[] {
    const differing = new Set(this.#own.of(kind).map(({rule}) => rule.text));
    const way = outcomes.flatMap(({path}) => path);
    const turns = way.filter(({text}) => differing.has(text));
    const rules = turns.length > 0 ? turns : way.filter(rule => /^KUBE-(?:EXT|XLB|SERVICES|NODEPORTS|EXTERNAL)/.test(rule.chain));
    return [...new Map(rules.map(rule => [rule.text, rule])).values()].slice(0, 4);
  }

  #masqueradeEvidence({expected, actual}: ProbeComparison): Evidence<Rule> {
    const [off] = [...expected.destinations].filter(([destination, {masquerade}]) => {
      const found = actual.destinations.get(destination);
      return found !== undefined && found.masquerade !== masquerade;
    });
    const share = off?.[1].masquerade ? off[1] : actual.destinations.get(off?.[0] ?? '');
    const cause = share?.path.find(({target}) => target?.name === 'KUBE-MARK-MASQ');
    return this.#own.evidence(({rule}) => rule.target?.name === 'KUBE-MARK-MASQ' && rule.chain === cause?.chain);
  }

  /** For an endpoint that packets reach, the rules that lead there; for a missed one, the rules that should. */
  #endpointEvidence(endpoint: string, {expected, actual}: ProbeComparison): Evidence<Rule> {
    const found = actual.destinations.get(endpoint);
    if (found !== undefined) return {expected: [], actual: found.path.filter(rule => parseChainName(rule.chain) !== null).slice(-2)};
    const path = expected.destinations.get(endpoint)?.path ?? [];
    const chain = path.findLast(rule => parseChainName(rule.chain)?.role === 'SEP')?.chain;
    const jump = path.filter(rule => rule.target?.name === chain);
    const gone = this.#own
      .missingRules()
      .filter(rule => rule.chain === chain || (rule.chain === jump[0]?.chain && rule.target?.name === chain));
    const present = [...actual.destinations.values()].flatMap(share => share.path.filter(rule => rule.chain === jump[0]?.chain));
    return {expected: gone.length > 0 ? gone : jump, actual: present.slice(0, 3)};
  }
}

function isNoLocalDrop(path: readonly Rule[]): boolean {
  const rule = path.at(-1);
  return (
    rule?.target?.name === 'DROP' &&
    ['KUBE-EXTERNAL-SERVICES', 'KUBE-SERVICES', 'KUBE-MARK-DROP'].includes(rule.chain) &&
    !isFirewallMark(path)
  );
}

/** Marked for dropping by a KUBE-FW chain, as up to 1.24 what comes to its end is. */
function isFirewallMark(path: readonly Rule[]): boolean {
  return path.at(-1)?.chain === 'KUBE-MARK-DROP' && (path.at(-2)?.chain.startsWith('KUBE-FW-') ?? false);
}

function isRange({chain, options}: Rule): boolean {
  return chain.startsWith('KUBE-FW-') && options.some(({flag}) => flag === '-s');
}
