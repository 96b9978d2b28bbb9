import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import {type Rule, type Ruleset, ruleTextOf} from '../../../model/ruleset.ts';
import type {PortTrace} from '../../../model/service-trace.ts';
import {walkPacket} from '../../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {traceServedPort} from '../../trace-served-port.ts';
import {pathOutcomeOf} from '../iptables-outcome.ts';

interface TraceInput {
  readonly item: PortOnNode;
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
}

/** The path of a packet through the node's actual chains, down to the one that rewrites it. */
export function tracePort({item, expected, actual}: TraceInput): PortTrace {
  const environment = environmentOf(expected.context.facts);
  return traceServedPort<Rule>({
    ...{item, context: expected.context},
    walk: packet => ({
      should: pathOutcomeOf(walkPacket(expected, packet, environment)),
      does: pathOutcomeOf(walkPacket(actual, packet, environment)),
    }),
    stepsOf: path => path.filter(isPath).map(rule => ({...ruleTextOf(rule), to: rule.target?.name ?? ''})),
    pickOf: path => path.findLast(({target}) => parseChainName(target?.name ?? '')?.role === 'SEP') ?? null,
    rewriteOf: path => path.findLast(({target}) => target?.name === 'DNAT') ?? null,
  });
}

/** The jumps that lead to the chain that picks an endpoint. */
function isPath({table, target}: Rule): boolean {
  const role = parseChainName(target?.name ?? '')?.role;
  return table === 'nat' && (target?.name === 'KUBE-NODEPORTS' || (role !== undefined && role !== 'SEP'));
}
