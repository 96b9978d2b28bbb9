import {families} from '../src/model/address.ts';
import type {ApiObjects, NodeDump} from '../src/model/snapshot.ts';
import type {Random} from './bench/random.ts';
import {expectedTable} from './nft-expectation.ts';
import {withRules} from './rendered-dump.ts';
import {renderedIpvs} from './rendered-ipvs.ts';
import {nftText} from './rendered-nft.ts';
import {withFiles} from './fixtures.ts';

export type WrittenMode = 'iptables' | 'nftables' | 'ipvs';

/** A node with the rules that its kube-proxy writes for these objects in this mode, as the node's programs print them. */
export function writtenNode(
  node: NodeDump,
  api: ApiObjects,
  {mode, random}: {readonly mode: WrittenMode; readonly random: Random},
): NodeDump {
  if (mode === 'iptables') return withRules({origin: 'written', api, problems: [], nodes: [node]}, random).nodes[0] ?? node;
  return mode === 'nftables' ? inNftables(node, api) : inIpvs(node, api, random);
}

function inNftables(node: NodeDump, api: ApiObjects): NodeDump {
  const ruleset = families.map(family => nftText(expectedTable({api, node, family}))).join('\n');
  return withFiles(node, {'nft.txt': ruleset, 'proxy-mode': 'nftables', 'iptables-save': '', 'ip6tables-save': ''});
}

function inIpvs(given: NodeDump, api: ApiObjects, random: Random): NodeDump {
  const node = withFiles(given, {'proxy-mode': 'ipvs'});
  const [four, six] = [renderedIpvs(api, 'IPv4', {node, random}), renderedIpvs(api, 'IPv6', {node, random})];
  const device = [
    {ifname: 'kube-ipvs0', addr_info: [...four.bound, ...six.bound].map(local => ({local, prefixlen: local.includes(':') ? 128 : 32}))},
  ];
  return withFiles(node, {
    'ipvsadm-save': four.servers + six.servers,
    'ipset-save': four.sets + six.sets,
    'kube-ipvs0.json': JSON.stringify(device),
    'iptables-save': four.rules,
    'ip6tables-save': six.rules,
  });
}
