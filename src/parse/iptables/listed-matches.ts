import {portRange} from './service-names.ts';

/** The last column of `iptables -L`, converted to the options of `iptables -S`. */
interface ListedMatches {
  readonly matches: readonly string[];
  /** Options of the target. */
  readonly options: readonly string[];
  readonly isGoto: boolean;
}

/** Reads the part that matches and targets print. Text that is not understood becomes a match whose result is unknown. */
export function listedMatches(text: string): ListedMatches {
  const matches: string[] = [];
  const options: string[] = [];
  let isGoto = false;
  for (let rest = text; rest !== ''; ) {
    const known = forms.flatMap(form => {
      const found = form.pattern.exec(rest);
      return found === null ? [] : [{form, found}];
    })[0];
    const length = known?.found[0].length ?? /^\S+\s*/.exec(rest)?.[0].length ?? rest.length;
    if (known === undefined) matches.push(`-m not-understood --text "${rest.slice(0, length).trim().replace(/["\\]/g, '\\$&')}"`);
    else if (known.form.kind === 'goto') isGoto = true;
    else (known.form.kind === 'match' ? matches : options).push(known.form.text(known.found));
    rest = rest.slice(length);
  }
  return {matches: matches.map((match, index) => withoutName(match, matches.slice(0, index))), options, isGoto};
}

interface Form {
  readonly pattern: RegExp;
  readonly kind: 'match' | 'option' | 'goto';
  readonly text: (found: RegExpExecArray) => string;
}

function match(pattern: RegExp, text: Form['text']): Form {
  return {pattern, kind: 'match', text};
}

function option(pattern: RegExp, text: Form['text']): Form {
  return {pattern, kind: 'option', text};
}

const not = (mark: string | undefined): string => (mark === undefined || mark === '' ? '' : '! ');

