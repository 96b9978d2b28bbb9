import {canaryChain, canaryTables} from '../../../expect/iptables/base-rules.ts';
import {type ExpectedRuleset, isBaseChain} from '../../../expect/iptables/expected-ruleset.ts';
import {ensuresMarkDrop, hasCanary} from '../../../expect/iptables/iptables-versions.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import {parseAddress} from '../../../model/address.ts';
import type {Severity, Variant} from '../../../model/finding.ts';
import type {Rule, Ruleset, Chain} from '../../../model/ruleset.ts';
import {hasExternalEntry, type ServicePort} from '../../../model/service-port.ts';
import {untouched} from '../../../trace/walked-packet.ts';
import {walkIptablesChain} from '../../../trace/iptables/walk-packet.ts';
import {environmentOf, near, type PathOutcome, walkOf} from '../../outcomes/environment.ts';
import {unmasqueraded, withEffect} from '../../symptoms/node-symptoms.ts';
import {residualGroups} from '../../symptoms/port-symptoms.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {missingHook, textsOf, withRules} from '../chain-texts.ts';
import {hasMatch, type PortDifference} from '../service-port/port-differences.ts';
import {baseRuleChanges} from '../../outcomes/base-rule-packets.ts';
import {isOfSome} from '../../outcomes/outcome-changes.ts';
import type {KnownSenders} from '../../outcomes/sources.ts';
import type {PortSymptom} from '../../symptoms/symptom-list.ts';

/** What is wrong with the base rules: hooks, masquerade, forwarding, the node-port jump, canaries. */
export function analyzeBaseRules(baseRulesCase: BaseRulesCase): readonly Symptom[] {
  let left = baseRulesCase.differences.filter(isOfBaseRules);
  const unexpected = left.flatMap(({kind, rule}) => (kind === 'extra' ? [rule] : []));
  const changesOutcomes = outcomesWithout({...baseRulesCase, unexpected: [...unexpected, ...baseRulesCase.unnamed]});
  const symptoms: BaseRuleSymptom['symptom'][] = [];
  for (const analyze of analyses) {
    for (const {symptom, explained} of analyze({...baseRulesCase, differences: left, changesOutcomes})) {
      const done = new Set(explained);
      symptoms.push(symptom);
      left = left.filter(difference => !done.has(difference));
    }
  }
  return [...symptoms, ...residualSymptoms(left), ...missingCanaries(baseRulesCase)].map(symptom => ({
    ...symptom,
    family: baseRulesCase.expected.family,
    port: null,
  }));
}

// No more is lost than these: others may be served.
const unmatched = 'packets that do not meet them reach no Service';

const alwaysMasqueraded = withEffect(
  'KUBE-POSTROUTING masquerades packets that are not marked',
  "endpoints see the address of the node, not the client's",
);

/** In this order: each is given the differences that those before it do not explain. */
const analyses = [analyzeHooks, analyzeMasquerade, analyzeNodePortJump, analyzeForward, analyzeMarkDrop, analyzeFilterChains];

const baseRuleChainNames = new Set(['KUBE-POSTROUTING', 'KUBE-MARK-MASQ', 'KUBE-FORWARD', 'KUBE-FIREWALL']);

/** Extra rules of base chains are third-party rules, which are evaluated by walking packets through them. */
function isOfBaseRules({kind, rule}: PortDifference): boolean {
  if (kind === 'extra' && isBaseChain(rule.chain)) return false;
  if (isKubeletsOwn(rule)) return false;
  // The second of two equal rules has no effect. It is reported here if no Service port owns it.
  if (kind === 'duplicate') return true;
  return baseRuleChainNames.has(rule.chain) || isBaseChain(rule.chain) || rule.target?.name === 'KUBE-NODEPORTS';
}

function residualSymptoms(left: readonly PortDifference[]): readonly BaseRuleSymptom['symptom'][] {
  return residualGroups<PortDifference>(left).map(({symptom, state, evidence, differences}) => {
    const [first] = differences;
    const detail =
      differences.length === 1
        ? `a rule of ${first?.rule.table}/${first?.rule.chain} ${state}`
        : `${differences.length} base rules ${state}`;
    return {kind: symptom, severity: 'info', detail, ...evidence};
  });
}

