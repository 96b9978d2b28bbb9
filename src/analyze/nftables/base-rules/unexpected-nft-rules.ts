import type {NftPort} from '../../../expect/nftables/nft-names.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import {describePathOutcome} from '../../outcomes/path-outcome.ts';
import {whose} from '../../outcomes/probes.ts';
import {effectOf, maxPorts, type PortProbe} from '../../outcomes/outcome-changes.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {baseChainProbes, changedProbes, directProbes, namedProbes, type TableChange} from './base-rule-effects.ts';
import {type NftCase, type NftPortDifference, withChains, withSet} from '../nft-case.ts';

/** A rule that concerns more Service ports than this is about the node. */
const maxNamed = 3;

/** Unexpected rules in base chains: their severity is their effect on packets, which are walked with and without them. */
export function analyzeUnexpectedNftRules(nftCase: NftCase, differences: readonly NftPortDifference[]): readonly Symptom[] {
  const {expected, actual, view} = nftCase;
  const rules = differences.map(({rule}) => rule);
  const [first] = differences;
  if (first === undefined) return [];
  const duplicate = differences.every(({kind}) => kind === 'duplicate');
  const found = actual.chain(first.name);
  const table = first.what === 'rule' && found !== undefined ? withChains(view, new Map([[first.name, found]])) : view;
  const other = first.what === 'element' ? withSet(view, first.name, expected.set(first.name)) : view;
  const changes = changedProbes({expected, table, other}, probesOf(nftCase, rules));
  const base = {family: expected.context.family, expected: [], actual: rules.slice(0, 6)};
  const lost = changes.filter(change => change.lost);
  const items = [...new Set(lost.map(({item}) => item))];
  if (items.length > 0 && items.length <= maxNamed)
    return items.map(item =>
      ofPort(
        lost.filter(change => change.item === item),
        {name: first.name, base},
      ),
    );
  const count = rules.length === 1 ? describe(first) : `${rules.length} rules in ${first.name}`;
  const what = duplicate
    ? `${count} ${rules.length === 1 ? 'is' : 'are'} there twice`
    : `${count} ${rules.length === 1 ? 'was' : 'were'} not written by kube-proxy`;
  const effect = effectOf(changes);
  const kind = duplicate && changes.length === 0 ? 'duplicate-rule' : 'unexpected-rule';
  return [{...base, kind, severity: effect.severity, port: null, detail: `${what}: ${effect.text}`}];
}

function describe({what, name}: NftPortDifference): string {
  return what === 'rule' ? `a rule in ${name}` : what === 'element' ? `an element of ${name}` : `what ${name} is declared as`;
}

/** New connections to each Service port, also those of an endpoint to itself, which rules may tell apart by mark or source. */
function* probesOf(nftCase: NftCase, rules: readonly RuleText[]): Iterable<PortProbe<NftPort>> {
  yield* baseChainProbes(nftCase.expected);
  yield* namedProbes(nftCase, rules, maxPorts);
  yield* directProbes(nftCase, rules);
}

interface OfPort {
  readonly name: string;
  readonly base: {readonly family: Symptom['family']; readonly expected: readonly RuleText[]; readonly actual: readonly RuleText[]};
}

function ofPort(changes: readonly TableChange[], {name, base}: OfPort): Symptom {
  const [worst] = changes;
  const port = worst?.item.port ?? null;
  if (worst === undefined) return {...base, kind: 'unexpected-rule', port, detail: `a rule in ${name}`};
  const {probe, pathOutcome, without} = worst;
  const {entry} = probe;
  if (pathOutcome.destinations.size === 0 && (pathOutcome.rejected > 0 || pathOutcome.dropped > 0) && without.destinations.size > 0) {
    const detail = `${whose(probe)} end in ${describePathOutcome(pathOutcome)}, and should reach ${describePathOutcome(without)}`;
    return {...base, kind: 'unexpected-reject', severity: 'error', port, entry, detail};
  }
  const detail = `a rule in ${name} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(pathOutcome)}`;
  return {...base, kind: 'unexpected-rule', severity: 'error', port, entry, detail};
}
