import {contains, type Family, parseAddress, parseCidr} from '../../model/address.ts';
import {hostIP, type NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {nodeTopology, type PortsInput, portsOnNode} from '../cluster/served-port.ts';
import {expandNodePortAddresses, type Hypothesis, localDetector, type NodeContext} from '../node-context.ts';
import {ExpectedRuleset} from './expected-ruleset.ts';
import {clearsMasqueradeMark, dropsInvalid, excludesLocalhost, knowsNodeIP, skipsInvalidDropWhenLiberal} from './iptables-versions.ts';
import {portRules} from './port-rules.ts';

export interface ExpectInput extends PortsInput {
  /** Used only for what the node alone shows, such as whether the kernel counts with nfacct. */
  readonly ruleset: Ruleset | null;
}

/** What kube-proxy should have written in one family on one node. */
export function expectRuleset(input: ExpectInput, hypothesis: Hypothesis = {}): ExpectedRuleset {
  const {view, config, facts, family, ruleset} = input;
  const plain = nodeContext(family, config, facts, seenIn(ruleset));
  const {detector = plain.detector, masqueradeAll = plain.masqueradeAll} = hypothesis;
  const topology = nodeTopology(input, hypothesis);
  const large = view.endpointCount(family, topology.proxy) > largeCluster;
  const ports = portsOnNode(input, topology, hypothesis.picks).map(item => ({...item, large}));
  const context = {...plain, detector, masqueradeAll};
  return new ExpectedRuleset(context, ports, portRules(view, context));
}

/** kube-proxy's threshold: more than 1,000 endpoints over all Service ports of the family, ready or not. */
const largeCluster = 1000;

function seenIn(ruleset: Ruleset | null): SeenSettings {
  const postrouting = ruleset?.chain('nat', 'KUBE-POSTROUTING');
  const forward = ruleset?.chain('filter', 'KUBE-FORWARD');
  return {
    nfacct: countsWithNfacct(ruleset),
    clearsMark: postrouting === undefined ? null : !/--mark 0x[0-9a-f]+\/0x[0-9a-f]+ -j MASQUERADE/.test(postrouting.text()),
    dropsInvalid: forward === undefined ? null : forward.text().includes('--ctstate INVALID'),
  };
}

/** kube-proxy creates its two nfacct objects together, so a rule with either of them shows that the kernel has both. */
function countsWithNfacct(ruleset: Ruleset | null): boolean {
  const chains = [ruleset?.chain('filter', 'KUBE-FORWARD'), ruleset?.chain('nat', 'KUBE-NODEPORTS')];
  return chains.some(chain => chain?.text().includes('-m nfacct') ?? false);
}

/** What only the node shows; null if nothing is known. */
interface SeenSettings {
  readonly nfacct: boolean;
  readonly clearsMark: boolean | null;
  readonly dropsInvalid: boolean | null;
}

export function nodeContext(family: Family, config: ProxyConfig, facts: NodeFacts, seen: SeenSettings): NodeContext {
  const version = config.version.value;
  const nodePortCIDRs = nodePortAddresses(family, config, facts);
  const loopback = family === 'IPv4' && allowsLoopback(nodePortCIDRs);
  const localhostNodePorts = loopback && (!excludesLocalhost(version) || config.localhostNodePorts.value);
  return {
    ...{family, version, facts, nodePortCIDRs, localhostNodePorts},
    gates: config.featureGates.value,
    excludesLoopback: excludesLocalhost(version),
    detector: localDetector(family, config, facts),
    masqueradeAll: config.masqueradeAll.value,
    mark: `0x${(2 ** config.masqueradeBit.value).toString(16)}`,
    invalidDrop: dropsInvalid(version, seen.dropsInvalid) && !(config.tcpBeLiberal.value && skipsInvalidDropWhenLiberal(version)),
    clearsMark: clearsMasqueradeMark(version, seen.clearsMark),
    nodeIP: nodeIPForRanges(family, config, facts),
    nfacct: seen.nfacct,
  };
}

/** A family without a CIDR of its own uses all addresses. Follows `NewNodePortAddresses`. */
function nodePortAddresses(family: Family, config: ProxyConfig, facts: NodeFacts): readonly string[] | null {
  const given = expandNodePortAddresses({
    given: config.nodePortAddresses.value,
    version: config.version.value,
    // The addresses that kube-proxy uses as the node's: its bindAddress, otherwise the Node's.
    nodeIP: of => nodeIPForRanges(of, config, facts),
  });
  const parsed = given.map(text => parseCidr(text)).filter(cidr => cidr?.family === family);
  if (parsed.length === 0 || parsed.some(cidr => cidr?.prefix === 0)) return null;
  return parsed.map(cidr => cidr?.text ?? '');
}

/** Some IPv4 CIDR is inside 127.0.0.0/8 or contains 127.0.0.0. Follows `ContainsIPv4Loopback`. */
function allowsLoopback(cidrs: readonly string[] | null): boolean {
  if (cidrs === null) return true;
  const loopback = parseCidr('127.0.0.0/8');
  const start = parseAddress('127.0.0.0');
  return cidrs.some(text => {
    const cidr = parseCidr(text);
    if (cidr === null || loopback === null || start === null) return false;
    return contains(cidr, start) || contains(loopback, {...start, value: cidr.base});
  });
}

function nodeIPForRanges(family: Family, config: ProxyConfig, facts: NodeFacts): string {
  const bind = parseAddress(config.bindAddress.value);
  const unspecified = family === 'IPv4' ? '0.0.0.0' : '::';
  if (bind !== null && bind.value !== 0n && bind.family === family) return bind.text;
  const primary = (facts.hostIPs[0]?.includes(':') ?? false) === (family === 'IPv6');
  if (!knowsNodeIP(config.version.value, primary)) return unspecified;
  return hostIP(facts, family) ?? (family === 'IPv4' ? '127.0.0.1' : '::1');
}
