import type {Family} from '../../model/family.ts';
import type {NftChain, NftRule, NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/**
 * Tables that see packets outside the path of a walk (bridges, devices, ARP) and may drop them. Their effect on packets of Services is not
 * evaluated, which is reported.
 */
export function unwalkedChains({tables}: NftRuleset, family: Family): readonly Symptom[] {
  return [...tables.values()].flatMap(table => {
    const chains = table.dormant ? [] : table.baseChains.filter(chain => !isWalked(table, chain));
    const stopping = chains.length === 0 ? [] : rulesThatStop(table);
    const policies = chains.filter(({base}) => base?.policy === 'drop');
    if (stopping.length === 0 && policies.length === 0) return [];
    const names = chains.map(({name, base}) => `${name} (hook ${base?.hook})`).join(', ');
    const what = policies.length > 0 ? 'a policy that drops' : 'rules that drop or take packets';
    const detail = `table ${table.id} has ${what} at ${names}, where svc-trace does not walk: whether they affect packets of Services was not checked`;
    return [
      {...{kind: 'undecided-path', severity: 'info'}, family, port: null, detail, expected: [], actual: stopping.slice(0, 3)} as const,
    ];
  });
}

function isWalked({family}: NftTable, {base}: NftChain): boolean {
  return (family === 'ip' || family === 'ip6' || family === 'inet') && base?.hook !== 'ingress' && base?.hook !== 'egress';
}

/** Which chain calls which does not matter, since none of them is followed. In table `inet` the chains of other hooks are. */
function rulesThatStop(table: NftTable): readonly NftRule[] {
  const chains = [...table.chains.values()].filter(chain => chain.base === null || !isWalked(table, chain));
  return chains.flatMap(chain => chain.rules().filter(({body}) => stops.test(body)));
}

const stops = /(?:^|[ :])(?:drop|reject|queue|fwd to|dup to|redirect|dnat)(?: |,|$)/;
