import {canaryChain, canaryTables} from '../../../expect/iptables/base-rules.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import {ensuresMarkDrop, hasCanary} from '../../../expect/iptables/iptables-versions.ts';
import {parseAddress} from '../../../model/address.ts';
import type {Severity} from '../../../model/finding.ts';
import type {Rule, Ruleset} from '../../../model/ruleset.ts';
import {hasExternalEntry} from '../../../model/service-port.ts';
import type {Branch} from '../../../trace/branch.ts';
import {walkChain} from '../../../trace/iptables/walk-chain.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {BaseRuleEffect} from './base-rule-effect.ts';
import type {PortDifference} from '../service-port/port-differences.ts';
import {residualGroups} from '../../symptoms/residual-differences.ts';
import type {Symptom} from '../../symptoms/symptom.ts';

export interface BaseRulesCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** Differences that belong to no Service port. */
  readonly differences: readonly PortDifference[];
}

/** What is wrong with the base rules: hooks, masquerade, forwarding, the node-port jump, canaries. */
export function analyzeBaseRules(given: BaseRulesCase): readonly Symptom[] {
  const symptoms: Symptom[] = [];
  const left = new Set(given.differences.filter(isOfBaseRules));
  const effect = new BaseRuleEffect(given.expected, given.actual);
  const say = (symptom: Omit<Symptom, 'family' | 'port'>, explained: readonly PortDifference[] = []): void => {
    symptoms.push({...symptom, family: given.expected.family, port: null});
    for (const difference of explained) left.delete(difference);
  };
  analyzeHooks(given, [...left], effect, say);
  analyzeMasquerade(given, [...left], effect, say);
  analyzeNodePortJump(given, [...left], effect, say);
  analyzeForward(given, [...left], effect, say);
  analyzeMarkDrop(given, say);
  analyzeFilterChains(given, [...left], effect, say);
  sayRest([...left], say);
  const canaries = hasCanary(given.expected.context.version) ? missingCanaries(given.actual) : [];
  if (canaries.length > 0)
    say({
      kind: 'canary-missing',
      detail: `${canaryChain} is gone from ${canaries.join(', ')}: something flushed the table, and kube-proxy has not noticed yet`,
      expected: [],
      actual: [],
    });
  return symptoms;
}

type Say = (symptom: Omit<Symptom, 'family' | 'port'>, explained?: readonly PortDifference[]) => void;

const baseRuleChainNames = new Set(['KUBE-POSTROUTING', 'KUBE-MARK-MASQ', 'KUBE-FORWARD', 'KUBE-FIREWALL']);
const baseChainNames = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** Extra rules of base chains are third-party rules, which are evaluated by walking packets through them. */
function isOfBaseRules({kind, chain, rule}: PortDifference): boolean {
  if (kind === 'extra' && baseChainNames.has(chain)) return false;
  if (isKubeletsOwn(rule)) return false;
  // The second of two equal rules has no effect. It is reported here if no Service port owns it.
  if (kind === 'duplicate') return true;
  return baseRuleChainNames.has(chain) || baseChainNames.has(chain) || rule.target?.name === 'KUBE-NODEPORTS';
}

/** Up to 1.26 the kubelet writes a rule into KUBE-FIREWALL and copies of kube-proxy's into KUBE-POSTROUTING and KUBE-MARK-MASQ. */
function isKubeletsOwn(rule: Rule): boolean {
  return rule.chain === 'KUBE-FIREWALL' && rule.line > 0 && rule.text.includes('--mark 0x8000/0x8000') && rule.target?.name === 'DROP';
}

function analyzeHooks({actual}: BaseRulesCase, differences: readonly PortDifference[], effect: BaseRuleEffect, say: Say): void {
  const hooks = differences.filter(
    ({kind, chain, rule}) => kind === 'missing' && baseChainNames.has(chain) && rule.target?.name !== 'KUBE-POSTROUTING',
  );
  for (const hook of hooks) {
    const {table, chain, rule} = hook;
    const target = rule.target?.name ?? '';
    const closest =
      actual
        .chain(table, chain)
        ?.rules()
        .filter(found => found.target?.name === target) ?? [];
    const state =
      closest.length === 0
        ? `${target} is not reached from ${table}/${chain}`
        : `the jump from ${table}/${chain} to ${target} has other conditions`;
    const severity = effect.ofMissing(rule) ? severityOfLoss(table, target) : closest.length === 0 ? 'warning' : 'info';
    say(
      {
        kind: 'services-chain-not-hooked',
        severity,
        detail: `${state}: ${severity === 'info' ? 'no traffic is affected' : lossOf(hook, actual)}`,
        expected: [rule],
        actual: closest.slice(0, 3),
      },
      [hook],
    );
  }
}

