import {
  directProbes,
  effectOfRules,
  isOfSome,
  maxPorts,
  type OutcomeChange,
  outcomeChanges,
  type RulesInQuestion,
} from '../outcomes/outcome-changes.ts';
import {baseRuleProbes} from '../outcomes/base-rule-packets.ts';
import {parseNftName} from '../../expect/nftables/nft-names.ts';
import {parseAddress} from '../../model/address.ts';
import {holds} from '../../model/intervals.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {whose} from '../outcomes/probes.ts';
import {type NftBaseRulesCase, type NftCase, type NftPortDifference, targetsOf, withChains, withSet} from './nft-case.ts';
import {describePathOutcome, tableWalkOf} from '../outcomes/environment.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
import {isServiceCIDRRule, networksIn, serviceRangeRule} from '../../expect/nftables/base-chains.ts';
import type {Severity, Variant} from '../../model/finding.ts';
import type {NftChain, NftRule} from '../../model/nft-ruleset.ts';
import {addressesIn, mergeAddresses} from '../../parse/nftables/address-list.ts';
import {unmasqueraded} from '../symptoms/node-symptoms.ts';

/** What the loss of a base rule means. */
export interface BaseChainLoss {
  readonly kind: SymptomKind;
  readonly severity: Severity;
  readonly what: string;
  readonly loss: string;
  readonly variant?: Variant;
  /** The sets and maps with elements of the Service ports that it concerns, if it does not concern all. */
  readonly holders?: readonly string[];
}

/** What it means that a base chain, its hook, or rules of it are missing. */
export function lossOfChain(name: string, missing: readonly NftPortDifference[], found: NftChain | undefined): BaseChainLoss {
  const targets = missing.map(({rule}) => /(?:vmap @|jump |@)([\w-]+)/.exec(rule.text)?.[1] ?? '').filter(text => text !== '');
  const hook = missing.some(({what}) => what === 'hook');
  const [target = ''] = targets;
  const set = missing.find(({what}) => what === 'set');
  const meaning = meaningOf(name, targets);
  if (set !== undefined) return {what: `${name} is not declared as "${set.rule.text}"`, ...meaning};
  const marks = missing.some(({rule}) => rule.text.includes('@cluster-ips') && rule.text.includes('mark set'));
  const state =
    marks && targets.length === 1
      ? 'the rule of services that marks traffic to cluster IPs is missing, or another one'
      : found === undefined
        ? `the chain ${name} is missing`
        : hook
          ? `the chain ${name} hangs at another place`
          : target === ''
            ? `a rule of ${name} is missing`
            : `${target} is not reached from ${name}`;
  return {what: state, ...meaning, ...(meaning === postrouting ? {loss: lossOfMasquerading(missing, found) ?? meaning.loss} : {})};
}

/** Null where rules that masquerade are left, perhaps for other packets. */
function lossOfMasquerading(missing: readonly NftPortDifference[], found: NftChain | undefined): string | null {
  const isHairpin = (text: string): boolean => text.includes('@hairpin-connections');
  const left = found?.rules().filter(({body}: NftRule) => /masquerade|jump masquerading/.test(body)) ?? [];
  if (left.length === 0) return unmasqueraded;
  if (left.every(({body}) => isHairpin(body))) return 'clients outside the cluster may get no reply';
  return missing.every(({rule}) => isHairpin(rule.text)) ? 'a pod that reaches itself through a Service gets no reply' : null;
}

type Meaning = Omit<BaseChainLoss, 'what'>;

function meaningOf(name: string, targets: readonly string[]): Meaning {
  const own = ofChain[name];
  if (own !== undefined) return own;
  if (name === 'services') return ofServices(targets);
  const known = targets.flatMap(target => ofTarget[target] ?? []);
  const first = known.find(({severity}) => severity === 'error') ?? known[0];
  if (first === undefined) return {kind: 'missing-rule', severity: 'error', loss: 'traffic is affected'};
  const variant = known.find(one => one.variant !== undefined)?.variant;
  const holders = known.some(one => one.holders === undefined) ? [] : [...new Set(known.flatMap(one => one.holders ?? []))];
  return {...first, variant, holders, loss: [...new Set(known.map(({loss}) => loss))].join('; ')};
}

