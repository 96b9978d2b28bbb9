import {ofPort} from '../../model/finding.ts';
import {proxyVersion} from '../../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';
import type {Family} from '../../model/address.ts';
import {pushTo} from '../../model/lists.ts';
import {type Ruleset, matchOptionOf, type Rule, optionOf, targetOptionOf} from '../../model/ruleset.ts';
import {type Entry, entryText, type ServicePort} from '../../model/service-port.ts';
import type {EntryTrace, PortTrace} from '../../model/service-trace.ts';
import {countRules, whyDistrusted} from '../iptables/node-rulesets.ts';
import {unservedFromOutside} from '../outcomes/unserved-addresses.ts';
import type {ModeAnalysis, NodeInput, ProxyMode} from '../proxy-mode.ts';
import {withEffect} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/**
 * kube-proxy's mode up to 1.1, and until 1.25 on request: rules redirect packets to a port of kube-proxy itself, which picks the endpoint.
 * No rule shows which endpoint, so a node in this mode is never reported as fully checked.
 */
export const userspaceMode: ProxyMode = {
  name: 'userspace',
  prepare(input) {
    const ruleset = input.dumps.current.get(family);
    return ruleset === undefined ? {whyUnread: 'it has no iptables-save'} : {analyze: () => analyze(input, ruleset)};
  },
};

const family: Family = 'IPv4';

function analyze(input: NodeInput, ruleset: Ruleset): ModeAnalysis {
  const {config, dumps, view} = input;
  const base = {families: [], config, counts: countRules(dumps)};
  const distrusted = whyDistrusted(dumps, family);
  if (distrusted !== null) return {...base, unread: [{family, reason: distrusted}], symptoms: [], traces: []};
  const rules = portalRules(ruleset);
  const proxy = proxyVersion(config);
  const entries = view.entries(family, proxy);
  const portals = entries.map(({port}) => portalOf(port, rules));
  const symptoms = analyzePortals({portals, rules, ruleset});
  return {
    ...base,
    unread: [{family, reason: whatIsNotSeen(rules, ruleset)}],
    symptoms,
    traces: portals.filter(({port}) => input.traces(port, symptoms)).map(portal => tracePortals(portal, input.node.name, proxy)),
  };
}

function whatIsNotSeen(rules: readonly PortalRule[], ruleset: Ruleset): string {
  const part = ruleset.tables.get('nat')?.complete === true ? '' : ' The dump is also an excerpt.';
  return `in userspace mode kube-proxy itself picks the endpoints, and no rule shows which: only the ${rules.length} rules that send packets to its ports were checked.${part}`;
}

/** The path to kube-proxy for every entry of a Service port, as far as the rules show it. */
function tracePortals({port, entries, rules}: Portal, node: string, proxy: ProxyVersion): PortTrace {
  const trace = (entry: Entry): EntryTrace => {
    const found =
      rules.find(rule => rule.chain.hook === 'PREROUTING' && matchesEntry(rule, entry, port)) ??
      rules.find(rule => matchesEntry(rule, entry, port));
    const base = {entry, from: found?.chain.hook === 'OUTPUT' ? 'the node itself' : 'a pod of this node', endpoints: []};
    if (found === undefined) return {...base, mark: 'missing', steps: [], end: {verdict: 'passed', rule: null}};
    const {table, chain, line, text} = found.rule;
    const reason = `kube-proxy, on port ${found.proxyPort ?? 'unknown'}, picks the endpoint`;
    return {
      ...base,
      mark: 'ok',
      steps: [{table, chain, line, text, to: `${found.rule.target?.name ?? ''} ${found.proxyPort ?? ''}`.trim()}],
      end: {verdict: 'undecided', rule: found.rule, reason},
    };
  };
  const unserved = unservedFromOutside(port, proxy);
  return {node, ...ofPort(port), entries: entries.map(trace), ...(unserved.length === 0 ? {} : {unserved})};
}

