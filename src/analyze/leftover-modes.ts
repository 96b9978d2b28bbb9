import type {Family} from '../model/family.ts';
import type {KubeProxyVersion} from '../model/proxy-config.ts';
import type {Rule, Ruleset} from '../model/ruleset.ts';
import {chainsOfRoles} from '../expect/iptables/role-chains.ts';
import {deletesLocalChains} from '../expect/iptables/iptables-versions.ts';
import {portalChains, portalRules} from './userspace/portal-rules.ts';
import {plural} from '../model/text/plural.ts';

/** Rules that an old kube-proxy left behind, and what they still do. */
export interface Leftover {
  readonly family: Family;
  readonly message: string;
  /** They intercept packets. */
  readonly catches: boolean;
  readonly rules: readonly Rule[];
}

/** Portals of the userspace mode beside another mode: kube-proxy no longer listens on their ports, so connections to them are refused. */
export function leftoverPortals(ruleset: Ruleset): Leftover | null {
  const rules = portalRules(ruleset);
  if (rules.length === 0) return null;
  const first = portalChains.filter(chain => rules.some(rule => rule.chain === chain) && comesFirst(ruleset, chain.name, chain.hook));
  const names = [...new Set(rules.map(({servicePortName}) => servicePortName))].slice(0, 3).join(', ');
  const held = `userspace mode left ${rules.length} rules in ${portalChains
    .map(({name}) => name)
    .filter(name => (ruleset.chain('nat', name)?.ruleCount ?? 0) > 0)
    .join(', ')} (of ${names})`;
  const effect =
    first.length > 0
      ? `${first.map(({name}) => name).join(' and ')} come before KUBE-SERVICES: their packets go to ports on which kube-proxy no longer listens`
      : 'packets that KUBE-SERVICES does not match still go to ports on which kube-proxy no longer listens';
  return {family: ruleset.family, message: `${held}; ${effect}`, catches: first.length > 0, rules: rules.slice(0, 6).map(({rule}) => rule)};
}

function comesFirst(ruleset: Ruleset, chain: string, hook: string): boolean {
  const targets = (ruleset.chain('nat', hook)?.rules() ?? []).map(({target}) => target?.name);
  const at = targets.indexOf(chain);
  const services = targets.indexOf('KUBE-SERVICES');
  return at >= 0 && (services < 0 || at < services);
}

/** kube-proxy from 1.28 on does not remove KUBE-XLB chains. Chains that they jump to cannot be deleted. */
export function leftoverLocalChains(ruleset: Ruleset, version: KubeProxyVersion): Leftover | null {
  if (deletesLocalChains(version)) return null;
  const chains = [...chainsOfRoles(ruleset, ['XLB'])];
  const rules = chains.flatMap(chain => chain.rules());
  if (rules.length === 0) return null;
  const message = `kube-proxy 1.23 or older left ${plural(chains.length, 'chain')} KUBE-XLB-… (such as ${chains[0]?.name}), which kube-proxy from 1.28 on does not remove: chains that they lead to cannot be deleted, and then every sync of kube-proxy fails`;
  return {family: ruleset.family, message, catches: false, rules: rules.slice(0, 6)};
}
