import {failureIn, kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import {readJson} from '../parse/json-text.ts';
import {redactConfigText, redactConfigz, unreadable} from './redact-config.ts';
import {redactDump} from './redact-dump.ts';
import {keepOnly, redactAddresses, redactIpset, redactMetrics, redactSysctls} from './redact-lines.ts';
import {redactNft} from './redact-nft.ts';
import {redactNftText} from './redact-nft-text.ts';
import type {Replacements} from './replacements.ts';
import {type Treatment, treat} from './treatment.ts';

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

const textFiles: Readonly<Record<string, (text: string, replacements: Replacements) => string>> = {
  'ipset-save': redactIpset,
  'ipvsadm-save': redactAddresses,
  'ipvsadm-stats': redactAddresses,
  'ipvsadm-list': redactAddresses,
  conntrack: redactAddresses,
  'conntrack-tcp': redactAddresses,
  'addresses.json': redactJson({list: link}),
  'kube-ipvs0.json': redactJson({list: link}),
  'links.json': redactJson({list: link}),
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