interface PortalCase {
  readonly portals: readonly Portal[];
  readonly rules: readonly PortalRule[];
  readonly ruleset: Ruleset;
}

/** What is known of a node in userspace mode: missing and stale entries, hooks, and contradicting ports. */
function analyzePortals(portalCase: PortalCase): readonly Symptom[] {
  return [
    ...portalChains.flatMap(chain => {
      const base = portalCase.ruleset.chain('nat', chain.hook);
      const used = portalCase.rules.some(rule => rule.chain === chain);
      if (!used || base === undefined || !base.complete || base.rules().some(({target}) => target?.name === chain.name)) return [];
      const who = chain.hook === 'OUTPUT' ? 'the node itself' : 'pods and other hosts';
      const effect = `${who} cannot use ${chain.kind === 'nodePort' ? 'node ports' : 'Services'}`;
      return [{...plain('services-chain-not-hooked'), ...withEffect(`${chain.name} is not reached from nat/${chain.hook}`, effect)}];
    }),
    ...portalCase.portals.flatMap(portal => analyzePortal(portal, portalCase)),
    ...leftovers(portalCase),
  ];
}

function analyzePortal(portal: Portal, portalCase: PortalCase): readonly Symptom[] {
  const missing = portal.entries.flatMap(entry => chainsWithout(entry, portal, portalCase).map(chain => ({entry, chain})));
  const all = portal.entries.flatMap(entry => chainsFor(entry));
  if (missing.length > 0 && missing.length === all.length)
    return [{...plain('service-not-programmed'), port: portal.port, detail: 'not programmed on this node: no entry reaches kube-proxy'}];
  return [...missing.map(({entry, chain}) => missingEntry(portal, entry, chain)), ...disagreeing(portal)];
}

function chainsFor({kind}: Entry): readonly PortalChain[] {
  return portalChains.filter(chain => chain.kind === (kind === 'nodePort' ? 'nodePort' : 'address'));
}

/** Rules may be missing from a chain that the excerpt shows in part or not at all. */
function chainsWithout(entry: Entry, {port, rules}: Portal, {ruleset}: PortalCase): readonly PortalChain[] {
  return chainsFor(entry).filter(chain => {
    const complete = ruleset.chain('nat', chain.name)?.complete ?? ruleset.tables.get('nat')?.complete ?? false;
    return complete && !rules.some(rule => rule.chain === chain && matchesEntry(rule, entry, port) && rule.proxyPort !== null);
  });
}

function missingEntry({port}: Portal, entry: Entry, {name, hook}: PortalChain): Symptom {
  const whose = hook === 'OUTPUT' ? 'the node itself' : 'pods and other hosts';
  const detail = `its ${entryText(entry)} is not in ${name}: packets of ${whose} do not reach kube-proxy`;
  return {...plain('missing-entry'), port, entry, detail};
}

/** All rules of one Service port redirect to one port of kube-proxy. */
function disagreeing({port, rules}: Portal): readonly Symptom[] {
  const ports = [...new Set(rules.flatMap(({proxyPort}) => proxyPort ?? []))];
  if (ports.length < 2) return [];
  const detail = `its rules lead to different ports of kube-proxy (${ports.join(', ')}), which listens on one for each Service port: what goes to another is refused`;
  return [{...plain('unexpected-rule'), severity: 'error', port, detail, actual: rules.map(({rule}) => rule)}];
}

/** Rules for entries of no Service. */
function leftovers({portals, rules}: PortalCase): readonly Symptom[] {
  const wanted = new Set(portals.flatMap(portal => portal.rules));
  const groups = new Map<string, PortalRule[]>();
  for (const rule of rules) if (!wanted.has(rule)) pushTo(groups, rule.servicePortName, rule);
  return [...groups].map(([name, group]) => {
    const [namespace = '', service = ''] = (name.split(':')[0] ?? '').split('/');
    const places = [...new Set(group.map(({address, port}) => (address === null ? `node port ${port}` : `${address}:${port}`)))].join(', ');
    const detail = `packets to ${places} are still sent to kube-proxy for ${name === '' ? 'a Service without a name' : name}: the API has no such entry (any more)`;
    const known = service === '' ? {} : {service: {namespace, name: service}};
    return {...plain('stale-service'), ...known, detail, actual: group.map(({rule}) => rule)};
  });
}

