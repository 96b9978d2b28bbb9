import {byWord} from '../model/lists.ts';
import {pathTree} from '../model/path-tree.ts';
import {failureIn, kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import {isKnownText, knownVersion} from './known-words.ts';
import {commonTables, redactNftName, redactObjectName, redactNft} from './redact-nft.ts';
import {ciliumFiles} from './redact-cilium.ts';
import {redactConfigText, redactConfigz, redactJson} from './redact-config.ts';
import {redactDump} from './redact-dump.ts';
import {type Replacements, treat, treatAddress, type Treatment} from './replacements.ts';

/** Redacts one file of a node; null for an unknown file name, which is left out. */
export function redactFile(file: string, content: Buffer, replacements: Replacements): Buffer | null {
  if (/^ip6?tables(?:-legacy|-nft)?-save$/.test(file)) return redactDump(content, replacements);
  if (file === 'nft.json' || file === 'nft-ruleset.json' || file === 'nft.txt') return redactNftDump(content, replacements);
  const redact = Object.hasOwn(textFiles, file) ? textFiles[file] : undefined;
  return redact === undefined ? null : Buffer.from(redact(content.toString('utf8'), replacements));
}

/** As JSON, or as pasted text. */
function redactNftDump(content: Buffer, replacements: Replacements): Buffer {
  if (content.includes('"nftables"')) return redactNft(content, replacements);
  return Buffer.from(redactNftText(content.toString('utf8'), replacements));
}

/** Words stand for every address, or for none. */
const network: Treatment = (value, replacements) =>
  value === 'default' || value === 'all' ? value : treat(value, 'address', replacements);

/** Tables may have names of their own. */
const table: Treatment = (value, replacements) =>
  typeof value === 'string' && /^(?:main|local|default|\d+)$/.test(value) ? value : treat(value, 'word', replacements);

const device: Treatment = (value, {interfaces}) => (typeof value === 'string' ? interfaces.replace(value) : null);

const links = pathTree<Treatment>(
  [
    'kept',
    `[].{ifindex link_index flags mtu qdisc operstate linkmode group txqlen link_type link_netnsid promiscuity}
    [].linkinfo.{info_kind info_slave_kind info_slave_data.{state hairpin}}
    [].linkinfo.info_data.{id port learning protocol external nf_call_iptables nf_call_ip6tables}
    [].addr_info[].{
      family prefixlen scope dynamic deprecated temporary noprefixroute nodad tentative valid_life_time preferred_life_time
      secondary mngtmpaddr
    }`,
  ],
  [device, '[].{ifname link master linkinfo.info_data.link addr_info[].label}'],
  ['hardware', '[].{address broadcast permaddr}'],
  ['address', '[].{linkinfo.info_data.{local group} addr_info[].{local address broadcast}}'],
);

const routes = pathTree<Treatment>(
  ['kept', '[].{type protocol scope metric pref tos nhid flags weight via.family nexthops[].{flags weight via.family}}'],
  ['address', '[].{gateway via.host prefsrc nexthops[].{gateway via.host}}'],
  [device, '[].{dev nexthops[].dev}'],
  [network, '[].{dst from}'],
  [table, '[].table'],
);

const policyRules = pathTree<Treatment>(
  [
    'kept',
    `[].{
      priority not srclen dstlen fwmark fwmask iif_detached oif_detached tos uid_start uid_end ipproto sport sport_start sport_end dport
      dport_start dport_end l3mdev suppress_prefixlen suppress_ifgroup goto unresolved nop action protocol
    }`,
  ],
  [network, '[].{src dst}'],
  [device, '[].{iif oif}'],
  [table, '[].table'],
);

const time: Treatment = value => (typeof value === 'string' && /^\d{4}-\d\d-\d\d[T ][-\d:. +TZUCm=]*$/.test(value) ? value : null);
const healthz = pathTree<Treatment>(
  [time, 'lastUpdated currentTime status.{IPv4.{lastUpdated currentTime} IPv6.{lastUpdated currentTime}}'],
  ['kept', 'healthy nodeEligible status.{IPv4.{healthy nodeEligible} IPv6.{healthy nodeEligible}}'],
);

const textFiles: Readonly<Record<string, (text: string, replacements: Replacements) => string>> = {
  'ipset-save': redactIpset,
  ...byWord(
    ['ipvsadm-save ipvsadm-stats ipvsadm-list', redactServers],
    ['conntrack conntrack-tcp', redactConnections],
    ['addresses.json kube-ipvs0.json links.json', redactJson(links)],
    ['ip-rules.json ip6-rules.json', redactJson(policyRules)],
    ['conntrack-stats conntrack-stats-after', tokens],
    ['sysctls interface-sysctls', redactSysctls],
  ),
  'netconf.json': redactJson(pathTree<Treatment>(['kept', '[].{family interface forwarding rp_filter}'])),
  'routes.json': redactJson(routes),
  [kubeProxyLog]: redactLog,
  'asked-by-rules': redactSysctls,
  'local-addresses': (text, {addresses}) => text.replace(/.+/g, line => addresses.replace(line) ?? ''),
  'iptables-version': keepOnly(/^ip6?tables(?:-save)? v[\d.]+(?: \((?:nf_tables|legacy)\))?$/),
  'kube-proxy-version': text => (/^(?:Kubernetes )?v?\d+\.\d+/.test(text) ? `${knownVersion(text.trim())}\n` : keepOnly(/^$/)(text)),
  'kube-proxy-config.yaml': redactConfigText,
  'configz.json': redactConfigz,
  'proxy-mode': keepOnly(/^(?:iptables|ipvs|nftables|userspace|kernelspace)$/),
  'healthz.json': (text, replacements) => (text.trim() === 'ok' ? text : redactJson(healthz)(text, replacements)),
  metrics: redactMetrics,
  ...ciliumFiles,
};

/** Only the line that says why kube-proxy fails. */
function redactLog(text: string, replacements: Replacements): string {
  const found = failureIn(text);
  return found === null ? '' : `${replacements.message(found.line)}\n`;
}

/**
 * The text output of `nft list`. Keywords of nft and numbers stay; tables, chains, sets and other objects, interfaces and all other words are
 * replaced.
 */
function redactNftText(text: string, replacements: Replacements): string {
  let isKubeProxys = false;
  const rename = (name: string): string =>
    ofService.test(name) ? redactNftName(name, replacements) : redactObjectName(name, isKubeProxys, replacements);
  return text
    .split('\n')
    .map(line => {
      const [, start = '', table = '', rest = ''] = /^(table \w+ )([^\s{]+)(.*)$/.exec(line) ?? [];
      if (table === '') return redactNftLine(line, rename, replacements);
      isKubeProxys = table === 'kube-proxy';
      return `${redactNftLine(start, rename, replacements)}${commonTables.has(table) ? table : replacements.setName(table)}${redactNftLine(rest, rename, replacements)}`;
    })
    .join('\n');
}

/** A quoted text, a name that kube-proxy made for a Service port, or another word. */
const nftToken = /"[^"]*"?|@?(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-[^\s{},;:]+|[^\s{}",;]+/g;

