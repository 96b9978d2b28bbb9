import {parseChainName} from '../../expect/iptables/names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Difference} from '../../model/difference.ts';
import {entryText} from '../../model/entry.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import {walkPacket} from '../../trace/walk-packet.ts';
import {entriesOf} from '../entries.ts';
import {entryOfRule, isEntryRule} from './entry-rule.ts';
import {environmentOf} from '../environment.ts';
import {Explained} from './explained.ts';
import {type Probe, probesFor} from '../probes.ts';
import {bothOf, isSameBut} from '../merge-symptoms.ts';
import {changesFates, otherClaimant} from './rule-effect.ts';
import type {ServiceView} from './service-view.ts';
import {sourceNames} from '../sources.ts';
import type {Symptom} from '../symptom.ts';
import {describeFate, near, sameEnds, sameFate, type Trial} from '../fate.ts';
import {balancingRole, fateOf} from './iptables-fate.ts';

export type PortDifference = Difference<PortOnNode>;

export interface PortCase {
  readonly item: PortOnNode;
  readonly differences: readonly PortDifference[];
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: ServiceView;
}

/**
 * What the differences of one Service port do to packets, each said once. Packets of every kind are walked through the
 * expected and the actual rules; a difference that changes no packet's fate comes out as harmless.
 */
export function judgePort(given: PortCase): readonly Symptom<Rule>[] {
  return new PortJudge(given).judge();
}

/** Walks a probe on both sides. */
export function tryProbe({expected, view}: Pick<PortCase, 'expected' | 'view'>, probe: Probe): Trial {
  const environment = environmentOf(expected.context.facts, {knownTo: probe.knownTo});
  return {
    probe,
    expected: fateOf(walkPacket(expected, probe.packet, environment)),
    actual: fateOf(walkPacket(view, probe.packet, environment)),
  };
}

interface Left {
  /** Nothing said so far explains that packets fare differently. */
  readonly loud: boolean;
  readonly changesFate: boolean;
}

class PortJudge {
  readonly #case: PortCase;
  readonly #item: PortOnNode;
  readonly #symptoms: Symptom<Rule>[] = [];
  readonly #said = new Set<string>();
  /** Entries of which something was said. */
  readonly #entries = new Set<string>();

  constructor(given: PortCase) {
    this.#case = given;
    this.#item = given.item;
  }

