import {failureIn, kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import {readJson} from '../parse/attempt.ts';
import {commonTables, redactNftName, redactObjectName} from './nft-names.ts';
import {redactConfigText, redactConfigz, unreadable} from './redact-config.ts';
import {redactDump} from './redact-dump.ts';
import {redactNft} from './redact-nft.ts';
import type {Replacements} from './replacements.ts';
import {treat, treatAddress, type Treatment} from './treatment.ts';

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
const table: Treatment = (value, {names}) =>
  typeof value !== 'string' || /^(?:main|local|default|\d+)$/.test(value) ? value : names.replace(value);

const link: Treatment = {
  fields: {
    ...{ifindex: 'kept', link_index: 'kept', ifname: 'kept', link: 'kept', flags: 'kept', mtu: 'kept', qdisc: 'kept', operstate: 'kept'},
    ...{linkmode: 'kept', group: 'kept', txqlen: 'kept', link_type: 'kept', address: 'hardware', broadcast: 'hardware', master: 'kept'},
    ...{link_netnsid: 'kept', permaddr: 'hardware', promiscuity: 'kept'},
    linkinfo: {
      fields: {
        ...{info_kind: 'kept', info_slave_kind: 'kept', info_slave_data: {fields: {state: 'kept', hairpin: 'kept'}}},
        info_data: {
          fields: {id: 'kept', port: 'kept', link: 'kept', local: 'address', group: 'address', learning: 'kept', protocol: 'kept'},
        },
      },
    },
    addr_info: {
      list: {
        fields: {
          ...{family: 'kept', local: 'address', address: 'address', prefixlen: 'kept', broadcast: 'address', scope: 'kept', label: 'kept'},
          ...{dynamic: 'kept', deprecated: 'kept', temporary: 'kept', noprefixroute: 'kept', nodad: 'kept', tentative: 'kept'},
          ...{valid_life_time: 'kept', preferred_life_time: 'kept', secondary: 'kept', mngtmpaddr: 'kept'},
        },
      },
    },
  },
};

const hop = {gateway: 'address', via: {fields: {family: 'kept', host: 'address'}}, dev: 'kept', flags: 'kept', weight: 'kept'} as const;
const route: Treatment = {
  fields: {
    ...{...hop, dst: network, type: 'kept', table, protocol: 'kept', scope: 'kept', prefsrc: 'address', metric: 'kept'},
    ...{pref: 'kept', tos: 'kept', from: network, nhid: 'kept', nexthops: {list: {fields: hop}}},
  },
};
const policyRule: Treatment = {
  fields: {
    ...{priority: 'kept', not: 'kept', src: network, srclen: 'kept', dst: network, dstlen: 'kept', fwmark: 'kept', fwmask: 'kept'},
    ...{iif: 'kept', iif_detached: 'kept', oif: 'kept', oif_detached: 'kept', tos: 'kept', uid_start: 'kept', uid_end: 'kept'},
    ...{ipproto: 'kept', sport: 'kept', sport_start: 'kept', sport_end: 'kept', dport: 'kept', dport_start: 'kept', dport_end: 'kept'},
    ...{l3mdev: 'kept', table, suppress_prefixlen: 'kept', suppress_ifgroup: 'kept', goto: 'kept', unresolved: 'kept', nop: 'kept'},
    ...{action: 'kept', protocol: 'kept'},
  },
};

const time: Treatment = value => (typeof value === 'string' && /^\d{4}-\d\d-\d\d[T ][-\d:. +TZUCm=]*$/.test(value) ? value : null);
const health = {lastUpdated: time, currentTime: time, healthy: 'kept', nodeEligible: 'kept'} as const;
const healthz: Treatment = {fields: {...health, status: {fields: {IPv4: {fields: health}, IPv6: {fields: health}}}}};

const keptLabels = new Set(
  'ip_family table le quantile code name stage version build_date compiler git_commit git_tree_state git_version go_version major minor platform'.split(
    ' ',
  ),
);

const textFiles: Readonly<Record<string, (text: string, replacements: Replacements) => string>> = {
  'ipset-save': redactIpset,
  'ipvsadm-save': redactServers,
  'ipvsadm-stats': redactServers,
  'ipvsadm-list': redactServers,
  conntrack: redactConnections,
  'conntrack-tcp': redactConnections,
  'addresses.json': redactJson({list: link}),
  'kube-ipvs0.json': redactJson({list: link}),
  'links.json': redactJson({list: link}),
  'netconf.json': redactJson({list: {fields: {family: 'kept', interface: 'kept', forwarding: 'kept', rp_filter: 'kept'}}}),
  'routes.json': redactJson({list: route}),
  'ip-rules.json': redactJson({list: policyRule}),
  'ip6-rules.json': redactJson({list: policyRule}),
  'conntrack-stats': keepOnly(/^[\w=\s]+$/),
  'conntrack-stats-after': keepOnly(/^[\w=\s]+$/),
  [kubeProxyLog]: redactLog,
  sysctls: redactSysctls,
  'interface-sysctls': redactSysctls,
  'iptables-version': keepOnly(/^ip6?tables(?:-save)? v[\d.]+(?: \([\w-]+\))?$/),
  'kube-proxy-version': keepOnly(/^(?:Kubernetes )?v?\d+\.\d+[\w.+-]*$/),
  'kube-proxy-config.yaml': redactConfigText,
  'configz.json': redactConfigz,
  'proxy-mode': keepOnly(/^(?:iptables|ipvs|nftables|userspace|kernelspace)$/),
  'healthz.json': (text, replacements) => (text.trim() === 'ok' ? text : redactJson(healthz)(text, replacements)),
  metrics: redactMetrics,
};

/** Only the line that says why kube-proxy fails. */
function redactLog(text: string, replacements: Replacements): string {
  const found = failureIn(text);
  return found === null ? '' : `${replacements.words.message(found.line)}\n`;
}

function redactJson(treatment: Treatment): (text: string, replacements: Replacements) => string {
  return (text, replacements) => {
    const value = readJson(text);
    return value === undefined ? unreadable : `${JSON.stringify(treat(value, treatment, replacements))}\n`;
  };
}

const parts = /(comment "[^"]*"|prefix "[^"]*"|(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-[^\s{},;:]+)/;

/** The text output of `nft list`. Keywords of nft, numbers and interfaces stay; tables, chains, sets and other objects get other names. */
function redactNftText(text: string, replacements: Replacements): string {
  let isKubeProxys = false;
  return text
    .split('\n')
    .map(line => {
      const [, start = '', table = '', rest = ''] = /^(table \w+ )([^\s{]+)(.*)$/.exec(line) ?? [];
      if (table !== '') {
        isKubeProxys = table === 'kube-proxy';
        return `${start}${commonTables.has(table) ? table : replacements.setName(table)}${rest}`;
      }
      const redacted = line
        .split(parts)
        .map((part, index) => (index % 2 === 0 ? replacements.text.replace(part) : redactPart(part, replacements)))
        .join('');
      return withoutNames(redacted, name => redactObjectName(name, isKubeProxys, replacements), replacements);
    })
    .join('\n');
}

function withoutNames(line: string, rename: (name: string) => string, {words}: Replacements): string {
  const fresh = (name: string): string => (ofService.test(name) ? name : rename(name));
  return line
    .replace(
      /^(\s*(?:chain|set|map|counter|quota|limit|flowtable|synproxy|secmark|ct \w+) )([^\s"{]+)(?= \{)/,
      (_, kind, name) => kind + fresh(name),
    )
    .replace(/(\b(?:jump|goto) |@|\b(?:counter|quota|limit|synproxy) name "?)([A-Za-z_][\w./-]*)/g, (_, kind, name) => kind + fresh(name))
    .replace(
      /(\b(?:helper set|timeout set|secmark set|skuid|skgid|cgroupv2 level \d+|ct label(?: set)?|rtclassid|(?:iif|oif)group) (?:!= )?)"([^"]*)"/g,
      (_, kind, name) => `${kind}"${words.comment(name)}"`,
    );
}

const ofService = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-/;

function redactPart(part: string, replacements: Replacements): string {
  if (!part.endsWith('"')) return redactNftName(part, replacements);
  const quote = part.indexOf('"');
  return part.slice(0, quote) + replacements.words.comment(part.slice(quote));
}

/** `ipset save`. Types, sizes and timeouts stay. */
function redactIpset(text: string, replacements: Replacements): string {
  const listsOfSets = new Set<string>();
  return eachLine(text, line => {
    const [, verb = '', name = '', rest = ''] = /^(create|add) (\S+)(.*)$/s.exec(line.trim()) ?? [];
    if (verb === '') return replacements.words.comment(line);
    if (verb === 'create' && rest.startsWith(' list:set')) listsOfSets.add(name);
    const isSet = (element: string) => listsOfSets.has(name) || (/^[A-Za-z][\w-]*$/.test(element) && element.includes('-'));
    const [, before = '', comment] = /^(.*?)( comment ".*"| comment \S+)?$/s.exec(rest) ?? [];
    const said = comment === undefined ? '' : ` comment ${replacements.words.comment(comment.slice(' comment '.length))}`;
    const element = before.replace(/^( )(\S+)/, (_, space: string, first: string) => {
      if (verb === 'create') return space + first;
      return space + (isSet(first) ? replacements.setName(first) : replacements.text.replace(first));
    });
    return `${verb} ${replacements.setName(name)}${element}${said}`;
  });
}

/** `ipvsadm-save`, `ipvsadm -L`: without `-n` they have names of hosts. */
function redactServers(text: string, {text: addresses, names}: Replacements): string {
  return eachLine(text, line =>
    addresses
      .replace(line)
      .replace(/(?<=^|\s)(?=[\d._-]*[A-Za-z])([\w.-]+)(?=:[\w-]+(?:\s|$))/g, host =>
        /^(?:Local|Remote)Address$/.test(host) ? host : names.replace(host),
      ),
  );
}

/** Whatever is no known word of `conntrack -L`: security contexts, labels and helpers are names that somebody chose. */
const unknownOfConnection =
  /(?<=^|\s)(?!(?:(?:src|dst|sport|dport|type|code|id|packets|bytes|mark|use|zone(?:-orig|-reply)?|srckey|dstkey|timeout|delta-time)=[\da-fA-Fx.:]+|\[[A-Z_]+\]|[A-Z_]+\d?|\d+|ipv[46]|tcp|udp|udplite|icmp|icmpv6|ipv6-icmp|sctp|dccp|gre|esp|ah|igmp|ospf|vrrp|unknown)(?:\s|$))\S+ ?/g;

/** `conntrack -L`: keywords, numbers, and addresses. */
function redactConnections(text: string, {text: addresses}: Replacements): string {
  return eachLine(text, line => addresses.replace(line.replace(unknownOfConnection, '')));
}

/** Metrics in the text format of Prometheus. */
function redactMetrics(text: string, replacements: Replacements): string {
  return eachLine(text, line =>
    line.startsWith('#')
      ? ''
      : line.replace(/(?<!\w)(\w+)="((?:[^"\\]|\\.)*)"/g, (found, label: string, value: string) =>
          keptLabels.has(label) ? found : `${label}="${treatAddress(value, replacements)}"`,
        ),
  );
}

/** `net.ipv4.ip_forward = 1`. */
function redactSysctls(text: string): string {
  return text
    .split('\n')
    .filter(line => /^[\w./-]+ ?= ?[-,\d\s]*$/.test(line))
    .map(line => `${line}\n`)
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
