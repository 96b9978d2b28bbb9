import {groupBy, partition, pushTo} from '../../model/lists.ts';
import {
  type Advice,
  isStandIn,
  type Preview,
  type PreviewChange,
  type PreviewEffect,
  type PreviewOutcome,
  type PreviewSide,
  type Requirement,
} from '../../model/preview-result.ts';
import {entryText, entryNames} from '../../model/service-port.ts';
import {namespacedName, plural, shellWord, someOf} from '../../model/text.ts';
import {compareOrders, nodeList} from '../finding-blocks.ts';

/** A preview as titles with paragraphs, for every text format. */
export interface PreviewText {
  readonly verdict: string;
  readonly isBad: boolean;
  readonly sections: readonly PreviewSection[];
}

interface PreviewSection {
  readonly title: string;
  readonly items: readonly PreviewItem[];
  /** Stands before the items. */
  readonly table?: Pick<NodeOrder, 'head' | 'rows'>;
}

interface PreviewItem {
  readonly head: string;
  readonly lines: readonly (readonly [label: string, text: string])[];
}

type ExtraLines = (example: PreviewChange) => PreviewItem['lines'];

/** With `verbose`, requirements that are met and all Services and nodes are named. */
export function previewText(preview: Preview, verbose: boolean): PreviewText {
  const summary = summarizePreview(preview);
  const {requirements, changes, advice, nodes, notes} = preview;
  const unread = nodes.filter(({basis}) => basis === 'unread');
  const computed = nodes.filter(({basis}) => basis === 'expected');
  const actual = nodes.filter(({basis}) => basis === 'actual');
  const open = requirements.filter(({status}) => verbose || status !== 'met');
  const [healed, ownChanges] = partition(changes, isHealed);
  const [healedAdvice, ownAdvice] = partition(advice, one => isHealed({cause: one}));
  const computedNames = computed.map(({name}) => name);
  const remarks = [
    ...reasonsOf(unread).map(([reason, names]) => `${nodesText(names, verbose)} not checked: ${reason}`),
    ...reasonsOf(computed).map(([reason, names]) => `${nodesText(names, verbose)} not read: ${reason}`),
    ...reasonsOf(actual).map(([reason, names]) => `${nodesText(names, verbose)}: ${reason}`),
    ...(computedNames.length === 0
      ? []
      : [`on ${nodesText(computedNames, verbose)} both sides are computed: third-party rules and current faults are not included`]),
    ...notes,
  ];
  const sections: readonly PreviewSection[] = [
    ...orderSections(preview),
    {title: 'WHAT CHANGES', items: [...changeItems(ownChanges, verbose), ...adviceItems(ownAdvice, 'change')]},
    {title: 'HEALED BY ANY RESTART OF KUBE-PROXY', items: [...changeItems(healed, verbose), ...adviceItems(healedAdvice, 'change')]},
    {title: 'NOT PROVED', items: gapItems(preview.ports, verbose)},
    {title: 'REQUIREMENTS', items: requirementItems(open)},
    {title: 'AT THE MOMENT OF THE SWITCH', items: adviceItems(advice, 'switch')},
    {title: 'CHECK BY HAND', items: adviceItems(advice, 'by-hand')},
    {title: 'NOTES', items: remarks.map(head => ({head, lines: []}))},
  ];
  return {
    verdict: verdictText(preview, summary),
    isBad: summary.lost > 0 || requirements.some(isBlocking) || advice.some(isLoss),
    sections: sections.filter(({items, table}) => items.length > 0 || table !== undefined),
  };
}

/** Manifests alone reach all nodes at once: there is no order to go in. */
function orderSections(preview: Preview): readonly PreviewSection[] {
  if (preview.settings.every(({before, after}) => JSON.stringify(before) === JSON.stringify(after))) return [];
  const {first, ...table} = nodeOrder(preview, {isBlocking, isCounted: change => !isHealed(change)});
  const plan = 'kubectl svc-trace preview -o json --output-file plan.json with the same flags';
  const begin =
    first === null
      ? []
      : [
          {
            head: `begin with ${first} alone, and go on when it went as planned there`,
            lines: [
              ['before', plan],
              ['after', `kubectl svc-trace check -A --plan plan.json --node ${shellWord(first)}`],
            ] as const,
          },
        ];
  return [{title: 'NODES, IN THE ORDER TO GO IN', table, items: begin}];
}