  judge(): readonly Symptom<Rule>[] {
    const trials = this.#trials();
    const off = trials.filter(({expected, actual}) => !sameFate(expected, actual));
    const hung = this.#unreachedEntries(off);
    const reached = off.filter(({probe}) => !hung.has(entryText(probe.entry)));
    for (const trial of reached) if (trial.probe.knownTo.size === 0) this.#judgeTrial(trial);
    // A client can only be led back to an endpoint that is there, by an entry that leads where it should.
    if (!this.#has(endpointKinds)) {
      for (const trial of reached) if (isLedBack(trial) && !this.#entries.has(entryText(trial.probe.entry))) this.#lostAffinity(trial);
    }
    this.#staleEntries();
    this.#judgeAffinity(off.length > 0);
    if (!this.#has(endpointKinds)) for (const trial of reached) this.#compareMemory(trial);
    this.#judgeHealthCheck();
    // Who is masqueraded follows from the policy; with the wrong policy it is no finding of its own.
    if (this.#has(policyKinds)) this.#drop('masquerade-mismatch');
    this.#leftDifferences(off.length > 0);
    return this.#symptoms;
  }

  #trials(): readonly Trial[] {
    const {expected} = this.#case;
    return probesFor({item: this.#item, context: expected.context, hairpins: this.#hairpins()}).map(probe => tryProbe(this.#case, probe));
  }

  /** Endpoints whose chains differ: only their own connections can have changed in a way that others' have not. */
  #hairpins(): PortOnNode['endpoints']['reachable'] {
    const changed = new Set(this.#case.differences.map(({chain}) => chain));
    const {reachable} = this.#item.endpoints;
    return reachable.filter(endpoint => changed.has(this.#item.endpointChain(endpoint))).slice(0, 64);
  }

  /** Entries that no packet enters any more; when they are all, it is the Service port that is missing. */
  #unreachedEntries(off: readonly Trial[]): ReadonlySet<string> {
    const fresh = off.filter(({probe}) => probe.knownTo.size === 0);
    const entered = new Set(fresh.filter(trial => !this.#isUnentered(trial)).map(({probe}) => entryText(probe.entry)));
    const whole = new Map<string, Trial>();
    for (const trial of fresh) {
      const name = entryText(trial.probe.entry);
      if (trial.expected.destinations.size > 0 && !entered.has(name) && !whole.has(name)) whole.set(name, trial);
    }
    if (whole.size === 0) return new Set();
    if (whole.size === this.#servedEntries().length && this.#holdsNoEntryRule()) {
      const rules = this.#missingRules();
      const expected = [...rules.filter(isShared), ...rules.filter(rule => !isShared(rule))].slice(0, 6);
      this.#say({
        kind: 'service-not-programmed',
        detail: 'the node knows nothing of it: no entry leads to an endpoint',
        expected,
        actual: [],
      });
    } else {
      for (const trial of whole.values()) if (!this.#takenOut(trial)) this.#missingEntry(trial);
    }
    return new Set(whole.keys());
  }

  #missingEntry({probe: {entry}, actual}: Trial): void {
    const expected = this.#missingRules().filter(rule => isEntryRule(rule, entry));
    const detail =
      expected.length > 0
        ? `its ${entryText(entry)} is not programmed, while other entries are`
        : `no packet to its ${entryText(entry)} enters its chains, though the rule that should take it is there`;
    const last = expected.length > 0 ? [] : (actual.outcomes[0]?.path.slice(-1) ?? []);
    this.#say({kind: 'missing-entry', entry, detail, expected, actual: last}, `entry ${entryText(entry)}`);
  }

  /** None of the Service port's own chains is entered: the packet passes as if there were no such Service, or meets a rule that stands behind it. */
  #isUnentered({actual}: Trial): boolean {
    return (
      actual.destinations.size === 0 &&
      actual.outcomes.every(outcome => this.#isPassedBy(outcome) && !outcome.path.some(rule => this.#isOwn(rule.target?.name ?? '')))
    );
  }

  /** The packet passes without an endpoint, or meets a rule of the filter table that kube-proxy wrote behind the Service's own. */
  #isPassedBy({verdict, path, destination}: Trial['actual']['outcomes'][number]): boolean {
    const last = path.at(-1);
    if (verdict === 'accept') return destination === null;
    return verdict === 'drop' && last?.table === 'filter' && !this.#differing('extra').some(({rule}) => rule.text === last.text);
  }

  /** Not one rule leads into the Service port's chains. */
  #holdsNoEntryRule(): boolean {
    const {expected} = this.#case;
    const missing = new Set(this.#missingRules().map(({text}) => text));
    return expected
      .rulesOf(this.#item)
      .shared.every(({table, chain, text}) => table !== 'nat' || text.endsWith(' KUBE-MARK-MASQ') || missing.has(`-A ${chain} ${text}`));
  }

  #missingRules(): readonly Rule[] {
    return this.#differing('missing').map(({rule}) => rule);
  }

  #isOwn(chain: string): boolean {
    return parseChainName(chain)?.hash === this.#item.port.hash;
  }

  /** Names of the entries that lead somewhere when all is well. */
  #servedEntries(): readonly string[] {
    const {expected} = this.#case;
    const trials = probesFor({item: this.#item, context: expected.context, hairpins: []});
    const served = trials.filter(
      ({packet}) => fateOf(walkPacket(expected, packet, environmentOf(expected.context.facts))).destinations.size > 0,
    );
    return [...new Set(served.map(({entry}) => entryText(entry)))];
  }

  #judgeTrial(trial: Trial): void {
    const {expected, actual} = trial;
    if (actual.undecided > 0 && expected.undecided === 0) return this.#undecided(trial);
    if (this.#brokenJump(trial)) return;
    if (expected.destinations.size === 0) return this.#shouldBeRefused(trial);
    if (this.#isUnentered(trial)) return this.#entries.has(entryText(trial.probe.entry)) ? undefined : this.#missingEntry(trial);
    if (this.#takenOut(trial) || this.#leadsNowhere(trial)) return;
    if (this.#isExhausted(trial)) return;
    if (this.#otherPolicy(trial)) return;
    if (actual.destinations.size === 0 && (actual.rejected > 0 || actual.dropped > 0)) return this.#refused(trial);
    this.#compareEndpoints(trial);
  }

  #undecided({actual, probe}: Trial): void {
    const outcome = actual.outcomes.find(({verdict}) => verdict === 'undecided');
    // That the dump ends too early is said of the node, as ST506.
    if (this.#case.actual.cut !== null && outcome?.reason?.includes('the dump was cut')) return;
    const detail = `what becomes of packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)} cannot be told: ${outcome?.reason ?? 'unknown'}`;
    this.#say({kind: 'undecided-path', entry: probe.entry, detail, expected: [], actual: outcome?.path.slice(-1) ?? []}, 'undecided');
  }

  #lostAffinity(trial: Trial): void {
    const {probe, expected, actual} = trial;
    if (sameEnds(expected, actual)) return this.#compareMasquerade(trial);
    const detail = `a client that came before is not led back to its endpoint through its ${entryText(probe.entry)}`;
    this.#say({kind: 'session-affinity-mismatch', detail, ...this.#evidence(({rule}) => isOfAffinity(rule))}, 'affinity');
  }

  /** Packets go where they should, by a chain that does not remember the client, or remembers it for somebody else. */
  #compareMemory({expected, actual, probe}: Trial): void {
    for (const [destination, {remembered}] of expected.destinations) {
      const found = actual.destinations.get(destination);
      if (found === undefined || found.remembered === remembered) continue;
      const state = found.remembered === null ? 'is not remembered' : `is remembered in the list ${found.remembered}, which is not its own`;
      const detail = `a client that comes through its ${entryText(probe.entry)} and is sent to ${destination} ${state}`;
      this.#say({kind: 'session-affinity-mismatch', detail, expected: [], actual: found.path.slice(-1)}, 'affinity');
    }
  }

  /** No endpoint should be reached: the Service has none, none here, or the source may not. */
  #shouldBeRefused(trial: Trial): void {
    const {expected, actual, probe} = trial;
    const decisive = expected.outcomes[0]?.path.at(-1);
    const where = `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)}`;
    const evidence = {expected: decisive === undefined ? [] : [decisive], actual: actual.outcomes[0]?.path.slice(0, 3) ?? []};
    if (this.#isSourceRangeDrop(expected.outcomes[0]?.path ?? [])) {
      const detail = `${where} must be dropped, and end in ${describeFate(actual)}: loadBalancerSourceRanges are not enforced`;
      return this.#say({kind: 'source-ranges-mismatch', entry: probe.entry, detail, ...evidence}, `ranges ${entryText(probe.entry)}`);
    }
    if (expected.dropped > 0) {
      const detail = `${where} must be dropped, since the policy is Local and no endpoint is on this node; they end in ${describeFate(actual)}`;
      return this.#say({kind: 'traffic-policy-mismatch', entry: probe.entry, detail, ...evidence}, `policy ${entryText(probe.entry)}`);
    }
    if (expected.rejected > 0) {
      if (actual.destinations.size > 0) return this.#compareEndpoints(trial);
      const detail = `it has no endpoints, so ${where} must be refused; they end in ${describeFate(actual)}: connections hang or leak out of the node`;
      return this.#say({kind: 'missing-reject', entry: probe.entry, detail, ...evidence}, `reject ${entryText(probe.entry)}`);
    }
    if (actual.destinations.size > 0) this.#compareEndpoints(trial);
  }

  /** A rule on the way jumps to a chain that is missing or empty although it should lead on. */
  #brokenJump({actual, probe}: Trial): boolean {
    const way = actual.outcomes.filter(({verdict}) => verdict !== 'undecided').flatMap(({path}) => path);
    const entered = new Set(way.flatMap(({target}) => (this.#isOwn(target?.name ?? '') ? [target?.name ?? ''] : [])));
    // A packet comes back from an empty chain as it was, and its way does not tell that it was there.
    const picks = [...entered].flatMap(chain => this.#case.actual.chain('nat', chain)?.rules().filter(isPick) ?? []);
    const broken = new Map<string, Rule>();
    for (const jump of [...way, ...picks]) if (this.#isEmpty(jump.target?.name ?? '')) broken.set(jump.target?.name ?? '', jump);
    for (const [target, jump] of broken) {
      const endpoint = this.#item.endpoints.reachable.find(item => this.#item.endpointChain(item) === target);
      const detail = `a rule jumps to ${target}, which ${this.#case.actual.chain('nat', target) === undefined ? 'does not exist' : 'is empty'}`;
      const evidence = {expected: this.#case.expected.chain('nat', target)?.rules().slice(0, 3) ?? [], actual: [jump]};
      this.#say(
        {kind: 'broken-jump', ...(endpoint === undefined ? {entry: probe.entry} : {endpoint: endpoint.hostPort}), detail, ...evidence},
        `jump ${target}`,
      );
    }
    return broken.size > 0;
  }

  /** A rule that is not kube-proxy's, in a chain of its own, takes all packets before they come to an endpoint's chain. */
  #takenOut({actual, probe}: Trial): boolean {
    const extra = new Set(this.#differing('extra').map(({rule}) => rule.text));
    const takers = actual.outcomes.map(outcome => {
      const rule = outcome.path.find(found => found.table === 'nat' && endsWay(found) && extra.has(found.text));
      const passed = outcome.destination !== null || this.#isPassedBy(outcome);
      return passed && (outcome.destination === null || (rule !== undefined && isRewrite(rule))) ? rule : undefined;
    });
    const [rule] = takers;
    if (rule === undefined || takers.includes(undefined)) return false;
    const where = `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)}`;
    const detail = `a rule in nat/${rule.chain} that kube-proxy would not have written takes ${where}: they end in ${describeFate(actual)}`;
    this.#say({kind: 'unexpected-rule', severity: 'error', entry: probe.entry, detail, expected: [], actual: [rule]}, `taken ${rule.line}`);
    return true;
  }

  /** A chain behind the entry is entered and left again: the rule that leads on to the endpoints is gone. */
  #leadsNowhere({expected, actual, probe}: Trial): boolean {
    if (actual.destinations.size > 0 || !actual.outcomes.every(outcome => this.#isPassedBy(outcome))) return false;
    const balancing = balancingChain(expected);
    const jumps = (actual.outcomes[0]?.path ?? []).filter(({target}) => this.#isOwn(target?.name ?? ''));
    const jump = jumps.at(-1);
    const chain = jump?.target?.name ?? '';
    if (jump === undefined || parseChainName(chain)?.role !== 'EXT' || jumps.some(({target}) => target?.name === balancing)) return false;
    const expectedRules = this.#missingRules().filter(rule => rule.chain === chain);
    if (this.#item.port.externalPolicyLocal && balancingRole(expected) === 'SVC') {
      const detail = `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)} lack the short cut to all endpoints, and come back from ${chain} without one`;
      this.#say(
        {kind: 'traffic-policy-mismatch', entry: probe.entry, detail, expected: expectedRules, actual: [jump]},
        `policy ${entryText(probe.entry)}`,
      );
      return true;
    }
    const detail = `packets to its ${entryText(probe.entry)} are sent to ${chain}, and come back from there without an endpoint`;
    this.#say(
      {kind: 'missing-entry', entry: probe.entry, detail, expected: expectedRules, actual: [jump]},
      `entry ${entryText(probe.entry)}`,
    );
    return true;
  }

  /** The chain that picks the endpoint is entered and lets packets out again: what they meet behind it is its doing. */
  #isExhausted(trial: Trial): boolean {
    const {expected, actual} = trial;
    const chain = balancingChain(expected);
    if (chain === null || !actual.outcomes.some(({path}) => isLeft(path, chain)) || this.#sentElsewhere(trial).size > 0) return false;
    const picked = new Set(actual.outcomes.flatMap(({path, destination}) => (isLeft(path, chain) ? [] : [destination])));
    const missing = [...expected.destinations.keys()].filter(destination => !picked.has(destination));
    if (missing.length === 0) return false;
    for (const endpoint of missing) this.#missingEndpoint(endpoint, trial);
    return true;
  }

  #isEmpty(chain: string): boolean {
    if (parseChainName(chain) === null) return false;
    const found = this.#case.actual.chain('nat', chain);
    return (
      (found === undefined || (found.ruleCount === 0 && found.complete)) && (this.#case.expected.chain('nat', chain)?.ruleCount ?? 0) > 0
    );
  }

  /** The endpoints are picked by the other policy's chain, or the filter drops what the other policy would drop. */
  #otherPolicy({expected, actual, probe}: Trial): boolean {
    const should = balancingRole(expected);
    const does = balancingRole(actual);
    const dropped = actual.dropped > 0 && actual.outcomes.some(({verdict, path}) => verdict === 'drop' && isNoLocalDrop(path));
    if ((should === does || does === null || should === null) && !dropped) return false;
    const policy = should === 'SVC' ? 'Cluster' : 'Local';
    const detail = dropped
      ? `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)} are dropped for want of a local endpoint, and should go to ${describeFate(expected)}`
      : `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)} are spread as for ${policy === 'Cluster' ? 'Local' : 'Cluster'} policy, and should be as for ${policy}`;
    this.#say(
      {
        kind: 'traffic-policy-mismatch',
        entry: probe.entry,
        detail,
        expected: this.#turns(expected, 'missing'),
        actual: this.#turns(actual, 'extra'),
      },
      `policy ${entryText(probe.entry)}`,
    );
    return true;
  }

  /** The rules by which a packet's way parts from the other one; the whole way between entry and endpoint when none stands out. */
  #turns({outcomes}: Trial['actual'], kind: 'missing' | 'extra'): readonly Rule[] {
    const differing = new Set(this.#differing(kind).map(({rule}) => rule.text));
    const way = outcomes.flatMap(({path}) => path);
    const turns = way.filter(({text}) => differing.has(text));
    const rules = turns.length > 0 ? turns : way.filter(rule => /^KUBE-(?:EXT|XLB|SERVICES|NODEPORTS|EXTERNAL)/.test(rule.chain));
    return [...new Map(rules.map(rule => [rule.text, rule])).values()].slice(0, 4);
  }

  /** Endpoints should be reached, and the packet is refused. */
  #refused({expected, actual, probe}: Trial): void {
    const outcome = actual.outcomes.find(({verdict}) => verdict === 'reject' || verdict === 'drop');
    const rule = outcome?.path.at(-1);
    const evidence = {expected: [...expected.destinations.values()][0]?.path.slice(0, 3) ?? [], actual: rule === undefined ? [] : [rule]};
    const where = `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)}`;
    if (this.#isSourceRangeDrop(outcome?.path ?? [])) {
      return this.#say(
        {
          kind: 'source-ranges-mismatch',
          entry: probe.entry,
          detail: `${where} are dropped though ${this.#item.port.sourceRanges.length > 0 ? 'loadBalancerSourceRanges let them in' : 'there are no loadBalancerSourceRanges'}`,
          ...evidence,
        },
        `ranges ${entryText(probe.entry)}`,
      );
    }
    this.#say(
      {
        kind: 'unexpected-reject',
        severity: 'error',
        entry: probe.entry,
        detail: `${where} end in ${describeFate(actual)}, and should reach ${describeFate(expected)}`,
        ...evidence,
      },
      `refused ${entryText(probe.entry)}`,
    );
  }

  /** Dropped because the source is in no range: by KUBE-PROXY-FIREWALL, or before 1.25 by the mark that KUBE-FW sets. */
  #isSourceRangeDrop(path: readonly Rule[]): boolean {
    if (path.at(-1)?.chain === 'KUBE-PROXY-FIREWALL') return true;
    const ranges = this.#item.port.sourceRanges.length > 0 || this.#differing('extra').some(({rule}) => isRange(rule));
    return ranges && isFirewallMark(path);
  }

  #compareEndpoints(trial: Trial): void {
    const {expected, actual, probe} = trial;
    const missing = [...expected.destinations.keys()].filter(destination => !actual.destinations.has(destination));
    const extra = [...actual.destinations.keys()].filter(destination => !expected.destinations.has(destination));
    const wrong = this.#sentElsewhere(trial);
    for (const [endpoint, {rule, destination}] of wrong) this.#wrongAddress(endpoint, rule, destination);
    const elsewhere = new Set([...wrong.values()].map(({destination}) => destination));
    for (const endpoint of missing) if (!wrong.has(endpoint)) this.#missingEndpoint(endpoint, trial);
    for (const endpoint of extra) if (!elsewhere.has(endpoint)) this.#staleEndpoint(endpoint, trial);
    if (missing.length > 0 || extra.length > 0 || wrong.size > 0) return;
    if (actual.rejected > 0 || actual.dropped > 0 || actual.passed > 0) return this.#refused(trial);
    if (probe.endpoint === undefined) this.#compareShares(trial);
    this.#compareMasquerade(trial);
  }

  /** Endpoints whose own chains send packets to another address, by their own. */
  #sentElsewhere({actual}: Trial): ReadonlyMap<string, {readonly rule: Rule; readonly destination: string}> {
    const found = new Map<string, {readonly rule: Rule; readonly destination: string}>();
    for (const {path, destination} of actual.outcomes) {
      const rule = path.findLast(({target}) => target?.name === 'DNAT');
      const owner = this.#item.endpoints.reachable.find(endpoint => this.#item.endpointChain(endpoint) === rule?.chain);
      if (rule !== undefined && owner !== undefined && destination !== null && owner.hostPort !== destination)
        found.set(owner.hostPort, {rule, destination});
    }
    return found;
  }

  #wrongAddress(endpoint: string, rule: Rule, destination: string): void {
    const detail = `the chain of endpoint ${endpoint} sends traffic to ${destination}`;
    const expected =
      this.#case.expected
        .chain('nat', rule.chain)
        ?.rules()
        .filter(({target}) => target?.name === 'DNAT') ?? [];
    this.#say({kind: 'wrong-endpoint-address', endpoint, detail, expected, actual: [rule]}, `wrong ${endpoint}`);
  }

