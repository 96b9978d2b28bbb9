import {holdsServices} from '../analyze/iptables/node-rulesets.ts';
import {destinationOf, isEntryRule} from '../analyze/iptables/rules-of-ports.ts';
import {serverEvidence} from '../analyze/ipvs/ipvs-evidence.ts';
import {catchingServers} from '../analyze/ipvs/stale-servers.ts';
import {
  intercepts,
  type Leftover,
  type LeftoverEffect,
  leftoverEffect,
  leftoverLocalChains,
  leftoverPortals,
  maxPorts,
  type ModeInRules,
  modesInRules,
  packetFromPod,
} from '../analyze/leftover-modes.ts';
import {commentedPort} from '../analyze/services-in-rules/iptables-services.ts';
import {environmentOf} from '../analyze/outcomes/environment.ts';
import {servicesRead} from '../analyze/symptoms/node-symptoms.ts';
import {type PortEntry, proxyVersion} from '../expect/cluster/cluster-view.ts';
import {nodeObject} from '../expect/api-index.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import {proxyTableId} from '../expect/nftables/expected-table.ts';
import {leavesModeToDefault} from '../expect/resolve-proxy-config.ts';
import {families, joinHostPort} from '../model/address.ts';
import {partition} from '../model/lists.ts';
import type {Observation} from '../model/finding.ts';
import {isKernelTooOldForNftables, type NodeFacts} from '../model/node/node-facts.ts';
import {configMapPlaces} from '../model/proxy-config.ts';
import {type Chain, matchOptionOf, optionOf, type Rule, type Ruleset, type RuleText, ruleTextOf} from '../model/ruleset.ts';
import {commandLine, namespacedName, plural, servicePortText, someOf} from '../model/text.ts';
import type {VirtualServer} from '../model/virtual-server.ts';
import {endsOf, type Outcome} from '../trace/walked-packet.ts';
import {walkSide} from '../trace/side.ts';
import type {NodeCheckContext} from './check-types.ts';
import {check} from './catalog.ts';
import {iptables, listPlace, onNode, restart, run} from './commands/commands.ts';
import {affectedServices} from './symptom-observations.ts';

export const twoBackends = check('ST501', {
  *node(context) {
    for (const pair of context.backends) {
      const {family, nft, legacy} = pair;
      if (!holdsServices(nft) || !holdsServices(legacy)) continue;
      const found = contradiction(pair, context);
      if (found !== null) yield {family, ...found};
    }
  },
});

/**
 * They contradict each other if the backend that kube-proxy does not use has Service rules that the other one lacks. Null if these are of
 * Services that were not read.
 */
function contradiction(
  {family, nft, legacy}: NodeCheckContext['backends'][number],
  context: NodeCheckContext,
): Pick<Observation, 'severity' | 'message' | 'gist' | 'actual' | 'affects' | 'command'> | null {
  const [used, other] = context.rulesets.get(family)?.backend === 'legacy' ? [legacy, nft] : [nft, legacy];
  const all = [...(other.tables.get('nat')?.chains.keys() ?? [])]
    .filter(name => parseChainName(name) !== null || name === 'KUBE-SERVICES' || name === 'KUBE-NODEPORTS')
    .flatMap(name => rulesOf(other.chain('nat', name), used.chain('nat', name)));
  const show = onNode(context, commandLine`${`${iptables(family)}-${backendName(other)}-save`} -t nat`);
  if (all.length === 0) {
    const message = 'iptables-legacy and iptables-nft both hold Service rules, and agree so far: kube-proxy keeps up only one of them';
    return {severity: 'warning', message, ...show};
  }
  const entries = context.view.entries(family, proxyVersion(context.config));
  const differing = all.filter(mayConcern(entries, context));
  if (differing.length === 0) return null;
  const contested = contestedPorts(entries, {used, other}, context);
  const [first] = contested;
  const names = contested.map(({entry}) => entry.port.servicePortName);
  const does = `iptables-${backendName(other)} ${first?.text ?? ''}`;
  const which =
    first === undefined
      ? `in ${plural(new Set(differing.map(({chain}) => chain)).size, 'chain')} (such as ${differing[0]?.chain ?? ''})`
      : `about ${someOf(names, {max: 3, noun: 'Service port'})}: ${does}`;
  const gist = `both backends of iptables hold Service rules${first === undefined ? ', and disagree' : `, and ${does}`}`;
  return {
    severity: 'error',
    message: `iptables-legacy and iptables-nft both hold Service rules and disagree ${which}. Packets pass both, and the backend whose hook runs first decides`,
    gist,
    ...(areOf(contested, differing) ? {affects: affectedServices(contested.map(({entry: {port}}) => port))} : {}),
    actual: first?.rules ?? labelled(differing.slice(0, 4), other),
    ...show,
  };
}

