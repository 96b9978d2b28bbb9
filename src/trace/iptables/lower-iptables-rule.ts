import type {BinaryOperator, NftOperator} from '../../model/nft-ruleset.ts';
import {once} from '../../model/once.ts';
import type {Match, Rule, RuleOption, Target} from '../../model/ruleset.ts';
import {prefixesOf} from '../../parse/nftables/address-list.ts';
import {markChange, splitHostPort, targetsWithoutEffect} from '../../parse/iptables/comparable-rule.ts';
import {
  type Action,
  always,
  type Condition,
  type Expression,
  type FieldName,
  fieldOf,
  isOneOf,
  type LoweredRule,
  never,
  queueOf,
} from '../rule-language.ts';

/** A rule of iptables in the language of the walker. What is not understood stays an unknown condition or action. */
export const lowerRule: (rule: Rule) => LoweredRule = once(rule => {
  const [action = null, ...others] = lowerTarget(rule.target);
  return {
    source: rule,
    steps: [
      {conditions: [...rule.options.flatMap(lowerOption), ...rule.matches.flatMap(lowerMatch)], action},
      ...others.map(other => ({conditions: [], action: other})),
    ],
    isOfEndpointItself: rule.target?.name === 'KUBE-MARK-MASQ' && rule.chain.startsWith('KUBE-SEP-'),
  };
});

function lowerOption(option: RuleOption): readonly Condition[] {
  const {flag, values, negated} = option;
  const [value = ''] = values;
  if (flag === '-p') return [value === 'all' || value === '0' ? constantly(!negated) : isOneOf(fieldOf('protocol'), [value], negated)];
  return [flag === '-f' ? constantly(negated) : (namedField(option) ?? unknown('', [option]))];
}

function unknown(match: string, options: readonly RuleOption[]): Condition {
  return {
    kind: 'unknown',
    text: [match, ...options.map(({flag, values, negated}) => `${negated ? '! ' : ''}${flag} ${values.join(' ')}`)].join(' '),
  };
}

function constantly(value: boolean): Condition {
  return value ? always : never;
}

function lowerMatch(match: Match): readonly Condition[] {
  const {name, options} = match;
  const whole = name === 'statistic' ? statistic(match) : name === 'recent' ? recent(match) : undefined;
  if (whole !== undefined) return [whole ?? unknown(name, options)];
  if (name === 'rpfilter')
    return [
      isOneOf(
        fieldOf('reverse path'),
        ['exists'],
        options.some(({flag}) => flag === '--invert'),
      ),
    ];
  if (name === 'icmp' || name === 'icmp6') return [isOneOf(fieldOf('protocol'), ['icmp', 'icmpv6']), ...options.flatMap(icmpType)];
  if (name === 'comment' || name === 'nfacct') return [];
  if (name === 'owner') return options.flatMap(ownerOption);
  if (name === 'addrtype') return addressTypes(match);
  if (name === 'policy') return options.flatMap(policyOption);
  if (name === 'string') return options.flatMap(contentOption);
  // Only connections that a helper expects have one.
  if (name === 'helper') return options.map(({negated}) => constantly(negated));
  if (extensionHeaders.has(name) || (name === 'ipv6header' && options.every(isOfExtension))) return [never];
  // Only proxies have such sockets, and packets that are walked are not theirs yet.
  if (name === 'socket' && options.some(({flag, negated}) => flag === '--transparent' && !negated)) return [never];
  // Only what the set excludes matches then.
  if (name === 'set' && options.some(({flag}) => flag === '--return-nomatch')) return [unknown(name, options)];
  const lower = Object.hasOwn(optionsOf, name) ? optionsOf[name] : undefined;
  if (lower === undefined) return [unknown(name, options)];
  const protocol = name === 'tcp' || name === 'udp' || name === 'sctp' ? [isOneOf(fieldOf('protocol'), [name])] : [];
  return [...protocol, ...options.map(option => lower(option) ?? unknown(name, [option]))];
}

/** Only what a process of the node sends has a socket; without one, all that is negated holds. Source: `owner_mt` of the kernel. */
function ownerOption(option: RuleOption): readonly Condition[] {
  const {flag, negated} = option;
  const exists = isOneOf(fieldOf('socket'), ['exists'], negated);
  if (flag === '--socket-exists') return [exists];
  const asked = unknown('owner', [option]);
  return negated ? [{kind: 'any', of: [exists, asked], not: false}] : [exists, asked];
}