/** Tables that are in the dump and lack the canary. A table that was not dumped is left out. */
function missingCanaries({expected, actual}: BaseRulesCase): readonly BaseRuleSymptom['symptom'][] {
  if (!hasCanary(expected.context.version)) return [];
  const tables = canaryTables.filter(name => {
    const table = actual.tables.get(name);
    return table?.complete === true && !table.chains.has(canaryChain);
  });
  if (tables.length === 0) return [];
  const detail = `${canaryChain} is missing from ${tables.join(', ')}: something flushed the table, and kube-proxy has not noticed yet`;
  return [{kind: 'canary-missing', detail, expected: [], actual: []}];
}

/** Missing rules of KUBE-FORWARD and KUBE-FIREWALL: what their absence accepts or blocks. */
function analyzeForward(leftBaseRules: LeftBaseRules): readonly BaseRuleSymptom[] {
  return leftBaseRules.differences.flatMap(difference => {
    const {kind, rule} = difference;
    if (kind !== 'missing' || (rule.chain !== 'KUBE-FORWARD' && rule.chain !== 'KUBE-FIREWALL')) return [];
    const loss = filterLoss(leftBaseRules, rule);
    return loss === null ? [] : [{symptom: {...loss, expected: [rule], actual: []}, explained: [difference]}];
  });
}

function filterLoss(
  leftBaseRules: LeftBaseRules,
  rule: Rule,
): Pick<BaseRuleSymptom['symptom'], 'kind' | 'severity' | 'detail' | 'gist'> | null {
  const {expected, actual} = leftBaseRules;
  if (rule.target?.name === 'ACCEPT') {
    if (actual.chain('filter', 'FORWARD')?.policy !== 'DROP') return null;
    // The CNI may accept the same packets. Walks show this for new connections only: replies are accepted by the other rule.
    if (hasMatch(rule, 'mark') && !changesChain(leftBaseRules, 'KUBE-FORWARD')) return null;
    const detail = 'FORWARD drops what no rule accepts, and the rule of KUBE-FORWARD that accepts Service traffic is missing';
    return {kind: 'forward-blocked', detail};
  }
  if (rule.chain === 'KUBE-FIREWALL') {
    if (!changesChain(leftBaseRules, 'KUBE-FIREWALL')) return null;
    const effect = 'services on the loopback address can be reached by hosts on the same network';
    return {kind: 'missing-rule', severity: 'warning', ...withEffect('packets to 127.0.0.0/8 from other hosts are not dropped', effect)};
  }
  if (!expected.context.invalidDrop || actual.chain('filter', 'KUBE-FORWARD') === undefined) return null;
  const detail = 'INVALID packets are not dropped: connections may be reset under load, unless nf_conntrack_tcp_be_liberal is set';
  return {kind: 'missing-rule', severity: 'info', detail};
}

/** Other differences of KUBE-FORWARD and KUBE-FIREWALL, if they change the outcome of packets. */
function analyzeFilterChains(leftBaseRules: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {actual, differences} = leftBaseRules;
  return ['KUBE-FORWARD', 'KUBE-FIREWALL'].flatMap(name => {
    const own = differences.filter(({rule}) => rule.table === 'filter' && rule.chain === name);
    if (own.length === 0 || actual.chain('filter', name) === undefined || !changesChain(leftBaseRules, name)) return [];
    const kind = name === 'KUBE-FORWARD' ? ('forward-blocked' as const) : ('unexpected-rule' as const);
    const detail = `the rules of ${name} are not those that kube-proxy writes, and traffic is affected`;
    return [{symptom: {kind, severity: 'error', detail, expected: rulesOf(own, true), actual: rulesOf(own, false)}, explained: own}];
  });
}

function rulesOf(differences: readonly PortDifference[], missing: boolean): readonly Rule[] {
  return differences.filter(({kind}) => (kind === 'missing') === missing).map(({rule}) => rule);
}

/** Whether the differences of a chain of table filter change the outcome of packets. */
function changesChain({expected, actual, changesOutcomes}: LeftBaseRules, name: string): boolean {
  const chain = actual.chain('filter', name);
  const right = expected.chain('filter', name)?.rules() ?? [];
  return chain === undefined || changesOutcomes(chain, [...right, ...chain.rules().filter(isKubeletsOwn)]);
}

