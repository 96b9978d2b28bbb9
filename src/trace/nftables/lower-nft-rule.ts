import {prefixesOf} from '../../parse/nftables/address-list.ts';
import {parseAddress} from '../../model/address.ts';
import type {LinkProperty} from '../../model/node/node-facts.ts';
import {once} from '../../model/once.ts';
import type {NftExpression, NftOperator, NftRule, NftStatement} from '../../model/nft-ruleset.ts';
import {
  type Action,
  always,
  type AssignedField,
  type Condition,
  type Elements,
  type Expression,
  type Field,
  type FieldName,
  fieldOf,
  isOneOf,
  never,
  queueOf,
  type LoweredRule,
  type Step,
} from '../rule-language.ts';

/** A rule of nftables in the language of the walker. What is not understood stays an unknown condition or action. */
export const lowerNftRule: (rule: NftRule) => LoweredRule = once(rule => ({
  source: rule,
  steps: stepsOf(rule.statements()),
  isOfEndpointItself: rule.chain.startsWith('endpoint-') && rule.body.endsWith(' jump mark-for-masquerade'),
}));

function stepsOf(statements: readonly NftStatement[]): readonly Step[] {
  // Counters and log statements do not matter.
  const own = statements.filter(({kind}) => kind !== 'passive');
  const steps: Step[] = [];
  let conditions: Condition[] = [];
  for (const [index, statement] of own.entries()) {
    const lowered = lowerStatement(statement, index === own.length - 1);
    conditions.push(...lowered.conditions);
    if (lowered.action === null) continue;
    steps.push({conditions, action: lowered.action});
    conditions = [];
  }
  return conditions.length === 0 ? steps : [...steps, {conditions, action: null}];
}

function lowerStatement(statement: NftStatement, isLast: boolean): Step {
  switch (statement.kind) {
    case 'passive':
      return {conditions: [], action: null};
    case 'match':
      return {conditions: [lowerMatch(statement)], action: null};
    case 'unknown':
      return lowerUnknown(statement.text, isLast);
    case 'assign':
      return assign(statement.target, lowerExpression(statement.value));
    case 'set':
      return {conditions: [], action: {kind: 'noted'}};
    case 'notrack':
      return {conditions: [], action: {kind: 'notrack'}};
    case 'reject':
      return {conditions: [], action: {kind: 'verdict', verdict: 'reject'}};
    case 'nat':
      return translate(statement);
    case 'verdict':
      return {conditions: [], action: verdictAction(statement.text)};
    case 'vmap':
      return {conditions: [], action: {kind: 'verdict map', key: lowerExpression(statement.key), elements: elementsOf(statement.map)}};
  }
}

/** The action of a verdict, such as `goto X`: of a statement, or of a value in a map. */
export function verdictAction(text: string): Action {
  const [word = '', chain = ''] = text.split(' ');
  if (word === 'jump' || word === 'goto') return {kind: 'call', chain, isGoto: word === 'goto'};
  if (text === 'accept' || text === 'drop' || text === 'return') return {kind: 'verdict', verdict: text};
  return text === 'continue' ? {kind: 'noted'} : {kind: 'unknown', reason: `${text} is not known`};
}

/** Conditions that are not modeled. */
const isCondition = /^(?:limit|quota|socket|osf|rt|meta|ct|ip6?|tcp option|sctp chunk|xt match) /;

/** An unknown statement counts as a condition if another statement follows it; at the end of a rule it may do anything. */
function lowerUnknown(text: string, isLast: boolean): Step {
  const known = ofOption(text) ?? ofQuota(text);
  if (known !== null) return {conditions: [known], action: null};
  // Where no program listens, the packet goes on with the next rule. Which do is not read.
  if (text.startsWith('queue')) return {conditions: [], action: queueOf(text)};
  if (text.startsWith('tproxy ')) return {conditions: [{kind: 'unknown', text}], action: {kind: 'capture', goesOn: true}};
  if (!isLast || isCondition.test(text)) return {conditions: [{kind: 'unknown', text}], action: null};
  return {conditions: [{kind: 'unknown', text}], action: {kind: 'unknown', reason: `${text} is not known`}};
}