/** A few bytes may be among those of the headers, which are searched too; where the search begins and ends does not matter without content. */
function contentOption(option: RuleOption): readonly Condition[] {
  const {flag, values, negated} = option;
  if (!/string$/.test(flag)) return [];
  const bytes = (values[0] ?? '').replaceAll(/\|([\da-f ]*)\|/gi, (_, hex: string) => '.'.repeat(hex.replaceAll(' ', '').length / 2));
  return [bytes.length < 4 ? unknown('string', [option]) : isOneOf(fieldOf('content'), [values[0] ?? ''], negated)];
}

/** What it asks of the policy beside its being there is not modeled. */
function policyOption(option: RuleOption): readonly Condition[] {
  const {flag, values} = option;
  if (flag === '--dir' || flag === '--strict' || flag === '--next') return [];
  return [flag === '--pol' ? isOneOf(fieldOf('ipsec'), [values[0] === 'none' ? 'missing' : 'exists']) : unknown('policy', [option])];
}

/** No packet that is walked has such a header, and without it the module matches nothing, negated or not. */
const extensionHeaders: ReadonlySet<string> = new Set(['rt', 'frag', 'hbh', 'dst', 'mh', 'ah', 'esp', 'dccp']);

/** `--header frag,route` of the module `ipv6header`: all of them must be there. */
function isOfExtension({flag, values, negated}: RuleOption): boolean {
  return flag === '--soft' || (!negated && /hop|opts|dst|route|frag|esp|ah|auth/.test(values[0] ?? ''));
}

function icmpType({values: [type = 'any'], negated}: RuleOption): readonly Condition[] {
  return /^(?:any|255)$/.test(type) ? (negated ? [never] : []) : [isOneOf(fieldOf('icmp type'), [type], negated)];
}

/** Null if the option is not understood. */
type OptionReader = (option: RuleOption) => Condition | null;

const optionsOf: Readonly<Record<string, OptionReader>> = {
  tcp: tcpOption,
  udp: portOption,
  sctp: portOption,
  multiport: portOption,
  mark: option => maskedEquals('mark', option),
  connmark: option => maskedEquals('ct mark', option),
  realm: option => maskedEquals('realm', option),
  conntrack: conntrackOption,
  state: ({values, negated}) => hasState(values[0] ?? '', negated),
  set: ({flag, values, negated}) =>
    flag === '--match-set' ? {kind: 'ipset', name: values[0] ?? '', directions: values[1] ?? '', not: negated} : null,
  iprange: ({flag, values, negated}) => isOneOf(fieldOf(flag === '--src-range' ? 'saddr' : 'daddr'), [values[0] ?? ''], negated),
  // What IPVS did to a packet: only `! --ipvs` matches one that IPVS has not forwarded. Source: `ipvs_mt` of the kernel.
  ipvs: namedField,
  physdev: ({values: [name], negated}) => ({kind: 'bridge port', name, not: negated}),
  tcpmss: ({values: [size = ''], negated}) => segmentSize(portRange(size), negated),
  devgroup: ({flag, values: [group = ''], negated}) =>
    group.includes('/')
      ? null
      : isOneOf({kind: 'field', field: {name: flag === '--src-group' ? 'iif' : 'oif', about: 'group'}}, [group], negated),
  time: timeOption,
  tos: option => maskedEquals('tos', option),
  dscp: ({flag, values, negated}) =>
    flag === '--dscp' ? isOneOf(binary('&', fieldOf('tos'), number(0xfc)), [String(Number(values[0]) << 2)], negated) : null,
  length: ({values, negated}) => isOneOf(fieldOf('length'), [portRange(values[0] ?? '')], negated),
  ttl: hopsOption,
  hl: hopsOption,
  connlabel: ({flag, values, negated}) => (flag === '--label' ? isOneOf(fieldOf('ct label'), [values[0] ?? ''], negated) : null),
  pkttype: ({values, negated}) => isOneOf(fieldOf('packet type'), [values[0] ?? ''], negated),
};

/** `--ttl-lt 5`, `--hl-eq 64`. */
function hopsOption({flag, values: [key = ''], negated}: RuleOption): Condition | null {
  const operator = ({lt: '<', gt: '>', eq: negated ? '!=' : '=='} as const)[flag.slice(-2)];
  if (operator === undefined) return null;
  return {kind: 'compare', left: fieldOf('hops'), operator, right: {kind: 'list', elements: [{key, value: null}]}};
}