/** Jumps that are missing from base chains, but for the one to KUBE-POSTROUTING. */
function analyzeHooks({expected, actual, differences, changesOutcomes}: LeftBaseRules): readonly BaseRuleSymptom[] {
  const hooks = differences.filter(
    ({kind, rule}) => kind === 'missing' && isBaseChain(rule.chain) && rule.target?.name !== 'KUBE-POSTROUTING',
  );
  return hooks.map(hook => {
    const {state, closest} = missingHook(actual, hook.rule);
    const needed = isNeeded(hook.rule, actual, changesOutcomes);
    const severity = needed ? severityOfLoss(hook) : closest.length === 0 ? 'warning' : 'info';
    const isHarmless = severity === 'info' || (hook.rule.table === 'nat' && !needed);
    const isOther = hook.rule.table === 'nat' && closest.length > 0;
    const loss = isOther ? unmatched : hookLoss(hook.rule, actual);
    const variant = isHarmless || isOther ? undefined : variantOf(hook.rule, actual);
    // Another chain may lead there.
    const what =
      isHarmless && closest.length === 0 ? `${hook.rule.table}/${hook.rule.chain} has no jump to ${hook.rule.target?.name}` : state;
    const texts = withEffect(what, isHarmless ? 'no traffic is affected' : loss);
    const symptom = {kind: 'services-chain-not-hooked', severity, ...texts, expected: [hook.rule], actual: closest} as const;
    const affects = hook.rule.table === 'filter' && severity === 'error' ? portsBehind(hook.rule, expected) : [];
    return {symptom: {...symptom, variant, ...(affects.length === 0 ? {} : {affects})}, explained: [hook]};
  });
}

/** Without the rules that accept health checks or protect the loopback address, no packet of a Service is lost. */
function severityOfLoss({rule: {table, target}}: PortDifference): 'warning' | 'error' {
  return table === 'filter' && (target?.name === 'KUBE-NODEPORTS' || target?.name === 'KUBE-FIREWALL') ? 'warning' : 'error';
}

function variantOf({table, chain, target}: Rule, actual: Ruleset): Variant | undefined {
  if (table === 'nat') return chain === 'PREROUTING' ? 'no-service-works' : 'no-service-works-for-node';
  const isRefusing = target?.name === 'KUBE-SERVICES' || target?.name === 'KUBE-EXTERNAL-SERVICES';
  return isRefusing && (actual.chain(table, target.name)?.ruleCount ?? 0) > 0 ? 'no-refusal' : undefined;
}

/** The Service ports with rules in the chain behind a jump. */
function portsBehind({table, target}: Rule, expected: ExpectedRuleset): readonly ServicePort[] {
  const isThere = (rule: {readonly table: string; readonly chain: string}): boolean => rule.table === table && rule.chain === target?.name;
  return expected.ports.filter(item => expected.rulesOf(item).shared.some(isThere)).map(({port}) => port);
}

function hookLoss({table, chain, target: jump}: Rule, actual: Ruleset): string {
  const target = jump?.name ?? '';
  if (table === 'nat' && chain === 'PREROUTING') return 'no Service works for pods and for traffic that enters the node';
  if (table === 'nat') return 'no Service works for the node itself';
  if ((actual.chain(table, target)?.ruleCount ?? 0) === 0) return 'nothing is lost as long as it has no rules';
  const losses: Readonly<Record<string, string>> = {
    'KUBE-SERVICES': 'connections to Services without endpoints hang instead of being refused',
    'KUBE-EXTERNAL-SERVICES': 'external addresses and node ports of Services without endpoints are not refused or dropped',
    'KUBE-PROXY-FIREWALL': 'loadBalancerSourceRanges are not enforced',
    'KUBE-NODEPORTS': 'the health-check ports of load balancers are not accepted',
    'KUBE-FORWARD': 'masqueraded and established traffic is not accepted when FORWARD drops',
    'KUBE-FIREWALL': 'packets to 127.0.0.0/8 from other hosts are not dropped',
  };
  return losses[target] ?? 'its rules are never reached';
}