/** `quota over 25 mbytes used 30 mbytes`; null for one that is not used up, which a packet may do. */
function ofQuota(text: string): Condition | null {
  const [, over, size = '', unit = '', used = '', usedUnit = ''] = /^quota (over )?(\d+) (\w)\w+ used (\d+) (\w)/.exec(text) ?? [];
  const bytes = (count: string, of: string): number => Number(count) * 1024 ** 'bkmg'.indexOf(of);
  if (used === '' || bytes(used, usedUnit) < bytes(size, unit)) return null;
  return over === undefined ? never : always;
}

/** Of options that no packet has, or of the segment size of TCP; null for others. Without the option, the condition fails whatever it asks. */
function ofOption(text: string): Condition | null {
  if (text.startsWith('ip option ')) return text.endsWith(' missing') ? always : never;
  const found = /^tcp option maxseg (?:(exists|missing)|size (?:([!=<>]+) )?(\d+(?:-\d+)?))$/.exec(text);
  if (found === null) return null;
  const [, presence, operator = '==', key = '0-65535'] = found;
  const size: Condition = {
    kind: 'compare',
    left: fieldOf('segment size'),
    operator: operator as NftOperator,
    right: {kind: 'list', elements: [{key, value: null}]},
  };
  return {kind: 'any', of: [size], not: presence === 'missing'};
}

function lowerMatch({left, operator, right}: NftStatement & {readonly kind: 'match'}): Condition {
  // Of addresses, nft writes only masks that are no prefix in this way.
  if (left.kind === 'binary' && left.operator === '&' && left.right.kind === 'value' && right.kind === 'value' && /^[!=]=/.test(operator)) {
    const keys = prefixesOf(`${right.text}/${left.right.text}`);
    if (keys.length > 1) return isOneOf(lowerExpression(left.left), keys, operator === '!=');
  }
  return {kind: 'compare', left: lowerExpression(left), operator, right: elementsOf(right)};
}

function lowerExpression(expression: NftExpression): Expression {
  switch (expression.kind) {
    case 'selector':
      return {kind: 'field', field: lowerSelector(expression.text)};
    case 'value':
      return {kind: 'constant', text: expression.text};
    case 'concat':
      return {kind: 'concat', parts: expression.parts.map(lowerExpression)};
    case 'binary':
      return {
        kind: 'binary',
        operator: expression.operator,
        left: isFragmentMask(expression) ? fieldOf('fragment offset', 'IPv4') : lowerExpression(expression.left),
        right: lowerExpression(expression.right),
      };
    case 'map':
      return {kind: 'map', key: lowerExpression(expression.key), elements: elementsOf(expression.map)};
    case 'reference':
    case 'list':
    case 'unknown':
      return {kind: 'unknown'};
  }
}

/** Without the bit that forbids fragments, the field is 0 in a packet that is none. */
function isFragmentMask({operator, left, right}: NftExpression & {readonly kind: 'binary'}): boolean {
  return (
    operator === '&' && left.kind === 'selector' && left.text === 'ip frag-off' && right.kind === 'value' && Number(right.text) <= 0x3f_ff
  );
}

/** What a set, a map or a constant of a rule has. */
function elementsOf(where: NftExpression): Elements {
  if (where.kind === 'reference') return {kind: 'set', name: where.set};
  if (where.kind === 'list') return {kind: 'list', elements: where.elements};
  const isConstant = where.kind === 'value' || (where.kind === 'concat' && where.parts.every(({kind}) => kind === 'value'));
  return isConstant ? {kind: 'list', elements: [{key: constantText(where), value: null}]} : {kind: 'unknown'};
}

function constantText(expression: NftExpression): string {
  if (expression.kind === 'concat') return expression.parts.map(constantText).join(' . ');
  return expression.kind === 'value' ? expression.text : '';
}

