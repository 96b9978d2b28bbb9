import {expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {possibleVersions} from '../../expect/patch-releases.ts';
import {families, type Family} from '../../model/address.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {aboutMinor, bestVersion} from '../best-version.ts';
import type {NodeInput} from '../proxy-mode.ts';
import {baseRuleDifferences} from './analyze-ipvs-base-rules.ts';
import {compareIpvs, type IpvsDifferences} from './ipvs-differences.ts';
import {hostFacts, type IpvsState} from './ipvs-state.ts';

/** Versions that set up a node in different ways: the first of each kind. */
const lookalikes: readonly number[] = [36, 35, 34, 33, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21];

interface IpvsNode {
  readonly state: IpvsState;
  readonly ports: readonly ServicePort[];
  /** The iptables of a family, if they are whole enough to be compared. */
  readonly rulesetOf: (family: Family) => Ruleset | null;
}

/** Where kube-proxy's version is only guessed, or its patch is not known: the version that the node's rules and IPVS fit best. */
export function resolveIpvsVersion(input: NodeInput, node: IpvsNode): ProxyConfig {
  const {config} = input;
  const candidates = candidatesOf(config.version.value);
  if (candidates.length === 1) return config;
  return bestVersion(config, candidates, candidate => countDifferences({...input, config: candidate}, node)).config;
}

function candidatesOf(value: KubeProxyVersion): readonly KubeProxyVersion[] {
  const own = possibleVersions(value, 'ipvs');
  if (value.guessed === undefined) return own;
  const others = lookalikes.filter(minor => minor !== value.minor);
  return [...own, ...others.flatMap(minor => possibleVersions(aboutMinor(minor), 'ipvs'))];
}

function countDifferences(input: NodeInput, {state, ports, rulesetOf}: IpvsNode): number {
  const facts = hostFacts(input.facts, state, ports, input.config.version.value);
  return families.reduce((sum, family) => {
    const expected = expectIpvs({...input, facts, family, bound: state.bound ?? []});
    const ruleset = rulesetOf(family);
    const rules = ruleset === null ? [] : baseRuleDifferences({expected, ruleset, sets: state.sets});
    return sum + rules.length + countOf(compareIpvs(expected, state));
  }, 0);
}

function countOf({byPort, extraServers, extraAddresses, extraMembers, wrongSets}: IpvsDifferences): number {
  const ofPorts = [...byPort.values()].flatMap(own => Object.values(own).map(all => all.length));
  return [...ofPorts, extraServers.length, extraAddresses.length, extraMembers.length, wrongSets.length].reduce((a, b) => a + b, 0);
}
