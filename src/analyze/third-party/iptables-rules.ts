import {type Address, type Cidr, contains, parseCidr} from '../../model/address.ts';
import type {Chain, Match, Rule, Ruleset} from '../../model/ruleset.ts';

/** A third-party rule that ends or changes the path of packets, with the conditions of all rules that lead to it. */
export interface ThirdPartyRule {
  readonly rule: Rule;
  /** Before routing, when the packet is still addressed to the Service; after it, when it is addressed to an endpoint. */
  readonly stage: 'before' | 'after';
  readonly conditions: Conditions;
}

/** The conditions on destination and port along the path. Other conditions are assumed to hold for every packet. */
interface Conditions {
  readonly destinations: readonly Cidr[];
  readonly local: boolean | null;
  readonly protocol: string | null;
  readonly ports: readonly (readonly [number, number])[];
  /** Conditions on the destination of other kinds, as rules: see `otherConditions`. */
  readonly others: readonly Rule[];
}

/** Third-party rules on the path of Services' packets. Empty on a node where only kube-proxy and the kubelet write rules. */
export function thirdPartyRules(ruleset: Ruleset): readonly ThirdPartyRule[] {
  const found: ThirdPartyRule[] = [];
  const effort = {left: maxChecks};
  for (const [stage, hooks] of stages) {
    for (const [table, name] of hooks) {
      const chain = ruleset.chain(table, name);
      if (chain !== undefined && !holdsOnlyHooks(chain.text()))
        collect(ruleset, chain, {stage, conditions: anything, depth: 0, found, effort});
    }
  }
  return found;
}

/** Whether all rules of a base chain are jumps to chains of kube-proxy, as on most nodes: then they need not be parsed. */
function holdsOnlyHooks(text: string): boolean {
  return text === '' || text.split('\n').every(line => isHookedChain(plainJump.exec(line)?.[1] ?? ''));
}

