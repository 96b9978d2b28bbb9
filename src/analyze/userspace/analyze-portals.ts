import {type Entry, entryText} from '../../model/entry.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {type PortalChain, type PortalRule, portalChains} from './portal-rules.ts';
import {matchesEntry, type Portal} from './portal.ts';
import {pushTo} from '../../model/lists.ts';

interface PortalCase {
  readonly portals: readonly Portal[];
  readonly rules: readonly PortalRule[];
  readonly ruleset: Ruleset;
}

/** What is known of a node in userspace mode: missing and stale entries, hooks, and contradicting ports. */
export function analyzePortals(given: PortalCase): readonly Symptom[] {
  return [...missingHooks(given), ...given.portals.flatMap(portal => analyzePortal(portal, given)), ...leftovers(given)];
}

function missingHooks({rules, ruleset}: PortalCase): readonly Symptom[] {
  return portalChains.flatMap(chain => {
    const base = ruleset.chain('nat', chain.hook);
    const used = rules.some(rule => rule.chain === chain);
    if (!used || base === undefined || !base.complete || base.rules().some(({target}) => target?.name === chain.name)) return [];
    const detail = `${chain.name} is not reached from nat/${chain.hook}: ${chain.hook === 'OUTPUT' ? 'the node itself' : 'pods and other hosts'} cannot use ${chain.kind === 'nodePort' ? 'node ports' : 'Services'}`;
    return [{...plain('services-chain-not-hooked'), detail}];
  });
}

function analyzePortal(portal: Portal, given: PortalCase): readonly Symptom[] {
  const missing = portal.entries.flatMap(entry => chainsWithout(entry, portal, given).map(chain => ({entry, chain})));
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