/** Traffic is lost that belongs to no Service, or for a time after the switch. */
export function isLoss({effect}: Advice): boolean {
  return effect === 'lost';
}

/** A fault of today's rules, and no effect of the change. */
function isHealed({cause}: Pick<PreviewChange, 'cause'>): boolean {
  return cause.id === 'healed';
}

/** Why nodes were not read whose both sides are computed; nothing of those that were not to be read. */
function reasonsOf(nodes: Preview['nodes']): readonly (readonly [reason: string, names: readonly string[]])[] {
  const groups = new Map<string, string[]>();
  for (const {name, reason} of nodes) if (reason !== undefined) pushTo(groups, reason, name);
  return [...groups];
}

/** If it is unmet, kube-proxy does not start. */
export function isBlocking({name, status}: Requirement): boolean {
  return status === 'unmet' && (name === 'kernel' || name === 'mode-supported' || name === 'service-names' || name === 'settings');
}

function gapItems(ports: Preview['ports'], verbose: boolean): readonly PreviewItem[] {
  const groups = new Map<string, string[]>();
  for (const {reason, service, port, status} of ports)
    if (reason !== undefined) {
      const beside = status === 'differs' ? ' (beside its changes)' : '';
      pushTo(groups, reason, `${namespacedName(service)}:${port.port}/${port.protocol}${beside}`);
    }
  return [...groups].map(([reason, names]) => ({head: reason, lines: [[plural(names.length, 'Service port'), listed(names, verbose)]]}));
}

/** The proof of each Service port. */
function proofText({same, differs, notProved}: PreviewSummary['servicePorts']): string {
  const total = same + differs + notProved;
  if (total === 0) return '';
  return `. Of ${plural(total, 'Service port')} ${same} ${same === 1 ? 'is' : 'are'} the same for every packet, ${differs} ${differs === 1 ? 'differs' : 'differ'}, ${notProved} ${notProved === 1 ? 'is' : 'are'} not proved`;
}

function verdictText(preview: Preview, summary: PreviewSummary): string {
  const blocking = preview.requirements.filter(isBlocking);
  const [first] = blocking;
  const proof = `${proofText(summary.servicePorts)}${unforwardedText(preview)}`;
  if (first === undefined) return `${outcomeText(preview, summary)}${proof}`;
  const blocked = new Set(blocking.map(({node}) => node)).size;
  const rest = summary.affectedServices === 0 ? '' : ` Beside that: ${outcomeText(preview, summary)}${proof}`;
  return `BLOCKED: kube-proxy would not work on ${blocked} of ${plural(preview.nodes.length, 'node')}: ${first.detail}.${rest}`;
}

/** What no change of the rules alters: see the requirement `forwarding`. */
function unforwardedText({requirements, nodes}: Preview): string {
  const off = new Set(requirements.flatMap(({name, status, node}) => (name === 'forwarding' && status === 'unmet' ? [node] : [])));
  if (off.size === 0) return '';
  return `. ${off.size} of ${plural(nodes.length, 'node')} ${off.size === 1 ? 'forwards' : 'forward'} no packets and serve${off.size === 1 ? 's' : ''} Services only to what runs in the host network, today and after the change`;
}

