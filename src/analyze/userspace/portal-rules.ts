import {matchOptionOf, type Rule, type Ruleset, optionOf, targetOptionOf} from '../../model/ruleset.ts';

/** The chain that redirects packets of one kind of client to kube-proxy: for an address, and for a port of the node. */
export interface PortalChain {
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
export interface PortalRule {
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
