import {listedMatches} from './listed-matches.ts';

/** The state while a listing is read. */
export interface Listing {
  /** The chain whose rows follow; null outside a chain. */
  readonly chain: string | null;
  /** The listing was printed with `-v` and shows interfaces; null if its column headings were not pasted. */
  readonly verbose: boolean | null;
  /** Rows begin with numbers, as with `--line-numbers`. */
  readonly numbered: boolean;
}

export const noListing: Listing = {chain: null, verbose: null, numbered: false};

/** The kinds of lines of `iptables -L`. */
export type ListedLine =
  | {readonly kind: 'chain'; readonly name: string; readonly policy: string | null; readonly references: number | null}
  | {readonly kind: 'columns'; readonly verbose: boolean; readonly numbered: boolean}
  | {readonly kind: 'rule'; readonly text: string}
  | {readonly kind: 'other'};

/** Whether a text contains output of `iptables -L`. */
export function isListing(text: string): boolean {
  return chainHeadings.test(text);
}

const heading = String.raw`^[ \t]*(?:[>+*\-][ \t]+)*Chain (\S+) \((?:policy (\w+)[^)\n]*|(\d+) references)\)`;
const chainHeadings = new RegExp(heading, 'm');
const chainHeading = new RegExp(heading);
const columns = /^\s*(?:\+\s+)?(num\s+)?(?:pkts\s+bytes\s+)?target\s+prot\s+(?:opt\s+)?(in\s+out\s+)?source\s+destination/;

/** Reads one line of `iptables -L`; returns a rule as `iptables -S` prints it. */
export function readListedLine(line: string, listing: Listing): ListedLine {
  const found = chainHeading.exec(line);
  if (found !== null) {
    const [, name = '', policy, references] = found;
    return {kind: 'chain', name, policy: policy ?? null, references: references === undefined ? null : Number(references)};
  }
  const header = columns.exec(line);
  if (header !== null) return {kind: 'columns', verbose: header[2] !== undefined, numbered: header[1] !== undefined};
  const text = listing.chain === null ? null : ruleOf(line, listing.chain, listing);
  return text === null ? {kind: 'other'} : {kind: 'rule', text};
}

const counters = String.raw`\d+[KMGT]?\s+\d+[KMGT]?\s+`;
const target = String.raw`(?:([A-Za-z][\w.:-]*)\s+)?`;
const protocol = String.raw`(!?(?:all|tcp|udp|udplite|icmp|icmpv6|ipv6-icmp|esp|ah|sctp|dccp|gre|ipip|ipencap|ipv6|igmp|ospf|vrrp|\d{1,3}))\s+`;
const fragment = String.raw`(?:(?:--|-f|!f)\s+)?`;
const place = String.raw`(!?[A-Za-z\d:][\w.:/-]*)`;
const addresses = `${place}\\s+${place}(?:\\s+(.*))?$`;
const begin = String.raw`^\s*(?:\+\s+)?`;
const short = new RegExp(`^${target}${protocol}${fragment}${addresses}`);
const long = new RegExp(`^${counters}${target}${protocol}${fragment}(\\S+)\\s+(\\S+)\\s+${addresses}`);
const beginning = new RegExp(begin);

function ruleOf(line: string, chain: string, {verbose, numbered}: Listing): string | null {
  const bare = line.replace(beginning, '').trimEnd();
  const row = numbered ? bare.replace(/^\d+\s+/, '') : bare;
  const asLong = verbose === false ? null : long.exec(row);
  const asShort = asLong === null && verbose !== true ? short.exec(row) : null;
  const found = asLong ?? asShort;
  if (found === null) return null;
  const [to, prot = 'all', ...rest] = found.slice(1) as readonly (string | undefined)[];
  const [input = '*', output = '*', source = '', destination = '', extra = ''] = asLong !== null ? rest : ['*', '*', ...rest];
  const {matches, options, isGoto} = listedMatches(extra.trim());
  const parts = [`-A ${chain}`, address('-s', source), address('-d', destination), link('-i', input), link('-o', output)];
  const hidden = asLong === null && mayNameInterface({chain, to, source, extra});
  parts.push(protocolOf(prot), ...(hidden ? ['-m interfaces-not-listed'] : []), ...matches);
  if (to !== undefined) parts.push(`${isGoto ? '-g' : '-j'} ${to}`, ...options);
  return parts.filter(part => part !== '').join(' ');
}

interface ListedRow {
  readonly chain: string;
  readonly to: string | undefined;
  readonly source: string;
  readonly extra: string;
}

/** Without `-v`, interfaces are not shown. kube-proxy matches interfaces only to detect pods; third-party rules match any. */
function mayNameInterface({chain, to = '', source, extra}: ListedRow): boolean {
  if (!chainsOfProxy.test(chain) && !chainsOfProxy.test(to)) return true;
  if (!/^(?:anywhere|0\.0\.0\.0\/0|::\/0)$/.test(source)) return false;
  return (to === 'KUBE-MARK-MASQ' && /cluster ip|external ip/i.test(extra)) || /pod traffic for|Redirect pods trying/.test(extra);
}

const chainsOfProxy =
  /^KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|MARK-DROP|FORWARD|FIREWALL|PROXY-FIREWALL|PROXY-CANARY|KUBELET-CANARY|LOAD-BALANCER|NODE-PORT|IPVS-.*|SOURCE-RANGES-FIREWALL|(?:PORTALS|NODEPORT)-(?:CONTAINER|HOST)|(?:SVC|SVL|SEP|EXT|FW|XLB)-.*)$/;

function address(flag: string, text: string): string {
  const negated = text.startsWith('!');
  const plain = (negated ? text.slice(1) : text)
    .replace(/^(?:localhost|loopback)\/8$/, '127.0.0.0/8')
    .replace(/^link-local\/16$/, '169.254.0.0/16');
  if (/^(?:anywhere|0\.0\.0\.0\/0|::\/0|default)$/.test(plain)) return negated ? `! ${flag} 0/0` : '';
  const isNumeric = /^[\d.]+$|:/.test(plain);
  const whole = plain.includes('/') || !isNumeric ? plain : `${plain}/${plain.includes(':') ? 128 : 32}`;
  return `${negated ? '! ' : ''}${flag} ${whole}`;
}

function link(flag: string, name: string): string {
  if (name === '*' || name === 'any') return '';
  return name.startsWith('!') ? `! ${flag} ${name.slice(1)}` : `${flag} ${name}`;
}

const protocolNames: Readonly<Record<string, string>> = {6: 'tcp', 17: 'udp', 132: 'sctp', 1: 'icmp', 58: 'ipv6-icmp'};

function protocolOf(text: string): string {
  if (text === 'all' || text === '0') return '';
  const plain = text.startsWith('!') ? text.slice(1) : text;
  return `${plain === text ? '' : '! '}-p ${protocolNames[plain] ?? plain}`;
}
