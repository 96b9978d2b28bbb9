import {evidenceOf} from '../../symptoms/port-symptoms.ts';
import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {Rule} from '../../../model/ruleset.ts';
import type {NodeRule, Outcome} from '../../../trace/walked-packet.ts';
import {onceAsked} from '../../../model/once.ts';
import type {Evidence, KeyedSymptom, Misdirected, ModeSemantics} from '../../outcomes/compare-endpoints.ts';
import {missingEndpoint, brokenJumps, deadEnd, interceptedBy} from '../../outcomes/compare-endpoints.ts';
import type {PathOutcome, ProbeComparison} from '../../outcomes/environment.ts';
import {isEntryRule} from '../rules-of-ports.ts';
import {hasMatch, isOfAffinity, isOwnChain, type PortCase, rulesOf} from './port-differences.ts';

/** What the iptables rules of one Service port show beside the outcomes of packets. */
export class IptablesSemantics implements ModeSemantics {
  readonly #case: PortCase;
  /** The texts of rules that are missing, and of others than kube-proxy would write; asked for each endpoint. */
  readonly #missing = onceAsked(() => new Set(rulesOf(this.#case, 'missing').map(({text}) => text)));
  readonly #extra = onceAsked(() => new Set(rulesOf(this.#case, 'extra').map(({text}) => text)));

  constructor(portCase: PortCase) {
    this.#case = portCase;
  }

  /** None of the Service port's own chains is entered. */
  isUnentered(outcome: Outcome): boolean {
    return this.#isPassedBy(outcome) && this.#ownJumps(outcome).length === 0;
  }

  /** The jumps of a path into chains of the Service port. */
  #ownJumps({path}: Outcome): readonly NodeRule[] {
    return path.filter(({target}) => isOwnChain(this.#case, target?.name ?? ''));
  }

  /** The packet passes without an endpoint, or a later rule of kube-proxy in table filter drops it. */
  #isPassedBy({verdict, path, destination}: Outcome): boolean {
    const last = path.at(-1);
    if (verdict === 'accept') return destination === null;
    return verdict === 'drop' && last?.table === 'filter' && !this.#extra().has(last.text);
  }

  hasNoEntry(): boolean {
    const {expected, item} = this.#case;
    return expected
      .rulesOf(item)
      .shared.every(
        ({table, chain, text}) => table !== 'nat' || text.endsWith(' KUBE-MARK-MASQ') || this.#missing().has(`-A ${chain} ${text}`),
      );
  }

  refusedFor({path}: Outcome): 'ranges' | 'policy' | 'other' {
    if (this.#isSourceRangeDrop(path)) return 'ranges';
    return isNoLocalDrop(path) ? 'policy' : 'other';
  }

  /** By KUBE-PROXY-FIREWALL, or before 1.25 by the mark that KUBE-FW sets. */
  #isSourceRangeDrop(path: readonly NodeRule[]): boolean {
    if (path.at(-1)?.chain === 'KUBE-PROXY-FIREWALL') return true;
    const ranges = this.#case.item.port.sourceRanges.length > 0 || rulesOf(this.#case, 'extra').some(isRange);
    return ranges && isFirewallMark(path);
  }

  /** By the chain that picked the endpoint. */
  policyOf({destinations}: PathOutcome): 'Cluster' | 'Local' | null {
    for (const {path} of destinations.values()) {
      const role = path
        .flatMap(({chain}) => parseChainName(chain)?.role ?? [])
        .findLast(own => own === 'SVC' || own === 'SVL' || own === 'XLB');
      if (role !== undefined) return role === 'SVC' ? 'Cluster' : 'Local';
    }
    return null;
  }