/** A rule whose conditions have no quotes but those of one comment, and whose target has no options. */
const plainJump = /^-A (?:(?!-[jg] )[^\s"]+ )+(?:"[^"\\]*" )?-j (\S+)$/;

/** Whether packets that no rule lets through are dropped somewhere. */
export function dropsByDefault(ruleset: Ruleset): boolean {
  return ['INPUT', 'FORWARD', 'OUTPUT'].some(name => ruleset.chain('filter', name)?.policy === 'DROP');
}

const anything: Conditions = {destinations: [], local: null, protocol: null, ports: [], others: []};

const stages = [
  [
    'before',
    [
      ['raw', 'PREROUTING'],
      ['mangle', 'PREROUTING'],
      ['nat', 'PREROUTING'],
      ['raw', 'OUTPUT'],
      ['mangle', 'OUTPUT'],
      ['nat', 'OUTPUT'],
    ],
  ],
  [
    'after',
    [
      ['filter', 'OUTPUT'],
      ['security', 'OUTPUT'],
      ['mangle', 'INPUT'],
      ['filter', 'INPUT'],
      ['security', 'INPUT'],
      ['mangle', 'FORWARD'],
      ['filter', 'FORWARD'],
      ['security', 'FORWARD'],
      ['mangle', 'POSTROUTING'],
      ['nat', 'POSTROUTING'],
    ],
  ],
] as const;

interface Collecting {
  readonly stage: 'before' | 'after';
  readonly conditions: Conditions;
  readonly depth: number;
  readonly found: ThirdPartyRule[];
  /** Counts down over all chains: a chain is visited once for each path that leads to it. */
  readonly effort: {left: number};
}

const maxChecks = 500_000;

/** Above this number, rules are not told apart. */
const maxRules = 20_000;

function collect(ruleset: Ruleset, chain: Chain, at: Collecting): void {
  if (at.depth > 16 || at.found.length > maxRules) return;
  for (const rule of chain.rules()) {
    const name = rule.target?.name;
    if (name === undefined || isHookedChain(name)) continue;
    if (--at.effort.left < 0) return;
    const conditions = narrow(at.conditions, rule);
    const called = ruleset.chain(chain.table, name);
    if (called !== undefined && called.policy === null && !isKubeProxyChain(name))
      collect(ruleset, called, {...at, conditions, depth: at.depth + 1});
    else if (!harmless.has(name)) at.found.push({rule, stage: at.stage, conditions});
  }
}

const harmless = new Set(['LOG', 'NFLOG', 'ULOG', 'AUDIT', 'TRACE', 'TCPMSS', 'CHECKSUM', 'SET']);

/** Chains that kube-proxy and the kubelet themselves jump to from the base chains. */
export function isHookedChain(name: string): boolean {
  return hookedChains.has(name);
}

const hookedChains = new Set([
  'KUBE-SERVICES',
  'KUBE-NODEPORTS',
  'KUBE-EXTERNAL-SERVICES',
  'KUBE-PROXY-FIREWALL',
  'KUBE-FORWARD',
  'KUBE-FIREWALL',
  'KUBE-POSTROUTING',
]);

/** Chains that kube-proxy and the kubelet write in iptables mode. */
export function isKubeProxyChain(name: string): boolean {
  return /^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|FORWARD|FIREWALL|POSTROUTING|MARK-MASQ|MARK-DROP|PROXY-CANARY|KUBELET-CANARY|IPTABLES-HINT|(?:SVC|SVL|SEP|EXT|FW|XLB)-.+)$/.test(
    name,
  );
}

function narrow(before: Conditions, rule: Rule): Conditions {
  let {destinations, local, protocol, ports} = before;
  const other = otherConditions(rule);
  for (const {flag, negated, values} of rule.options) {
    const cidr = flag === '-d' && !negated ? parseCidr(values[0] ?? '') : null;
    if (cidr !== null) destinations = [...destinations, cidr];
    if (flag === '-p' && !negated) protocol = values[0] ?? protocol;
  }
  for (const {flag, negated, values} of rule.matches.flatMap(match => match.options)) {
    if (negated) continue;
    if (flag === '--dst-type') local = values[0] === 'LOCAL' ? true : local;
    if (flag === '--dport' || flag === '--dports') ports = [...ports, ...(values[0] ?? '').split(',').map(portRange)];
  }
  return {destinations, local, protocol, ports, others: other === null ? before.others : [...before.others, other]};
}

/** The conditions of a rule on destinations that are not indexed, as a rule; null if it has none. */
function otherConditions(rule: Rule): Rule | null {
  const options = rule.options.filter(({flag, negated}) => flag === '-d' && negated);
  const matches = rule.matches.filter(isOnDestination);
  return options.length + matches.length === 0 ? null : {...rule, options, matches};
}

function isOnDestination({name, options}: Match): boolean {
  if (name === 'set') return options.some(({values}) => values[1]?.includes('dst'));
  return options.some(({flag, negated}) => flag === '--dst-range' || flag === '--ports' || (negated && flag.startsWith('--dport')));
}

function portRange(text: string): readonly [number, number] {
  const [low = '', high = low] = text.split(':');
  return [Number(low === '' ? 0 : low), Number(high === '' ? 65_535 : high)];
}

/** Whether the conditions leave room for a packet to this address and port. */
export function concerns(
  conditions: Conditions,
  target: {readonly address: Address; readonly local: boolean; readonly protocol: string; readonly port: number},
): boolean {
  if (conditions.local !== null && conditions.local !== target.local) return false;
  if (conditions.protocol !== null && conditions.protocol !== target.protocol && !['all', '0'].includes(conditions.protocol)) return false;
  if (!conditions.destinations.every(cidr => contains(cidr, target.address))) return false;
  return conditions.ports.length === 0 || conditions.ports.some(([low, high]) => low <= target.port && target.port <= high);
}

/** Rules of network policies: by design they treat clients differently. */
export function isPolicyChain(name: string): boolean {
  return /^(?:cali-|KUBE-NWPLCY-|KUBE-POD-FW-|KUBE-ROUTER-|ANTREA-|WEAVE-NPC|CILIUM_|OVN-KUBE-)/.test(name);
}