/** Hours and weekdays recur, and a date may be past. The last one that iptables can write stands for none. */
function timeOption({flag, values: [date = '']}: RuleOption): Condition | null {
  if (flag === '--kerneltz' || flag === '--contiguous' || date.startsWith('2038-01-19')) return always;
  const operator: NftOperator | null = flag === '--datestart' ? '>=' : flag === '--datestop' ? '<=' : null;
  if (operator === null) return null;
  return {kind: 'compare', left: fieldOf('time'), operator, right: {kind: 'list', elements: [{key: date, value: null}]}};
}

function portOption({flag, values, negated}: RuleOption): Condition | null {
  const ranges = (values[0] ?? '').split(',').map(portRange);
  const isIn = (name: FieldName, not: boolean): Condition =>
    ranges.join() === '0-65535' ? constantly(!not) : isOneOf(fieldOf(name), ranges, not);
  if (/^--(?:dports?|destination-ports?)$/.test(flag)) return isIn('dport', negated);
  if (/^--(?:sports?|source-ports?)$/.test(flag)) return isIn('sport', negated);
  return flag === '--ports' ? {kind: 'any', of: [isIn('dport', false), isIn('sport', false)], not: negated} : null;
}

/** `80`, `80:90`, `:90` or `8000:`. */
function portRange(text: string): string {
  const [low = '', high = low] = text.split(':');
  const bounds = [low === '' ? '0' : low, high === '' ? '65535' : high];
  return bounds[0] === bounds[1] ? low : bounds.join('-');
}

function tcpOption(option: RuleOption): Condition | null {
  const {flag, values, negated} = option;
  // Of all options, only the first packets always have one: that of the segment size.
  if (flag === '--tcp-option') return values[0] === '2' ? segmentSize('0-65535', negated) : null;
  if (flag !== '--syn' && flag !== '--tcp-flags') return portOption(option);
  const [mask = '', wanted = ''] = flag === '--syn' ? ['FIN,SYN,RST,ACK', 'SYN'] : values;
  return isOneOf(binary('&', fieldOf('tcp flags'), {kind: 'constant', text: flagsOf(mask)}), [flagsOf(wanted)], negated);
}

/** A packet that names no size is none of the range. */
function segmentSize(range: string, not: boolean): Condition {
  return {kind: 'any', of: [isOneOf(fieldOf('segment size'), [range])], not};
}

function flagsOf(text: string): string {
  return text === 'ALL' ? 'fin,syn,rst,psh,ack,urg' : text === 'NONE' ? '0x0' : text.toLowerCase();
}

function binary(operator: BinaryOperator, left: Expression, right: Expression): Expression {
  return {kind: 'binary', operator, left, right};
}

function number(value: number): Expression {
  return {kind: 'constant', text: String(value >>> 0)};
}

function maskedEquals(name: FieldName, {values, negated}: RuleOption): Condition {
  const [value = '0', mask] = (values[0] ?? '').split('/');
  const left = mask === undefined ? fieldOf(name) : binary('&', fieldOf(name), {kind: 'constant', text: mask});
  return isOneOf(left, [value], negated);
}

function conntrackOption(option: RuleOption): Condition | null {
  const {flag, values, negated} = option;
  const value = values[0] ?? '';
  if (flag === '--ctstate') return hasState(value, negated);
  if (flag !== '--ctstatus') return namedField(option);
  const status = value.toLowerCase().replaceAll('_', '-').split(',').join();
  return status === 'none' ? constantly(negated) : isOneOf(fieldOf('ct status'), [status], negated);
}

/** Null if the option asks for no such field. */
function namedField({flag, values, negated}: RuleOption): Condition | null {
  const [name, read = prefixesOf] = (Object.hasOwn(fieldsByOption, flag) ? fieldsByOption[flag] : undefined) ?? [];
  return name === undefined ? null : isOneOf(fieldOf(name), [read(values[0] ?? '')].flat(), negated);
}

/** The fields that options of rules, and of `conntrack` and `ipvs`, ask for, and how their values are spelled here. */
const fieldsByOption: Readonly<Record<string, readonly [name: FieldName, read?: (text: string) => string | readonly string[]]>> = {
  '-s': ['saddr'],
  '-d': ['daddr'],
  '-i': ['iif'],
  '-o': ['oif'],
  '--ctdir': ['ct direction', text => text.toLowerCase()],
  '--ctproto': ['ct protocol'],
  '--ctorigdst': ['ct original daddr'],
  '--ctorigsrc': ['ct original saddr'],
  '--ctorigdstport': ['ct original dport', portRange],
  '--ctorigsrcport': ['ct original sport', portRange],
  '--ctreplsrc': ['ct reply saddr'],
  '--ctrepldst': ['ct reply daddr'],
  '--ctreplsrcport': ['ct reply sport', portRange],
  '--ctrepldstport': ['ct reply dport', portRange],
  '--ipvs': ['ipvs', () => 'yes'],
  '--vproto': ['ipvs protocol'],
  '--vaddr': ['ipvs address'],
  '--vport': ['ipvs port'],
  '--vdir': ['ipvs direction', text => text.toLowerCase()],
  '--vmethod': ['ipvs method'],
};

