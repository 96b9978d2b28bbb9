import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {firewallsInNat} from '../../expect/ipvs/ipvs-versions.ts';
import {setName, setTypes} from '../../expect/ipvs/set-names.ts';
import type {IpvsText, RuleTable} from '../../model/expected-rules.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {RuleTables} from './iptables-tables.ts';

/** The state of IPVS mode beside iptables, for the chosen Service ports. */
export function ipvsText(expected: ExpectedIpvs, isWanted: (port: ServicePort) => boolean): IpvsText {
  const {family} = expected.context;
  const servers = [...expected.servers.values()].flatMap(claims => claims.filter(({owner}) => isWanted(owner.port)).slice(-1));
  return {
    virtualServers: servers.flatMap(({server}) => [server.text, ...server.realServers.map(({text}) => text)]),
    ipsets: [...expected.members].map(([role, members]) => ({
      name: setName(role, family),
      type: setTypes[role],
      members: [...members].filter(([, owners]) => owners.some(({port}) => isWanted(port))).map(([member]) => member),
    })),
    addresses: [...expected.bound].filter(([, owners]) => owners.some(({port}) => isWanted(port))).map(([address]) => address),
  };
}

/** The iptables rules of IPVS mode. Up to 1.23 kube-proxy creates KUBE-MARK-DROP if it is missing; the kubelet writes its rules. */
export function ipvsTables(expected: ExpectedIpvs, isWanted: (port: ServicePort) => boolean): readonly RuleTable[] {
  const tables = new RuleTables();
  if (firewallsInNat(expected.context.version)) tables.declare('nat', 'KUBE-MARK-DROP');
  for (const [place, texts] of expected.baseRules) tables.addBaseRules(place, texts);
  for (const owner of expected.ports)
    if (isWanted(owner.port)) tables.addBaseRules('filter/KUBE-IPVS-OUT-FILTER', expected.outFilter(owner));
  return tables.sorted();
}