/** Where a part of the Services was read, those left out have rules too: a comment or address of theirs alone concerns none at hand. */
function mayConcern(entries: readonly PortEntry[], {api}: NodeCheckContext): (rule: Rule) => boolean {
  if (api.namespaces === undefined) return () => true;
  const isRead = servicesRead(api);
  const addresses = new Set(entries.flatMap(({port}) => [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs]));
  const nodePorts = new Set(entries.map(({port}) => String(port.nodePort)));
  return rule => {
    const named = commentedPort(rule);
    const address = destinationOf(rule);
    if (address === undefined ? nodePorts.has(matchOptionOf(rule, '--dport') ?? '') : addresses.has(address)) return true;
    return named === null ? address === undefined : isRead(named.service);
  };
}

/** Each of these rules names one of the Service ports, by its comment or its cluster IP: no other Service is concerned. */
function areOf(contested: readonly Contested[], rules: readonly Rule[]): boolean {
  return rules.every(rule => {
    const named = commentedPort(rule);
    const name = named === null ? null : servicePortText(named.service, {name: named.portName});
    return contested.some(
      ({entry: {port}}) =>
        name === port.servicePortName ||
        (optionOf(rule, '-p') === port.protocol.toLowerCase() && isEntryRule(rule, {...port, kind: 'clusterIP', address: port.clusterIP})),
    );
  });
}

interface Contested {
  readonly entry: PortEntry;
  /** What the other backend does with its packets: `sends shop/web:http to 10.0.0.1:80`. */
  readonly text: string;
  readonly rules: readonly RuleText[];
}

/** The Service ports whose packets to the cluster IP the other backend sends elsewhere. Those that are traced come first. */
function contestedPorts(entries: readonly PortEntry[], backends: Backends, {facts, traces}: NodeCheckContext): readonly Contested[] {
  const asked = new Set(traces.map(({service}) => namespacedName(service)));
  const [first, others] = partition(entries, ({port: {namespace, service: name}}) => asked.has(namespacedName({namespace, name})));
  return [...first, ...others].slice(0, maxPorts).flatMap(entry => contest(entry, facts, backends) ?? []);
}

interface Backends {
  /** The one that kube-proxy maintains. */
  readonly used: Ruleset;
  readonly other: Ruleset;
}

function contest(entry: PortEntry, facts: NodeFacts, {used, other}: Backends): Contested | null {
  const packet = packetFromPod(entry, facts);
  if (packet === null) return null;
  const environment = environmentOf(facts);
  const [does, beside] = [used, other].map(ruleset => walkSide({iptables: [ruleset], nft: null, environment}, packet));
  if (does === undefined || beside === undefined || !intercepts(beside) || endsOf(does) === endsOf(beside)) return null;
  const own = new Set(does.map(({destination}) => destination));
  const all = [...new Set(beside.flatMap(({destination}) => destination ?? []))];
  const elsewhere = all.filter(destination => !own.has(destination));
  const differing = beside.filter(({destination}) => destination === null || elsewhere.length === 0 || !own.has(destination));
  const name = entry.port.servicePortName;
  const text =
    all.length === 0
      ? `refuses or drops the packets of ${name}`
      : `sends ${name} to ${someOf(elsewhere.length > 0 ? elsewhere : all, {max: 3})}`;
  return {entry, text, rules: [...labelled(deciding(differing), other), ...labelled(deciding(does), used)]};
}

/** The rules that translate the packet, of the first endpoints, or the one that ends its path. */
function deciding(outcomes: readonly Outcome[]): readonly RuleText[] {
  return outcomes.flatMap(({path}) => path.findLast(({target}) => target?.name === 'DNAT') ?? path.slice(-1)).slice(0, 2);
}

function labelled(rules: readonly RuleText[], {backend}: Ruleset): readonly RuleText[] {
  return rules.map(rule => ruleTextOf(backend === null ? rule : {...rule, backend}));
}

function backendName({backend}: Ruleset): string {
  return backend ?? 'nft';
}

/** The rules that the chain in use has not. Lists of jumps to Services may be shorter; any other chain is one Service's own. */
function rulesOf(chain: Chain | undefined, used: Chain | undefined): readonly Rule[] {
  if (chain === undefined || chain.text() === used?.text()) return [];
  if (used === undefined || (chain.name !== 'KUBE-SERVICES' && chain.name !== 'KUBE-NODEPORTS')) return chain.rules();
  const known = new Set(used.text().split('\n'));
  return chain.rules().filter(({text}) => !known.has(text));
}

