import {type KubeProxyVersion, type ProxyConfig, seenInRules} from '../model/proxy-config.ts';
import {aboutMinor} from '../expect/patch-releases.ts';

interface BestVersion {
  readonly config: ProxyConfig;
  /** How many differences are left. */
  readonly differences: number;
}

/** The settings with the version whose rules the node's fit best; of those that fit alike, with the first. */
export function bestVersion(
  config: ProxyConfig,
  candidates: Iterable<KubeProxyVersion>,
  countDifferences: (config: ProxyConfig) => number,
): BestVersion {
  let best: BestVersion = {config, differences: Number.POSITIVE_INFINITY};
  for (const version of candidates) {
    const candidate = withVersion(config, version);
    const differences = countDifferences(candidate);
    if (differences < best.differences) best = {config: candidate, differences};
    if (differences === 0) break;
  }
  return best;
}

/** The settings with the rules of another version; a version that was said keeps its name. */
function withVersion(config: ProxyConfig, {minor, patch}: KubeProxyVersion): ProxyConfig {
  const {value, source} = config.version;
  if (minor === value.minor && patch === value.patch) return config;
  const name = patch === null ? `1.${minor}` : `1.${minor}.${patch}`;
  if (value.guessed === undefined) {
    const evaluated = `${source}; evaluated with the rules of ${name}, which fit best`;
    return {...config, version: {value: {...value, minor, patch}, source: evaluated}};
  }
  const basis = source === seenInRules ? source : `${seenInRules}, which fit it better than ${value.text} (${source})`;
  return {...config, version: {value: {...aboutMinor(minor), text: `about v${name}`, patch}, source: basis}};
}