function ofServices(targets: readonly string[]): Meaning {
  if (targets.includes('service-ips')) return {...noService, loss: 'no Service works at any of its addresses'};
  if (targets.includes('service-nodeports') || targets.includes('nodeport-ips')) {
    const loss = 'node ports do not answer where they should';
    return {kind: 'node-ports-unreachable', severity: 'error', holders: ['service-nodeports'], loss};
  }
  return {kind: 'postrouting-broken', severity: 'warning', loss: 'traffic to cluster IPs is not marked for masquerading'};
}

const notHooked = {kind: 'services-chain-not-hooked', severity: 'error'} as const;
const noService = {...notHooked, variant: 'no-service-works'} as const;

const postrouting: Meaning = {
  kind: 'postrouting-broken',
  severity: 'error',
  loss: 'packets are masqueraded where they should not be, or not where they should',
};

const noRefusal: Meaning = {
  ...notHooked,
  variant: 'no-refusal',
  loss: 'clients of Services without endpoints wait until they time out, where they should get "connection refused"',
};

const ofServiceIPs = ['no-endpoint-services'];
const ofNodePorts = ['no-endpoint-nodeports'];
const ofRanges = ['firewall-ips', 'firewall'];

const noLocalhostRefusal: Meaning = {kind: 'missing-rule', severity: 'info', loss: 'node ports on loopback addresses are not refused'};

const noPortCheck: Meaning = {
  kind: 'missing-rule',
  severity: 'warning',
  holders: [],
  loss: 'connections to ports that a cluster IP does not have hang instead of being refused',
};

const ofChain: Readonly<Record<string, Meaning>> = {
  'nat-prerouting': {...noService, loss: 'no Service works for pods and for traffic that enters the node'},
  'nat-output': {...notHooked, variant: 'no-service-works-for-node', loss: 'no Service works for the node itself'},
  'nat-postrouting': postrouting,
  masquerading: postrouting,
  'mark-for-masquerade': postrouting,
  'reject-chain': {
    kind: 'missing-reject',
    severity: 'error',
    holders: [...ofServiceIPs, ...ofNodePorts],
    loss: 'clients of Services without endpoints wait until they time out, where they should get "connection refused"',
  },
  'localhost-nodeport-reject-tcp': noLocalhostRefusal,
  'localhost-nodeport-reject-udp': noLocalhostRefusal,
  'localhost-nodeport-reject-sctp': noLocalhostRefusal,
  'cluster-ips-check': noPortCheck,
  forward: {kind: 'missing-rule', severity: 'info', loss: 'INVALID packets are not dropped'},
};

const ofTarget: Readonly<Record<string, Meaning>> = {
  'no-endpoint-services': {...noRefusal, holders: ofServiceIPs},
  'no-endpoint-nodeports': {...noRefusal, holders: ofNodePorts},
  'service-endpoints-check': {...noRefusal, holders: ofServiceIPs},
  'nodeport-endpoints-check': {...noRefusal, holders: ofNodePorts},
  'endpoints-check': {...noRefusal, holders: [...ofServiceIPs, ...ofNodePorts]},
  'nodeport-ips': {...noRefusal, holders: ofNodePorts},
  'localhost-nodeport-reject-ports': noLocalhostRefusal,
  'firewall-check': {...notHooked, holders: ofRanges, loss: 'loadBalancerSourceRanges are not enforced'},
  'firewall-ips': {...notHooked, holders: ofRanges, loss: 'loadBalancerSourceRanges are not enforced'},
  'cluster-ips-check': {...noPortCheck, kind: 'services-chain-not-hooked'},
};

/**
 * kube-proxy drops packets to addresses of the Service range that no Service has. The rule may be an hour older than the ServiceCIDR
 * objects that it follows from; but a range that holds endpoints takes their packets.
 */
export function analyzeClusterIPsCheck(baseRulesCase: NftBaseRulesCase): readonly Symptom[] {
  const chain = baseRulesCase.actual.chain('cluster-ips-check');
  const rules = (chain?.rules() ?? []).filter(({body}) => isServiceCIDRRule(body));
  const harmful = rules.filter(({body}) => holdsEndpoint(baseRulesCase, networksIn(body)));
  if (harmful.length > 0) return harmful.flatMap(rule => dropsEndpoints(baseRulesCase, rule));
  return chain?.complete === true ? outdatedRange(baseRulesCase, rules) : [];
}

function holdsEndpoint({expected: {context, ports}}: NftBaseRulesCase, ranges: readonly string[]): boolean {
  const networks = addressesIn(ranges, context.family);
  const inside = (address: string): boolean => {
    const parsed = parseAddress(address);
    return parsed?.family === context.family && holds(networks, parsed.value);
  };
  return ports.some(({endpoints, port}) =>
    [...endpoints.reachable.map(({address}) => address), ...port.externalIPs, ...port.loadBalancerVIPs].some(inside),
  );
}

