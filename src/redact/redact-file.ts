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
  if (file === 'nft.json' || file === 'nft-ruleset.json') return redactNftDump(content, replacements);
  const redact = Object.hasOwn(textFiles, file) ? textFiles[file] : undefined;
  return redact === undefined ? null : Buffer.from(redact(content.toString('utf8'), replacements));
}

/** As JSON, or as pasted text. */
function redactNftDump(content: Buffer, replacements: Replacements): Buffer {
  if (content.includes('"nftables"')) return redactNft(content, replacements);
  return Buffer.from(redactNftText(content.toString('utf8'), replacements));
}

const link: Treatment = {
  fields: {
    ...{ifindex: 'kept', link_index: 'kept', ifname: 'kept', link: 'kept', flags: 'kept', mtu: 'kept', qdisc: 'kept', operstate: 'kept'},
    ...{linkmode: 'kept', group: 'kept', txqlen: 'kept', link_type: 'kept', address: 'hardware', broadcast: 'hardware', master: 'kept'},
    ...{link_netnsid: 'kept', permaddr: 'hardware'},
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

const time: Treatment = value => (typeof value === 'string' && /^\d{4}-\d\d-\d\d[T ][-\d:. +TZUCm=]*$/.test(value) ? value : null);
const health = {lastUpdated: time, currentTime: time, healthy: 'kept', nodeEligible: 'kept'} as const;
const healthz: Treatment = {fields: {...health, status: {fields: {IPv4: {fields: health}, IPv6: {fields: health}}}}};

const textFiles: Readonly<Record<string, (text: string, replacements: Replacements) => string>> = {
  'ipset-save': redactIpset,
  'ipvsadm-save': redactAddresses,
  'ipvsadm-stats': redactAddresses,
  'ipvsadm-list': redactAddresses,
  conntrack: redactAddresses,
  'addresses.json': redactJson({list: link}),
  'kube-ipvs0.json': redactJson({list: link}),
  sysctls: redactSysctls,
  'iptables-version': keepOnly(/^ip6?tables(?:-save)? v[\d.]+(?: \([\w-]+\))?$/),
  'kube-proxy-version': keepOnly(/^(?:Kubernetes )?v?\d+\.\d+[\w.+-]*$/),
  'kube-proxy-config.yaml': redactConfigText,
  'configz.json': redactConfigz,
  'proxy-mode': keepOnly(/^(?:iptables|ipvs|nftables|userspace|kernelspace)$/),
  'healthz.json': (text, replacements) => (text.trim() === 'ok' ? text : redactJson(healthz)(text, replacements)),
  metrics: redactMetrics,
};

function redactJson(treatment: Treatment): (text: string, replacements: Replacements) => string {
  return (text, replacements) => {
    const value = readJson(text);
    return value === undefined ? unreadable : `${JSON.stringify(treat(value, treatment, replacements))}\n`;
  };
}
