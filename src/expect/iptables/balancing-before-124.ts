import type {Endpoint} from '../../model/endpoint.ts';
import type {PlanBefore124} from './plan-before-124.ts';
import {probability, type RuleWriter} from './rule-text.ts';
import {affinityMatch} from './service-rules.ts';
import {decimalsOfProbability} from './iptables-versions.ts';

interface Balancing {
  readonly chain: string;
  readonly endpoints: readonly Endpoint[];
  /** The Service's session affinity applies, if it has any. */
  readonly affinity: boolean;
  readonly affinityComment: string;
  readonly balancingComment: (index: number) => string;
}

/** The rules that select an endpoint: first for returning clients, then one for each endpoint with its share. */
export function writeBalancing({item, context}: PlanBefore124, write: RuleWriter, balancing: Balancing): void {
  const {chain, endpoints, affinity, affinityComment, balancingComment} = balancing;
  const {port, endpointChain} = item;
  if (port.affinitySeconds !== null && affinity) {
    for (const endpoint of endpoints) {
      const target = endpointChain(endpoint);
      write('nat', chain, `${affinityComment}${affinityMatch(port.affinitySeconds, target, context)} -j ${target}`);
    }
  }
  const decimals = decimalsOfProbability(context.version);
  for (const [index, endpoint] of endpoints.entries()) {
    const left = endpoints.length - index;
    const statistic = left > 1 ? `-m statistic --mode random --probability ${probability(left, decimals)} ` : '';
    write('nat', chain, `${balancingComment(index)}${statistic}-j ${endpointChain(endpoint)}`);
  }
}