function outcomeText({before, after, nodes, changes, requirements}: Preview, summary: PreviewSummary): string {
  const standIn = requirements.find(isStandIn)?.detail;
  const {verdict, services, affectedServices, lost, lostClusterIPs, gained, other, healed, nodesChecked, nodesUnread} = summary;
  const change = `kube-proxy ${sideText(before)} to ${sideText(after)}`;
  const on = `${plural(nodesChecked, 'node')}`;
  const unread = nodesUnread === 0 ? '' : `; ${nodesUnread} of ${plural(nodes.length, 'node')} not checked`;
  if (nodes.length === 0) return 'INCOMPLETE: no node was checked';
  const reasons = new Set(nodes.map(({reason = 'no reason is known'}) => reason));
  if (verdict === 'incomplete' && nodesChecked === 0)
    return `INCOMPLETE: no node was checked${reasons.size === 1 ? `: ${[...reasons].join()}` : ', see NOTES'}${before.proxyMode === '' ? '' : ` (${change})`}`;
  if (services === 0)
    return `${verdict === 'changes' ? 'CHANGES' : verdict.toUpperCase()}: there are no Services in scope${unread} (${change})`;
  if (verdict === 'same')
    return `SAME: no ${summary.servicePorts.notProved > 0 ? 'compared ' : ''}packet to ${plural(services, 'Service')} on ${on} is treated differently (${change})`;
  if (affectedServices === 0 && healed > 0)
    return `CHANGES: only today's faults of ${plural(healed, 'Service')} on ${on} are healed, as by any restart of kube-proxy${unread} (${change})`;
  if (affectedServices === 0 && verdict === 'changes')
    return `CHANGES: no Service is affected on ${on}; see below what changes beside them${unread} (${change})`;
  if (verdict === 'incomplete')
    return `INCOMPLETE: ${standIn === undefined ? 'no changes' : `${standIn}; with these no packet to ${plural(services, 'Service')} is treated differently`} on ${on}${unread} (${change})`;
  const kinds = [
    [lostClusterIPs, 'lost at the cluster IP'],
    [lost - lostClusterIPs, lostElsewhere(changes)],
    [gained, 'gained'],
    [other, 'other'],
  ] as const;
  const counts = kinds.filter(([count]) => count > 0).map(([count, name]) => `${count} ${name}`);
  const spared = lost > 0 && lostClusterIPs === 0 ? '; no cluster IP is lost' : '';
  const beside = healed === 0 ? '' : `; ${healed} more with only faults of today that any restart heals`;
  return `CHANGES: ${affectedServices} of ${plural(services, 'Service')} affected on ${on} (${counts.join(', ')}${spared}${beside})${unread}: ${change}${standIn === undefined ? '' : `; ${standIn}`}`;
}

/** The entries other than cluster IPs that are lost, the most narrow name for each. */
function lostElsewhere(changes: readonly PreviewChange[]): string {
  const lost = changes.filter(change => change.effect === 'lost' && change.entry.kind !== 'clusterIP' && !isHealed(change));
  const names = lost.map(({cause, entry}) => narrowEntries[cause.id] ?? `${entryNames[entry.kind]}s`);
  return `lost at ${[...new Set(names)].sort().join(', ')} only`;
}

const narrowEntries: Readonly<Record<string, string>> = {
  'localhost-node-ports': 'node ports on loopback addresses',
  'node-port-addresses': 'node ports on secondary addresses of nodes',
  'health-check-ports': 'health check ports',
};

function sideText({kubeProxyVersion, proxyMode}: PreviewSide): string {
  return kubeProxyVersion === 'unknown' ? `${proxyMode} mode (version unknown)` : `${kubeProxyVersion} in ${proxyMode} mode`;
}

const order: readonly PreviewEffect[] = ['lost', 'gained', 'refused', 'unanswered', 'source-address', 'shares', 'affinity', 'undetermined'];

const titles: Readonly<Record<PreviewEffect, string>> = {
  lost: 'LOST: served today, not after the change',
  gained: 'GAINED: served after the change, not today',
  refused: 'REFUSED: no answer today, refused at once after the change',
  unanswered: 'UNANSWERED: refused at once today, no answer after the change',
  'source-address': 'SOURCE ADDRESS: the endpoint sees another source address',
  shares: 'SHARES: connections are spread over other endpoints, or in other shares',
  affinity: 'AFFINITY: clients stay with an endpoint for another time',
  undetermined: 'UNDETERMINED: one side cannot be told',
};

/** One item for each effect and cause; `extra` adds lines about the example. */
export function changeItems(changes: readonly PreviewChange[], verbose: boolean, extra: ExtraLines = () => []): readonly PreviewItem[] {
  const groups = new Map<string, PreviewChange[]>();
  for (const change of changes) pushTo(groups, `${order.indexOf(change.effect)} ${change.cause.id}`, change);
  return [...groups].toSorted(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, group]) => changeItem(group, verbose, extra));
}

function changeItem(group: readonly PreviewChange[], verbose: boolean, extra: ExtraLines): readonly PreviewItem[] {
  const [first] = group;
  if (first === undefined) return [];
  const {packet, source, cause, entry, service} = first;
  const services = [...new Set(group.map(change => namespacedName(change.service)))].sort();
  const nodes = [...new Set(group.map(({node}) => node))].sort();
  const destination = packet.destination.includes(':') ? `[${packet.destination}]` : packet.destination;
  return [
    {
      head: titles[first.effect],
      lines: [
        ['why', cause.reason],
        [services.length === 1 ? 'Service' : `${services.length} Services`, listed(services, verbose)],
        [nodes.length === 1 ? 'node' : `${nodes.length} nodes`, nodesText(nodes, verbose)],
        [
          'example',
          `${first.node}: ${source.senders === undefined ? sourceNames[source.kind] : `${source.senders}, such as`} ${packet.source} to ${destination}:${packet.port}/${packet.protocol}, the ${entryText(entry)} of ${namespacedName(service)}`,
        ],
        ['before', outcomesText(first.before)],
        ['after', outcomesText(first.after)],
        ...extra(first),
        ['do', cause.remedy],
      ],
    },
  ];
}