/** The jump from nat/KUBE-SERVICES to KUBE-NODEPORTS: missing, or for other addresses than it should be. */
function analyzeNodePortJump(leftBaseRules: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {expected, actual, differences, changesOutcomes} = leftBaseRules;
  const explained = differences.filter(({rule}) => rule.table === 'nat' && rule.chain === 'KUBE-SERVICES' && isNodePortJump(rule));
  if (explained.length === 0) return [];
  const missing = explained.filter(({kind}) => kind === 'missing').map(({rule}) => rule);
  if (missing.length === 0) return answersElsewhere(leftBaseRules, explained);
  const chain = actual.chain('nat', 'KUBE-SERVICES');
  const found = (chain?.rules() ?? []).filter(isNodePortJump);
  const right = expected.chain('nat', 'KUBE-SERVICES')?.rules().filter(isNodePortJump) ?? [];
  const repaired = [...(chain?.rules() ?? []).filter(rule => !isNodePortJump(rule)), ...right];
  const lost = chain === undefined || changesOutcomes(chain, repaired, losesEndpoint);
  const gained = !lost && changesOutcomes(chain, repaired);
  const detail =
    found.length === 0
      ? 'nothing jumps to KUBE-NODEPORTS from nat/KUBE-SERVICES: no node port answers'
      : lost
        ? 'the jump to KUBE-NODEPORTS is restricted to other packets than it should be: node ports do not answer where they should'
        : gained
          ? 'the jump to KUBE-NODEPORTS is not restricted to the expected addresses: node ports answer on addresses on which they should not'
          : 'the jump to KUBE-NODEPORTS is written in another way: no traffic is affected';
  const severity: Severity = lost ? 'error' : gained || found.length === 0 ? 'warning' : 'info';
  const affects = lost ? expected.ports.filter(({port}) => port.nodePort > 0).map(({port}) => port) : [];
  const about = affects.length === 0 ? {} : {affects};
  return [{symptom: {kind: 'node-ports-unreachable', severity, detail, expected: missing, actual: found, ...about}, explained}];
}

/** Packets to a node port reach an endpoint, or all of them do, only after the repair. */
function losesEndpoint(today: PathOutcome, repaired: PathOutcome): boolean {
  return [...repaired.destinations].some(([endpoint, {probability}]) => {
    const share = today.destinations.get(endpoint)?.probability ?? 0;
    return share < probability && !near(share, probability);
  });
}

function answersElsewhere({expected}: LeftBaseRules, explained: BaseRuleSymptom['explained']): readonly BaseRuleSymptom[] {
  const extra = explained.filter(({kind}) => kind === 'extra').map(({rule}) => rule);
  if (extra.length === 0) return [];
  // The local addresses are only certain if the node's interfaces were read.
  const severity: Severity = expected.context.facts.allAddresses ? 'warning' : 'info';
  const detail = 'node ports answer on addresses that nodePortAddresses does not name';
  return [{symptom: {kind: 'node-ports-unreachable', severity, detail, expected: [], actual: extra}, explained}];
}

function isNodePortJump({target}: Rule): boolean {
  return target?.name === 'KUBE-NODEPORTS';
}

