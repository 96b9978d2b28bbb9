/** The state while a listing is read. */
export interface Listing {
  /** The chain whose rows follow; null outside a chain. */
  readonly chain: string | null;
  /** The listing was printed with `-v` and shows interfaces; null if its column headings were not pasted. */
  readonly verbose: boolean | null;
  /** Rows begin with numbers, as with `--line-numbers`. */
  readonly numbered: boolean;
  /** The command above names the chain, and not a heading. */
  readonly isOfCommand?: boolean;
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
  return chainHeadings.test(text) || entryRows.test(text);
}

/** Whether a line is a row of an entry of a Service, which tells its chain: `iptables -L | grep` leaves the heading out. */
export function isEntryRow(line: string): boolean {
  return entryRow.test(line);
}

const entry = String.raw`^[ \t]*(?:\d+[KMGT]?[ \t]+\d+[KMGT]?[ \t]+)?(?:KUBE-(?:SVC|EXT|XLB|FW)-[A-Z2-7]{16}|KUBE-MARK-MASQ|REJECT|DROP)[ \t]+(?:tcp|udp|sctp|6|17|132)[ \t]+--[ \t].{0,200}/\* [^\s/]{1,64}/\S{1,300} .{0,200}\bdpt:\S`;
const entryRow = new RegExp(entry);
const entryRows = new RegExp(entry, 'm');

/** The chain that kube-proxy writes such a row into; null if it may be another one. */
function chainOfEntry(line: string): string | null {
  if (!entryRow.test(line)) return null;
  const [, to = '', , ...rest] = long.exec(line.trim()) ?? short.exec(line.trim()) ?? [];
  const [destination = '', extra = ''] = rest.slice(-2);
  const isAnywhere = /^(?:anywhere|0\.0\.0\.0\/0|::\/0)$/.test(destination);
  if (to === 'REJECT' || to === 'DROP') {
    if (!/ has no (?:local )?endpoints /.test(extra)) return null;
    return isAnywhere || to === 'DROP' ? 'KUBE-EXTERNAL-SERVICES' : 'KUBE-SERVICES';
  }
  if (isAnywhere) return 'KUBE-NODEPORTS';
  return to === 'KUBE-MARK-MASQ' ? null : 'KUBE-SERVICES';
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
  const chain = listing.chain ?? chainOfEntry(line);
  const text = chain === null ? null : ruleOf(line, chain, listing);
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
  parts.push(protocolOf(prot), ...(hidden ? [`-m ${hiddenInterfaces}`] : []), ...matches);
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

/**
 * Reads the part that matches and targets print. Text that is not understood becomes a match whose result is unknown. `options`: options of
 * the target.
 */
function listedMatches(text: string) {
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
  const named = new Set<string>();
  return {matches: matches.map(match => withoutName(match, named)), options, isGoto};
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

/** Names that are the same in Debian's and Red Hat's /etc/services, of ports that Services and nodes use. */
const ports: ReadonlyMap<string, number> = new Map(
  [
    ...`
  echo 7  discard 9  ftp-data 20  ftp 21  ssh 22  telnet 23  smtp 25  domain 53  bootps 67  bootpc 68  tftp 69  gopher 70  finger 79
  http 80  kerberos 88  pop3 110  sunrpc 111  nntp 119  ntp 123  netbios-ns 137  netbios-dgm 138  netbios-ssn 139  imap2 143  imap 143
  snmp 161  snmp-trap 162  snmptrap 162  bgp 179  irc 194  ldap 389  https 443  microsoft-ds 445  kpasswd 464  submission 587
  syslog 514  ldaps 636  domain-s 853  rsync 873  imaps 993  pop3s 995  socks 1080  ms-sql-s 1433  ms-sql-m 1434  mysql 3306  nfs 2049
  svn 3690  iscsi-target 3260  ms-wbt-server 3389  postgresql 5432  amqp 5672  amqps 5671  sip 5060  sip-tls 5061  redis 6379
  http-alt 8080  webcache 8080  pcsync-https 8443  xmpp-client 5222  xmpp-server 5269  mqtt 1883  secure-mqtt 8883  git 9418
  zabbixagent 10050  zabbix-agent 10050  zabbix-trapper 10051  openvpn 1194  radius 1812  radius-acct 1813  l2f 1701  mdns 5353
  vxlan 4789  etcdclient 2379  etcd-client 2379  etcd-server 2380
  `.matchAll(/(\S+) (\d+)/g),
  ].map(([, name = '', port]) => [name, Number(port)]),
);

const forms: readonly Form[] = [
  // A comment has 255 bytes at most: the end of one that has none is not searched in the whole text.
  match(/^\/\* (.{0,600}?) \*\/\s*/, ([, text = '']) => `-m comment --comment "${text.replace(/["\\']/g, '\\$&')}"`),
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
  match(/^(?:ipv6-)?icmp(?:v6)?(?: ?-?type)? (\S+)(?: code \S+)?\s*/, ([, type]) => `-m icmp --icmp-type ${type}`),
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
  option(/^(?:[A-Z]+ )?\[unsupported revision\]\s*/, () => ''),
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
function withoutName(text: string, named: Set<string>): string {
  const name = /^-m (?:tcp|udp|sctp) (?=\S)/.exec(text)?.[0];
  if (name === undefined) return text;
  if (named.has(name)) return text.slice(name.length);
  named.add(name);
  return text;
}

/** The port number for a name of /etc/services, as `iptables -L` without `-n` prints it; null if unknown. */
export function portNumber(name: string): number | null {
  if (/^\d+$/.test(name)) return Number(name);
  return ports.get(name) ?? null;
}

/** `http:https` as `80:443`; null if one of them is unknown. */
function portRange(text: string): string | null {
  const ends = text.split(':').map(end => (end === '' ? '' : portNumber(end)));
  return ends.includes(null) ? null : ends.join(':');
}

/** Stands for the interfaces that a row may have: `iptables -L` prints them with `-v` alone. */
export const hiddenInterfaces = 'interfaces-not-listed';