const sourceNames: Readonly<Record<PreviewChange['source']['kind'], string>> = {
  pod: 'a pod of the node,',
  remotePod: 'a pod of another node,',
  node: 'the node itself,',
  external: 'an external client,',
  endpoint: 'the endpoint itself,',
};

export function outcomesText(outcomes: readonly PreviewOutcome[]): string {
  const served = outcomes.filter(({destination}) => destination !== null);
  const destinations = served.map(({destination}) => destination ?? '');
  const masquerade = served.some(one => one.masquerade) ? ', masqueraded' : '';
  const others = outcomes.filter(({destination}) => destination === null).map(({verdict}) => verdictNames[verdict]);
  return [...(served.length === 0 ? [] : [`${someOf(destinations, {max: 3})}${masquerade}`]), ...others].join('; ');
}

const verdictNames: Readonly<Record<PreviewOutcome['verdict'], string>> = {
  accept: 'not translated: no endpoint',
  reject: 'refused',
  drop: 'dropped',
  undecided: 'undetermined',
};

function adviceItems(advice: readonly Advice[], topic: Advice['topic']): readonly PreviewItem[] {
  return advice
    .filter(one => one.topic === topic)
    .map(({reason, remedy, nodes}) => ({
      head: reason,
      lines: [...(nodes.length === 0 ? [] : [['nodes', nodeList(nodes)] as const]), ['do', remedy]],
    }));
}

function requirementItems(requirements: readonly Requirement[]): readonly PreviewItem[] {
  const groups = groupBy(requirements, ({status, name, detail}) => JSON.stringify([status, name, detail]));
  return (['unmet', 'unknown', 'met'] as const).flatMap(status =>
    groups.flatMap(group => {
      const [first] = group;
      if (first?.status !== status) return [];
      const nodes = nodeList(group.map(({node}) => node));
      return {head: `${status}: ${first.name}`, lines: [['what', first.detail] as const, ['nodes', nodes] as const]};
    }),
  );
}

/** Many nodes as ranges of names, unless all are wanted. */
function nodesText(names: readonly string[], all: boolean): string {
  return all ? names.join(', ') : nodeList(names);
}

function listed(names: readonly string[], all: boolean): string {
  return all ? names.join(', ') : someOf(names);
}

type PreviewSummary = ReturnType<typeof summarizePreview>;

/** Every affected Service is counted once: as lost, else as gained, else as other, else as healed. Ports are those of nodes that were checked. */
export function summarizePreview({changes, advice, nodes, services, requirements, ports}: Preview) {
  const effects = new Map<string, Set<PreviewEffect>>();
  const clusterIPs = new Set<string>();
  const healed = new Set<string>();
  for (const {service, effect, entry, cause} of changes) {
    const name = namespacedName(service);
    if (cause.id === 'healed') healed.add(name);
    else effects.set(name, (effects.get(name) ?? new Set()).add(effect));
    if (cause.id !== 'healed' && effect === 'lost' && entry.kind === 'clusterIP') clusterIPs.add(name);
  }
  const all = [...effects.values()];
  const lost = all.filter(set => set.has('lost')).length;
  const gained = all.filter(set => set.has('gained') && !set.has('lost')).length;
  const nodesUnread = nodes.filter(({basis}) => basis === 'unread').length;
  const count = (status: Preview['ports'][number]['status']): number => ports.filter(port => port.status === status).length;
  const isChanged =
    changes.length > 0 || advice.some(({topic}) => topic === 'change') || requirements.some(({status}) => status === 'unmet');
  return {
    verdict: isChanged ? 'changes' : nodesUnread > 0 || nodes.length === 0 || requirements.some(isStandIn) ? 'incomplete' : 'same',
    services,
    affectedServices: all.length,
    lost,
    // Of those, the Services that lose packets to their cluster IP.
    lostClusterIPs: clusterIPs.size,
    gained,
    other: all.length - lost - gained,
    // Only faults of today's rules are healed, as any restart of kube-proxy does.
    healed: [...healed].filter(name => !effects.has(name)).length,
    servicePorts: {same: count('same'), differs: count('differs'), notProved: count('not-proved')},
    nodesChecked: nodes.length - nodesUnread,
    nodesUnread,
  };
}