/** A name of an object stands after these words. */
const beforeName =
  /(?:^\s*(?:chain|set|map|counter|quota|limit|flowtable|synproxy|secmark|meter|ct \w+)|\b(?:jump|goto)|\b(?:counter|quota|limit|synproxy) name|\bmeter) $/;

/** A text stands after these words, or a name from outside of nft. */
const beforeText = /\b(?:comment|prefix|set|skuid|skgid|label|rtclassid|group|level \d+|helper) (?:!= )?$/;

function redactNftLine(line: string, rename: (name: string) => string, replacements: Replacements): string {
  const {interfaces, text} = replacements;
  return line.replace(nftToken, (token, at: number) => {
    const before = line.slice(Math.max(0, at - 40), at);
    if (token.startsWith('"')) {
      if (beforeText.test(before)) return replacements.comment(token);
      return token.replace(/[^\s"]+/g, word => (beforeName.test(before) ? rename(word) : text.replace(interfaces.replace(word))));
    }
    if (token.startsWith('@') && !/^@(?:th|nh|ll|ih),/.test(token)) return `@${rename(token.slice(1))}`;
    if (ofService.test(token) || beforeName.test(before)) return rename(token);
    return replacements.token(token, word => (before.includes('devices') ? interfaces.replace(word) : replacements.names.replace(word)));
  });
}

const ofService = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-/;

/** `ipset save`. Types, sizes and timeouts stay. */
function redactIpset(text: string, replacements: Replacements): string {
  const listsOfSets = new Set<string>();
  return eachLine(text, line => {
    const [, verb = '', name = '', rest = ''] = /^(create|add) (\S+)(.*)$/s.exec(line.trim()) ?? [];
    if (verb === '') return replacements.comment(line);
    if (verb === 'create' && rest.startsWith(' list:set')) listsOfSets.add(name);
    const isSet = (element: string) => listsOfSets.has(name) || (/^[A-Za-z][\w-]*$/.test(element) && element.includes('-'));
    const [, before = '', comment] = /^(.*?)( comment ".*"| comment \S+)?$/s.exec(rest) ?? [];
    const said = comment === undefined ? '' : ` comment ${replacements.comment(comment.slice(' comment '.length))}`;
    const replaceOne = (word: string, isFirst: boolean): string => {
      if (verb === 'add' && isFirst && isSet(word)) return replacements.setName(word);
      return replacements.token(word, text => replacements.interfaces.replace(text));
    };
    const element = before.replace(/\S+/g, (word: string, at: number) => replaceOne(word, at === 1));
    return `${verb} ${replacements.setName(name)}${element}${said}`;
  });
}

/** `ipvsadm-save`, `ipvsadm -L`: without `-n` they have names of hosts. */
function redactServers(text: string, replacements: Replacements): string {
  return text.replace(/\S+/g, token => {
    const [, host, port = ''] = /^([\w.-]+):([\w-]+)$/.exec(token) ?? [];
    const isName = host !== undefined && /[A-Za-z]/.test(host) && !/^(?:Local|Remote)Address$/.test(host);
    return isName ? `${replacements.names.replace(host)}:${replacements.token(port)}` : replacements.token(token);
  });
}

/** Words and numbers: what is known to be no name stays. */
function tokens(text: string, replacements: Replacements): string {
  return text.replace(/\S+/g, token => replacements.token(token));
}

/** Whatever is no known word of `conntrack -L`: security contexts, labels and helpers are names that somebody chose. */
const unknownOfConnection =
  /(?<=^|\s)(?!(?:(?:src|dst|sport|dport|type|code|id|packets|bytes|mark|use|zone(?:-orig|-reply)?|srckey|dstkey|timeout|delta-time)=[\da-fA-Fx.:]+|\[(?:UNREPLIED|ASSURED|OFFLOAD|HW_OFFLOAD)\]|(?:NONE|SYN_SENT2?|SYN_RECV|ESTABLISHED|FIN_WAIT|CLOSE_WAIT|LAST_ACK|TIME_WAIT|CLOSED?|LISTEN|COOKIE_WAIT|COOKIE_ECHOED|SHUTDOWN_SENT|SHUTDOWN_RECD|SHUTDOWN_ACK_SENT|HEARTBEAT_SENT|HEARTBEAT_ACKED|REQUEST|RESPOND|PARTOPEN|OPEN|CLOSEREQ|CLOSING|TIMEWAIT|IGNORE|INVALID)|\d+|ipv[46]|tcp|udp|udplite|icmp|icmpv6|ipv6-icmp|sctp|dccp|gre|esp|ah|igmp|ospf|vrrp|unknown)(?:\s|$))\S+ ?/g;

/** `conntrack -L`: keywords, numbers, and addresses. */
function redactConnections(text: string, {text: addresses}: Replacements): string {
  return eachLine(text, line => addresses.replace(line.replace(unknownOfConnection, '')));
}

const sample = /^([A-Za-z_:][\w:]*)(?:\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})? ([-+\d.eE]+|[-+]?Inf|NaN)(?: -?\d+)?$/;

/** Metrics in the text format of Prometheus: those with known names, and with known names of labels. */
function redactMetrics(text: string, replacements: Replacements): string {
  return eachLine(text, line => {
    const [, name = '', labels = '', value = ''] = sample.exec(line) ?? [];
    if (name === '' || !isKnownText(name)) return '';
    const kept = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].flatMap(([, label = '', own = '']) =>
      isKnownText(label) ? [`${label}="${labelValue(label, own, replacements)}"`] : [],
    );
    return `${name}${kept.length === 0 ? '' : `{${kept.join(',')}}`} ${value}`;
  });
}