export const otherModeLeftovers = check('ST502', {
  *node(context) {
    const {config, rulesets} = context;
    const said = config.mode.value;
    const held = modesInRules(context);
    for (const ruleset of rulesets.values()) {
      const local = leftoverLocalChains(ruleset, config.version.value);
      const portals = said === 'userspace' || !held.some(({mode}) => mode === said) ? null : leftoverPortals(ruleset);
      const observations = [local, portals].flatMap(leftover => (leftover === null ? [] : [observationOf(leftover)]));
      for (const observation of observations) yield {...observation, ...listPlace(context, observation)};
    }
    if (!held.some(({mode}) => mode === said)) return;
    for (const {mode, sign} of held) {
      if (mode === said || mode === 'userspace') continue;
      const blocked = mode === 'iptables' ? jumpsTo(rulesets.values()) : '';
      const message = `kube-proxy runs in ${said} mode, and ${mode} mode left something behind: ${sign()}${blocked}`;
      if (mode === 'ipvs') {
        yield {
          message,
          ...run(commandLine`ipvsadm -Ln`),
          ...withoutNodePortChain(context),
          ...effectOfServers(message, catchingServers(context)),
        };
        continue;
      }
      // In IPVS mode walks show the packets that such rules reject.
      const effect = said === 'ipvs' ? null : effectOf(context, mode);
      const [nftFamily = '', name = ''] = tableOf(context).split(' ');
      const show = onNode(
        context,
        mode === 'nftables' ? commandLine`nft list table ${nftFamily} ${name}` : commandLine`${toolOf(rulesets)} -t nat -S KUBE-SERVICES`,
      );
      yield effect === null ? {message, ...show} : {message: `${message}; ${effect.text}`, severity: effect.severity, ...show};
    }
  },
});

/** Up to 1.24 `--cleanup` leaves this chain, and cannot destroy the ipset that its rule names (kubernetes#109288). */
function withoutNodePortChain({rulesets, config}: NodeCheckContext): Pick<Observation, 'remedy' | 'command'> {
  const held = [...rulesets.values()].filter(ruleset => (ruleset.chain('filter', 'KUBE-NODE-PORT')?.ruleCount ?? 0) > 0);
  if (held.length === 0 || config.version.value.minor >= 25) return {};
  const lines = held.flatMap(({family}) => [
    commandLine`${iptables(family)} -D INPUT -m comment --comment ${'kubernetes health check rules'} -j KUBE-NODE-PORT`,
    commandLine`${iptables(family)} -F KUBE-NODE-PORT`,
    commandLine`${iptables(family)} -X KUBE-NODE-PORT`,
  ]);
  const remedy = `Delete the chain KUBE-NODE-PORT of table filter first: in kube-proxy ${config.version.value.text} it makes --cleanup fail (mended in 1.25). Then run kube-proxy --cleanup with the image and flags of its kube-proxy and start it again, or reboot the node.`;
  return {remedy, ...run(...lines)};
}

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
  return families.map(proxyTableId).find(id => nft()?.tables.has(id)) ?? proxyTableId('IPv4');
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
    const table = mode === 'nftables' ? nft()?.tables.get(proxyTableId(family)) : undefined;
    const ruleset = mode === 'iptables' ? rulesets.get(family) : undefined;
    const side = {iptables: ruleset === undefined ? [] : [ruleset], nft: table === undefined ? null : {tableSources: [table]}};
    const effect = leftoverEffect({...side, environment: environmentOf(facts)}, view.entries(family, proxy), facts);
    if (effect !== null) return effect;
  }
  return null;
}

function observationOf({family, message, variant, catches, rules}: Leftover): Observation {
  return {family, message, variant, actual: rules, ...(catches ? {severity: 'error'} : {})};
}

export const modeMismatch = check('ST503', {
  // Silent if the kernel has the rules of kube-proxy's mode, whatever else it has: that is ST502.
  *node({api, node, config, rulesets, nft}) {
    const held = modesInRules({node, rulesets, nft});
    const said = config.mode.value;
    if (held.length === 0 || held.some(({mode}) => mode === said)) return;
    const found = held.map(({mode, sign}) => `${mode} (${sign()})`).join(' and ');
    const message = `kube-proxy reports ${said} mode (${config.mode.source}), and the kernel holds the rules of ${found}`;
    yield {message, ...restart({api, node})};
  },
});

export const modeNotSet = check('ST512', {
  *node({node, api}) {
    const kernel = nodeObject(api, node.name)?.status?.nodeInfo?.kernelVersion ?? '';
    if (isKernelTooOldForNftables(kernel) !== true) return;
    const source = leavesModeToDefault(node, api);
    if (source === null) return;
    const message = `the proxy mode is not set (${source}), and kernel ${kernel} of ${node.name} is older than 5.13: kube-proxy 1.40 and later will not start on it`;
    yield {message, ...editSource(source)};
  },
});

/** Edits the ConfigMap, if the settings come from one. */
function editSource(source: string): Pick<Observation, 'command'> {
  const place = configMapPlaces.find(({name}) => source === `ConfigMap ${name}`);
  return place === undefined ? {} : run(commandLine`kubectl -n ${place.namespace} edit ${`configmap/${place.name}`}`);
}
