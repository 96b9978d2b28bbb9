import {bitsOf} from '../../model/address.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {comment, type RuleWriter} from './rule-text.ts';
import {localSource} from './service-rules.ts';
import * as versions from './iptables-versions.ts';

/**
 * The rules that exist whatever the Services: jumps from the base chains, the masquerade mark, forwarding. Follows `iptablesJumpChains` and
 * the top-level chains of `syncProxyRules`. The jumps are in the order of a node where no other program writes rules; other orders are
 * valid.
 */
export function writeBaseRules(context: NodeContext, write: RuleWriter): void {
  writeJumps(context, write);
  writeMasquerade(context, write);
  writeForward(context, write);
  writeKubeFirewall(context, write);
}

/** The chains that exist whether they contain rules or not: `[table, chain]`. */
export function baseRuleChains(context: NodeContext): readonly (readonly [table: string, chain: string])[] {
  const {version} = context;
  return [
    ['nat', 'KUBE-SERVICES'],
    ['nat', 'KUBE-NODEPORTS'],
    ['nat', 'KUBE-POSTROUTING'],
    ['nat', 'KUBE-MARK-MASQ'],
    ...(versions.ensuresMarkDrop(version) ? [['nat', 'KUBE-MARK-DROP'] as const] : []),
    ['filter', 'KUBE-SERVICES'],
    ...(versions.refusesExternalEntries(version) ? [['filter', 'KUBE-EXTERNAL-SERVICES'] as const] : []),
    ...(versions.hasForwardChain(version) ? [['filter', 'KUBE-FORWARD'] as const] : []),
    ...(versions.acceptsHealthChecks(version) ? [['filter', 'KUBE-NODEPORTS'] as const] : []),
    ...(versions.hasProxyFirewall(version) ? [['filter', 'KUBE-PROXY-FIREWALL'] as const] : []),
    ...(versions.writesKubeFirewall(version) ? [['filter', 'KUBE-FIREWALL'] as const] : []),
  ];
}

/** Empty chains by which kube-proxy notices that a table was flushed. Follows `iptables.Monitor`. */
export const canaryTables: readonly string[] = ['mangle', 'nat', 'filter'];
export const canaryChain = 'KUBE-PROXY-CANARY';

function writeJumps({version}: NodeContext, write: RuleWriter): void {
  const state = versions.hooksNewConnectionsOnly(version) ? '-m conntrack --ctstate NEW ' : '';
  const jump = (chain: string, to: string, text: string): void => write('filter', chain, `${state}${comment(text)} -j ${to}`);
  if (versions.writesKubeFirewall(version)) for (const chain of ['INPUT', 'OUTPUT']) write('filter', chain, '-j KUBE-FIREWALL');
  if (versions.hasProxyFirewall(version))
    for (const chain of ['INPUT', 'FORWARD', 'OUTPUT']) jump(chain, 'KUBE-PROXY-FIREWALL', 'kubernetes load balancer firewall');
  if (versions.acceptsHealthChecks(version))
    write('filter', 'INPUT', `${comment('kubernetes health check service ports')} -j KUBE-NODEPORTS`);
  if (versions.hooksServicesFromInput(version)) jump('INPUT', 'KUBE-SERVICES', 'kubernetes service portals');
  if (versions.refusesExternalEntries(version)) jump('INPUT', 'KUBE-EXTERNAL-SERVICES', 'kubernetes externally-visible service portals');
  if (versions.hasForwardChain(version)) write('filter', 'FORWARD', `${comment('kubernetes forwarding rules')} -j KUBE-FORWARD`);
  if (versions.refusesForwarded(version)) jump('FORWARD', 'KUBE-SERVICES', 'kubernetes service portals');
  if (versions.refusesForwardedToExternal(version))
    jump('FORWARD', 'KUBE-EXTERNAL-SERVICES', 'kubernetes externally-visible service portals');
  jump('OUTPUT', 'KUBE-SERVICES', 'kubernetes service portals');
  for (const chain of ['PREROUTING', 'OUTPUT']) write('nat', chain, `${comment('kubernetes service portals')} -j KUBE-SERVICES`);
  write('nat', 'POSTROUTING', `${comment('kubernetes postrouting rules')} -j KUBE-POSTROUTING`);
}