/** KUBE-MARK-MASQ must set the mark, and KUBE-POSTROUTING must masquerade marked packets, and no others. */
function analyzeMasquerade(leftBaseRules: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {expected, actual, differences, changesOutcomes} = leftBaseRules;
  const own = differences.filter(
    ({rule}) => rule.chain === 'KUBE-POSTROUTING' || rule.chain === 'KUBE-MARK-MASQ' || rule.target?.name === 'KUBE-POSTROUTING',
  );
  if (own.length === 0) return [];
  const broken: string[] = [];
  const hook = own.find(({kind, rule}) => kind === 'missing' && rule.target?.name === 'KUBE-POSTROUTING')?.rule;
  if (hook !== undefined && (isNeeded(hook, actual, changesOutcomes) || !leadsTo(actual, hook.table, hook.chain, hook.target?.name)))
    broken.push('nothing jumps to KUBE-POSTROUTING from nat/POSTROUTING');
  // Any mark works if both chains use the same one.
  const set = passChain(leftBaseRules, 'nat', 'KUBE-MARK-MASQ', 0);
  const mark = set?.mark || Number(expected.context.mark);
  if (set?.mark === 0) broken.push(`KUBE-MARK-MASQ does not set the mark ${expected.context.mark}`);
  const honored = passChain(leftBaseRules, 'nat', 'KUBE-POSTROUTING', mark);
  if (honored !== null && !honored.masquerade) broken.push('KUBE-POSTROUTING does not masquerade marked packets');
  const faults = broken.length > 0 ? [withEffect(broken.join('; '), unmasqueraded)] : [];
  if (passChain(leftBaseRules, 'nat', 'KUBE-POSTROUTING', 0)?.masquerade) faults.push(alwaysMasqueraded);
  const rulesOf = (chain: string): readonly Rule[] => actual.chain('nat', chain)?.rules() ?? [];
  const evidence = {
    expected: own.filter(({kind}) => kind === 'missing').map(({rule}) => rule),
    // A chain that is not there has nothing that is wrong.
    actual:
      actual.chain('nat', 'KUBE-MARK-MASQ') === undefined ? [] : [...rulesOf('KUBE-POSTROUTING'), ...rulesOf('KUBE-MARK-MASQ')].slice(0, 6),
  };
  const base = {kind: 'postrouting-broken', ...evidence} as const;
  const [first] = faults;
  if (first !== undefined) return [{symptom: {...base, ...first, detail: faults.map(({detail}) => detail).join('; ')}, explained: own}];
  const added = ['KUBE-MARK-MASQ', 'KUBE-POSTROUTING'].filter(name => holdsHarmfulRules(leftBaseRules, name));
  if (added.length > 0) {
    const detail = `rules of ${added.join(' and ')} were not written by kube-proxy, and traffic is affected`;
    return [{symptom: {...base, detail}, explained: own}];
  }
  if (!expected.context.clearsMark || honored === null || !honored.masquerade || (honored.mark & mark) === 0) return [];
  const texts = withEffect('KUBE-POSTROUTING masquerades without clearing the mark', 'packets in tunnels are masqueraded twice');
  return [{symptom: {...base, severity: 'warning', ...texts}, explained: own}];
}

/** Whether a chain that lacks none of its rules has others, which change the outcomes of packets: those to some addresses, for instance. */
function holdsHarmfulRules({actual, differences, changesOutcomes}: LeftBaseRules, name: string): boolean {
  const own = differences.filter(({rule}) => rule.table === 'nat' && rule.chain === name);
  const chain = actual.chain('nat', name);
  if (own.length === 0 || chain === undefined || own.some(({kind}) => kind !== 'extra')) return false;
  const lines = new Set(own.map(({rule}) => rule.line));
  return changesOutcomes(
    chain,
    chain.rules().filter(({line}) => !lines.has(line)),
  );
}

/** Up to 1.24, kube-proxy only marks packets to drop; rules of the kubelet drop them. */
function analyzeMarkDrop(leftBaseRules: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {expected, actual} = leftBaseRules;
  if (!ensuresMarkDrop(expected.context.version) || !expected.ports.some(isMarkedForDropping)) return [];
  if (actual.tables.get('nat')?.complete !== true || actual.tables.get('filter')?.complete !== true) return [];
  const mark = passChain(leftBaseRules, 'nat', 'KUBE-MARK-DROP', 0)?.mark ?? 0;
  // If no kubelet writes its rules at all, the node is set up that way.
  if (mark === 0 && actual.chain('filter', 'KUBE-FIREWALL') === undefined) return [];
  const broken: string[] = [];
  if (mark === 0) broken.push('KUBE-MARK-DROP sets no mark');
  else if (passChain(leftBaseRules, 'filter', 'KUBE-FIREWALL', mark)?.dropped === false)
    broken.push('KUBE-FIREWALL does not drop what is marked');
  for (const chain of ['INPUT', 'OUTPUT'])
    if (!leadsTo(actual, 'filter', chain, 'KUBE-FIREWALL')) broken.push(`filter/${chain} does not lead to KUBE-FIREWALL`);
  if (broken.length === 0) return [];
  const chains = [actual.chain('nat', 'KUBE-MARK-DROP'), actual.chain('filter', 'KUBE-FIREWALL')];
  const rules = chains.flatMap(chain => chain?.rules() ?? []).slice(0, 6);
  const gist = 'packets that loadBalancerSourceRanges or a Local traffic policy keep out are not dropped';
  const detail = `${broken.join('; ')}: ${gist} (the kubelet up to 1.26 writes these rules)`;
  return [{symptom: {kind: 'missing-rule', severity: 'warning', detail, gist, expected: [], actual: rules}, explained: []}];
}

