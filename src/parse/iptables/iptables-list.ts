import {listedMatches} from './listed-matches.ts';

export interface Listing {
  /** The chain whose rules follow; null outside of one. */
  readonly chain: string | null;
  /** The listing was made with `-v` and names interfaces. */
  readonly verbose: boolean;
}

export interface ListedLine {
  readonly text: string;
  readonly chain?: string | null;
  readonly verbose?: boolean;
}

/** Whether a text holds the output of `iptables -L`. */
export function isListing(text: string): boolean {
  return chainHeading.test(text);
}

const chainHeading = /^[ \t]*(?:\+[ \t]+)?Chain (\S+) \((?:policy (\w+)|(\d+) references)[^)\n]*\)/m;
const columns = /^\s*(?:\+\s+)?(?:num\s+)?(?:pkts\s+bytes\s+)?target\s+prot\s+(?:opt\s+)?(in\s+out\s+)?source\s+destination/;

/** One line of `iptables -L` as `iptables -S` would print it. What is no heading and no rule stays as it is. */
export function asRuleLine(line: string, {chain, verbose}: Listing): ListedLine {
  const heading = chainHeading.exec(line);
  if (heading !== null) {
    const [, name = '', policy] = heading;
    return {text: policy === undefined ? `-N ${name}` : `-P ${name} ${policy}`, chain: name};
  }
  const header = columns.exec(line);
  if (header !== null) return {text: '', verbose: header[1] !== undefined};
  if (line.trim() === '') return {text: '', chain: null};
  if (chain === null) return {text: line};
  return {text: ruleOf(line, chain, verbose) ?? line};
}

const counters = String.raw`(?:\d+\s+)?\d+[KMGT]?\s+\d+[KMGT]?\s+`;
const target = String.raw`(?:([A-Za-z][\w-]*)\s+)?`;
const protocol = String.raw`(all|tcp|udp|udplite|icmp|icmpv6|ipv6-icmp|esp|ah|sctp|\d{1,3})\s+`;
const fragment = String.raw`(?:(?:--|-f|!f)\s+)?`;
const addresses = String.raw`(!?[\da-fA-F.:/]+|anywhere)\s+(!?[\da-fA-F.:/]+|anywhere)\s*(.*)$`;
const short = new RegExp(`^\\s*(?:\\+\\s+)?(?:\\d+\\s+)?${target}${protocol}${fragment}${addresses}`);
const long = new RegExp(`^\\s*(?:\\+\\s+)?${counters}${target}${protocol}${fragment}(\\S+)\\s+(\\S+)\\s+${addresses}`);

function ruleOf(line: string, chain: string, verbose: boolean): string | null {
  const found = (verbose ? long : short).exec(line);
  if (found === null) return null;
  const [to, prot = 'all', ...rest] = found.slice(1) as readonly (string | undefined)[];
  const [input = '*', output = '*', source = '', destination = '', extra = ''] = verbose ? rest : ['*', '*', ...rest];
  const {matches, options, isGoto} = listedMatches(extra.trim());
  const parts = [`-A ${chain}`, address('-s', source), address('-d', destination), link('-i', input), link('-o', output)];
  parts.push(protocolOf(prot), ...(verbose || isOfProxy(chain, to) ? [] : ['-m interfaces-not-listed']), ...matches);
  if (to !== undefined) parts.push(`${isGoto ? '-g' : '-j'} ${to}`, ...options);
  return parts.filter(part => part !== '').join(' ');
}

/** Without `-v` interfaces are not shown. kube-proxy hardly ever names one; what others write may. */
function isOfProxy(chain: string, to: string | undefined): boolean {
  return chain.startsWith('KUBE-') || (to?.startsWith('KUBE-') ?? false);
}

function address(flag: string, text: string): string {
  const negated = text.startsWith('!');
  const plain = negated ? text.slice(1) : text;
  if (plain === 'anywhere' || /^(?:0\.0\.0\.0|::)\/0$/.test(plain)) return negated ? `! ${flag} ${plain}` : '';
  const whole = plain.includes('/') ? plain : `${plain}/${plain.includes(':') ? 128 : 32}`;
  return `${negated ? '! ' : ''}${flag} ${whole}`;
}

function link(flag: string, name: string): string {
  if (name === '*' || name === 'any') return '';
  return name.startsWith('!') ? `! ${flag} ${name.slice(1)}` : `${flag} ${name}`;
}

function protocolOf(text: string): string {
  if (text === 'all' || text === '0') return '';
  return `-p ${{6: 'tcp', 17: 'udp', 132: 'sctp', 1: 'icmp', 58: 'ipv6-icmp'}[text] ?? text}`;
}
