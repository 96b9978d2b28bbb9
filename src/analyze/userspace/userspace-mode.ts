import {proxyVersion} from '../../expect/cluster/service-ports.ts';
import type {Family} from '../../model/family.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {countRules} from '../iptables/read-dumps.ts';
import type {ModeAnalysis, NodeInput, ProxyMode} from '../proxy-mode.ts';
import {analyzePortals} from './analyze-portals.ts';
import {portalOf} from './portal.ts';
import {type PortalRule, portalRules} from './portal-rules.ts';
import {tracePortals} from './trace-portals.ts';

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
