import {asExpectation} from '../analyze/iptables/expectation.ts';
import {asNftExpectation} from '../analyze/nftables/nft-expectation.ts';
import {compareNftTable} from '../compare/compare-nft-table.ts';
import {compareRulesets} from '../compare/compare-rulesets.ts';
import type {ServedPort} from '../expect/cluster/served-port.ts';
import {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import type {ExpectedIpvs} from '../expect/ipvs/expected-ipvs.ts';
import {ExpectedTable, tableId} from '../expect/nftables/expected-table.ts';
import {serverKey, type VirtualServer} from '../model/virtual-server.ts';
import type {NodeSetup} from './node-setup.ts';
import type {WalkedSide} from './walk-side.ts';

/** Service ports whose rules on the node are not the expected ones, and the texts of what differs. */
interface Deviations {
  readonly ports: ReadonlySet<ServedPort>;
  readonly texts: readonly string[];
}

/** What distinguishes Service ports on a node beside their own fields; null if there are no actual rules to compare with. */
export function deviationsOf({expected, context: {family}}: WalkedSide, setup: NodeSetup): Deviations | null {
  if (expected instanceof ExpectedTable) {
    const table = setup.nft()?.tables.get(tableId(family));
    if (table === undefined) return null;
    const {differences, unexpectedChains} = compareNftTable(asNftExpectation(expected), table);
    const texts = [...differences.map(({rule}) => rule.text), ...unexpectedChains.map(chain => chain.text())];
    return {texts, ports: new Set(differences.flatMap(({owner}) => owner ?? []))};
  }
  const ruleset = setup.dumps.current.get(family);
  if (!(expected instanceof ExpectedRuleset)) return ofServers(expected, setup.ipvs().servers);
  if (ruleset === undefined) return null;
  const {differences} = compareRulesets(asExpectation(expected), ruleset);
  return {texts: differences.map(({rule}) => rule.text), ports: new Set(differences.flatMap(({owner}) => owner ?? []))};
}

function ofServers({servers, context: {family}}: ExpectedIpvs, actual: readonly VirtualServer[] | null): Deviations | null {
  if (actual === null) return null;
  const found = new Map(actual.map(server => [serverKey(server), server]));
  const ports = new Set<ServedPort>();
  for (const [key, claims] of servers) {
    const server = found.get(key);
    for (const claim of claims) if (server === undefined || textOf(server) !== textOf(claim.server)) ports.add(claim.owner);
  }
  const unexpected = actual.filter(server => server.family === family && !servers.has(serverKey(server)));
  return {ports, texts: unexpected.map(({text}) => text)};
}

function textOf({text, realServers}: VirtualServer): string {
  return [text, ...realServers.map(real => real.text).toSorted()].join('\n');
}
