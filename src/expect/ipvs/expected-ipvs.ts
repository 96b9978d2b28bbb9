import type {Hypothesis} from '../hypothesis.ts';
import {serverKey} from '../../model/virtual-server.ts';
import {nodeTopology, type PortsInput, portsOnNode} from '../cluster/ports-on-node.ts';
import type {ServedPort} from '../cluster/served-port.ts';
import {boundAddressesOf} from './bound-addresses.ts';
import {ipvsBaseRuleChains, outFilterRules, writeIpvsBaseRules} from './ipvs-base-rules.ts';
import {type ExpectedMembers, expectMembers} from './ipset-members.ts';
import {type IpvsContext, ipvsContext} from './ipvs-context.ts';
import type {SetRole} from './set-names.ts';
import {type ExpectedServer, expectServers} from './virtual-servers.ts';
import {pushTo} from '../../model/lists.ts';

/** What kube-proxy should have configured for one family on one node in IPVS mode. */
export interface ExpectedIpvs {
  readonly context: IpvsContext;
  readonly ports: readonly ServedPort[];
  /** By key. If several Services claim one address and port, the last one that kube-proxy processes wins: it can be any of them. */
  readonly servers: ReadonlyMap<string, readonly ExpectedServer[]>;
  readonly members: ReadonlyMap<SetRole, ExpectedMembers>;
  /** The addresses of kube-ipvs0, with the Service ports that they belong to. */
  readonly bound: ReadonlyMap<string, readonly ServedPort[]>;
  /** Base rules by `table/chain`, including empty chains. */
  readonly baseRules: ReadonlyMap<string, readonly string[]>;
  /** The rules of a Service port in KUBE-IPVS-OUT-FILTER. */
  outFilter(owner: ServedPort): readonly string[];
}

/** `facts` contain the addresses of all interfaces except kube-ipvs0. */
interface ExpectIpvsInput extends PortsInput {
  /** The addresses bound to kube-ipvs0. */
  readonly bound: readonly string[];
}

export function expectIpvs(given: ExpectIpvsInput, hypothesis: Hypothesis = {}): ExpectedIpvs {
  const {config, facts, family} = given;
  const context = ipvsContext(family, config, facts, given.bound);
  const topology = nodeTopology(given, hypothesis);
  const ports = portsOnNode(given, topology, hypothesis.picks);
  const members = expectMembers({ports, context, nodeName: topology.nodeName});
  return {
    ...{context, ports, members},
    servers: gather(ports, owner => expectServers(owner, context).map(item => [serverKey(item.server), item])),
    bound: gather(ports, owner => boundAddressesOf(owner.port, context).map(address => [address, owner])),
    baseRules: baseRuleTexts(context, role => (members.get(role)?.size ?? 0) > 0),
    outFilter: ({port}) => outFilterRules(port, context),
  };
}

function gather<T>(
  ports: readonly ServedPort[],
  itemsOf: (owner: ServedPort) => readonly (readonly [key: string, item: T])[],
): ReadonlyMap<string, readonly T[]> {
  const collected = new Map<string, T[]>();
  for (const owner of ports) {
    for (const [key, item] of itemsOf(owner)) pushTo(collected, key, item);
  }
  return collected;
}

function baseRuleTexts(context: IpvsContext, wants: (role: SetRole) => boolean): ReadonlyMap<string, readonly string[]> {
  const baseRules = new Map<string, string[]>(ipvsBaseRuleChains(context).map(([table, chain]) => [`${table}/${chain}`, []]));
  writeIpvsBaseRules({context, wants}, (table, chain, rule) => {
    pushTo(baseRules, `${table}/${chain}`, rule);
  });
  return baseRules;
}