/** Nodes in rows and what changes there in columns, in the order to go in. Not escaped. */
interface NodeOrder {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** The node to begin with; null if none can be switched. */
  readonly first: string | null;
}

const columns: Readonly<Record<PreviewEffect, string>> = {
  lost: 'LOST',
  gained: 'GAINED',
  refused: 'REFUSED',
  unanswered: 'UNANSWERED',
  'source-address': 'SOURCE',
  shares: 'SHARES',
  affinity: 'AFFINITY',
  undetermined: 'UNDETERMINED',
};
const effects = Object.keys(columns) as readonly PreviewEffect[];

interface NodeRow {
  readonly name: string;
  /** 0 is ready; see `ranks`. */
  readonly rank: number;
  /** The Services that each effect concerns. */
  readonly counts: readonly number[];
  readonly cells: readonly string[];
}

/** Ready, not known, a requirement that is not met, one without which kube-proxy does not start, not checked. */
const ranks = {met: 0, unknown: 1, unmet: 2, blocked: 3, unread: 4} as const;

/**
 * Nodes that are ready come first, and of these the ones that lose the least: what goes wrong is noticed where it does least harm. Nodes
 * with equal cells share a row. Effects that no node has get no column.
 */
function nodeOrder(
  {nodes, changes, requirements}: Pick<Preview, 'nodes' | 'changes' | 'requirements'>,
  {isBlocking, isCounted}: {readonly isBlocking: (one: Requirement) => boolean; readonly isCounted: (one: PreviewChange) => boolean},
): NodeOrder {
  const changesOf = Map.groupBy(changes.filter(isCounted), ({node}) => node);
  const requirementsOf = Map.groupBy(requirements, ({node}) => node);
  const shown = effects.filter(effect => changes.some(change => change.effect === effect && isCounted(change)));
  const rows = nodes.map(({name, basis, reason}): NodeRow => {
    const own = changesOf.get(name) ?? [];
    const counts = shown.map(effect => new Set(own.flatMap(one => (one.effect === effect ? [namespacedName(one.service)] : []))).size);
    if (basis === 'unread') return {name, rank: ranks.unread, counts, cells: [...counts.map(() => '?'), `not checked: ${reason ?? ''}`]};
    const open = (requirementsOf.get(name) ?? []).filter(({status}) => status !== 'met');
    const status = open.some(isBlocking)
      ? 'blocked'
      : open.some(one => one.status === 'unmet')
        ? 'unmet'
        : open.length > 0
          ? 'unknown'
          : 'met';
    return {
      name,
      rank: ranks[status],
      counts,
      cells: [...counts.map(count => (count === 0 ? '-' : String(count))), requirementsText(open)],
    };
  });
  // By the first effect in which they differ: losses weigh most.
  const sorted = rows.toSorted((a, b) => compareOrders([a.rank, ...a.counts], [b.rank, ...b.counts]));
  const groups = new Map<string, NodeRow[]>();
  for (const row of sorted) pushTo(groups, JSON.stringify(row.cells), row);
  return {
    head: ['STEP', 'NODES', ...shown.map(effect => columns[effect]), 'REQUIREMENTS'],
    rows: [...groups.values()].map((group, index) => {
      const [row] = group;
      const isPossible = row !== undefined && row.rank < ranks.blocked;
      return [isPossible ? String(index + 1) : '-', nodeList(group.map(({name}) => name)), ...(row?.cells ?? [])];
    }),
    first: sorted.find(({rank}) => rank < ranks.blocked)?.name ?? null,
  };
}

/** `met`, or `unmet: nft; unknown: kernel, kernel-modules`. */
function requirementsText(open: readonly Requirement[]): string {
  const texts = (['unmet', 'unknown'] as const).flatMap(status => {
    const names = [...new Set(open.flatMap(one => (one.status === status ? [one.name] : [])))];
    return names.length === 0 ? [] : [`${status}: ${names.join(', ')}`];
  });
  return texts.length === 0 ? 'met' : texts.join('; ');
}