function writeMasquerade({version, mark, clearsMark}: NodeContext, write: RuleWriter): void {
  const masquerade = `-j MASQUERADE${versions.masqueradesRandomly(version) ? ' --random-fully' : ''}`;
  const text = comment('kubernetes service traffic requiring SNAT');
  if (clearsMark) {
    write('nat', 'KUBE-POSTROUTING', `-m mark ! --mark ${mark}/${mark} -j RETURN`);
    write('nat', 'KUBE-POSTROUTING', `-j MARK --set-xmark ${mark}/0x0`);
    write('nat', 'KUBE-POSTROUTING', `${text} ${masquerade}`);
  } else {
    write('nat', 'KUBE-POSTROUTING', `${text} -m mark --mark ${mark}/${mark} ${masquerade}`);
  }
  write('nat', 'KUBE-MARK-MASQ', `-j MARK --set-xmark ${mark}/${mark}`);
}

function writeForward(context: NodeContext, write: RuleWriter): void {
  const {version, mark, invalidDrop, nfacct} = context;
  if (!versions.hasForwardChain(version)) return;
  const counter = nfacct && versions.countsWithNfacct(version) ? '-m nfacct --nfacct-name  ct_state_invalid_dropped_pkts ' : '';
  if (invalidDrop) write('filter', 'KUBE-FORWARD', `-m conntrack --ctstate INVALID ${counter}-j DROP`);
  write('filter', 'KUBE-FORWARD', `${comment('kubernetes forwarding rules')} -m mark --mark ${mark}/${mark} -j ACCEPT`);
  for (const rule of establishedRules(context)) write('filter', 'KUBE-FORWARD', rule);
}

/** The rules that accept replies of pods: one for all, or one for each direction. */
export function establishedRules(context: NodeContext): readonly string[] {
  const rule = (text: string, before = ''): string =>
    `${before}${comment(`kubernetes forwarding conntrack ${text}`)} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`;
  if (versions.hasSingleConntrackRule(context.version)) return [rule('rule')];
  if (versions.forwardsAllEstablished(context.version)) return [rule('pod source rule'), rule('pod destination rule')];
  const pods = localSource(context);
  if (pods === null) return [];
  return [rule('pod source rule', `${pods} `), rule('pod destination rule', `${pods.replace('-s', '-d')} `)];
}

function writeKubeFirewall({version, family, localhostNodePorts}: NodeContext, write: RuleWriter): void {
  if (!versions.writesKubeFirewall(version) || family === 'IPv6' || !localhostNodePorts) return;
  const states = '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT';
  write('filter', 'KUBE-FIREWALL', `! -s 127.0.0.0/8 -d 127.0.0.0/8 ${comment('block incoming localnet connections')} ${states} -j DROP`);
}

/** The last rules of nat/KUBE-SERVICES, which jump to the node ports. Written after all Services. */
export function writeNodePortTail(context: NodeContext, write: RuleWriter): void {
  const text = comment('kubernetes service nodeports; NOTE: this must be the last rule in this chain');
  const addresses = nodePortDestinations(context);
  if (addresses === null) {
    const loopback = excludedLoopback(context);
    write('nat', 'KUBE-SERVICES', `${loopback}${text} -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`);
    return;
  }
  const length = bitsOf(context.family);
  for (const address of addresses) write('nat', 'KUBE-SERVICES', `-d ${address}/${length} ${text} -j KUBE-NODEPORTS`);
}

function excludedLoopback({family, version, localhostNodePorts}: NodeContext): string {
  if (!versions.excludesLocalhost(version)) return '';
  if (family === 'IPv6') return '! -d ::1/128 ';
  return localhostNodePorts ? '' : '! -d 127.0.0.0/8 ';
}
