import type {NetworkPolicyObject, ServiceObject} from '../../model/api-objects.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {NodeRule, Outcome} from '../../trace/walked-packet.ts';
import {isOfPolicy} from './node-rule.ts';
import type {RuleEffect} from './rule-effect.ts';

/**
 * The effects of rules of network policies on one Service port, held against all classes of its senders. A policy is about some pods: a rule
 * that refuses whatever comes to it, and that everything comes to, is a broken agent's or somebody else's.
 */
export class PolicyRefusals {
  /** The chains that packets came back from, or that accepted them. */
  readonly #passed = new Set<string>();

  /** The outcomes of one class of senders. */
  note(outcomes: readonly Outcome[]): void {
    const passed = outcomes.filter(({verdict}) => verdict === 'accept').flatMap(({path}) => path);
    for (const rule of passed.filter(isOfPolicy)) {
      this.#passed.add(rule.chain);
      if ('target' in rule && rule.target) this.#passed.add(rule.target.name);
    }
  }

  /** The effects, in which such a rule is as bad as that of any other program, and so is one that was left behind. */
  judge(effects: readonly RuleEffect[], api: ApiObjects): readonly RuleEffect[] {
    return effects.map(effect => {
      const {severity: _, ifNoPolicy, rule, ...rest} = effect;
      if (ifNoPolicy === undefined || rule === null) return effect;
      const isForAll = ifNoPolicy.isForAll && !this.#passed.has(rule.chain);
      const why = isForAll
        ? 'it refuses every sender, and no network policy asks for that'
        : isLeftBehind(rule, api)
          ? "the cluster has no NetworkPolicy that asks for that, so the rules were left behind, or the policies' agent no longer updates them"
          : null;
      return why === null ? effect : {...rest, rule, kind: ifNoPolicy.kind, detail: `${ifNoPolicy.detail}: ${why}`};
    });
  }
}

/**
 * Whether a rule that refuses what comes to a Service, whose pods no NetworkPolicy selects, is of none at all. Egress policies are about pods of
 * clients. Other agents than these have policies of their own kinds.
 */
function isLeftBehind({chain}: NodeRule, {networkPolicies, namespaces}: ApiObjects): boolean {
  const isOfApiAlone = /^(?:KUBE-NWPLCY-|KUBE-POD-FW-|KUBE-ROUTER-|WEAVE-NPC)/.test(chain);
  return isOfApiAlone && namespaces === undefined && networkPolicies?.every(policy => !isForEgress(policy)) === true;
}

/** The API server fills in policyTypes. */
function isForEgress({spec}: NetworkPolicyObject): boolean {
  return spec?.policyTypes?.includes('Egress') !== false;
}

/** Whether a NetworkPolicy may select the pods of a Service. Without having read any, none is known to. */
export function maySelect({networkPolicies}: Pick<ApiObjects, 'networkPolicies'>, {metadata, spec}: ServiceObject): boolean {
  return (networkPolicies ?? [])
    .filter(policy => isForIngress(policy) && (policy.metadata.namespace ?? 'default') === (metadata.namespace ?? 'default'))
    .some(policy => spec?.selector == null || selects(policy, spec.selector) !== false);
}

/** Whether a NetworkPolicy certainly selects the pods of a Service, by its selector. */
export function selectsPodsOf({networkPolicies}: Pick<ApiObjects, 'networkPolicies'>, {metadata, spec}: ServiceObject): boolean {
  const selector = spec?.selector ?? null;
  const isOwn = (policy: NetworkPolicyObject): boolean => (policy.metadata.namespace ?? 'default') === (metadata.namespace ?? 'default');
  return (networkPolicies ?? []).some(
    policy => selector !== null && isOwn(policy) && isForIngress(policy) && selects(policy, selector) === true,
  );
}

/** Without policyTypes every policy is one for ingress. */
export function isForIngress({spec}: NetworkPolicyObject): boolean {
  return spec?.policyTypes?.includes('Ingress') !== false;
}

/** Whether a policy selects the pods of a Service, whose labels are known as far as its selector has them; null if that does not tell. */
export function selects({spec}: NetworkPolicyObject, podLabels: Readonly<Record<string, string>>): boolean | null {
  const {matchLabels, matchExpressions} = spec?.podSelector ?? {};
  const labels = Object.entries(matchLabels ?? {}).map(([key, value]) => (podLabels[key] === undefined ? null : podLabels[key] === value));
  const expressions = (matchExpressions ?? []).map(({key, operator, values}) => {
    const value = podLabels[key];
    if (value === undefined) return null;
    const isListed = values?.includes(value) ?? false;
    return {Exists: true, DoesNotExist: false, In: isListed, NotIn: !isListed}[operator] ?? null;
  });
  const all = [...labels, ...expressions];
  return all.includes(false) ? false : all.includes(null) ? null : true;
}
