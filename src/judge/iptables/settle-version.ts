import {compareRulesets} from '../../compare/compare-rulesets.ts';
import {type ExpectInput, expectRuleset} from '../../expect/iptables/expect-ruleset.ts';
import type {Family} from '../../model/family.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {asExpectation} from './expectation.ts';

/** Versions from 1.27 on whose rules look alike and that treat some Services in different ways: the first of each kind. */
const lookalikes: readonly number[] = [36, 35, 34, 33, 31, 30, 29, 28, 27];

/** Where kube-proxy's version is only guessed: the version that the node's rules fit best, the newest of those that fit alike. */
export function settleVersion(input: Omit<ExpectInput, 'family' | 'ruleset'>, rulesets: ReadonlyMap<Family, Ruleset>): ProxyConfig {
  const {config} = input;
  const {value, source} = config.version;
  if (!value.guessed || value.minor < 27) return config;
  let best = {config, differences: Number.POSITIVE_INFINITY};
  for (const minor of new Set([value.minor, ...lookalikes])) {
    const version: KubeProxyVersion = minor === value.minor ? value : {text: `about v1.${minor}`, minor, patch: 0, guessed: true};
    const candidate = {...config, version: {value: version, source}};
    let differences = 0;
    for (const [family, ruleset] of rulesets) {
      const expected = expectRuleset({...input, config: candidate, family, ruleset});
      differences += compareRulesets(asExpectation(expected), ruleset).differences.length;
    }
    if (differences < best.differences) best = {config: candidate, differences};
    if (differences === 0) break;
  }
  return best.config;
}
