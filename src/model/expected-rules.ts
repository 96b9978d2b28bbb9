import type {Family} from './address.ts';

/** What kube-proxy should write on one node, in the spelling of the tools that list it. */
export interface ExpectedRules {
  readonly node: string;
  readonly proxyMode: string;
  readonly kubeProxyVersion: string;
  readonly families: readonly FamilyRules[];
  /** With the base rules; otherwise the rules of the chosen Services alone, which no tool loads. */
  readonly isWhole: boolean;
  /** Unknown facts, and the assumptions in their place. */
  readonly notes: readonly string[];
}

export interface FamilyRules {
  readonly family: Family;
  /** Tables of iptables; empty in nftables mode. */
  readonly iptables: readonly RuleTable[];
  /** Null except in nftables mode. */
  readonly nftables: NftTableText | null;
  /** Null except in IPVS mode. */
  readonly ipvs: IpvsText | null;
}

export interface RuleTable {
  readonly name: string;
  /** Built-in chains contain only kube-proxy's rules. */
  readonly chains: readonly {readonly name: string; readonly rules: readonly string[]}[];
}

export interface NftTableText {
  /** `ip kube-proxy`. */
  readonly table: string;
  readonly comment: string | null;
  readonly counters: readonly string[];
  readonly sets: readonly NftSetText[];
  readonly chains: readonly NftChainText[];
}

export interface NftSetText {
  readonly kind: 'set' | 'map';
  readonly name: string;
  /** Without its elements: `type ipv4_addr`, `flags dynamic,timeout`. */
  readonly properties: readonly string[];
  readonly elements: readonly string[];
}

export interface NftChainText {
  readonly name: string;
  /** `type nat hook prerouting priority dstnat; policy accept;`, or a comment. */
  readonly properties: readonly string[];
  readonly rules: readonly string[];
}

export interface IpvsText {
  /** As ipvsadm-save prints them, each virtual server before its real servers. */
  readonly virtualServers: readonly string[];
  readonly ipsets: readonly {readonly name: string; readonly type: string; readonly members: readonly string[]}[];
  /** The addresses of kube-ipvs0. */
  readonly addresses: readonly string[];
}