function plain<Kind extends Symptom['kind']>(kind: Kind) {
  return {kind, family: 'IPv4', port: null, expected: [], actual: []} as const;
}

/** One Service port with its entries and the rules that name them. */
interface Portal {
  readonly port: ServicePort;
  readonly entries: readonly Entry[];
  readonly rules: readonly PortalRule[];
}

function portalOf(port: ServicePort, rules: readonly PortalRule[]): Portal {
  const addresses: readonly Entry[] = [
    {kind: 'clusterIP', address: port.clusterIP, port: port.port},
    ...port.loadBalancerVIPs.map(address => ({kind: 'loadBalancerIP', address, port: port.port}) as const),
    ...port.externalIPs.map(address => ({kind: 'externalIP', address, port: port.port}) as const),
  ];
  const entries: readonly Entry[] =
    port.nodePort === 0 ? addresses : [...addresses, {kind: 'nodePort', address: null, port: port.nodePort}];
  return {port, entries, rules: rules.filter(rule => entries.some(entry => matchesEntry(rule, entry, port)))};
}

/** Whether a rule matches the packets of an entry of a Service port. */
function matchesEntry(rule: PortalRule, entry: Entry, port: ServicePort): boolean {
  return rule.port === entry.port && rule.protocol === port.protocol.toLowerCase() && rule.address === entry.address;
}

/** The chain that redirects packets of one kind of client to kube-proxy: for an address, and for a port of the node. */
interface PortalChain {
  readonly name: string;
  readonly hook: 'PREROUTING' | 'OUTPUT';
  readonly kind: 'address' | 'nodePort';
}

/** The chains of the userspace mode. Those of PREROUTING are for pods and other hosts, those of OUTPUT for the node itself. */
export const portalChains: readonly PortalChain[] = [
  {name: 'KUBE-PORTALS-CONTAINER', hook: 'PREROUTING', kind: 'address'},
  {name: 'KUBE-PORTALS-HOST', hook: 'OUTPUT', kind: 'address'},
  {name: 'KUBE-NODEPORT-CONTAINER', hook: 'PREROUTING', kind: 'nodePort'},
  {name: 'KUBE-NODEPORT-HOST', hook: 'OUTPUT', kind: 'nodePort'},
];

/** A rule that redirects the packets of one entry to a port on which kube-proxy listens. */
interface PortalRule {
  readonly rule: Rule;
  readonly chain: PortalChain;
  /** Null for a node port. */
  readonly address: string | null;
  readonly port: number;
  /** `tcp` or `udp`. */
  readonly protocol: string;
  /** The Service port named in the comment, without the trailing colon. */
  readonly servicePortName: string;
  /** The port of kube-proxy; null if the rule does not redirect to one. */
  readonly proxyPort: number | null;
}

export function portalRules(ruleset: Ruleset): readonly PortalRule[] {
  return portalChains.flatMap(chain => (ruleset.chain('nat', chain.name)?.rules() ?? []).map(rule => portalRule(rule, chain)));
}

function portalRule(rule: Rule, chain: PortalChain): PortalRule {
  const to = targetOptionOf(rule, '--to-ports', '--to-destination');
  const proxyPort = Number(to?.split(':').at(-1));
  return {
    rule,
    chain,
    protocol: optionOf(rule, '-p') ?? '',
    address: optionOf(rule, '-d')?.replace(/\/(?:32|128)$/, '') ?? null,
    port: Number(matchOptionOf(rule, '--dport') ?? ''),
    servicePortName: matchOptionOf(rule, '--comment')?.replace(/:$/, '') ?? '',
    proxyPort: Number.isInteger(proxyPort) && proxyPort > 0 ? proxyPort : null,
  };
}