  #missingEndpoint(hostPort: string, {expected, actual, probe}: Trial): void {
    const endpoint = this.#item.all.find(item => item.hostPort === hostPort);
    const path = expected.destinations.get(hostPort)?.path ?? [];
    const chain = path.findLast(rule => parseChainName(rule.chain)?.role === 'SEP')?.chain;
    const jump = path.filter(rule => rule.target?.name === chain);
    const gone = this.#missingRules().filter(
      rule => rule.chain === chain || (rule.chain === jump[0]?.chain && rule.target?.name === chain),
    );
    const present = [...actual.destinations.values()]
      .flatMap(share => share.path.filter(rule => rule.chain === jump[0]?.chain))
      .slice(0, 3);
    const pod =
      endpoint?.pod === null || endpoint === undefined
        ? ''
        : ` (pod ${endpoint.pod}${endpoint.nodeName === null ? '' : ` on ${endpoint.nodeName}`})`;
    const part = probe.entry.kind === 'clusterIP' ? '' : ` through its ${entryText(probe.entry)}`;
    this.#say(
      {
        kind: 'missing-endpoint',
        endpoint: hostPort,
        detail: `endpoint ${hostPort}${pod} gets no traffic${part}`,
        expected: gone.length > 0 ? gone : jump,
        actual: present,
      },
      `missing ${hostPort}`,
    );
  }

  #staleEndpoint(hostPort: string, {actual, probe}: Trial): void {
    const share = actual.destinations.get(hostPort);
    const known = this.#item.all.find(item => item.hostPort === hostPort);
    const state =
      known === undefined
        ? 'is no endpoint of the Service (any more)'
        : known.ready
          ? 'should get none on this node'
          : `is an endpoint that is not to be used (${known.terminating ? 'terminating' : 'not ready'})`;
    const percent = share === undefined ? '' : `${percentText(share.probability)} of `;
    const part = probe.entry.kind === 'clusterIP' ? '' : ` through its ${entryText(probe.entry)}`;
    const rules = share?.path.filter(rule => parseChainName(rule.chain) !== null).slice(-2) ?? [];
    this.#say(
      {
        kind: 'stale-endpoint',
        endpoint: hostPort,
        detail: `${percent}the traffic${part} goes to ${hostPort}, which ${state}`,
        expected: [],
        actual: rules,
      },
      `stale ${hostPort}`,
    );
  }

  #compareShares({expected, actual, probe}: Trial): void {
    const off = [...expected.destinations].filter(
      ([destination, share]) => !near(share.probability, actual.destinations.get(destination)?.probability ?? 0),
    );
    if (off.length === 0) return;
    const shares = [...actual.destinations].map(([destination, {probability}]) => `${destination} ${percentText(probability)}`);
    const fair = [...expected.destinations.values()][0]?.probability ?? 0;
    const part = probe.entry.kind === 'clusterIP' ? '' : ` through its ${entryText(probe.entry)}`;
    const detail = `traffic${part} is not shared equally: ${shares.slice(0, 6).join(', ')}${shares.length > 6 ? ', …' : ''}; each should get ${percentText(fair)}`;
    this.#say({kind: 'uneven-balance', detail, ...this.#evidence(({rule}) => isBalancing(rule))}, 'uneven');
  }

  #compareMasquerade({expected, actual, probe}: Trial): void {
    for (const [destination, share] of expected.destinations) {
      const found = actual.destinations.get(destination);
      if (found === undefined || found.masquerade === share.masquerade) continue;
      const isHairpin = probe.endpoint?.hostPort === destination;
      const who = probe.endpoint === undefined ? sourceNames[probe.source.kind] : `endpoint ${probe.endpoint.hostPort}`;
      const detail = share.masquerade
        ? `packets from ${isHairpin ? `${who} to itself` : who} through its ${entryText(probe.entry)} are not masqueraded${isHairpin ? ': a pod that is given its own connection never sees an answer' : ', and should be'}`
        : `packets from ${who} through its ${entryText(probe.entry)} are masqueraded, and should keep their source address`;
      const mustReturn = share.masquerade && (isHairpin || (probe.entry.kind !== 'clusterIP' && !this.#item.port.externalPolicyLocal));
      const severity = mustReturn ? ('error' as const) : ('warning' as const);
      const endpoint = isHairpin ? {endpoint: destination} : {};
      const cause = (share.masquerade ? share : found).path.find(({target}) => target?.name === 'KUBE-MARK-MASQ');
      const evidence = this.#evidence(({rule}) => rule.target?.name === 'KUBE-MARK-MASQ' && rule.chain === cause?.chain);
      const key = `masquerade ${share.masquerade} ${isHairpin ? destination : (cause?.text ?? entryText(probe.entry))}`;
      this.#say({kind: 'masquerade-mismatch', severity, ...endpoint, entry: probe.entry, detail, ...evidence}, key);
      return;
    }
  }

  /** Rules of affinity that are missing, extra or have another timeout, where no missing or stale endpoint explains them. */
  #judgeAffinity(changesFate: boolean): void {
    const known = new Set(
      this.#symptoms.flatMap(({kind, endpoint}) => (endpointKinds.has(kind) && endpoint !== undefined ? [endpoint] : [])),
    );
    const chains = new Set(this.#item.endpoints.reachable.filter(({hostPort}) => known.has(hostPort)).map(this.#item.endpointChain));
    const differing = this.#case.differences.filter(
      ({rule, kind}) =>
        hasMatch(rule, 'recent') &&
        (kind === 'missing' || kind === 'extra') &&
        !chains.has(rule.target?.name ?? '') &&
        !chains.has(rule.chain),
    );
    const own = differing.filter(({rule}) => !this.#isForeignEndpoint(rule.target?.name ?? ''));
    // A rule that asks for the same clients in another way is harmless when no packet fares differently.
    const unexplained = own.filter(one => changesFate || !own.some(other => other.kind !== one.kind && asksAlike(one.rule, other.rule)));
    if (unexplained.length === 0 || this.#symptoms.some(({kind}) => kind === 'broken-jump' || kind === 'service-not-programmed')) return;
    const {affinitySeconds} = this.#item.port;
    const found = unexplained.find(({kind}) => kind === 'extra');
    const seconds = found?.rule.matches.flatMap(match => match.options).find(({flag}) => flag === '--seconds')?.values[0];
    const configured = affinitySeconds === null ? 'none is configured' : `ClientIP for ${affinitySeconds} s is configured`;
    const detail =
      found === undefined
        ? `session affinity is missing in ${unexplained.length === 1 ? 'a rule' : 'rules'}: ${configured}`
        : `session affinity${seconds === undefined ? '' : ` of ${seconds} s`} is programmed, and ${configured}`;
    this.#say({kind: 'session-affinity-mismatch', detail, ...this.#evidence(({rule}) => isOfAffinity(rule))}, 'affinity');
  }

  #isForeignEndpoint(chain: string): boolean {
    return (
      parseChainName(chain)?.role === 'SEP' &&
      !this.#item.endpoints.reachable.some(endpoint => this.#item.endpointChain(endpoint) === chain)
    );
  }

  /** Rules that lead into the Service port's chains from an address or a port that is none of its entries (any more). */
  #staleEntries(): void {
    const entries = entriesOf(this.#item.port, this.#case.expected.context);
    for (const {rule, table} of this.#differing('extra')) {
      const target = rule.target?.name ?? '';
      const shared = rule.chain === 'KUBE-SERVICES' || rule.chain === 'KUBE-NODEPORTS';
      if (table !== 'nat' || !shared || !this.#isOwn(target) || entries.some(entry => isEntryRule(rule, entry))) continue;
      const {expected, view} = this.#case;
      const where = entryOfRule(rule);
      const owner = otherClaimant(rule, this.#item, expected);
      const answers = owner === undefined && changesFates(rule, {expected, actual: view});
      const detail = answers
        ? `still answers at ${where}, which the API does not give it (any more)`
        : `a rule leads to it from ${where}, which ${owner === undefined ? 'the API does not give it (any more): no packet fares differently for it' : `is ${owner.port.servicePortName}'s`}`;
      this.#say(
        {kind: 'stale-service', severity: answers ? 'error' : 'info', detail, expected: [], actual: [rule]},
        `stale entry ${where}`,
      );
    }
  }

  #judgeHealthCheck(): void {
    const missing = this.#differing('missing').filter(({table, chain}) => table === 'filter' && chain === 'KUBE-NODEPORTS');
    if (missing.length === 0 || this.#has(new Set(['service-not-programmed']))) return;
    const detail = `the rule that accepts health checks on port ${this.#item.port.healthCheckNodePort} is missing: a load balancer may take the node for dead`;
    this.#say({kind: 'health-check-port-blocked', detail, expected: missing.map(({rule}) => rule), actual: []});
  }

  /** Differences that nothing said so far explains. When packets fare as they should, they are harmless. */
  #leftDifferences(changesFate: boolean): void {
    const explained = new Explained(this.#item, this.#symptoms);
    const left = this.#case.differences.filter(difference => !explained.covers(difference));
    const rejects = left.filter(
      ({kind, table, rule}) => kind === 'extra' && table === 'filter' && (rule.target?.name === 'REJECT' || rule.target?.name === 'DROP'),
    );
    for (const {rule} of rejects) this.#leftReject(rule, changesFate);
    const rest = left.filter(difference => !rejects.includes(difference));
    const loud = changesFate && this.#symptoms.every(({kind}) => kind === 'unexpected-reject' || kind === 'health-check-port-blocked');
    for (const kind of ['missing', 'extra', 'duplicate', 'reordered'] as const) {
      const group = rest.filter(difference => difference.kind === kind);
      if (group.length > 0) this.#leftGroup(kind, group, {loud, changesFate});
    }
  }

  #leftReject(rule: Rule, changesFate: boolean): void {
    const {port, endpoints} = this.#item;
    if (!entriesOf(port, this.#case.expected.context).some(entry => isEntryRule(rule, entry))) {
      const where = entryOfRule(rule);
      const detail = `still refuses packets to ${where}, which the API does not give it (any more)`;
      return this.#say({kind: 'stale-service', severity: 'info', detail, expected: [], actual: [rule]}, `stale entry ${where}`);
    }
    const reach = changesFate ? 'it may be reached' : 'no packet reaches it as long as the nat rules are in place';
    const detail = endpoints.hasAny
      ? `a rule refuses or drops its packets although it has endpoints; ${reach}`
      : 'a rule refuses or drops its packets in another way than kube-proxy does';
    const severity = changesFate ? ('error' as const) : ('info' as const);
    this.#say({kind: 'unexpected-reject', severity, detail, expected: [], actual: [rule]}, `left ${rule.line}`);
  }

  #leftGroup(kind: PortDifference['kind'], group: readonly PortDifference[], {loud, changesFate}: Left): void {
    const rules = group.map(({rule}) => rule);
    const places = [...new Set(group.map(({table, chain}) => `${table}/${chain}`))].slice(0, 3).join(', ');
    const harmless = changesFate
      ? 'what packets make of it is said in the other findings of this port'
      : 'no packet fares differently for it';
    const fate = loud ? 'packets fare differently for it' : harmless;
    const severity = loud ? ('error' as const) : ('info' as const);
    const count = group.length === 1 ? 'a rule' : `${group.length} rules`;
    if (kind === 'missing')
      this.#say({
        kind: 'missing-rule',
        severity,
        detail: `${count} of kube-proxy's missing in ${places}: ${fate}`,
        expected: rules.slice(0, 6),
        actual: [],
      });
    else if (kind === 'duplicate')
      this.#say({
        kind: 'duplicate-rule',
        severity,
        detail: `${count} twice in ${places}: ${fate}`,
        expected: [],
        actual: rules.slice(0, 6),
      });
    else
      this.#say(
        {
          kind: 'unexpected-rule',
          severity,
          detail: `${count} ${kind === 'reordered' ? 'in another order' : 'that kube-proxy would not have written'} in ${places}: ${fate}`,
          expected: [],
          actual: rules.slice(0, 6),
        },
        `unexpected ${kind}`,
      );
  }

  #differing(kind: PortDifference['kind']): readonly PortDifference[] {
    return this.#case.differences.filter(difference => difference.kind === kind);
  }

  #evidence(concerns: (difference: PortDifference) => boolean): {readonly expected: readonly Rule[]; readonly actual: readonly Rule[]} {
    const concerned = this.#case.differences.filter(concerns);
    return {
      expected: concerned
        .filter(({kind}) => kind === 'missing')
        .map(({rule}) => rule)
        .slice(0, 4),
      actual: concerned
        .filter(({kind}) => kind !== 'missing')
        .map(({rule}) => rule)
        .slice(0, 4),
    };
  }

  #has(kinds: ReadonlySet<string>): boolean {
    return this.#symptoms.some(({kind}) => kinds.has(kind));
  }

  #drop(kind: Symptom['kind']): void {
    for (let at = this.#symptoms.length - 1; at >= 0; at--) if (this.#symptoms[at]?.kind === kind) this.#symptoms.splice(at, 1);
  }

  /** Says a symptom once; `key` tells apart those of one kind. What is the same for several entries is said once for all of them. */
  #say(symptom: Omit<Symptom<Rule>, 'family' | 'port'>, key: string = symptom.kind): void {
    if (symptom.entry !== undefined) this.#entries.add(entryText(symptom.entry));
    if (this.#said.has(key)) return;
    this.#said.add(key);
    // What stands for the frame in a walk is not on the node.
    const actual = symptom.actual.filter(({line}) => line > 0);
    const whole: Symptom<Rule> = {...symptom, actual, family: this.#item.port.family, port: this.#item.port};
    const at = this.#symptoms.findIndex(other => isSameBut(other, whole));
    if (at < 0) this.#symptoms.push(whole);
    else this.#symptoms.splice(at, 1, bothOf(this.#symptoms[at] ?? whole, whole));
  }
}