/** DNAT and SNAT are states for iptables alone: the connection has been translated. */
function hasState(text: string, not: boolean): Condition {
  const states = text.toLowerCase().split(',');
  const isTranslation = (state: string): boolean => state === 'dnat' || state === 'snat';
  const [translations, others] = [states.filter(isTranslation), states.filter(state => !isTranslation(state))];
  if (translations.length === 0) return isOneOf(fieldOf('ct state'), [others.join()], not);
  const of = [
    ...(others.length === 0 ? [] : [isOneOf(fieldOf('ct state'), [others.join()])]),
    isOneOf(fieldOf('ct status'), [translations.join()]),
  ];
  return {kind: 'any', of, not};
}

function addressTypes({options}: Match): readonly Condition[] {
  const limit = options.find(({flag}) => flag.startsWith('--limit-iface-'));
  const way = limit === undefined ? {} : ({ofInterface: limit.flag === '--limit-iface-in' ? 'iif' : 'oif'} as const);
  return options
    .filter(option => option !== limit)
    .map(({flag, values, negated}) => {
      const types = (values[0] ?? '').toLowerCase().replace('unicast', 'unicast,ipv6-unicast');
      const field = {name: flag === '--src-type' ? 'saddr type' : 'daddr type', ...way} as const;
      return isOneOf({kind: 'field', field}, [types], negated);
    });
}

function statistic({options}: Match): Condition | null {
  const value = (flag: string): RuleOption | undefined => options.find(option => option.flag === flag);
  const [random, every] = [value('--probability'), value('--every')];
  const share = random !== undefined ? Number(random.values[0]) : every === undefined ? NaN : 1 / Number(every.values[0]);
  if (!(share >= 0 && share <= 1)) return null;
  return {kind: 'chance', share: (random ?? every)?.negated === true ? 1 - share : share};
}

/** Whether a client is on a list. The number of its packets is not modeled. */
function recent({options}: Match): Condition | null {
  if (options.some(({flag}) => flag === '--set')) return always;
  if (options.some(({flag}) => flag === '--hitcount')) return null;
  const list = options.find(({flag}) => flag === '--name')?.values[0] ?? 'DEFAULT';
  const check = options.find(({flag}) => flag === '--rcheck' || flag === '--update' || flag === '--remove');
  return check === undefined ? null : {kind: 'recent', list, not: check.negated};
}

/** A name that is no target of iptables may be one of a chain, which only the table shows. */
function lowerTarget(target: Target | null): readonly Action[] {
  if (target === null) return [];
  if (target.name === 'CT') return connectionTracking(target);
  const lower = Object.hasOwn(targets, target.name) ? targets[target.name] : undefined;
  return [{kind: 'call', chain: target.name, isGoto: target.goto, otherwise: lower?.(target) ?? otherTarget(target.name)}];
}

/** The kernel allows no jump to a missing chain: the packet continues, and the comparison of rules reports the broken jump. */
function otherTarget(name: string): Action {
  if (targetsWithoutEffect.has(name) || name.startsWith('KUBE-')) return {kind: 'noted'};
  return {kind: 'unknown', reason: `target ${name} is not known`};
}