/** Of a rule that kube-proxy wrote for the ServiceCIDRs there are, the range is at fault and not the rule. */
function dropsEndpoints(baseRulesCase: NftBaseRulesCase, rule: NftRule): readonly Symptom[] {
  const symptoms = analyzeUnexpectedNftRules(baseRulesCase, [{kind: 'extra', what: 'rule', rule, owner: null}]);
  const ranges = networksIn(rule.body);
  if (baseRulesCase.serviceRanges === null || !isSameRange(ranges, baseRulesCase.serviceRanges)) return symptoms;
  return symptoms
    .filter(({severity}) => severity !== 'info')
    .map(symptom => ({
      ...symptom,
      kind: 'unexpected-reject',
      detail: `kube-proxy drops packets to unallocated addresses of the Service range ${ranges.join(', ')}, and endpoints have addresses in it`,
      remedy: 'Move the endpoints out of the Service range, or delete the ServiceCIDR that holds them.',
    }));
}

/** No packet to a Service is affected: packets to addresses that no Service has are dropped or leave the node. */
function outdatedRange({serviceRanges, expected, actual}: NftBaseRulesCase, rules: readonly NftRule[]): readonly Symptom[] {
  if (serviceRanges === null) return [];
  const found = rules.flatMap(({body}) => networksIn(body));
  if (isSameRange(found, serviceRanges)) return [];
  const {family} = expected.context;
  const wanted = serviceRanges.length === 0 ? [] : [serviceRangeRule(family, serviceRanges)];
  const state =
    found.length === 0
      ? 'cluster-ips-check does not drop packets to unallocated addresses'
      : `cluster-ips-check drops packets to unallocated addresses of ${found.join(', ')}`;
  return [
    {
      kind: 'missing-rule',
      severity: 'info',
      family,
      port: null,
      detail: `${state}; the Service range is ${serviceRanges.join(', ') || 'empty'}. kube-proxy writes the rule with its next full sync, within an hour: no Service is affected`,
      expected: wanted.map(text => ({table: actual.id, chain: 'cluster-ips-check', line: 0, text})),
      actual: rules,
    },
  ];
}

function isSameRange(a: readonly string[], b: readonly string[]): boolean {
  return mergeAddresses(a)?.join() === mergeAddresses(b)?.join();
}

/**
 * The addresses on which node ports answer. kube-proxy updates them only in a full sync: a node's other addresses may change in between.
 */
export function analyzeNodePortIPs({differences, expected}: NftBaseRulesCase): readonly Symptom[] {
  const {facts, family, nodePortCIDRs} = expected.context;
  const own = differences.filter(({rule, what}) => rule.chain === 'nodeport-ips' && what === 'element');
  if (nodePortCIDRs === null || own.length === 0) return [];
  const symptoms: Symptom[] = [];
  const say = (
    severity: Severity,
    detail: string,
    evidence: {readonly expected: readonly RuleText[]; readonly actual: readonly RuleText[]},
  ): void => {
    const affects = severity === 'error' ? expected.ports.flatMap(({port}) => (port.nodePort > 0 ? [port] : [])) : [];
    const about = affects.length === 0 ? {} : {affects};
    symptoms.push({kind: 'node-ports-unreachable', severity, family, port: null, detail, ...evidence, ...about});
  };
  const missing = own.filter(({kind}) => kind === 'missing');
  if (missing.length > 0) {
    const rules = missing.map(({rule}) => rule);
    const names = missing.map(({key}) => key).join(', ');
    const isOwn = missing.some(({key = ''}) => facts.hostIPs.includes(key));
    const why = isOwn ? '' : ': they may have come after the last full sync of its kube-proxy';
    say(isOwn ? 'error' : 'info', `node ports do not answer on ${names}, which is not in nodeport-ips${why}`, {
      expected: rules,
      actual: [],
    });
  }
  // An address that the node no longer has is harmless.
  const extra = own.filter(({kind, key = ''}) => kind === 'extra' && facts.addresses.includes(key));
  const detail = 'node ports answer on addresses that nodePortAddresses does not name';
  if (extra.length > 0) say(facts.allAddresses ? 'warning' : 'info', detail, {expected: [], actual: extra.map(({rule}) => rule)});
  return symptoms;
}

