import {senderGroups} from '../analyze/outcomes/senders.ts';
import {podInterface, type Source} from '../analyze/outcomes/sources.ts';
import {near} from '../analyze/outcomes/environment.ts';
import {packetOf} from '../analyze/outcomes/probes.ts';
import {ClusterView} from '../expect/cluster/cluster-view.ts';
import {isLoopback} from '../expect/node-context.ts';
import {families, parseAddress} from '../model/address.ts';
import {holds} from '../model/intervals.ts';
import {append, pushTo} from '../model/lists.ts';
import type {
  ForetoldChange,
  PlanCheck,
  PlanNode,
  PreviewChange,
  PreviewEffect,
  PreviewOutcome,
  PreviewPlan,
  PreviewSettings,
} from '../model/preview-result.ts';
import {defaultOfKubeProxy, type ProxyConfig, seenInRules} from '../model/proxy-config.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {compareText, namespacedName} from '../model/text.ts';
import {probeOutcome, outcomesOf} from './effect.ts';
import {nodeSetup, type NodeSetup, plannedSettings, actualSide, walksReplies, type WalkedSide, sideOutcome} from './sides.ts';
import {basisOf, onlyOfNodeObject, type PreviewRunInput} from './preview-run.ts';
import {type FoundChange, type KnownWalks, previewNode} from './preview-node.ts';
import {maxPreviewClasses} from './proof.ts';

/** Compares nodes with the plan that a preview wrote: what it foretold, and what changed besides. Nodes are added one by one. */
export class PlanCheckRun {
  readonly #input: PreviewRunInput;
  readonly #plan: PreviewPlan;
  readonly #view: ClusterView;
  readonly #walked: KnownWalks = new Map();
  readonly #effort = {left: maxPreviewClasses};
  readonly #nodes: PlanNode[] = [];
  readonly #foretold: ForetoldChange[] = [];
  readonly #besides: PreviewChange[] = [];
  readonly #byNode = new Map<string, PreviewChange[]>();

