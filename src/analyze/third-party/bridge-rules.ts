import type {Family} from '../../model/address.ts';
import {hostIP, type NodeFacts} from '../../model/node/node-facts.ts';
import type {NftExpression, NftRule, NftRuleset, NftStatement, NftTable} from '../../model/nft-ruleset.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {refusesPackets} from './node-rule.ts';

/** A table of bridges that drops frames of Services, or the ARP by which pods find each other; the rule is null for a policy. */
interface BridgeDoubt {
  readonly table: string;
  readonly rule: NftRule | null;
  readonly isOfArp: boolean;
  /** Where no pod is known to be on a bridge: that of the node's own address, or `a bridge` where links were not read. */
  readonly bridge: string | null;
}

/**
 * Rules of bridges are not walked: where pods or the node itself are on a bridge, or where that was not read, one that drops is in doubt. Those
 * that ebtables-legacy wrote are in no dump, and in KUBE-DEDUP an old kubelet drops copies of packets.
 */
export function bridgeDoubts(nft: NftRuleset | null, {network, primaryInterface}: NodeFacts): readonly BridgeDoubt[] {
  const isOnBridge = network.links?.some(({master, isPeerElsewhere}) => isPeerElsewhere && master !== null) === true;
  const isUplink = network.links?.some(({name, kind}) => name === primaryInterface && kind === 'bridge');
  if (!isOnBridge && isUplink === false) return [];
  const bridge = isOnBridge ? null : isUplink === true ? primaryInterface : 'a bridge';
  return [...(nft?.tables.values() ?? [])].flatMap((table): readonly BridgeDoubt[] => {
    if (table.family !== 'bridge' || table.dormant === true) return [];
    const [dropping] = droppingRules(table).toSorted((a, b) => Number(a.isOfArp) - Number(b.isOfArp));
    const isPolicy = table.baseChains.some(one => one.base?.policy === 'drop');
    if (dropping === undefined && !isPolicy) return [];
    return [{table: table.id, rule: dropping?.rule ?? null, isOfArp: dropping?.isOfArp === true && !isPolicy, bridge}];
  });
}

/** The same as symptoms of the node. */
export function bridgeSymptoms(nft: NftRuleset | null, facts: NodeFacts, family: Family): readonly Symptom[] {
  if (family === 'IPv6' && hostIP(facts, 'IPv4') !== null) return [];
  return bridgeDoubts(nft, facts).map(doubt => {
    const actual = doubt.rule === null ? [] : [doubt.rule];
    const severity = doubt.isOfArp || doubt.bridge !== null ? ({severity: 'info'} as const) : {};
    return {kind: 'undecided-path', family, port: null, detail: doubtText(doubt), expected: [], actual, ...severity};
  });
}

export function doubtText({table, rule, isOfArp, bridge}: BridgeDoubt): string {
  if (isOfArp) {
    const who = bridge === null ? 'pods on a bridge of this node find each other and the node' : `others find the node by ${bridge}`;
    return `a rule of table ${table} drops ARP on bridges, by which ${who}: those that it matches are reached by nobody`;
  }
  const what = `${rule === null ? 'a policy' : 'a rule'} of table ${table} drops frames on bridges, and rules of bridges are not evaluated`;
  const packets = bridge === null ? 'between pods on a bridge of this node, and of those that it sends to them,' : `that pass ${bridge}`;
  return `${what}: the outcome for packets ${packets} is undetermined where it matches`;
}

type Frames = 'any' | 'arp' | 'others';

/** The rules that drop, and that frames of Services or ARP reach from a base chain. */
function droppingRules(table: NftTable): readonly Pick<BridgeDoubt, 'rule' | 'isOfArp'>[] {
  const found = new Map<NftRule, boolean>();
  const seen = new Set<string>();
  const follow = (name: string, isOfArp: boolean): void => {
    const key = `${name} ${isOfArp}`;
    if (seen.has(key) || name === 'KUBE-DEDUP') return;
    seen.add(key);
    for (const rule of table.chains.get(name)?.rules() ?? []) {
      const frames = framesOf(rule);
      if (frames === 'others') continue;
      const isArp = isOfArp || frames === 'arp';
      if (refusesPackets(rule)) found.set(rule, isArp && found.get(rule) !== false);
      for (const chain of chainsIn(rule.statements())) follow(chain, isArp);
    }
  };
  for (const {name} of table.baseChains) follow(name, false);
  return [...found].map(([rule, isOfArp]) => ({rule, isOfArp}));
}

function chainsIn(statements: readonly NftStatement[]): readonly string[] {
  const texts = statements.flatMap(one => {
    if (one.kind === 'verdict') return [one.text];
    return one.kind === 'vmap' && one.map.kind === 'list' ? one.map.elements.map(({value}) => value ?? '') : [];
  });
  return texts.flatMap(text => /^(?:jump|goto) (\S+)/.exec(text)?.[1] ?? []);
}

/** Which frames a rule can match: DHCP, multicast and other protocols than those of Services are of no Service. */
function framesOf(rule: NftRule): Frames {
  const asked = rule.statements().flatMap(one => (one.kind === 'match' && one.operator === '==' ? [one] : []));
  const is = (selector: RegExp, value: RegExp): boolean =>
    asked.some(({left, right}) => left.kind === 'selector' && selector.test(left.text) && valuesOf(right).every(text => value.test(text)));
  if (is(/^(?:ether type|meta protocol)$/, /^(?:arp|0x0806)$/) || is(/^arp /, /./)) return 'arp';
  const isOther =
    is(/^(?:ether type|meta protocol)$/, /^(?!(?:ip6?|0x0800|0x86dd|vlan|8021q|8021ad)$)\S/) ||
    is(/^(?:udp|th) [sd]port$/, /^(?:67|68|546|547)(?:-(?:68|547))?$/) ||
    is(/^(?:meta l4proto|ip protocol)$/, /^(?:icmp|igmp|1|2)$/) ||
    is(/^icmp /, /./) ||
    is(/^meta pkttype$/, /^(?:broadcast|multicast)$/) ||
    is(/^ether daddr$/, /^(?:ff:ff:ff:ff:ff:ff|01:)/);
  return isOther ? 'others' : 'any';
}

function valuesOf(expression: NftExpression): readonly string[] {
  if (expression.kind === 'list') return expression.elements.map(({key}) => key);
  return [expression.kind === 'value' ? expression.text : ''];
}
