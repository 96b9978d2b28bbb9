import {proxyVersion} from '../expect/cluster/service-ports.ts';
import {tableId} from '../expect/nftables/expected-table.ts';
import {type ModeInRules, modesInRules} from '../analyze/modes-in-rules.ts';
import {type Leftover, leftoverLocalChains, leftoverPortals} from '../analyze/leftover-modes.ts';
import {type LeftoverCase, type LeftoverEffect, leftoverEffect} from '../analyze/leftover-effect.ts';
import {serverEvidence} from '../analyze/ipvs/evidence.ts';
import {catchingServers} from '../analyze/ipvs/leftover-servers.ts';
import {families} from '../model/family.ts';
import type {Ruleset} from '../model/ruleset.ts';
import type {Observation} from '../model/finding.ts';
import {joinHostPort, type VirtualServer} from '../model/virtual-server.ts';
import {walkNftPacket} from '../trace/nftables/walk-nft-packet.ts';
import {walkPacket} from '../trace/iptables/walk-packet.ts';
import type {Check, NodeCheckContext} from './check.ts';
import {listPlace, onNode} from './commands/node-commands.ts';
import {run} from './commands/service-commands.ts';

export const otherModeLeftovers: Check<'ST502'> = {
  code: 'ST502',
  name: 'other-mode-leftovers',
  severity: 'warning',
  summary: 'Rules or virtual servers of a proxy mode that is not running',
  remedy:
    'Clean up on this node: run kube-proxy --cleanup with the image and flags of its kube-proxy and start it again, or reboot the node.',
  *node(context) {
    const {node, config, rulesets} = context;
    const said = config.mode.value;
    const held = modesInRules(context);
    for (const ruleset of rulesets.values()) {
      const local = leftoverLocalChains(ruleset, config.version.value);
      const portals = said === 'userspace' || !held.some(({mode}) => mode === said) ? null : leftoverPortals(ruleset);
      const observations = [local, portals].flatMap(leftover => (leftover === null ? [] : [observationOf(node.name, leftover)]));
      for (const observation of observations) yield {...observation, ...listPlace(context, observation)};
    }
    if (!held.some(({mode}) => mode === said)) return;
    for (const {mode, sign} of held) {
      if (mode === said || mode === 'userspace') continue;
      const blocked = mode === 'iptables' ? jumpsTo(rulesets.values()) : '';
      const message = `kube-proxy runs in ${said} mode, and ${mode} mode left something behind: ${sign()}${blocked}`;
      if (mode === 'ipvs') {
        yield {node: node.name, message, ...run('ipvsadm -Ln'), ...effectOfServers(message, catchingServers(context))};
        continue;
      }
      // In IPVS mode walks show the packets that such rules reject.
      const effect = said === 'ipvs' ? null : effectOf(context, mode);
      const show = onNode(
        context,
        mode === 'nftables' ? `nft list table ${tableOf(context)}` : `${toolOf(rulesets)} -t nat -S KUBE-SERVICES`,
      );
      yield effect === null
        ? {node: node.name, message, ...show}
        : {node: node.name, message: `${message}; ${effect.text}`, severity: effect.severity, ...show};
    }
  },
};

/** Where both backends are installed, iptables may be the other one. */
function toolOf(rulesets: NodeCheckContext['rulesets']): string {
  return rulesets.get('IPv4')?.backend === 'legacy' ? 'iptables-legacy' : 'iptables';
}

/** A chain that a third-party rule jumps to cannot be deleted, and then the whole table stays. */
function jumpsTo(rulesets: Iterable<Ruleset>): string {
  for (const ruleset of rulesets)
    for (const chain of ruleset.tables.get('nat')?.chains.values() ?? []) {
      if (chain.name.startsWith('KUBE-') || chain.policy !== null) continue;
      const target = chain.rules().find(rule => rule.target?.name.startsWith('KUBE-') ?? false)?.target?.name;
      if (target !== undefined) return `, which cannot be deleted while ${chain.name} jumps to ${target}`;
    }
  return '';
}

/** The table of kube-proxy that is there, in the first family that has one. */
function tableOf({nft}: NodeCheckContext): string {
  return families.map(tableId).find(id => nft()?.tables.has(id)) ?? tableId('IPv4');
}

/** If another mode translates packets first, IPVS has no effect, except at addresses of deleted Services. */
function effectOfServers(message: string, catching: readonly VirtualServer[]): Partial<Observation> {
  const [first] = catching;
  if (first === undefined) return {};
  const reals = first.realServers.map(({hostPort}) => hostPort).slice(0, 3);
  const more = catching.length > 1 ? ` (and ${catching.length - 1} more like it)` : '';
  return {
    severity: 'error',
    message: `${message}; packets to ${joinHostPort(first.address, first.port)}, which no Service has, are still sent to ${reals.join(', ')}${more}`,
    actual: catching.slice(0, 3).flatMap(serverEvidence).slice(0, 6),
  };
}

/** What leftover rules in iptables or nftables do to packets of Services; null if nothing, or if it was not checked. */
function effectOf({rulesets, nft, view, facts, config}: NodeCheckContext, mode: ModeInRules['mode']): LeftoverEffect | null {
  const proxy = proxyVersion(config);
  for (const family of families) {
    const table = mode === 'nftables' ? nft()?.tables.get(tableId(family)) : undefined;
    const ruleset = mode === 'iptables' ? rulesets.get(family) : undefined;
    const walk: LeftoverCase['walk'] = (packet, environment) =>
      table !== undefined
        ? walkNftPacket({tableSources: [table]}, packet, environment)
        : ruleset !== undefined
          ? walkPacket(ruleset, packet, environment)
          : [];
    const effect = leftoverEffect({entries: view.entries(family, proxy), facts, walk});
    if (effect !== null) return effect;
  }
  return null;
}

function observationOf(node: string, {family, message, catches, rules}: Leftover): Observation {
  return {node, family, message, actual: rules, ...(catches ? {severity: 'error'} : {})};
}