function labelValue(label: string, value: string, replacements: Replacements): string {
  if (/version$/.test(label)) return knownVersion(value);
  return /^(?:node|host|instance|pod|namespace|service)$/.test(label) ? treatAddress(value, replacements) : replacements.token(value);
}

/** `net.ipv4.ip_forward = 1`, `net.ipv4.conf.eth0.rp_filter = 0`. */
function redactSysctls(text: string, {interfaces}: Replacements): string {
  return text
    .split('\n')
    .filter(line => /^[\w./-]+ ?= ?[-,\d\s]*$/.test(line))
    .map(line =>
      line.replace(
        /^(net\.ipv[46]\.(?:conf|neigh)\.)(.+)(?=\.\w+ ?=)/,
        (_, path: string, name: string) => path + (isKnownText(name) ? name : interfaces.replace(name)),
      ),
    )
    .flatMap(line => (isKnownText(line.replace(/^net\.ipv[46]\.(?:conf|neigh)\..+(?=\.\w+ ?=)/, '')) ? [`${line}\n`] : []))
    .join('');
}

/** A file of one word or line, which is kept if it has the expected form. */
function keepOnly(pattern: RegExp): (text: string) => string {
  return text => (pattern.test(text.trim()) || text.trim() === '' ? text : 'redacted\n');
}

function eachLine(text: string, replace: (line: string) => string): string {
  return text
    .split('\n')
    .map(line => (line === '' ? '' : replace(line)))
    .join('\n');
}
