import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {NftPortDifference} from './nft-case.ts';
import {targetsOf} from './nft-outcome.ts';
import {isRefusal, isEntryMap} from './service-port/nft-rule-roles.ts';
import {pushTo} from '../../model/lists.ts';

interface AttributedNft {
  readonly byPort: ReadonlyMap<NftPort, readonly NftPortDifference[]>;
  /** Elements that belong to no Service port that is expected. */
  readonly unexpected: readonly NftPortDifference[];
  readonly baseRules: readonly NftPortDifference[];
  /** Differences that belong to findings of Services: the address of a stale one, the hairpins of stale endpoints. */
  readonly isExplained: (difference: NftPortDifference) => boolean;
}

/** Gives each difference to the Service ports that it may concern: by its owner, the chain it leads to, its address and port. */
export function attribute(differences: readonly NftPortDifference[], expected: ExpectedTable): AttributedNft {
  const byPort = new Map<NftPort, NftPortDifference[]>();
  const unexpected: NftPortDifference[] = [];
  const baseRules: NftPortDifference[] = [];
  let index: EntryIndex | null = null;
  const listed = new Set<string>();
  for (const difference of differences) {
    // All ports of a Service have its cluster IP; it is reported for one.
    const {name, kind, key = ''} = difference;
    if (name === 'cluster-ips' && listed.has(`${kind} ${key}`)) continue;
    if (name === 'cluster-ips') listed.add(`${kind} ${key}`);
    const thirdParty = difference.owner === null && isOfServices(difference);
    if (thirdParty) index ??= entryIndex(expected);
    const owners = difference.owner !== null ? [difference.owner] : thirdParty ? concerned(difference, expected, index ?? new Map()) : [];
    for (const owner of owners) {
      pushTo(byPort, owner, difference);
    }
    if (owners.length > 0) continue;
    if (thirdParty) unexpected.push(difference);
    else baseRules.push(difference);
  }
  const stale = new Set(unexpected.map(({key = ''}) => key.split(' . ')[0]));
  const isExplained = ({what, kind, name, key = ''}: NftPortDifference): boolean =>
    what === 'element' &&
    kind === 'extra' &&
    ((name === 'cluster-ips' && stale.has(key)) || (name === 'hairpin-connections' && byPort.size + unexpected.length > 0));
  return {byPort, unexpected, baseRules, isExplained};
}

function isOfServices(difference: NftPortDifference): boolean {
  const {what, name} = difference;
  return what === 'element' && (isEntryMap(name) || isRefusal(difference) || name.startsWith('firewall'));
}

type EntryIndex = ReadonlyMap<string, readonly NftPort[]>;

/** Service ports by the keys of their entries. */
function entryIndex({ports}: ExpectedTable): EntryIndex {
  const index = new Map<string, NftPort[]>();
  for (const item of ports) {
    const {port} = item;
    const protocol = port.protocol.toLowerCase();
    const addresses = new Set([port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs]);
    const keys = [...addresses].map(address => `${address} . ${protocol} . ${port.port}`);
    if (port.nodePort !== 0) keys.push(`${protocol} . ${port.nodePort}`);
    for (const key of keys) pushTo(index, key, item);
  }
  return index;
}

function concerned({rule, key = ''}: NftPortDifference, expected: ExpectedTable, index: EntryIndex): readonly NftPort[] {
  const byTarget = targetsOf(rule).flatMap(chain => expected.portOfBase(parseNftName(chain)?.base ?? '') ?? []);
  return [...new Set([...byTarget, ...(index.get(key) ?? [])])];
}
