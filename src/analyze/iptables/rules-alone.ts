import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {Family} from '../../model/family.ts';
import type {Chain, Rule, Ruleset} from '../../model/ruleset.ts';
import {probabilityOf} from '../services-in-rules/iptables-path.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {misnamedChains} from './misnamed-chains.ts';
import type {Dumps} from './read-dumps.ts';

/** Faults that rules show without any API object: names that do not match, broken jumps, uneven shares, chains that no rule jumps to. */
export function rulesAloneSymptoms({current}: Dumps): readonly Symptom[] {
  return [...current].flatMap(([family, ruleset]) => {
    const chains = [...(ruleset.tables.get('nat')?.chains.values() ?? [])];
    const isWhole = ruleset.tables.get('nat')?.complete === true;
    return [
      ...misnamedChains(chains, family),
      ...chains.flatMap(chain => unevenShares(chain, family)),
      ...(isWhole ? [...brokenJumps(ruleset, chains, family), ...unreachedChains(chains, family)] : []),
    ];
  });
}

/** In a complete table, a missing chain that a rule jumps to was lost. */
function brokenJumps(ruleset: Ruleset, chains: readonly Chain[], family: Family): readonly Symptom<Rule>[] {
  return chains.flatMap(chain =>
    chain.rules().flatMap((rule): readonly Symptom<Rule>[] => {
      const name = rule.target?.name ?? '';
      if (!name.startsWith('KUBE-') || ruleset.chain('nat', name) !== undefined) return [];
      const detail = `${chain.name} jumps to ${name}, and there is no chain of that name`;
      return [{kind: 'broken-jump', family, port: null, detail, expected: [], actual: [rule]}];
    }),
  );
}

/** kube-proxy gives every endpoint the same share: the first of n rules takes 1/n, and the last takes the rest. */
function unevenShares(chain: Chain, family: Family): readonly Symptom<Rule>[] {
  const role = parseChainName(chain.name)?.role;
  if (role !== 'SVC' && role !== 'SVL' && role !== 'XLB') return [];
  const picks = chain.rules().filter(rule => parseChainName(rule.target?.name ?? '')?.role === 'SEP' && !rule.text.includes(' --rcheck '));
  if (picks.length === 0 || (!chain.complete && !endsWithAll(picks))) return [];
  const wrong = picks.findIndex((rule, index) => Math.abs(probabilityOf(rule) - 1 / (picks.length - index)) > 0.001);
  const rule = picks[wrong];
  if (rule === undefined) return [];
  const percent = Math.round(probabilityOf(rule) * 1000) / 10;
  const detail = `the shares of ${chain.name} do not add up: rule ${wrong + 1} of ${picks.length} takes ${percent}% of the packets that come to it, and kube-proxy writes 1/${picks.length - wrong}`;
  return [{kind: 'uneven-balance', family, port: null, detail, expected: [], actual: picks}];
}

function endsWithAll(picks: readonly Rule[]): boolean {
  const last = picks.at(-1);
  return last !== undefined && probabilityOf(last) === 1;
}

/** Chains of Services that no rule jumps to. */
function unreachedChains(chains: readonly Chain[], family: Family): readonly Symptom<Rule>[] {
  const reached = new Set(chains.flatMap(chain => chain.rules().map(({target}) => target?.name ?? '')));
  return chains
    .filter(({name, ruleCount}) => parseChainName(name) !== null && ruleCount > 0 && !reached.has(name) && !name.startsWith('KUBE-XLB-'))
    .map(chain => ({
      ...{kind: 'orphan-chain' as const, family, port: null, expected: [], actual: chain.rules().slice(0, 8)},
      detail: `no rule jumps to ${chain.name}`,
    }));
}
