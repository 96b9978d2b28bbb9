import type {ServiceDifferences} from './differing.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {Family} from '../model/family.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {PortTrace} from '../model/service-trace.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import type {Dumps} from './iptables/read-dumps.ts';
import type {Symptom} from './symptoms/symptom.ts';

/** A mode of kube-proxy: how a node that runs in it is evaluated. */
export interface ProxyMode {
  /** As in kube-proxy's `--proxy-mode`. */
  readonly name: string;
  /** Reads the dumps that the evaluation of a node needs, once. */
  prepare(input: NodeInput): PreparedMode;
}

/** Why a node cannot be evaluated (no dump, or an unknown version), or the function that evaluates it. */
type PreparedMode = {readonly whyUnread: string} | {analyze(): ModeAnalysis};

/** One node with all that its kube-proxy's rules follow from. */
export interface NodeData {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  /** The node's iptables, which other modes use as well. */
  readonly dumps: Dumps;
  /** The node's nftables, parsed when they are first asked for; null when they were not read. */
  readonly nft: () => NftRuleset | null;
}

export interface NodeInput extends NodeData {
  /** Analyze each Service by itself, without findings that stand for many of them, because those depend on the states of all. */
  readonly eachService?: boolean;
  /** The Service ports for which to trace packet paths, given the symptoms of their family. */
  readonly traces: (port: ServicePort, found: readonly Symptom[]) => boolean;
}

export interface ModeAnalysis {
  /** The families that were evaluated. */
  readonly families: readonly Family[];
  /** Families that have Services and could not be evaluated. */
  readonly unread: readonly UnreadFamily[];
  readonly symptoms: readonly Symptom[];
  readonly traces: readonly PortTrace[];
  /** The differences of each Service, by family and `namespace/name` (`IPv4 shop/web`). */
  readonly differing?: ReadonlyMap<string, ServiceDifferences>;
  /** The parts of the dumps are not each of one moment. */
  readonly isReadPiecemeal?: boolean;
  /** The settings that the rules were evaluated with. */
  readonly config: ProxyConfig;
  /** How many rules and chains the mode's own dumps hold. */
  readonly counts: {readonly rules: number; readonly chains: number};
}

export interface UnreadFamily {
  readonly family: Family;
  readonly reason: string;
}
