import {someOf} from '../model/text/some-of.ts';
import type {NftRuleset, NftTable} from '../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import type {Outcome} from '../trace/outcome.ts';

/** The chains that a walk visited, `table/chain`. */
interface WatchedRuleset {
  readonly ruleset: Ruleset;
  readonly visited: ReadonlySet<string>;
}

/** Records every chain that a walk requests. */
export function watchChains(ruleset: Ruleset): WatchedRuleset {
  const visited = new Set<string>();
  const chain: Ruleset['chain'] = (table, name) => {
    visited.add(`${table}/${name}`);
    return ruleset.chain(table, name);
  };
  return {ruleset: {...ruleset, chain}, visited};
}

/**
 * The chains on a packet's path that the text does not show completely. Tables that kube-proxy does not use are assumed to be empty if the
 * text does not show them.
 */
export function unseenChains(shown: Ruleset, visited: ReadonlySet<string>): readonly string[] {
  return [...visited].filter(place => {
    const [table = '', name = ''] = place.split('/');
    const own = shown.tables.get(table);
    if (own === undefined) return (table === 'nat' || table === 'filter') && isBaseChain(name);
    const chain = own.chains.get(name);
    // The kernel allows no jump to a missing chain: the text leaves the chain out.
    if (chain === undefined) return isBaseChain(name) ? !own.complete : !isTarget(name);
    return !own.complete && !chain.complete;
  });
}

function isBaseChain(name: string): boolean {
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(name);
}

/** Targets of the kernel, not chains. A chain of this name would have been declared. */
function isTarget(name: string): boolean {
  return /^[A-Z]+$/.test(name);
}

/** An outcome that depends on rules that the text shows only in part. */
export function undeterminedBy<R extends RuleText>(outcome: Outcome<R>, unseen: readonly string[]): Outcome<R> {
  const {verdict, destination, masquerade, rewrittenTo} = outcome;
  const names = someOf(unseen, {max: 4});
  const where = destination ?? rewrittenTo ?? null;
  const led =
    verdict === 'undecided'
      ? (outcome.reason ?? 'nowhere')
      : `${verdictWords[verdict]}${where === null ? '' : ` at ${where}`}${masquerade && verdict === 'accept' ? ', masqueraded' : ''}`;
  const reason = `this text does not show all rules of ${names}; by the rules that it shows the packet is ${led}`;
  const undetermined: Outcome<R> = {
    ...outcome,
    verdict: 'undecided',
    destination: null,
    reason: verdict === 'undecided' ? `this text does not show all rules of ${names}; ${led}` : reason,
  };
  return where === null ? undetermined : {...undetermined, rewrittenTo: where};
}

const verdictWords = {accept: 'accepted', reject: 'refused', drop: 'dropped'} as const;

/** What is missing from kube-proxy's table in nftables, as text; null if it is complete. */
export function missingFromNft(nft: NftRuleset): string | null {
  if (nft.strays.some(({text}) => /^(?:\.{3,}|…+)$/.test(text))) return 'rules that were left out';
  for (const table of nft.tables.values()) {
    const missing = table.name === 'kube-proxy' ? missingFromTable(table) : null;
    if (missing !== null) return `${missing} of table ${table.id}`;
  }
  return null;
}

/** In every version of kube-proxy's nftables mode. */
const chainsOfProxy = [
  'filter-input',
  'filter-forward',
  'filter-output',
  'nat-prerouting',
  'nat-output',
  'nat-postrouting',
  'services',
  'masquerading',
  'firewall-check',
];

function missingFromTable({chains, sets}: NftTable): string | null {
  const chain = chainsOfProxy.find(name => !chains.has(name));
  if (chain !== undefined) return `chain ${chain}`;
  let checksFirewall = false;
  for (const {name, text} of textsOf({chains, sets})) {
    if (/^(?:\.{3,}|…+)$/m.test(text)) return `some rules of chain ${name}`;
    for (const [, target = ''] of text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)) {
      if (!chains.has(target)) return `chain ${target}`;
      checksFirewall ||= target === 'firewall-check';
    }
    for (const [, set = ''] of text.matchAll(/@([\w./-]+)/g)) if (!sets.has(set)) return `set or map ${set}`;
  }
  return checksFirewall ? null : 'the base chain that jumps to firewall-check';
}

function textsOf({chains, sets}: Pick<NftTable, 'chains' | 'sets'>): readonly {readonly name: string; readonly text: string}[] {
  return [
    ...[...chains.values()].map(chain => ({name: chain.name, text: chain.text().replace(/"[^"]*"/g, '""')})),
    ...[...sets.values()].map(set => ({name: set.name, text: [...set.elements.values()].map(({value}) => value ?? '').join('\n')})),
  ];
}
