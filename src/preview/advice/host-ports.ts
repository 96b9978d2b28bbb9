import {allOf} from '../../analyze/iptables/read-dumps.ts';
import {families} from '../../model/family.ts';
import {thirdPartyTexts} from '../port-groups.ts';
import {otherTables} from '../third-party-rules.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';

/** Ports that both a hostPort and a node port claim: in nftables mode their precedence is no longer the order of rules in one chain. */
export function hostPorts({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (setup.config.mode.value !== 'iptables' || configAfter.mode.value !== 'nftables') return [];
  const nodePorts = new Set(
    (setup.api.services ?? []).flatMap(
      ({spec}) => spec?.ports?.flatMap(({nodePort, protocol = 'TCP'}) => (nodePort === undefined ? [] : `${nodePort}/${protocol}`)) ?? [],
    ),
  );
  const texts = families.flatMap(family => {
    const iptables = allOf(setup.dumps, family);
    return thirdPartyTexts(iptables, otherTables(setup.nft(), iptables));
  });
  const translated = new Set(texts.filter(text => /HOSTPORT|hostport|DNAT|dnat/.test(text)).flatMap(portsOf));
  const shared = [...translated].filter(port => nodePorts.has(port));
  if (shared.length === 0) return [];
  return [
    {
      ...{topic: 'change', id: 'host-ports'},
      reason: `${shared.join(', ')} is a hostPort and a node port: in iptables mode the order of the rules decides, in nftables mode whichever chain was registered last`,
      remedy: 'Use different ports.',
    },
  ];
}

/** `30080/TCP` for each port that a rule names, for both protocols if it names none. */
function portsOf(text: string): readonly string[] {
  const protocol = /(?:-p|l4proto|^|\s)\s*(tcp|udp|sctp)\b/.exec(text)?.[1]?.toUpperCase();
  const ports = [...text.matchAll(/dports? (?:\{ )?([\d, ]+)/g)].flatMap(([, list = '']) => list.split(',').map(port => port.trim()));
  return ports.flatMap(port => (protocol === undefined ? [`${port}/TCP`, `${port}/UDP`] : [`${port}/${protocol}`]));
}