  misdirected({outcomes}: PathOutcome): ReadonlyMap<string, Misdirected> {
    const {endpoints, endpointChain} = this.#case.item;
    const found = new Map<string, Misdirected>();
    for (const {path, destination} of outcomes) {
      const rule = path.findLast(({target}) => target?.name === 'DNAT');
      const owner = endpoints.reachable.find(endpoint => endpointChain(endpoint) === rule?.chain);
      if (rule !== undefined && owner !== undefined && destination !== null && owner.hostPort !== destination)
        found.set(owner.hostPort, {rule, destination});
    }
    return found;
  }

  special(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {expected, actual} = comparison;
    if (actual.destinations.size === 0 && actual.outcomes.every(outcome => this.isUnentered(outcome))) return this.#intercepted(comparison);
    const broken = this.#leadsNowhere(comparison);
    if (broken.length > 0 || expected.destinations.size === 0) return broken;
    const taken = this.#intercepted(comparison);
    const said = taken.length > 0 ? taken : this.#deadEnd(comparison);
    return said.length > 0 ? said : this.#fallsThrough(comparison);
  }

  /** A rule on the path jumps to a chain that is missing or empty. */
  #leadsNowhere(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {item, actual, expected} = this.#case;
    const outcomes = comparison.actual.outcomes.filter(({verdict}) => verdict !== 'undecided');
    const entered = new Set(outcomes.flatMap(outcome => this.#ownJumps(outcome).map(({target}) => target?.name ?? '')));
    // A packet returns unchanged from an empty chain, so its path does not show the chain.
    const picks = [...entered].flatMap(chain => actual.chain('nat', chain)?.rules().filter(isPick) ?? []);
    const leads = [...outcomes.flatMap(({path}) => path), ...picks].map(rule => [rule.target?.name ?? '', rule] as const);
    return brokenJumps(new Map(leads.filter(([chain]) => this.#isEmpty(chain))), comparison, {
      endpointOf: chain => item.endpoints.reachable.find(one => item.endpointChain(one) === chain),
      has: chain => actual.chain('nat', chain) !== undefined,
      rulesOf: chain => expected.chain('nat', chain)?.rules() ?? [],
    });
  }

  #isEmpty(chain: string): boolean {
    const {actual, expected} = this.#case;
    if (parseChainName(chain) === null) return false;
    const found = actual.chain('nat', chain);
    return (found === undefined || (found.ruleCount === 0 && found.complete)) && (expected.chain('nat', chain)?.ruleCount ?? 0) > 0;
  }

  /** A third-party rule in a chain of the Service port intercepts all packets before they reach an endpoint's chain. */
  #intercepted(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const takers = comparison.actual.outcomes.map(outcome => {
      const rule = outcome.path.find(found => found.table === 'nat' && endsPath(found) && this.#extra().has(found.text));
      const isTaken = outcome.destination === null ? this.#isPassedBy(outcome) : rule !== undefined && isRewrite(rule);
      return isTaken ? rule : undefined;
    });
    const [rule] = takers;
    return rule === undefined || takers.includes(undefined) ? [] : [interceptedBy(rule, `nat/${rule.chain}`, comparison)];
  }

  /** A chain after the entry returns the packet: the rule that leads to the endpoints is missing. */
  #deadEnd(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {expected, actual} = comparison;
    const [first] = actual.outcomes;
    if (first === undefined || actual.destinations.size > 0 || !actual.outcomes.every(outcome => this.#isPassedBy(outcome))) return [];
    const balancing = balancingChain(expected);
    const jumps = this.#ownJumps(first);
    const jump = jumps.at(-1);
    const chain = jump?.target?.name ?? '';
    if (jump === undefined || parseChainName(chain)?.role !== 'EXT' || jumps.some(({target}) => target?.name === balancing)) return [];
    const evidence = {expected: rulesOf(this.#case, 'missing').filter(rule => rule.chain === chain), actual: [jump]};
    return [deadEnd(this.#case.item, comparison, {chain, policy: this.policyOf(expected), evidence})];
  }

  /** The chain that picks the endpoint returns packets: whatever happens to them later is caused by it. */
  #fallsThrough(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {expected, actual} = comparison;
    const chain = balancingChain(expected);
    if (chain === null || !actual.outcomes.some(({path}) => isLeft(path, chain)) || this.misdirected(actual).size > 0) return [];
    const picked = new Set(actual.outcomes.flatMap(({path, destination}) => (isLeft(path, chain) ? [] : [destination])));
    const missing = [...expected.destinations.keys()].filter(destination => !picked.has(destination));
    return missing.map(endpoint =>
      missingEndpoint(this.#case.item, endpoint, comparison, this.#endpointEvidence(endpoint, comparison), missing.length),
    );
  }

  readonly evidence: ModeSemantics['evidence'] = {
    service: () => this.#serviceEvidence(),
    entry: entry => this.#differing(rule => isEntryRule(rule, entry)),
    shares: () => this.#differing(rule => isPick(rule) && !hasMatch(rule, 'recent')),
    affinity: () => this.#differing(isOfAffinity),
    policy: ({expected, actual}) => ({expected: this.#turns(expected, 'missing'), actual: this.#turns(actual, 'extra')}),
    masquerade: comparison => this.#masqueradeEvidence(comparison),
    endpoint: (endpoint, comparison) => this.#endpointEvidence(endpoint, comparison),
  };

  #differing(concerns: (rule: Rule) => boolean): Evidence {
    return evidenceOf(this.#case.differences.filter(({rule}) => concerns(rule)));
  }

  /** Rules of chains that all Service ports share come first. */
  #serviceEvidence(): Evidence {
    const isShared = ({chain}: Rule): boolean => parseChainName(chain) === null;
    const rules = rulesOf(this.#case, 'missing');
    return {expected: [...rules.filter(isShared), ...rules.filter(rule => !isShared(rule))].slice(0, 6), actual: []};
  }

  /** The rules at which the two paths of a packet diverge; the whole path between entry and endpoint if there are none. */
  #turns({outcomes}: PathOutcome, kind: 'missing' | 'extra'): readonly NodeRule[] {
    const differing = kind === 'missing' ? this.#missing() : this.#extra();
    const way = outcomes.flatMap(({path}) => path);
    const turns = way.filter(({text}) => differing.has(text));
    const rules = turns.length > 0 ? turns : way.filter(rule => /^KUBE-(?:EXT|XLB|SERVICES|NODEPORTS|EXTERNAL)/.test(rule.chain));
    return [...new Map(rules.map(rule => [rule.text, rule])).values()].slice(0, 4);
  }

  #masqueradeEvidence({expected, actual}: ProbeComparison): Evidence {
    const [off] = [...expected.destinations].filter(([destination, {masquerade}]) => {
      const found = actual.destinations.get(destination);
      return found !== undefined && found.masquerade !== masquerade;
    });
    const found = actual.destinations.get(off?.[0] ?? '');
    const share = off?.[1].masquerade ? off[1] : found;
    // A rule in another chain may take the mark away.
    const causes = [share?.path.find(isMarking), found?.path.find(rule => isMarking(rule) && this.#extra().has(rule.text))];
    return this.#differing(rule => isMarking(rule) && causes.some(cause => cause?.chain === rule.chain));
  }

  /** For an endpoint that packets reach, the rules that lead there; for a missed one, the rules that should. */
  #endpointEvidence(endpoint: string, {expected, actual}: ProbeComparison): Evidence {
    const found = actual.destinations.get(endpoint);
    const [missing, extra] = [this.#missing(), this.#extra()];
    if (found !== undefined) {
      const last = found.path.filter(rule => parseChainName(rule.chain) !== null).slice(-2);
      // The entry may lead to the chains of another Service.
      return {expected: [], actual: [...new Set([...found.path.filter(({text}) => extra.has(text)), ...last])].slice(-3)};
    }
    const path = expected.destinations.get(endpoint)?.path ?? [];
    const chain = path.findLast(rule => parseChainName(rule.chain)?.role === 'SEP')?.chain;
    const jump = path.filter(rule => rule.target?.name === chain);
    const gone = rulesOf(this.#case, 'missing').filter(
      rule => rule.chain === chain || (rule.chain === jump[0]?.chain && rule.target?.name === chain),
    );
    const inTheWay = rulesOf(this.#case, 'extra').filter(rule => rule.chain === chain);
    if (gone.length === 0 && inTheWay.length > 0) return {expected: jump, actual: inTheWay.slice(0, 3)};
    const turns = path.filter(({text}) => missing.has(text));
    if (gone.length === 0 && turns.length > 0) {
      const taken = [...actual.destinations.values()].flatMap(share => share.path.filter(({text}) => extra.has(text)));
      return {expected: turns, actual: [...new Set(taken)].slice(0, 3)};
    }
    const present = [...actual.destinations.values()].flatMap(share => share.path.filter(rule => rule.chain === jump[0]?.chain));
    return {expected: gone.length > 0 ? gone : jump, actual: present.slice(0, 3)};
  }
}

/** The rule that picks an endpoint. */
function isPick({target}: NodeRule): boolean {
  return parseChainName(target?.name ?? '')?.role === 'SEP';
}

/** The chain that picks the endpoint in the expected rules. */
function balancingChain({destinations}: PathOutcome): string | null {
  const picks = [...destinations.values()].map(({path}) => path.findLast(isPick));
  return picks.find(pick => pick !== undefined)?.chain ?? null;
}

function isNoLocalDrop(path: readonly NodeRule[]): boolean {
  const rule = path.at(-1);
  return (
    rule?.target?.name === 'DROP' &&
    ['KUBE-EXTERNAL-SERVICES', 'KUBE-SERVICES', 'KUBE-MARK-DROP'].includes(rule.chain) &&
    path.some(({text}) => text.includes('has no local endpoints')) &&
    !isFirewallMark(path)
  );
}

/** Marked for dropping by a KUBE-FW chain, as up to 1.24 what comes to its end is. */
function isFirewallMark(path: readonly NodeRule[]): boolean {
  return path.at(-1)?.chain === 'KUBE-MARK-DROP' && (path.at(-2)?.chain.startsWith('KUBE-FW-') ?? false);
}

function isRange({chain, options}: Rule): boolean {
  return chain.startsWith('KUBE-FW-') && options.some(({flag}) => flag === '-s');
}

function isRewrite({target}: NodeRule): boolean {
  return target?.name === 'DNAT' || target?.name === 'REDIRECT';
}

/** It sets the mark of packets to masquerade, or another one. */
function isMarking({target}: NodeRule): boolean {
  return target?.name === 'KUBE-MARK-MASQ' || target?.name === 'MARK';
}

/** It ends the path. If an endpoint's own chain does so, the endpoint is missing. */
function endsPath({chain, target}: NodeRule): boolean {
  return ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT'].includes(target?.name ?? '') && parseChainName(chain)?.role !== 'SEP';
}

/** A path enters a chain that picks endpoints and leaves it without a DNAT to one of them. */
function isLeft(path: readonly NodeRule[], chain: string): boolean {
  const picked = new Set(path.flatMap(rule => (rule.chain === chain && isPick(rule) ? [rule.target?.name ?? ''] : [])));
  const taken = path.some(rule => rule.target?.name === 'DNAT' && picked.has(rule.chain));
  const end = path.at(-1);
  // Up to 1.24 the chain itself marks what is to be dropped.
  const at = end?.chain === 'KUBE-MARK-DROP' ? path.at(-2)?.chain : end?.chain;
  const stopped = at === chain && ['DROP', 'REJECT'].includes(end?.target?.name ?? '');
  return !taken && !stopped && path.some(({target}) => target?.name === chain);
}
