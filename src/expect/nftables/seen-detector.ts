import {parseCidr} from '../../model/address.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {LocalDetector} from '../node-context.ts';
import {parseNftName} from './nft-names.ts';

/** How rules distinguish pods from other clients of cluster IPs: by a match, or `all` when no client counts as a pod. */
type SeenNftDetector = {readonly kind: 'match'; readonly text: string} | {readonly kind: 'all'} | {readonly kind: 'none'};

/** Null if the table does not show it. From 1.36 on, one rule shows it for all Services; before, the majority of their chains decides. */
export function seenDetector(table: NftTable): SeenNftDetector | null {
  if (table.sets.has('hairpin-connections')) return inServicesChain(table);
  const votes = new Map<string, {readonly seen: SeenNftDetector; count: number}>();
  let chains = 0;
  for (const {name, text} of inner(table)) {
    if (!isInner(table, name)) continue;
    chains++;
    const seen = detectorOf(/^ip6? daddr \S+(?: (?:tcp|udp|sctp) dport \d+)?(.*) jump mark-for-masquerade/m.exec(text));
    const key = JSON.stringify(seen);
    votes.set(key, {seen, count: (votes.get(key)?.count ?? 0) + 1});
  }
  return chains < 3 ? null : ([...votes.values()].sort((a, b) => b.count - a.count)[0]?.seen ?? null);
}

function inServicesChain(table: NftTable): SeenNftDetector | null {
  const chain = table.chain('services');
  if (chain === undefined) return null;
  return detectorOf(/^ip6? daddr @cluster-ips(.*) meta mark set /m.exec(chain.text()));
}

function detectorOf(found: RegExpExecArray | null): SeenNftDetector {
  if (found === null) return {kind: 'none'};
  const text = (found[1] ?? '').trim();
  return text === '' ? {kind: 'all'} : {kind: 'match', text};
}

function inner(table: NftTable): readonly {readonly name: string; readonly text: string}[] {
  return [...table.chains.values()].flatMap(chain => {
    const role = parseNftName(chain.name)?.role;
    return (role === 'service' || role === 'local') && chain.ruleCount > 0 ? [{name: chain.name, text: chain.text()}] : [];
  });
}

const leads = new WeakMap<NftTable, ReadonlySet<string | null>>();

/** A chain for a cluster IP, not only for external traffic. */
function isInner(table: NftTable, name: string): boolean {
  let targets = leads.get(table);
  if (targets === undefined) {
    targets = new Set([...(table.set('service-ips')?.elements.values() ?? [])].map(({value}) => value));
    leads.set(table, targets);
  }
  return targets.has(`goto ${name}`);
}

/** The detector, or `all` for masqueradeAll. */
export function describeSeen(seen: SeenNftDetector): LocalDetector | 'all' {
  if (seen.kind !== 'match') return seen.kind === 'all' ? 'all' : {kind: 'none'};
  const link = /^iif(?:name)? != "(.+)"$/.exec(seen.text)?.[1];
  if (link !== undefined) return link.endsWith('*') ? {kind: 'prefix', name: link.slice(0, -1)} : {kind: 'bridge', name: link};
  const cidr = /^ip6? saddr != (\S+)$/.exec(seen.text)?.[1];
  const parsed = cidr === undefined ? null : parseCidr(cidr);
  return parsed === null ? {kind: 'none'} : {kind: 'cidr', cidr: parsed.text};
}

/** The detector in the bypass for pods of external chains, which masqueradeAll does not change; null without such a rule. */
export function bypassDetector(table: NftTable): LocalDetector | 'all' | null {
  for (const chain of table.chains.values()) {
    if (parseNftName(chain.name)?.role !== 'external') continue;
    const match = /^(.*?) goto service-\S+ comment "short-circuit pod traffic"/m.exec(chain.text())?.[1];
    if (match !== undefined) return describeSeen({kind: 'match', text: match.replace(/^(\S+(?: saddr)?) /, '$1 != ')});
  }
  return null;
}
