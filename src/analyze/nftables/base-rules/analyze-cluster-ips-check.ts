import {isServiceCIDRRule, serviceRangeRule} from '../../../expect/nftables/base-chains.ts';
import {networksIn} from '../../../expect/nftables/service-ranges.ts';
import {parseAddress} from '../../../model/address.ts';
import type {NftRule} from '../../../model/nft-ruleset.ts';
import {mergeAddresses, parseInterval} from '../../../parse/nftables/address-list.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import type {NftBaseRulesCase} from '../nft-case.ts';
import {analyzeUnexpectedNftRules} from './unexpected-nft-rules.ts';

/**
 * kube-proxy drops packets to addresses of the Service range that no Service has. The rule may be an hour older than the ServiceCIDR
 * objects that it follows from; but a range that holds endpoints takes their packets.
 */
export function analyzeClusterIPsCheck(given: NftBaseRulesCase): readonly Symptom[] {
  const chain = given.actual.chain('cluster-ips-check');
  const rules = (chain?.rules() ?? []).filter(({body}) => isServiceCIDRRule(body));
  const harmful = rules.filter(({body}) => holdsEndpoint(given, networksIn(body)));
  if (harmful.length > 0) return harmful.flatMap(rule => dropsEndpoints(given, rule));
  return chain?.complete === true ? outdatedRange(given, rules) : [];
}

function holdsEndpoint({expected}: NftBaseRulesCase, ranges: readonly string[]): boolean {
  const networks = ranges.map(text => parseInterval(text));
  const inside = (address: string): boolean => {
    const parsed = parseAddress(address);
    return (
      parsed !== null &&
      networks.some(network => network?.family === parsed.family && network.low <= parsed.value && parsed.value <= network.high)
    );
  };
  return expected.ports.some(({endpoints, port}) =>
    [...endpoints.reachable.map(({address}) => address), ...port.externalIPs, ...port.loadBalancerVIPs].some(inside),
  );
}

/** Of a rule that kube-proxy wrote for the ServiceCIDRs there are, the range is at fault and not the rule. */
function dropsEndpoints(given: NftBaseRulesCase, rule: NftRule): readonly Symptom[] {
  const symptoms = analyzeUnexpectedNftRules(given, [{kind: 'extra', what: 'rule', name: 'cluster-ips-check', rule, owner: null}]);
  const ranges = networksIn(rule.body);
  if (given.serviceRanges === null || !isSameRange(ranges, given.serviceRanges)) return symptoms;
  return symptoms
    .filter(({severity}) => severity !== 'info')
    .map(symptom => ({
      ...symptom,
      kind: 'unexpected-reject',
      detail: `kube-proxy drops packets to unallocated addresses of the Service range ${ranges.join(', ')}, and endpoints have addresses in it`,
      remedy: 'Move the endpoints out of the Service range, or delete the ServiceCIDR that holds them.',
    }));
}

/** No packet to a Service is affected: packets to addresses that no Service has are dropped or leave the node. */
function outdatedRange({serviceRanges, expected, actual}: NftBaseRulesCase, rules: readonly NftRule[]): readonly Symptom[] {
  if (serviceRanges === null) return [];
  const found = rules.flatMap(({body}) => networksIn(body));
  if (isSameRange(found, serviceRanges)) return [];
  const {family} = expected.context;
  const wanted = serviceRanges.length === 0 ? [] : [serviceRangeRule(family, serviceRanges)];
  const state =
    found.length === 0
      ? 'cluster-ips-check does not drop packets to unallocated addresses'
      : `cluster-ips-check drops packets to unallocated addresses of ${found.join(', ')}`;
  return [
    {
      ...{kind: 'missing-rule', severity: 'info', family, port: null},
      detail: `${state}; the Service range is ${serviceRanges.join(', ') || 'empty'}. kube-proxy writes the rule with its next full sync, within an hour: no Service is affected`,
      expected: wanted.map(text => ({table: actual.id, chain: 'cluster-ips-check', line: 0, text})),
      actual: rules,
    },
  ];
}

function isSameRange(a: readonly string[], b: readonly string[]): boolean {
  return mergeAddresses(a)?.join() === mergeAddresses(b)?.join();
}