/** The field that a selector reads, such as `ip daddr` or `fib saddr type`. */
function lowerSelector(text: string): Field {
  const words = text.split(' ');
  const [first = '', second = '', , count = '', , offset = '0'] = words;
  if (first === 'numgen') return {name: 'random', first: Number(offset), count: Number(count)};
  if (first === 'jhash' || first === 'symhash') return lowerHash(text);
  if (first === 'fib') return lowerFib(words);
  if (first === 'rt' && words.at(-1) === 'nexthop')
    return {name: 'next hop', ...(second === 'nexthop' ? {} : {of: second === 'ip' ? 'IPv4' : 'IPv6'})};
  const [, way, about] = /^(?:meta )?([io]if)(group|kind|type)$/.exec(text) ?? [];
  if (way !== undefined) return {name: way === 'iif' ? 'iif' : 'oif', about: about as LinkProperty};
  if (text === 'meta random') return {name: 'random', first: 0, count: 2 ** 32};
  if (first === 'exthdr') return {name: 'extension header'};
  if (second === 'type' && (first === 'icmp' || first === 'icmpv6')) return {name: 'icmp type', of: first === 'icmp' ? 'IPv4' : 'IPv6'};
  if (headersWithoutFields.has(first)) return {name: 'none'};
  const of = Object.hasOwn(headers, first) ? headers[first] : undefined;
  const name = of === undefined ? names.get(text) : fieldsOfHeaders.get(`${first === 'ip6' ? 'ip' : first} ${second}`);
  return of === undefined || of === null ? {name: name ?? 'unknown'} : {name: name ?? 'unknown', of};
}

// The node takes the tag of a VLAN off before packets meet rules of the interface that they are for.
const headersWithoutFields: ReadonlySet<string> = new Set('icmp icmpv6 igmp arp vlan ah esp dccp udplite rt frag hbh dst mh'.split(' '));

/** The packets that have a header; null for all that are walked. */
const headers: Readonly<Record<string, NonNullable<Field['of']> | null>> = {
  ip: 'IPv4',
  ip6: 'IPv6',
  th: null,
  tcp: 'tcp',
  udp: 'udp',
  sctp: 'sctp',
};

const fieldsOfHeaders: ReadonlyMap<string, FieldName> = new Map([
  ['ip saddr', 'saddr'],
  ['ip daddr', 'daddr'],
  ['ip protocol', 'protocol'],
  ['ip nexthdr', 'protocol'],
  ['ip version', 'ip version'],
  ['ip hdrlength', 'header length'],
  ['ip length', 'length'],
  ['ip ttl', 'hops'],
  ['ip hoplimit', 'hops'],
  ['ip dscp', 'dscp'],
  ['tcp flags', 'tcp flags'],
  ...['th', 'tcp', 'udp', 'sctp'].flatMap((header): readonly (readonly [string, FieldName])[] => [
    [`${header} sport`, 'sport'],
    [`${header} dport`, 'dport'],
  ]),
]);

const names: ReadonlyMap<string, FieldName> = new Map([
  ['meta l4proto', 'protocol'],
  ['meta length', 'length'],
  ['meta mark', 'mark'],
  ['meta nfproto', 'nfproto'],
  ['meta protocol', 'ethertype'],
  ['ether type', 'ethertype'],
  ['meta pkttype', 'packet type'],
  ['meta time', 'time'],
  ['meta rtclassid', 'realm'],
  ...['meta ipsec', 'meta secpath', 'rt ipsec'].map((word): readonly [string, FieldName] => [word, 'ipsec']),
  ...['skuid', 'skgid', 'cgroup'].map((word): readonly [string, FieldName] => [`meta ${word}`, 'owner']),
  ...(['state', 'status', 'mark', 'direction', 'protocol', 'zone', 'helper', 'label'] as const).map(
    (word): readonly [string, FieldName] => [`ct ${word}`, `ct ${word}`],
  ),
  ['ct l3proto', 'ct family'],
  ['ct original proto-dst', 'ct original dport'],
  ['ct original proto-src', 'ct original sport'],
  ['ct reply proto-src', 'ct reply sport'],
  ['ct reply proto-dst', 'ct reply dport'],
  ...['', 'ip ', 'ip6 '].flatMap((header): readonly (readonly [string, FieldName])[] => [
    [`ct original ${header}saddr`, 'ct original saddr'],
    [`ct original ${header}daddr`, 'ct original daddr'],
    [`ct reply ${header}saddr`, 'ct reply saddr'],
    [`ct reply ${header}daddr`, 'ct reply daddr'],
  ]),
  ...['iif', 'iifname'].map((word): readonly [string, FieldName] => [word, 'iif']),
  ...['oif', 'oifname'].map((word): readonly [string, FieldName] => [word, 'oif']),
]);

