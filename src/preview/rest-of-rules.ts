import {allOf} from '../analyze/iptables/read-dumps.ts';
import {tableId} from '../expect/nftables/expected-table.ts';
import type {Family} from '../model/family.ts';
import type {NftTable} from '../model/nft-ruleset.ts';
import type {Chain, Table} from '../model/ruleset.ts';
import type {NodeSetup} from './node-setup.ts';
import {jumpsToServiceChain, serviceChains} from './service-chains.ts';
import {otherTables} from './third-party-rules.ts';

/**
 * The text of all rules of a node in one family beside those that were compared with the expected ones: the chains in `compared`
 * (`table/chain`) and those of Service ports in iptables mode, or the table of kube-proxy in nftables mode. If it is the same on two nodes,
 * the rules that packets to Service ports without deviations can reach differ only as far as the expected rules do. Null if it cannot
 * show that.
 */
export function restOfRules(setup: NodeSetup, family: Family, compared: ReadonlySet<string> = new Set()): string | null {
  const [ruleset, second] = allOf(setup.dumps, family);
  // Only one backend was compared.
  if (second !== undefined || ruleset?.isByChain === true || (ruleset?.cut ?? null) !== null) return null;
  const nft = setup.nft();
  if ((nft?.cut ?? null) !== null || (setup.config.mode.value !== 'nftables' && nft?.tables.has(tableId(family)) === true)) return null;
  const chains = [...(ruleset?.tables.values() ?? [])].flatMap(table => chainsBeside(table, compared).map(chainText));
  const others = new Set(otherTables(nft, ruleset === undefined ? [] : [ruleset]).map(({id}) => id));
  const tables = [...(nft?.tables.values() ?? [])].filter(({id}) => others.has(id)).map(tableText);
  const text = [...chains, ...tables].join('\n');
  return jumpsToServiceChain.test(text) ? null : text;
}

/** Only the compared chains jump to the chains of Service ports. */
function chainsBeside({name: table, chains}: Table, compared: ReadonlySet<string>): readonly Chain[] {
  const others = table === 'nat' ? chains.notStartingWith(...serviceChains) : chains.values();
  return [...others].filter(({name}) => !compared.has(`${table}/${name}`));
}

function chainText(chain: Chain): string {
  return `${chain.table}/${chain.name} ${chain.policy} ${chain.complete}\n${chain.text()}`;
}

function tableText({id, dormant, declared, chains, others}: NftTable): string {
  const texts = [...chains.values()].map(chain => `${chain.name} ${JSON.stringify(chain.base)} ${chain.complete}\n${chain.text()}`);
  return [`${id} ${dormant} ${declared}`, ...texts, ...others].join('\n');
}
