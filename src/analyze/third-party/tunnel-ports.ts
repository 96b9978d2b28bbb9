import {familyOf, formatAddress} from '../../model/address.ts';
import {hostIP} from '../../model/node/node-facts.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {someOf} from '../../model/text.ts';
import {type Side, walkSide} from '../../trace/side.ts';
import {packetOf} from '../outcomes/probes.ts';
import type {SenderGroups} from '../outcomes/senders.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {causeText, type EffectCase} from './rule-effect.ts';

/** Rules that stop what other nodes send through the tunnels of pods, where that is certain for each of them: one symptom for a tunnel. */
export function tunnelSymptoms(
  side: Side,
  {groups, effects}: {readonly groups: SenderGroups; readonly effects: EffectCase},
): readonly Symptom<RuleText>[] {
  const {facts, family} = effects.context;
  const {links = null, routes} = facts.network ?? {};
  const own = hostIP(facts, family);
  // Tunnels of both families have their ends in that of the node.
  if (links === null || own === null || familyOf(facts.hostIPs[0] ?? '') !== family) return [];
  const used = new Set((routes?.[family] ?? []).flatMap(({hops}) => hops.map(({dev}) => dev)));
  const nodes = [...groups.nodes].slice(0, maxNodes);
  return links.flatMap(({name, isUp, vxlan}) => {
    if (vxlan === null || !isUp || !used.has(name) || vxlan.carrier === null || vxlan.carrier !== facts.primaryInterface) return [];
    const ends = nodes.map(([value]) => {
      const from = {kind: 'other-node', interface: vxlan.carrier};
      const packet = packetOf({protocol: 'UDP', family}, {source: formatAddress(family, value), destination: own, port: vxlan.port, from});
      const [outcome, ...others] = packet === null ? [] : walkSide(side, packet);
      const isStopped = others.length === 0 && (outcome?.verdict === 'drop' || outcome?.verdict === 'reject');
      return isStopped ? outcome : null;
    });
    const [first] = ends;
    if (first == null || ends.includes(null)) return [];
    const rule = first.policy === undefined ? (first.path.at(-1) ?? null) : null;
    const what = `packets that carry those of pods from other nodes (${someOf(nodes.map(([, node]) => node))}) to ${name}, UDP ${vxlan.port}`;
    return [
      {
        ...{kind: 'dropped-by-other-rule', family, port: null, affects: [], expected: [], actual: rule === null ? [] : [rule]},
        detail: `${what}, are ${first.verdict === 'drop' ? 'dropped' : 'refused'} ${causeText(rule, first.policy, effects)}: pods of other nodes reach no endpoint on this node, and get no answer from one`,
        remedy: `Accept UDP port ${vxlan.port} from the other nodes in the tool that wrote the rule (firewalld, ufw, a security agent).`,
      } as const,
    ];
  });
}

const maxNodes = 20;
