import type {ServedPort} from '../../model/endpoint.ts';
import {hostIP} from '../../model/node/node-facts.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {someOf} from '../../model/text.ts';
import type {NodeRule, Outcome} from '../../trace/packet.ts';
import {noting, type Side, walkSide} from '../../trace/side.ts';
import {packetToNode, type Probe} from '../outcomes/probes.ts';
import {classesOfProbe, clientPorts, type SenderGroups} from '../outcomes/senders.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {causeText, type EffectCase} from './rule-effect.ts';

interface HealthCheckCase {
  readonly side: Side;
  readonly ports: readonly ServedPort[];
  readonly groups: SenderGroups;
  readonly effects: EffectCase;
}

/**
 * Rules that keep everybody outside from the healthCheckNodePort of Services, where load balancers ask a node whether it has endpoints: one
 * symptom for each rule. One that lets some in may be made for the load balancer.
 */
export function healthCheckSymptoms(given: HealthCheckCase): readonly Symptom<RuleText>[] {
  const {ports, effects} = given;
  const asked = ports.filter(({port}) => port.healthCheckNodePort !== 0 && port.loadBalancerVIPs.length > 0);
  const byNumber = Map.groupBy(asked, ({port}) => port.healthCheckNodePort);
  const lost = [...byNumber].flatMap(([number, items]) => {
    const stop = whatStops(number, given);
    return stop === null ? [] : [{stop, number, items}];
  });
  return [...Map.groupBy(lost, ({stop: {path, policy}}) => policy ?? path.at(-1)).values()].flatMap(alike => {
    const [first] = alike;
    if (first === undefined) return [];
    const {verdict, policy, path} = first.stop;
    const rule = policy === undefined ? (path.at(-1) ?? null) : null;
    const affects = alike.flatMap(({items}) => items.map(({port}) => port));
    const names = someOf([...new Set(affects.map(({namespace, service}) => `${namespace}/${service}`))]);
    const numbers = someOf(alike.map(({number}) => String(number)));
    const state = `health checks at port ${numbers} (healthCheckNodePort of ${names}) are ${verdict === 'drop' ? 'dropped' : 'refused'}`;
    return {
      kind: 'health-check-port-blocked',
      severity: affects.some(isOfCloud) ? 'warning' : 'info',
      ...{family: effects.context.family, port: null, affects, expected: [], actual: rule === null ? [] : [rule]},
      // What made the policy no rule shows.
      ...(rule === null ? {remedy: 'Open the port for the load balancer in the tool that set the policy (firewalld, ufw).'} : {}),
      detail: `${state} ${causeText(rule, policy, effects)}: a load balancer that asks there sends nothing to this node`,
    };
  });
}

/** How the kernel stops all clients outside; null if some get in, if that is not certain, or if rules of kube-proxy do it. */
function whatStops(number: number, {side, groups, effects}: HealthCheckCase): Outcome<NodeRule> | null {
  const {context, isOwn} = effects;
  const destination = hostIP(context.facts, context.family) ?? '';
  const sent = packetToNode({protocol: 'TCP', destination, port: number}, context, side.environment);
  if (sent === null) return null;
  const probe: Probe = {...sent, entry: {kind: 'nodePort', address: null, port: number}, knownTo: new Set()};
  let getsIn = false;
  const isOver = (): boolean => getsIn;
  const {classes, isCut} = classesOfProbe(probe, {groups, except: [], ports: [clientPorts], most: maxClasses, isOver}, (own, note) => {
    const [outcome, ...others] = walkSide(noting(side, note), own.packet);
    const rule = outcome?.policy === undefined ? outcome?.path.at(-1) : undefined;
    const isStopped = outcome?.verdict === 'drop' || outcome?.verdict === 'reject';
    const stop = isStopped && others.length === 0 && (rule === undefined || !isOwn(rule)) ? outcome : null;
    getsIn = stop === null;
    return stop;
  });
  const [[, first] = []] = classes;
  return isCut || classes.some(([, outcome]) => outcome === null) ? null : (first ?? null);
}

const maxClasses = 100;

/** Whether a load balancer outside of the cluster serves it, as those of clouds that ask this port. Others need not. */
function isOfCloud({object: {metadata, status}}: ServicePort): boolean {
  const ingress = status?.loadBalancer?.ingress ?? [];
  const annotations = Object.keys(metadata.annotations ?? {});
  return (
    ingress.some(({hostname}) => hostname !== undefined) ||
    annotations.some(name =>
      /^(?:service(?:\.beta|\.alpha)?\.kubernetes\.io\/[a-z]+-load-?balancer|cloud\.google\.com\/|networking\.gke\.io\/|load-balancer\.hetzner\.cloud\/|loadbalancer\.openstack\.org\/)/.test(
        name,
      ),
    )
  );
}