const endpointKinds = new Set<string>(['missing-endpoint', 'stale-endpoint', 'wrong-endpoint-address', 'broken-jump']);

const policyKinds = new Set<string>(['traffic-policy-mismatch']);

function hasMatch(rule: Rule, name: string): boolean {
  return rule.matches.some(match => match.name === name);
}

/** The client of the trial is known to one endpoint, and that one it should reach. */
function isLedBack({probe, expected}: Trial): boolean {
  return probe.knownTo.size > 0 && expected.destinations.size === 1;
}

function asksAlike(a: Rule, b: Rule): boolean {
  const asked = ({matches}: Rule): string => JSON.stringify(matches.filter(({name}) => name === 'recent'));
  return a.chain === b.chain && asked(a) === asked(b);
}

/** A rule that finds or remembers a client, or the DNAT that does not remember it. */
function isOfAffinity(rule: Rule): boolean {
  return hasMatch(rule, 'recent') || rule.target?.name === 'DNAT';
}

function isBalancing(rule: Rule): boolean {
  return parseChainName(rule.target?.name ?? '')?.role === 'SEP' && !hasMatch(rule, 'recent');
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

function isRewrite({target}: Rule): boolean {
  return target?.name === 'DNAT' || target?.name === 'REDIRECT';
}

/** It lets packets go; where an endpoint's own chain does so, it is the endpoint that is missing. */
function endsWay({chain, target}: Rule): boolean {
  return ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT'].includes(target?.name ?? '') && parseChainName(chain)?.role !== 'SEP';
}

function isRange({chain, options}: Rule): boolean {
  return chain.startsWith('KUBE-FW-') && options.some(({flag}) => flag === '-s');
}

/** The rule that picks an endpoint. */
function isPick({target}: Rule): boolean {
  return parseChainName(target?.name ?? '')?.role === 'SEP';
}

function isShared({chain}: Rule): boolean {
  return parseChainName(chain) === null;
}

/** A path enters a chain that picks endpoints, and none of the endpoints it picks there takes it. */
function isLeft(path: readonly Rule[], chain: string): boolean {
  const picked = new Set(path.flatMap(rule => (rule.chain === chain && isPick(rule) ? [rule.target?.name ?? ''] : [])));
  const taken = path.some(rule => rule.target?.name === 'DNAT' && picked.has(rule.chain));
  const stopped = path.at(-1)?.chain === chain && ['DROP', 'REJECT'].includes(path.at(-1)?.target?.name ?? '');
  return !taken && !stopped && path.some(({target}) => target?.name === chain);
}

/** The chain that picks the endpoint when all is well. */
function balancingChain(expected: Trial['expected']): string | null {
  for (const {path} of expected.destinations.values()) {
    const pick = path.findLast(rule => isPick(rule));
    if (pick !== undefined) return pick.chain;
  }
  return null;
}

function percentText(probability: number): string {
  return `${Math.round(probability * 1000) / 10}%`;
}