const targets: Readonly<Record<string, (target: Target) => Action>> = {
  ACCEPT: () => ({kind: 'verdict', verdict: 'accept'}),
  DROP: () => ({kind: 'verdict', verdict: 'drop'}),
  REJECT: () => ({kind: 'verdict', verdict: 'reject'}),
  RETURN: () => ({kind: 'verdict', verdict: 'return'}),
  MARK: ({options}) => ({kind: 'assign', to: 'mark', value: changed('mark', options)}),
  CONNMARK: ({options}) => connectionMark(options),
  HMARK: target => ({
    kind: 'assign',
    to: 'mark',
    value: {
      kind: 'field',
      field: {name: 'hash', first: Number(optionOf(target, '--hmark-offset')), count: Number(optionOf(target, '--hmark-mod'))},
    },
  }),
  MASQUERADE: target => nat(target, 'masquerade', optionOf(target, '--to-ports')),
  SNAT: target => nat(target, 'snat', optionOf(target, '--to-source')),
  DNAT: target => destinationOf(target),
  NETMAP: target => nat(target, 'netmap', optionOf(target, '--to')),
  REDIRECT: target => nat(target, 'redirect', optionOf(target, '--to-ports')),
  TTL: target => assigned('hops', optionOf(target, '--ttl-set')),
  HL: target => assigned('hops', optionOf(target, '--hl-set')),
  TOS: target => assigned('tos', serviceType(optionOf(target, '--set-tos'))),
  DSCP: target => assigned('tos', serviceType(`${Number(optionOf(target, '--set-dscp')) << 2}/0xfc`)),
  SET: ({options}) =>
    options.some(({flag}) => flag === '--map-mark') ? {kind: 'assign', to: 'mark', value: {kind: 'unknown'}} : {kind: 'noted'},
  TPROXY: () => ({kind: 'capture', goesOn: false}),
  NOTRACK: () => ({kind: 'notrack'}),
  NFQUEUE: ({options}) => queueOf(options.map(({flag, values}) => `${flag} ${values.join(' ')}`).join(' ')),
};

function optionOf({options}: Target, name: string): string {
  return options.find(({flag}) => flag === name)?.values[0] ?? '';
}

/** `--set-xmark value/mask`: the bits of the mask are cleared, then the value is xored in. */
function changed(name: 'mark' | 'ct mark', options: readonly RuleOption[]): Expression {
  const [value = 0, mask = 0] = markChange(options).split('/').map(Number);
  return binary('^', binary('&', fieldOf(name), number(~mask)), number(value));
}

function connectionMark(options: readonly RuleOption[]): Action {
  const mask = (name: string): number => Number(options.find(({flag}) => flag === name || flag === '--mask')?.values[0] ?? 0xffffffff);
  const [nfmask, ctmask] = [mask('--nfmask'), mask('--ctmask')];
  const merged = (to: 'mark' | 'ct mark', own: number, from: 'mark' | 'ct mark', other: number): Action => ({
    kind: 'assign',
    to,
    value: binary('^', binary('&', fieldOf(to), number(~own)), binary('&', fieldOf(from), number(other))),
  });
  if (options.some(({flag}) => flag === '--restore-mark')) return merged('mark', nfmask, 'ct mark', ctmask);
  if (options.some(({flag}) => flag === '--save-mark')) return merged('ct mark', ctmask, 'mark', nfmask);
  return {kind: 'assign', to: 'ct mark', value: changed('ct mark', options)};
}

type NatAction = Action & {readonly kind: 'nat'};

function nat({options}: Target, kind: NatAction['nat'], text: string): NatAction {
  const {address, port} = kind === 'masquerade' || kind === 'redirect' ? {address: '', port: text} : splitHostPort(text);
  return {
    kind: 'nat',
    nat: kind,
    to: address === '' ? null : {kind: 'constant', text: address},
    port,
    isRandom: options.some(({flag}) => flag === '--random' || flag === '--random-fully'),
    text,
  };
}

/** An iptables that is older than the one that wrote the rule prints `[unsupported revision]` in place of the destination. */
function destinationOf(target: Target): Action {
  const text = optionOf(target, '--to-destination');
  return text === '' ? {kind: 'unknown', reason: 'a DNAT is printed without its destination'} : nat(target, 'dnat', text);
}

function assigned(to: 'hops' | 'tos', text: string): Action {
  return text === '' ? {kind: 'noted'} : {kind: 'assign', to, value: {kind: 'constant', text}};
}

/** `0x10/0xff`: the value, where all bits are set that routes are chosen by; otherwise empty. */
function serviceType(text: string): string {
  const [value = '', mask = '0xff'] = text.split('/');
  return (Number(mask) & 0xfc) === 0xfc ? value : '';
}

/** The zone, of both directions or of one, is a number, or `mark`: that of the packet. */
function connectionTracking(target: Target): readonly Action[] {
  if (target.options.some(({flag}) => flag === '--notrack')) return [{kind: 'notrack'}];
  const zones = (['zone', 'zone-orig', 'zone-reply'] as const).flatMap((name): readonly Action[] => {
    const text = optionOf(target, `--${name}`);
    const value: Expression = text === 'mark' ? fieldOf('mark') : {kind: 'constant', text};
    return text === '' ? [] : [{kind: 'assign', to: name, value}];
  });
  return zones.length === 0 ? [{kind: 'noted'}] : zones;
}