  constructor(input: PreviewRunInput, plan: PreviewPlan) {
    this.#input = input;
    this.#plan = plan;
    this.#view = new ClusterView(input.api);
    const scope = new Set(input.scope);
    const known = new Set((input.api.services ?? []).map(({metadata}) => namespacedName(metadata)));
    for (const change of plan.changes) {
      const name = namespacedName(change.service);
      // A Service that the change removes is in no scope of today.
      if (scope.has(name) || !known.has(name)) pushTo(this.#byNode, change.node, change);
    }
  }

  addUnread(name: string, reason: string): void {
    this.#nodes.push({name, status: 'unread', reason});
  }

  /** Without the rules of the node nothing can be said of it. */
  addExpected({name}: NodeDump, reason: string): void {
    this.addUnread(name, reason);
  }

  add(node: NodeDump): void {
    const {api} = this.#input;
    const {name} = node;
    const settings = this.#plan.settings.find(({nodes}) => nodes.includes(name));
    if (settings === undefined) return this.addUnread(name, 'the plan does not have the node');
    const setup = nodeSetup({node, api, view: this.#view, overrides: {}});
    const {basis, reason} = basisOf(setup, setup.config, false);
    if (basis !== 'actual') return this.addUnread(name, reason ?? 'its rules were not read');
    const foretold = this.#byNode.get(name) ?? [];
    // Without these, no walk tells a node port at one of them.
    if (!setup.facts.allAddresses && !foretold.every(change => isKnownByNodeObject(setup, change)))
      return this.addUnread(name, 'its addresses were not read');
    const status = isSwitched(setup.config, settings) ? 'switched' : 'not-switched';
    const other = ['mode', 'version'].filter(
      key => settingText(key, plannedSettings(setup.config)[key]) !== settingText(key, settings.after[key]),
    );
    const reasons = [
      ...(other.length > 0 ? [`its ${other.join(' and ')} is not that of the plan`] : []),
      ...(this.#plan.withoutAddresses.includes(name) ? [`the plan was made without its addresses: ${onlyOfNodeObject}`] : []),
    ];
    this.#nodes.push({name, status, ...(status === 'switched' && reasons.length > 0 ? {reason: reasons.join('; ')} : {})});
    if (status === 'not-switched') return;
    const configBefore = configOf(setup.config, settings.before);
    const sides = new Map(
      families.map(family => {
        const hasReplies = walksReplies({setup, configAfter: configBefore, expectedOnly: false}, family);
        const side = actualSide(setup, this.#view, family);
        return [family, hasReplies ? {...side, pods: senderGroups({api, context: side.context}).spaces.get('pod') ?? []} : side];
      }),
    );
    for (const change of foretold) {
      const side = sides.get(change.packet.family);
      if (side !== undefined) this.#foretold.push(foretoldChange(side, change));
    }
    append(this.#besides, this.#unforetold(setup, configBefore, foretold));
  }

  /** What the node treats otherwise than kube-proxy with the settings of before would, as far as the plan does not say so. */
  #unforetold(setup: NodeSetup, configAfter: ProxyConfig, foretold: readonly PreviewChange[]): readonly PreviewChange[] {
    const scope = new Set(this.#plan.scope);
    const sendersOf = Map.groupBy(foretold, changeKey);
    // Addresses of pods come and go; those of others are where rules tell clients apart.
    const isForetold = ({change, space}: FoundChange): boolean =>
      (sendersOf.get(changeKey(change)) ?? []).some(
        ({source, packet}) =>
          (source.kind !== 'node' && source.kind !== 'external') ||
          packet.source === change.packet.source ||
          holds(space ?? [], parseAddress(packet.source)?.value ?? -1n),
      );
    const isWithout = this.#plan.withoutAddresses.includes(setup.node.name);
    const found = previewNode({
      setup,
      viewAfter: this.#view,
      configAfter,
      expectedOnly: false,
      walked: this.#walked,
      effort: this.#effort,
      paths: false,
      selects: port => this.#input.selects(port) && scope.has(namespacedName(port.object.metadata)),
    });
    return found.changes
      .filter(found => !found.isUnusedPort && !isForetold(found) && (!isWithout || isKnownByNodeObject(setup, found.change)))
      .map(({change}) => ({...change, before: change.after, after: change.before, effect: inverse[change.effect] ?? change.effect}));
  }

  result(): PlanCheck {
    const byNode = <T extends {readonly node: string}>(all: readonly T[]): readonly T[] =>
      all.toSorted((a, b) => compareText(a.node, b.node));
    const added = new Set(this.#nodes.map(({name}) => name));
    const gone = this.#plan.settings.flatMap(({nodes}) => nodes).filter(name => !added.has(name));
    return {
      nodes: this.#nodes.toSorted((a, b) => compareText(a.name, b.name)),
      notChecked: gone.length,
      foretold: byNode(this.#foretold.map(one => ({...one, node: one.change.node}))),
      besides: byNode(this.#besides),
    };
  }
}

/** Not a node port at an address that only the interfaces of the node tell. */
function isKnownByNodeObject({facts}: NodeSetup, {entry, packet: {destination}}: PreviewChange): boolean {
  return entry.kind !== 'nodePort' || isLoopback(destination) || facts.hostIPs.includes(destination);
}

const inverse: Readonly<Partial<Record<PreviewEffect, PreviewEffect>>> = {
  lost: 'gained',
  gained: 'lost',
  refused: 'unanswered',
  unanswered: 'refused',
};

/** Not if all settings that the change concerns are those of before. */
function isSwitched(now: ProxyConfig, {before, after}: {readonly before: PreviewSettings; readonly after: PreviewSettings}): boolean {
  const current = plannedSettings(now);
  const differing = Object.keys(after).filter(name => settingText(name, after[name]) !== settingText(name, before[name]));
  // Of a change of the mode, other settings tell nothing where no configuration was read: rules and defaults are those of a mode.
  const isUntold = (name: string) =>
    name !== 'mode' && differing.includes('mode') && [defaultOfKubeProxy, seenInRules].includes(now[name as keyof ProxyConfig].source);
  const isAsBefore = (name: string) => settingText(name, current[name]) === settingText(name, before[name]);
  return differing.length === 0 || differing.some(name => !isUntold(name) && !isAsBefore(name));
}

/** A version has a text, which a guess spells in another way. */
function settingText(name: string, value: unknown): string {
  if (name !== 'version' || typeof value !== 'object' || value === null) return JSON.stringify(value) ?? '';
  return JSON.stringify(['minor' in value ? value.minor : null, 'patch' in value ? value.patch : null]);
}

function configOf(now: ProxyConfig, settings: PreviewSettings): ProxyConfig {
  const entries = Object.entries(now).map(([name, setting]) => [
    name,
    settings[name] === undefined ? setting : {value: settings[name], source: 'the plan'},
  ]);
  return Object.fromEntries(entries) as ProxyConfig;
}

/** What a change is about, but for the address of the sender, which may be another one of those that are treated alike. */
function changeKey({service, port, entry, source, packet}: PreviewChange): string {
  return JSON.stringify([namespacedName(service), port.protocol, port.port, entry.kind, packet.destination, packet.port, source.kind]);
}

/** Walks the packet of a foretold change through the current rules of its node. */
function foretoldChange(side: WalkedSide, change: PreviewChange): ForetoldChange {
  const {packet: planned, port, entry, service, source} = change;
  const {context} = side;
  const name = namespacedName(service);
  const item =
    side.ports.find(
      one => namespacedName(one.port.object.metadata) === name && one.port.protocol === port.protocol && one.port.port === port.port,
    ) ?? null;
  const from: Source = {
    kind: source.kind === 'node' ? 'node' : source.kind === 'external' ? 'outside' : 'pod',
    address: planned.source,
    interface:
      source.kind === 'node'
        ? null
        : source.kind === 'pod' || source.kind === 'endpoint'
          ? podInterface(context)
          : context.facts.primaryInterface,
  };
  const packet = packetOf(planned, {source: planned.source, destination: planned.destination, port: planned.port, from});
  // Affinity is no matter of the first packet, and what could not be told before cannot be compared.
  if (packet === null || change.effect === 'affinity' || change.effect === 'undetermined') return {change, status: 'not-compared', now: []};
  const isHealthCheck = entry.kind === 'nodePort' && item !== null && entry.port === item.port.healthCheckNodePort;
  const kind = isLoopback(planned.destination) ? 'localhost' : isHealthCheck ? 'health-check' : 'entry';
  const probe = {kind, entry, source: from, packet} as const;
  const now = outcomesOf(probeOutcome(side, probe, {path: sideOutcome(side, packet), item}));
  const isLike = (outcomes: readonly PreviewOutcome[]): boolean => isAlike(now, outcomes, change.effect);
  return {change, now, status: isLike(change.after) ? 'came' : isLike(change.before) ? 'did-not-come' : 'otherwise'};
}

/** Endpoints are replaced all the time: only where their shares are what changes, they are compared one by one. */
function isAlike(a: readonly PreviewOutcome[], b: readonly PreviewOutcome[], effect: PreviewEffect): boolean {
  const [left, right] = [a, b].map(outcomes => {
    const sums = new Map<string, number>();
    for (const {verdict, destination, probability, masquerade} of outcomes) {
      const end = destination === null ? verdict : effect === 'shares' ? destination : `served ${masquerade}`;
      sums.set(end, (sums.get(end) ?? 0) + probability);
    }
    return sums;
  });
  return [...new Set([...(left?.keys() ?? []), ...(right?.keys() ?? [])])].every(end => near(left?.get(end) ?? 0, right?.get(end) ?? 0));
}