function isMarkedForDropping({port, endpoints}: PortOnNode): boolean {
  const ranges = port.sourceRanges.length > 0 && port.loadBalancerVIPs.length > 0;
  return endpoints.hasAny && (ranges || (port.externalPolicyLocal && hasExternalEntry(port) && endpoints.local.length === 0));
}

function leadsTo(actual: Ruleset, table: string, chain: string, target: string | undefined): boolean {
  const rules = actual.chain(table, chain)?.rules() ?? [];
  return rules.some(rule => rule.target?.name === target);
}

/** The effect of a chain on a packet with this mark; null if it is undetermined. A missing chain has no effect. */
function passChain({actual, expected}: Pick<BaseRulesCase, 'actual' | 'expected'>, table: string, name: string, mark: number) {
  const chain = actual.chain(table, name);
  if (chain === undefined) return {mark, masquerade: false, dropped: false};
  const any = parseAddress(expected.family === 'IPv4' ? '198.18.77.7' : '2001:db8:ffff::77');
  if (any === null) return null;
  const packet = {
    ...untouched,
    family: expected.family,
    protocol: 'tcp',
    source: any,
    destination: any,
    port: 80,
    origin: 'arriving',
    mark,
    rewritten: true,
  } as const;
  const walk = {rules: actual, environment: environmentOf(expected.context.facts), limits: {budget: 10_000}};
  const results = walkIptablesChain(walk, chain, packet);
  const result = results.length === 1 ? results[0] : undefined;
  return result === undefined || result.verdict === 'undecided' ? null : {...result.packet, dropped: result.verdict === 'drop'};
}

interface BaseRulesCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** Differences that belong to no Service port. */
  readonly differences: readonly PortDifference[];
  /** Rules in chains of Services that kube-proxy did not write, and that name no Service. */
  readonly unnamed: readonly Rule[];
  /** The Service ports whose own rules differ. */
  readonly differing: ReadonlySet<PortOnNode>;
  readonly senders: () => KnownSenders;
}

/** The differences that no base rule has explained so far. */
interface LeftBaseRules extends BaseRulesCase {
  readonly changesOutcomes: ChangesOutcomes;
}

/** A symptom of the node, and the differences that it explains. */
interface BaseRuleSymptom {
  readonly symptom: PortSymptom;
  readonly explained: readonly PortDifference[];
}

/** Up to 1.26 the kubelet writes a rule into KUBE-FIREWALL and copies of kube-proxy's into KUBE-POSTROUTING and KUBE-MARK-MASQ. */
function isKubeletsOwn(rule: Rule): boolean {
  return rule.chain === 'KUBE-FIREWALL' && rule.line > 0 && rule.text.includes('--mark 0x8000/0x8000') && rule.target?.name === 'DROP';
}

/** Whether packets have another outcome where a chain of the node holds these rules; or an outcome that differs in this way from what it is today. */
type ChangesOutcomes = (chain: Chain, rules: readonly Rule[], differs?: (today: PathOutcome, then: PathOutcome) => boolean) => boolean;

interface NodeRules extends Omit<BaseRulesCase, 'differences' | 'unnamed'> {
  /** Rules of its chains that kube-proxy did not write. */
  readonly unexpected: readonly Rule[];
}

/** Packets are walked through the actual rules, and through the same rules with another chain. What some clients outside lose is on purpose. */
function outcomesWithout({expected, actual, unexpected, differing, senders}: NodeRules): ChangesOutcomes {
  const {context, ports} = expected;
  const changes = baseRuleChanges({context, ports, differing, senders, texts: textsOf(unexpected, actual)}, walkOf(actual));
  return (chain, rules, differs = () => true) =>
    changes(walkOf(withRules(actual, chain, rules))).some(
      ({probe, before, after}) => (probe === undefined || !isOfSome({probe})) && differs(before, after),
    );
}

/** Whether packets have another outcome because a jump is missing from a base chain, or differs. */
function isNeeded(rule: Rule, actual: Ruleset, changesOutcomes: ChangesOutcomes): boolean {
  const chain = actual.chain(rule.table, rule.chain);
  if (chain === undefined) return true;
  const isAlike = ({target}: Rule): boolean => target?.name === rule.target?.name;
  const place = Math.max(0, chain.rules().findIndex(isAlike));
  const others = chain.rules().filter(other => !isAlike(other));
  return changesOutcomes(chain, others.toSpliced(place, 0, rule));
}
