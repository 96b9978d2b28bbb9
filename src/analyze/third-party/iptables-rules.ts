import {once} from '../../model/once.ts';
import type {Chain, Ruleset} from '../../model/ruleset.ts';

/** Whether a packet of a Service can meet more than the rules of kube-proxy and the kubelet. Most nodes are done here. */
export function holdsThirdPartyRules(ruleset: Ruleset, isOwnChain: IsOwnChain): boolean {
  if (dropsByDefault(ruleset) || dropsUnmarked(ruleset)) return true;
  return hookedIn.some(([table, names]) =>
    names.some(name => {
      const isHook = (target: string): boolean =>
        isOwnChain(target, table) && (isHookedChain(target) || ipvsHooks.has(`${table} ${name} ${target}`));
      return !holdsOnlyJumps(ruleset.chain(table, name)?.text() ?? '', isHook);
    }),
  );
}

type IsOwnChain = (name: string, table: string) => boolean;

const hookedIn = [
  ['raw', ['PREROUTING', 'OUTPUT']],
  ['mangle', ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']],
  ['nat', ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING']],
  ['filter', ['INPUT', 'FORWARD', 'OUTPUT']],
  ['security', ['INPUT', 'FORWARD', 'OUTPUT']],
] as const;

/** Whether all rules of a base chain are jumps to chains of kube-proxy, as on most nodes: then they need not be parsed. */
function holdsOnlyJumps(text: string, isHook: (target: string) => boolean): boolean {
  return text === '' || text.split('\n').every(line => isHook(plainJump.exec(line)?.[1] ?? ''));
}

/** A rule whose conditions have no quotes but those of one comment, and whose target has no options. */
const plainJump = /^-A (?:(?!-[jg] )[^\s"]+ )+(?:"[^"\\]*" )?-j (\S+)$/;

/** Whether packets that no rule lets through are dropped somewhere. */
function dropsByDefault(ruleset: Ruleset): boolean {
  return ['INPUT', 'FORWARD', 'OUTPUT'].some(name => ruleset.chain('filter', name)?.policy === 'DROP');
}

/**
 * The kubelet's KUBE-FIREWALL drops marked packets, and packets from outside to loopback addresses. An iptables older than the one that
 * wrote the rules loses the match of the mark, and drops everything.
 */
function dropsUnmarked(ruleset: Ruleset): boolean {
  const lines = ruleset.chain('filter', 'KUBE-FIREWALL')?.text().split('\n') ?? [];
  return lines.some(isUnmarkedDrop);
}

/** Whether a rule of KUBE-FIREWALL is none that the kubelet writes. */
export function isUnmarkedDrop(text: string): boolean {
  return / -j DROP$/.test(text) && !/ --mark | 127\.0\.0\.0\/8/.test(text);
}

/** Chains that kube-proxy and the kubelet themselves jump to from the base chains. */
export function isHookedChain(name: string): boolean {
  return /^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|FORWARD|FIREWALL|POSTROUTING)$/.test(name);
}

/** In IPVS mode kube-proxy jumps from these base chains to these chains too, and nothing else does. */
const ipvsHooks = new Set(['filter INPUT KUBE-IPVS-FILTER', 'filter INPUT KUBE-NODE-PORT', 'filter OUTPUT KUBE-IPVS-OUT-FILTER']);

const isOneOf =
  (names: Readonly<Record<string, RegExp>>): IsOwnChain =>
  (name, table) =>
    names[table]?.test(name) === true;

/** Chains that kube-proxy and the kubelet write rules into in iptables mode. Of the same name in another table, a chain is that of another program. */
export const isKubeProxyChain = isOneOf({
  nat: /^KUBE-(?:SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|MARK-DROP|(?:SVC|SVL|SEP|EXT|FW|XLB)-.+)$/,
  filter: /^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|FORWARD|FIREWALL)$/,
});

/** Those of IPVS mode. */
export const isIpvsChain = isOneOf({
  nat: /^KUBE-(?:SERVICES|NODE-PORT|LOAD-BALANCER|FIREWALL|POSTROUTING|MARK-MASQ|MARK-DROP)$/,
  filter: /^KUBE-(?:NODE-PORT|IPVS-FILTER|IPVS-OUT-FILTER|SOURCE-RANGES-FIREWALL|PROXY-FIREWALL|FORWARD|FIREWALL)$/,
});

/** Chains of nat with such names that base chains jump to, which kube-proxy never does. */
export function strayChains(ruleset: Ruleset): readonly string[] {
  const targets = ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'].flatMap(name =>
    [...(ruleset.chain('nat', name)?.text() ?? '').matchAll(/ -[jg] (KUBE-\S+)/g)].map(([, target = '']) => target),
  );
  return targets.filter(target => !isHookedChain(target));
}

/** Rules of network policies: by design they treat clients differently. */
export function isPolicyChain(name: string): boolean {
  return /^(?:cali-|KUBE-NWPLCY-|KUBE-POD-FW-|KUBE-ROUTER-|ANTREA-|WEAVE-NPC|CILIUM_|OVN-KUBE-)/.test(name);
}

/** The network policies of kube-router; k3s has them beside kube-proxy. */
const kubeRouterChains = ['KUBE-ROUTER-', 'KUBE-NWPLCY-', 'KUBE-POD-FW-'];

/** All chains that are not kube-proxy's. Of kube-proxy's in nat, which may be a quarter of a million, no object is made. */
export const thirdPartyChains = once((ruleset: Ruleset): readonly Chain[] =>
  [...ruleset.tables.values()].flatMap(({name: table, chains}) =>
    table === 'nat'
      ? [...chains.notStartingWith('KUBE-'), ...chains.startingWith(...kubeRouterChains, ...strayChains(ruleset))]
      : [...chains.values()].filter(({name}) => !isKubeProxyChain(name, table) && !isIpvsChain(name, table)),
  ),
);