/** `jhash ip saddr . tcp dport mod 2 seed 0x1 offset 3`. */
function lowerHash(text: string): Field {
  const [, count = '', offset = '0'] = / mod (\d+)(?:.* offset (\d+))?/.exec(text) ?? [];
  return {name: 'hash', first: Number(offset), count: Number(count)};
}

/** `fib saddr type`, `fib daddr . iif type`, `fib saddr . iif oif`. */
function lowerFib(words: readonly string[]): Field {
  const isSource = words[1] === 'saddr';
  const way = words.slice(0, -1).find(word => word === 'iif' || word === 'oif');
  // Marks are taken for those that routes do not depend on. An interface to leave by is not looked up.
  if (words.at(-1) !== 'type') {
    if (way !== undefined) return {name: isSource && way === 'iif' ? 'reverse path' : 'unknown'};
    return {name: isSource ? 'saddr oif' : 'daddr oif'};
  }
  return {name: isSource ? 'saddr type' : 'daddr type', ofInterface: way};
}

const assigned: Readonly<Record<string, AssignedField>> = {
  'meta mark': 'mark',
  'ct mark': 'ct mark',
  'ct label': 'ct label',
  'ip ttl': 'hops',
  'ip6 hoplimit': 'hops',
  'ct zone': 'zone',
  'ct original zone': 'zone-orig',
  'ct reply zone': 'zone-reply',
};

/** The field that a class of service is the upper part of. */
function serviceType(value: Expression): Expression {
  const [, name = '', first = '', second = ''] = /^(cs|af|ef)(\d?)(\d?)$/.exec(value.kind === 'constant' ? value.text : '') ?? [];
  const number = name === 'ef' ? 46 : 8 * Number(first) + 2 * Number(second);
  const left: Expression = name === '' ? value : {kind: 'constant', text: String(number)};
  return {kind: 'binary', operator: '<<', left, right: {kind: 'constant', text: '2'}};
}

/** Other fields do not matter here, except addresses and ports. nft adds the condition that the packet has such a header. */
function assign(target: string, value: Expression): Step {
  const family = target.startsWith('ip ') ? 'ipv4' : target.startsWith('ip6 ') ? 'ipv6' : null;
  const conditions = family === null ? [] : [isOneOf(fieldOf('nfproto'), [family])];
  if (family !== null && target.endsWith(' dscp')) return {conditions, action: {kind: 'assign', to: 'tos', value: serviceType(value)}};
  const to = Object.hasOwn(assigned, target) ? assigned[target] : undefined;
  if (to !== undefined) return {conditions, action: {kind: 'assign', to, value}};
  if (!/ [sd](?:addr|port)$/.test(target)) return {conditions, action: {kind: 'noted'}};
  return {conditions, action: {kind: 'unknown', reason: `${target} is set without connection tracking`}};
}

/** `dnat ip to` in a table of inet leaves packets of the other family as they are. */
function translate({action, to, port, isRandom}: NftStatement & {readonly kind: 'nat'}): Step {
  const family = to?.kind === 'value' ? parseAddress(to.text)?.family : undefined;
  const text = [to, port].map(part => (part === null ? '' : constantText(part))).join(':');
  return {
    conditions: family === undefined ? [] : [isOneOf(fieldOf('nfproto'), [family === 'IPv4' ? 'ipv4' : 'ipv6'])],
    action: {
      kind: 'nat',
      nat: action,
      to: action === 'redirect' || action === 'masquerade' || to === null ? null : lowerExpression(to),
      port: port === null ? '' : port.kind === 'value' ? port.text : null,
      isRandom,
      text,
    },
  };
}
