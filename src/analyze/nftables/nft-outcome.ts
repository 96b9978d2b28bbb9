import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {NftRule, NftSource, NftTableSource} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Environment, Outcome, Packet} from '../../trace/packet.ts';
import {walkNftPacket} from '../../trace/nftables/walk-nft-packet.ts';
import {type PathOutcome, collectPathOutcome, type Walk} from '../outcomes/path-outcome.ts';

/** The outcome of a packet in one table alone. */
export function nftPathOutcome(table: NftTableSource, packet: Packet, environment: Environment): PathOutcome<RuleText> {
  let source = sources.get(table);
  if (source === undefined) {
    source = {tableSources: [table]};
    sources.set(table, source);
  }
  return pathOutcomeOfOutcomes(walkNftPacket(source, packet, environment));
}

/** A walk caches how long the paths of each ruleset may get. */
const sources = new WeakMap<NftTableSource, NftSource>();

export function pathOutcomeOfOutcomes(outcomes: readonly Outcome<NftRule>[]): PathOutcome<RuleText> {
  return collectPathOutcome<RuleText>(outcomes, rememberedIn);
}

/** The walk of packets through this table alone. */
export function walkOf(table: NftTableSource): Walk<RuleText> {
  return (packet, environment) => nftPathOutcome(table, packet, environment);
}

/** The traffic policy by which the endpoints were picked; null if no path shows it. */
export function nftPolicyOf({destinations}: PathOutcome<RuleText>): 'Cluster' | 'Local' | null {
  for (const {path} of destinations.values()) {
    const chain = pickingChain(path);
    if (chain !== null) return chain.startsWith('local-') ? 'Local' : 'Cluster';
  }
  return null;
}

function rememberedIn(path: readonly RuleText[]): string | null {
  for (const {text} of path.toReversed()) {
    const found = /^update @(\S+) \{/.exec(text);
    if (found !== null) return found[1] ?? null;
  }
  return null;
}

/** The chain that picked the endpoint; null when none of a Service's did. */
export function pickingChain(path: readonly RuleText[]): string | null {
  const rule = path.findLast(({chain}) => {
    const role = parseNftName(chain)?.role;
    return role === 'service' || role === 'local';
  });
  return rule?.chain ?? null;
}

/** The chains that a rule leads to, those of its verdict map among them. */
export function targetsOf({text}: RuleText): readonly string[] {
  return [...text.matchAll(/(?:goto|jump) ([^\s,}]+)/g)].map(found => found[1] ?? '');
}