/** Rules of base chains, as rules whose effect on packets is asked for. */
export function inQuestion(nftCase: NftCase, rules: readonly RuleText[]): RulesInQuestion {
  const {
    expected: {context, ports},
    senders,
  } = nftCase;
  return {context, ports, texts: textsOf(rules, nftCase), senders};
}

/** The rules, and those of unexpected chains that they lead to. */
function textsOf(rules: readonly RuleText[], {expected, actual}: NftCase): readonly string[] {
  const own = new Set(expected.baseRules.map(({name}) => name));
  const texts: string[] = [];
  const visit = (rule: RuleText): void => {
    texts.push(rule.text);
    for (const name of targetsOf(rule)) {
      if (own.has(name) || parseNftName(name) !== null) continue;
      own.add(name);
      actual.chain(name)?.rules().forEach(visit);
    }
  };
  rules.forEach(visit);
  return texts;
}

/** A rule that concerns more Service ports than this is about the node. */
const maxNamed = 3;

/** Unexpected rules in base chains: their severity is their effect on packets, which are walked with and without them. */
export function analyzeUnexpectedNftRules(nftCase: NftCase, differences: readonly NftPortDifference[]): readonly Symptom[] {
  const {expected, actual, view} = nftCase;
  const rules = differences.map(({rule}) => rule);
  const [first] = differences;
  if (first === undefined) return [];
  const duplicate = differences.every(({kind}) => kind === 'duplicate');
  const found = actual.chain(first.rule.chain);
  const table = first.what !== 'element' && found !== undefined ? withChains(view, new Map([[first.rule.chain, found]])) : view;
  const other = first.what === 'element' ? withSet(view, first.rule.chain, expected.set(first.rule.chain)) : view;
  const given = inQuestion(nftCase, rules);
  const probes = [...baseRuleProbes(given, maxPorts), ...directProbes(given)];
  const walks = {expected: tableWalkOf(other), actual: tableWalkOf(table)};
  const changes = outcomeChanges(probes, expected.context, walks);
  const {severity, text} = effectOfRules(given, changes, walks);
  const base = {family: expected.context.family, expected: [], actual: rules.slice(0, 6)};
  const lost = Map.groupBy(
    changes.flatMap(change => (change.lost ? change : [])),
    ({item}) => item,
  );
  if (lost.size > 0 && lost.size <= maxNamed) return [...lost.values()].map(own => ofPort(own, first.rule.chain, base));
  const count = rules.length === 1 ? describe(first) : `${rules.length} rules in ${first.rule.chain}`;
  const what = duplicate
    ? `${count} ${rules.length === 1 ? 'is there twice' : 'are duplicates'}`
    : `${count} ${rules.length === 1 ? 'was' : 'were'} not written by kube-proxy`;
  const kind = duplicate && changes.length === 0 ? 'duplicate-rule' : 'unexpected-rule';
  return [{...base, kind, severity, port: null, detail: `${what}: ${text}`}];
}

function describe({what, rule: {chain: name}}: NftPortDifference): string {
  return what === 'rule' ? `a rule in ${name}` : what === 'element' ? `an element of ${name}` : `what ${name} is declared as`;
}

function ofPort(
  changes: readonly OutcomeChange[],
  name: string,
  base: {readonly family: Symptom['family']; readonly expected: readonly RuleText[]; readonly actual: readonly RuleText[]},
): Symptom {
  const worst = changes.find(change => !isOfSome(change)) ?? changes[0];
  const port = worst?.item.port ?? null;
  if (worst === undefined) return {...base, kind: 'unexpected-rule', port, detail: `a rule in ${name}`};
  const {probe, pathOutcome, without} = worst;
  const {entry} = probe;
  if (pathOutcome.destinations.size === 0 && (pathOutcome.rejected > 0 || pathOutcome.dropped > 0) && without.destinations.size > 0) {
    const detail = `${whose(probe)} end in ${describePathOutcome(pathOutcome)}, and should reach ${describePathOutcome(without)}`;
    return {...base, kind: 'unexpected-reject', severity: isOfSome(worst) ? 'info' : 'error', port, entry, detail};
  }
  const detail = `a rule in ${name} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(pathOutcome)}`;
  const severity = isOfSome(worst) ? 'info' : pathOutcome.undecided > 0 ? 'warning' : 'error';
  return {...base, kind: 'unexpected-rule', severity, port, entry, detail};
}
