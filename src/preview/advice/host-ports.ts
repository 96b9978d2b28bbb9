import {allOf} from '../../analyze/iptables/read-dumps.ts';
import {canonicalAddress} from '../../model/address.ts';
import {families} from '../../model/family.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import type {NodeSetup} from '../node-setup.ts';
import {thirdPartyTexts} from '../port-groups.ts';
import {otherTables} from '../third-party-rules.ts';
import {type AdviceCase, externalAddresses, type NodeAdvice} from './advice-case.ts';

/**
 * Ports that both a hostPort and a Service claim: in nftables mode their precedence is no longer the order of rules in one chain. hostPorts
 * are known by their rules: chains of the CNI plugin portmap (`CNI-HOSTPORT-DNAT`, table `cni_hostport`), or any other translation.
 */
export function hostPorts({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (setup.config.mode.value !== 'iptables' || configAfter.mode.value !== 'nftables') return [];
  const texts = families.flatMap(family => {
    const iptables = allOf(setup.dumps, family);
    return thirdPartyTexts(iptables, otherTables(setup.nft(), iptables));
  });
  const lines = texts.flatMap(text => text.split('\n')).filter(line => /HOSTPORT|hostport|DNAT|dnat/.test(line));
  const translated = lines.flatMap(hostPortsOf);
  if (translated.length === 0) return [];
  const shared = claimsOf(setup).filter(claim => translated.some(hostPort => isShared(claim, hostPort, setup)));
  if (shared.length === 0) return [];
  return [
    {
      ...{topic: 'change', id: 'host-ports'},
      reason: `${[...new Set(shared.map(textOf))].join(', ')}: in iptables mode the order of the rules decides, in nftables mode whichever chain was registered last`,
      remedy: 'Use different ports.',
    },
  ];
}

interface HostPort {
  /** `30080/TCP`. */
  readonly port: string;
  /** Null for every address of the node. */
  readonly address: string | null;
}

/** A port of a Service; of a node port the address is null. */
interface Claim extends HostPort {
  readonly service: string;
}

function claimsOf({api}: NodeSetup): readonly Claim[] {
  return (api.services ?? []).flatMap(service => {
    const name = namespacedName(service.metadata);
    const addresses = externalAddresses(service).map(text => canonicalAddress(text) ?? text);
    return (service.spec?.ports ?? []).flatMap(({port = 0, nodePort = 0, protocol = 'TCP'}) => [
      ...(nodePort === 0 ? [] : [{port: `${nodePort}/${protocol}`, address: null, service: name}]),
      ...addresses.map(address => ({port: `${port}/${protocol}`, address, service: name})),
    ]);
  });
}

/** Rules for hostPorts match addresses of the node, or the one that the pod names as hostIP. */
function isShared(claim: Claim, hostPort: HostPort, {hostFacts}: NodeSetup): boolean {
  if (claim.port !== hostPort.port) return false;
  const own = hostFacts().addresses;
  if (claim.address === null) return hostPort.address === null || own.includes(hostPort.address);
  return hostPort.address === null ? own.includes(claim.address) : hostPort.address === claim.address;
}

function textOf({port, address, service}: Claim): string {
  return address === null ? `${port} is a hostPort and a node port` : `${port} at ${address} is a hostPort and an address of ${service}`;
}

/** What one rule names, for both protocols if it names none. */
function hostPortsOf(rule: string): readonly HostPort[] {
  const protocol = /(?:-p|l4proto|^|\s)\s*(tcp|udp|sctp)\b/.exec(rule)?.[1]?.toUpperCase();
  const given = /(?:(?<!! )-d|ip6? daddr) ([\da-fA-F.:]+)(?:\/(?:32|128))?(?![\d/])/.exec(rule)?.[1];
  const address = given === undefined ? null : (canonicalAddress(given) ?? null);
  const ports = [...rule.matchAll(/dports? (?:\{ )?([\d, ]+)/g)].flatMap(([, list = '']) => list.split(',').map(port => port.trim()));
  const names = ports.flatMap(port => (protocol === undefined ? [`${port}/TCP`, `${port}/UDP`] : [`${port}/${protocol}`]));
  return names.map(port => ({port, address}));
}
