import {isServiceCIDRRule} from '../../../expect/nftables/base-chains.ts';
import {parseAddress} from '../../../model/address.ts';
import {parseInterval} from '../../../parse/nftables/address-list.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import type {NftBaseRulesCase} from '../nft-case.ts';
import {analyzeUnexpectedNftRules} from './unexpected-nft-rules.ts';

/**
 * kube-proxy drops packets to addresses of the service networks that no Service has. Which networks there are is nowhere in the
 * Services, and the rule may be older than they are; but a network that holds endpoints takes their packets.
 */
export function analyzeClusterIPsCheck(given: NftBaseRulesCase): readonly Symptom[] {
  const rules = given.differences.filter(
    ({name, kind, rule}) =>
      name === 'cluster-ips-check' && kind !== 'missing' && isServiceCIDRRule(rule.text.replace(/ comment ".*"$/, '')),
  );
  return rules.filter(({rule}) => holdsEndpoint(given, rule.text)).flatMap(difference => analyzeUnexpectedNftRules(given, [difference]));
}

function holdsEndpoint({expected}: NftBaseRulesCase, text: string): boolean {
  const networks = [...text.matchAll(/[0-9a-f.:]+(?:\/\d+|-[0-9a-f.:]+)?/g)].map(([found]) => parseInterval(found));
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
