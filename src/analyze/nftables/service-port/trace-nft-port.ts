import type {ExpectedTable} from '../../../expect/nftables/expected-table.ts';
import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {NftPort} from '../../../expect/nftables/nft-port.ts';
import type {NftRuleset} from '../../../model/nft-ruleset.ts';
import {type RuleText, ruleTextOf} from '../../../model/ruleset.ts';
import type {PortTrace, TraceStep} from '../../../model/service-trace.ts';
import {walkNftPacket} from '../../../trace/nftables/walk-nft-packet.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {traceServedPort} from '../../trace-served-port.ts';
import {pathOutcomeOfOutcomes, nftPathOutcome, pickingChain, targetsOf} from '../nft-outcome.ts';

interface NftTraceInput {
  readonly item: NftPort;
  readonly expected: ExpectedTable;
  readonly ruleset: NftRuleset;
}

/** The path of a packet from the map that holds its address through the chains of the Service, down to the rule that rewrites it. */
export function traceNftPort({item, expected, ruleset}: NftTraceInput): PortTrace {
  const environment = environmentOf(expected.context.facts);
  return traceServedPort<RuleText>({
    ...{item, context: expected.context},
    walk: packet => ({
      should: nftPathOutcome(expected, packet, environment),
      does: pathOutcomeOfOutcomes(walkNftPacket(ruleset, packet, environment)),
    }),
    stepsOf,
    pickOf: path => path.findLast(({chain}) => chain === pickingChain(path)) ?? null,
    rewriteOf: path => path.findLast(({text}) => / dnat /.test(` ${text}`)) ?? null,
  });
}

/** A map leads to the chain of the next rule; which of its elements did so is seen by that. */
function stepsOf(path: readonly RuleText[]): readonly TraceStep[] {
  return path.flatMap((rule, at) => {
    const {text} = rule;
    const next = path[at + 1]?.chain ?? '';
    const to = / vmap @service-/.test(` ${text}`) ? next : (targetsOf(rule)[0] ?? '');
    const role = parseNftName(to)?.role;
    const leads = role === 'external' || role === 'service' || role === 'local';
    return leads ? [{...ruleTextOf(rule), to}] : [];
  });
}