const forms: readonly Form[] = [
  match(/^\/\* (.*?) \*\/\s*/, ([, text = '']) => `-m comment --comment "${text.replace(/["\\']/g, '\\$&')}"`),
  match(/^(tcp|udp|sctp) (s|d)pts?:(!?)(\S+)\s*/, ([, name, side, mark, ports]) => `-m ${name} ${portMatch(side, mark, ports)}`),
  match(/^(s|d)pts?:(!?)(\S+)\s*/, ([, side, mark, ports]) => portMatch(side, mark, ports)),
  match(/^multiport ([sd]?ports) ( ?! ?)?(\S+)\s*/, ([, side, mark, ports]) => multiport(side, mark, ports)),
  match(
    /^(?:tcp )?flags: ?(!?)(\S+)\/(\S+)\s*/,
    ([, mark, mask, set]) => `-m tcp ${not(mark)}--tcp-flags ${flagNames(mask)} ${flagNames(set)}`,
  ),
  match(
    /^(source|destination) IP range (! )?([\d.a-f:]+-[\d.a-f:]+)\s*/,
    ([, side, mark, range]) => `-m iprange ${not(mark)}--${side === 'source' ? 'src' : 'dst'}-range ${range}`,
  ),
  match(/^PKTTYPE (!?)= (\w+)\s*/, ([, mark, type]) => `-m pkttype ${not(mark)}--pkt-type ${type}`),
  match(/^connmark match (! ?)? ?(0x[\da-f]+(?:\/0x[\da-f]+)?)\s*/, ([, mark, value]) => `-m connmark ${not(mark)}--mark ${value}`),
  match(/^icmp(?:v6)?(?:-?type|type)? \S+(?: code \S+)?\s*/, () => '-m icmp'),
  match(/^(tcp|udp|sctp)(?:\s+|$)/, ([, name]) => `-m ${name}`),
  match(
    /^statistic mode random( !)? probability ([\d.]+)\s*/,
    ([, mark, share]) => `-m statistic --mode random ${not(mark)}--probability ${share}`,
  ),
  match(/^ADDRTYPE match (src|dst)-type (!?)([\w,]+)\s*/, ([, side, mark, type]) => `-m addrtype ${not(mark)}--${side}-type ${type}`),
  match(
    /^(! )?(ct)?state ([A-Z,]+)\s*/,
    ([, mark, tracked = '', states]) => `-m ${tracked === '' ? 'state' : 'conntrack'} ${not(mark)}--${tracked}state ${states}`,
  ),
  match(/^mark match (! ?)?(0x[\da-f]+(?:\/0x[\da-f]+)?)\s*/, ([, mark, value]) => `-m mark ${not(mark)}--mark ${value}`),
  match(/^PHYSDEV match (! )?--physdev-is-in\s*/, ([, mark]) => `-m physdev ${not(mark)}--physdev-is-in`),
  match(/^(! )?match-set (\S+) (\S+)\s*/, ([, mark, name, sides]) => `-m set ${not(mark)}--match-set ${name} ${sides}`),
  match(/^nfacct-name\s+(\S+)\s*/, ([, name]) => `-m nfacct --nfacct-name ${name}`),
  match(
    /^recent: (CHECK|SET|UPDATE)(?: seconds: (\d+))?( reap)? name: (\S+)(?: side: (\w+))?(?: mask: (\S+))?\s*/,
    ([, kind, seconds, reap, name, , mask]) =>
      `-m recent ${recentKinds[kind ?? ''] ?? ''}${seconds === undefined ? '' : ` --seconds ${seconds}`}${reap === undefined ? '' : ' --reap'} --name ${name}${mask === undefined ? '' : ` --mask ${mask}`} --rsource`,
  ),
  option(/^(?:CT )?notrack\s*/i, () => '--notrack'),
  option(/^to:(\S+)( random-fully)?\s*/, ([, to, random]) => `--to-destination ${to}${random === undefined ? '' : ' --random-fully'}`),
  option(/^MARK (or|and|xor|set) (0x[\da-f]+)\s*/, ([, kind, value]) => `--${kind}-mark ${value}`),
  option(/^MARK xset (0x[\da-f]+\/0x[\da-f]+)\s*/, ([, value]) => `--set-xmark ${value}`),
  option(/^reject-with (\S+)\s*/, ([, kind]) => `--reject-with ${kind}`),
  option(/^redir ports (\S+)\s*/, ([, ports]) => `--to-ports ${ports}`),
  option(/^masq ports: (\S+)( random)?\s*/, ([, ports]) => `--to-ports ${ports}`),
  option(/^(random|persistent)(?=\s|$)\s*/, ([, word]) => `--${word}`),
  option(/^random-fully\s*/, () => '--random-fully'),
  {pattern: /^\[goto\]\s*/, kind: 'goto', text: () => ''},
];

/** A port with an unknown name becomes a match whose result is unknown. */
function portMatch(side: string | undefined, mark: string | undefined, ports = ''): string {
  const numbers = portRange(ports);
  return numbers === null ? `-m not-understood --text "${side}pt:${ports}"` : `${not(mark)}--${side}port ${numbers}`;
}

function multiport(side: string | undefined, mark: string | undefined, ports = ''): string {
  const numbers = ports.split(',').map(range => portRange(range));
  return numbers.includes(null) ? `-m not-understood --text "${side} ${ports}"` : `-m multiport ${not(mark)}--${side} ${numbers.join(',')}`;
}

const tcpFlags = ['FIN', 'SYN', 'RST', 'PSH', 'ACK', 'URG'];

/** `0x17` as `FIN,SYN,RST,ACK`; names are kept. */
function flagNames(text = ''): string {
  if (!text.startsWith('0x')) return text;
  const bits = Number(text);
  if (bits === 0) return 'NONE';
  return bits === 0x3f ? 'ALL' : tcpFlags.filter((_, bit) => (bits & (1 << bit)) !== 0).join(',');
}

const recentKinds: Readonly<Record<string, string>> = {CHECK: '--rcheck', SET: '--set', UPDATE: '--update'};

/** A second option of a match is printed without its name. */
function withoutName(text: string, before: readonly string[]): string {
  const name = /^-m (tcp|udp|sctp) (?=\S)/.exec(text);
  return name !== null && before.some(other => other.startsWith(name[0])) ? text.slice(name[0].length) : text;
}