/** Without the rules that accept health checks or protect the loopback address, no packet of a Service is lost. */
function severityOfLoss(table: string, target: string): Severity {
  return table === 'filter' && (target === 'KUBE-NODEPORTS' || target === 'KUBE-FIREWALL') ? 'warning' : 'error';
}

function lossOf({table, chain, rule}: PortDifference, actual: Ruleset): string {
  const target = rule.target?.name ?? '';
  if (table === 'nat' && chain === 'PREROUTING') return 'no Service works for pods and for traffic that enters the node';
  if (table === 'nat') return 'no Service works for the node itself';
  if ((actual.chain(table, target)?.ruleCount ?? 0) === 0) return 'nothing is lost as long as it holds no rules';
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

/** KUBE-MARK-MASQ must set the mark, and KUBE-POSTROUTING must masquerade marked packets, and no others. */
function analyzeMasquerade(given: BaseRulesCase, differences: readonly PortDifference[], effect: BaseRuleEffect, say: Say): void {
  const {expected, actual} = given;
  const own = differences.filter(
    ({chain, rule}) => chain === 'KUBE-POSTROUTING' || chain === 'KUBE-MARK-MASQ' || rule.target?.name === 'KUBE-POSTROUTING',
  );
  if (own.length === 0) return;
  const broken: string[] = [];
  const hook = own.find(({kind, rule}) => kind === 'missing' && rule.target?.name === 'KUBE-POSTROUTING')?.rule;
  if (hook !== undefined && (effect.ofMissing(hook) || !jumpsTo(actual, hook)))
    broken.push('nothing jumps to KUBE-POSTROUTING from nat/POSTROUTING');
  // Any mark works if both chains use the same one.
  const set = passChain(given, 'nat', 'KUBE-MARK-MASQ', 0);
  const mark = set?.mark || Number(expected.context.mark);
  if (set?.mark === 0) broken.push(`KUBE-MARK-MASQ does not set the mark ${expected.context.mark}`);
  const honoured = passChain(given, 'nat', 'KUBE-POSTROUTING', mark);
  if (honoured !== null && !honoured.masquerade) broken.push('KUBE-POSTROUTING does not masquerade marked packets');
  const untouched = passChain(given, 'nat', 'KUBE-POSTROUTING', 0);
  if (untouched?.masquerade) broken.push('KUBE-POSTROUTING masquerades packets that are not marked');
  const cleared = !expected.context.clearsMark || honoured === null || !honoured.masquerade || (honoured.mark & mark) === 0;
  const evidence = {
    expected: own.filter(({kind}) => kind === 'missing').map(({rule}) => rule),
    actual: [...(actual.chain('nat', 'KUBE-POSTROUTING')?.rules() ?? []), ...(actual.chain('nat', 'KUBE-MARK-MASQ')?.rules() ?? [])].slice(
      0,
      6,
    ),
  };
  if (broken.length > 0) say({kind: 'postrouting-broken', detail: broken.join('; '), ...evidence}, own);
  else if (!cleared)
    say(
      {
        kind: 'postrouting-broken',
        severity: 'warning',
        detail: 'KUBE-POSTROUTING masquerades without clearing the mark: packets in tunnels are masqueraded twice',
        ...evidence,
      },
      own,
    );
}

function jumpsTo(actual: Ruleset, {table, chain, target}: Rule): boolean {
  return (
    actual
      .chain(table, chain)
      ?.rules()
      .some(rule => rule.target?.name === target?.name) ?? false
  );
}

interface Passed {
  readonly mark: number;
  readonly masquerade: boolean;
  readonly dropped: boolean;
}

/** The effect of a chain on a packet with this mark; null if it is undetermined. A missing chain has no effect. */
function passChain({actual, expected}: BaseRulesCase, table: string, name: string, mark: number): Passed | null {
  const chain = actual.chain(table, name);
  if (chain === undefined) return {mark, masquerade: false, dropped: false};
  const any = parseAddress(expected.family === 'IPv4' ? '198.18.77.7' : '2001:db8:ffff::77');
  if (any === null) return null;
  const packet = {
    family: expected.family,
    protocol: 'tcp',
    source: any,
    destination: any,
    port: 80,
    origin: 'arriving',
    inInterface: null,
    outInterface: null,
    mark,
    connectionMark: 0,
    rewritten: true,
    masquerade: false,
    untracked: false,
  } as const;
  const start: Branch = {packet, probability: 1, path: null, inferred: [], supposed: null};
  const results = walkChain({rules: actual, environment: environmentOf(expected.context.facts), budget: 10_000}, table, chain, start);
  const result = results.length === 1 ? results[0] : undefined;
  return result === undefined || result.verdict === 'undecided' ? null : {...result.packet, dropped: result.verdict === 'drop'};
}

function analyzeNodePortJump(
  {expected, actual}: BaseRulesCase,
  differences: readonly PortDifference[],
  effect: BaseRuleEffect,
  say: Say,
): void {
  const tail = differences.filter(
    ({table, chain, rule}) => table === 'nat' && chain === 'KUBE-SERVICES' && rule.target?.name === 'KUBE-NODEPORTS',
  );
  if (tail.length === 0) return;
  const missing = tail.filter(({kind}) => kind === 'missing').map(({rule}) => rule);
  const found = (actual.chain('nat', 'KUBE-SERVICES')?.rules() ?? []).filter(isTail);
  if (missing.length === 0) {
    const extra = tail.filter(({kind}) => kind === 'extra').map(({rule}) => rule);
    // The local addresses are only certain if the node's interfaces were read.
    const severity: Severity = expected.context.facts.allAddresses ? 'warning' : 'info';
    if (extra.length > 0)
      say(
        {
          kind: 'node-ports-unreachable',
          severity,
          detail: 'node ports answer on addresses that nodePortAddresses does not name',
          expected: [],
          actual: extra,
        },
        tail,
      );
    return;
  }
  const chain = actual.chain('nat', 'KUBE-SERVICES');
  const right = expected.chain('nat', 'KUBE-SERVICES')?.rules().filter(isTail) ?? [];
  const lost = chain === undefined || effect.ofRules(chain, [...chain.rules().filter(rule => !isTail(rule)), ...right]);
  const state =
    found.length === 0
      ? 'nothing jumps to KUBE-NODEPORTS from nat/KUBE-SERVICES: no node port answers'
      : lost
        ? 'the jump to KUBE-NODEPORTS is restricted to other addresses than it should be'
        : 'the jump to KUBE-NODEPORTS is written in another way: no traffic is affected';
  const severity: Severity = lost ? 'error' : found.length === 0 ? 'warning' : 'info';
  say({kind: 'node-ports-unreachable', severity, detail: state, expected: missing, actual: found}, tail);
}

function isTail({target}: Rule): boolean {
  return target?.name === 'KUBE-NODEPORTS';
}

/** Missing rules of KUBE-FORWARD and KUBE-FIREWALL: what their absence accepts or blocks. */
function analyzeForward({expected, actual}: BaseRulesCase, differences: readonly PortDifference[], effect: BaseRuleEffect, say: Say): void {
  for (const difference of differences.filter(
    ({kind, chain}) => kind === 'missing' && (chain === 'KUBE-FORWARD' || chain === 'KUBE-FIREWALL'),
  )) {
    const {rule} = difference;
    const accepts = rule.target?.name === 'ACCEPT';
    if (accepts && actual.chain('filter', 'FORWARD')?.policy !== 'DROP') continue;
    if (accepts) {
      say(
        {
          kind: 'forward-blocked',
          detail: 'FORWARD drops what no rule accepts, and the rule of KUBE-FORWARD that accepts Service traffic is missing',
          expected: [rule],
          actual: [],
        },
        [difference],
      );
    } else if (rule.chain === 'KUBE-FIREWALL') {
      if (!changesChain({expected, actual}, 'KUBE-FIREWALL', effect)) continue;
      say(
        {
          kind: 'missing-rule',
          severity: 'warning',
          detail:
            'packets to 127.0.0.0/8 from other hosts are not dropped: services on the loopback address can be reached by hosts on the same network',
          expected: [rule],
          actual: [],
        },
        [difference],
      );
    } else if (expected.context.invalidDrop && actual.chain('filter', 'KUBE-FORWARD') !== undefined) {
      say(
        {
          kind: 'missing-rule',
          severity: 'info',
          detail: 'INVALID packets are not dropped: connections may be reset under load, unless nf_conntrack_tcp_be_liberal is set',
          expected: [rule],
          actual: [],
        },
        [difference],
      );
    }
  }
}

/** Up to 1.24, kube-proxy only marks packets to drop; rules of the kubelet drop them. */
function analyzeMarkDrop(given: BaseRulesCase, say: Say): void {
  const {expected, actual} = given;
  if (!ensuresMarkDrop(expected.context.version) || !expected.ports.some(isMarkedForDropping)) return;
  if (actual.tables.get('nat')?.complete !== true || actual.tables.get('filter')?.complete !== true) return;
  const broken: string[] = [];
  const mark = passChain(given, 'nat', 'KUBE-MARK-DROP', 0)?.mark ?? 0;
  // If no kubelet writes its rules at all, the node is set up that way.
  if (mark === 0 && actual.chain('filter', 'KUBE-FIREWALL') === undefined) return;
  if (mark === 0) broken.push('KUBE-MARK-DROP sets no mark');
  else if (passChain(given, 'filter', 'KUBE-FIREWALL', mark)?.dropped === false) broken.push('KUBE-FIREWALL does not drop what is marked');
  for (const chain of ['INPUT', 'OUTPUT'])
    if (!leadsTo(actual, chain, 'KUBE-FIREWALL')) broken.push(`filter/${chain} does not lead to KUBE-FIREWALL`);
  if (broken.length === 0) return;
  const rules = ['nat/KUBE-MARK-DROP', 'filter/KUBE-FIREWALL'].flatMap(place => {
    const [table = '', chain = ''] = place.split('/');
    return actual.chain(table, chain)?.rules() ?? [];
  });
  const detail = `${broken.join('; ')}: packets that loadBalancerSourceRanges or a Local traffic policy keep out are not dropped (the kubelet up to 1.26 writes these rules)`;
  say({kind: 'missing-rule', severity: 'warning', detail, expected: [], actual: rules.slice(0, 6)});
}

function isMarkedForDropping({port, endpoints}: PortOnNode): boolean {
  const ranges = port.sourceRanges.length > 0 && port.loadBalancerVIPs.length > 0;
  return endpoints.hasAny && (ranges || (port.externalPolicyLocal && hasExternalEntry(port) && endpoints.local.length === 0));
}

function leadsTo(actual: Ruleset, chain: string, target: string): boolean {
  return (
    actual
      .chain('filter', chain)
      ?.rules()
      .some(rule => rule.target?.name === target) ?? false
  );
}

/** Whether the differences of a chain of table filter change the outcome of packets. */
function changesChain({expected, actual}: Pick<BaseRulesCase, 'expected' | 'actual'>, name: string, effect: BaseRuleEffect): boolean {
  const chain = actual.chain('filter', name);
  const right = expected.chain('filter', name)?.rules() ?? [];
  return chain === undefined || effect.ofRules(chain, [...right, ...chain.rules().filter(isKubeletsOwn)]);
}

/** Other differences of KUBE-FORWARD and KUBE-FIREWALL, if they change the outcome of packets. */
function analyzeFilterChains(
  {expected, actual}: BaseRulesCase,
  differences: readonly PortDifference[],
  effect: BaseRuleEffect,
  say: Say,
): void {
  for (const name of ['KUBE-FORWARD', 'KUBE-FIREWALL']) {
    const own = differences.filter(({table, chain}) => table === 'filter' && chain === name);
    if (own.length === 0 || actual.chain('filter', name) === undefined || !changesChain({expected, actual}, name, effect)) continue;
    const rules = (wanted: boolean): readonly Rule[] => own.filter(({kind}) => (kind === 'missing') === wanted).map(({rule}) => rule);
    const kind = name === 'KUBE-FORWARD' ? ('forward-blocked' as const) : ('unexpected-rule' as const);
    const detail = `the rules of ${name} are not those that kube-proxy writes, and traffic is affected`;
    say({kind, severity: 'error', detail, expected: rules(true), actual: rules(false)}, own);
  }
}

function sayRest(left: readonly PortDifference[], say: Say): void {
  for (const {kind, symptom, evidence, differences} of residualGroups<Rule, PortDifference>(left)) {
    const [first] = differences;
    const what = differences.length === 1 ? `a rule of ${first?.table}/${first?.chain}` : `${differences.length} base rules`;
    const words = states[kind];
    say({kind: symptom, severity: 'info', detail: `${what} ${differences.length === 1 ? words : words.replace('is', 'are')}`, ...evidence});
  }
}

const states: Readonly<Record<PortDifference['kind'], string>> = {
  missing: 'is missing',
  extra: 'is not one that kube-proxy would have written',
  duplicate: 'is there twice',
  reordered: 'stands in another place',
};

/** Tables that are in the dump and lack the canary. A table that was not dumped is left out. */
function missingCanaries(actual: Ruleset): readonly string[] {
  return canaryTables.filter(name => {
    const table = actual.tables.get(name);
    return table?.complete === true && !table.chains.has(canaryChain);
  });
}
