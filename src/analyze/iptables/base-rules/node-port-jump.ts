import type {Severity} from '../../../model/finding.ts';
import type {Rule} from '../../../model/ruleset.ts';
import {near, type PathOutcome} from '../../outcomes/path-outcome.ts';
import type {BaseRuleSymptom, LeftBaseRules} from './base-rules-case.ts';

/** The jump from nat/KUBE-SERVICES to KUBE-NODEPORTS: missing, or for other addresses than it should be. */
export function analyzeNodePortJump(given: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {expected, actual, differences, changesOutcomes} = given;
  const explained = differences.filter(({table, chain, rule}) => table === 'nat' && chain === 'KUBE-SERVICES' && isNodePortJump(rule));
  if (explained.length === 0) return [];
  const missing = explained.filter(({kind}) => kind === 'missing').map(({rule}) => rule);
  if (missing.length === 0) return answersElsewhere(given, explained);
  const chain = actual.chain('nat', 'KUBE-SERVICES');
  const found = (chain?.rules() ?? []).filter(isNodePortJump);
  const right = expected.chain('nat', 'KUBE-SERVICES')?.rules().filter(isNodePortJump) ?? [];
  const repaired = [...(chain?.rules() ?? []).filter(rule => !isNodePortJump(rule)), ...right];
  const lost = chain === undefined || changesOutcomes(chain, repaired, losesEndpoint);
  const gained = !lost && changesOutcomes(chain, repaired);
  const detail =
    found.length === 0
      ? 'nothing jumps to KUBE-NODEPORTS from nat/KUBE-SERVICES: no node port answers'
      : lost
        ? 'the jump to KUBE-NODEPORTS is restricted to other packets than it should be: node ports do not answer where they should'
        : gained
          ? 'the jump to KUBE-NODEPORTS is not restricted to the expected addresses: node ports answer on addresses on which they should not'
          : 'the jump to KUBE-NODEPORTS is written in another way: no traffic is affected';
  const severity: Severity = lost ? 'error' : gained || found.length === 0 ? 'warning' : 'info';
  return [{symptom: {kind: 'node-ports-unreachable', severity, detail, expected: missing, actual: found}, explained}];
}

/** Packets to a node port reach an endpoint, or all of them do, only after the repair. */
function losesEndpoint(today: PathOutcome, repaired: PathOutcome): boolean {
  return [...repaired.destinations].some(([endpoint, {probability}]) => {
    const share = today.destinations.get(endpoint)?.probability ?? 0;
    return share < probability && !near(share, probability);
  });
}

function answersElsewhere({expected}: LeftBaseRules, explained: BaseRuleSymptom['explained']): readonly BaseRuleSymptom[] {
  const extra = explained.filter(({kind}) => kind === 'extra').map(({rule}) => rule);
  if (extra.length === 0) return [];
  // The local addresses are only certain if the node's interfaces were read.
  const severity: Severity = expected.context.facts.allAddresses ? 'warning' : 'info';
  const detail = 'node ports answer on addresses that nodePortAddresses does not name';
  return [{symptom: {kind: 'node-ports-unreachable', severity, detail, expected: [], actual: extra}, explained}];
}

function isNodePortJump({target}: Rule): boolean {
  return target?.name === 'KUBE-NODEPORTS';
}
