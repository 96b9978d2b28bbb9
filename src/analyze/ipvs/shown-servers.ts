import type {NodeDump} from '../../model/snapshot.ts';
import {someOf} from '../../model/text.ts';
import {parseIpvsadm} from '../../parse/ipvs/ipvsadm-save.ts';
import type {Packet} from '../../trace/walked-packet.ts';
import {joinHostPort} from '../../model/address.ts';

/** What a list of virtual servers that may lack some shows of one of them. */
export interface PartOfServers {
  readonly reason: string;
  /** The outcome in a few words, if one is likely: `refused if TCP 10.96.0.10:53 has no real server`. */
  readonly condition?: string;
  /** It is shown with real servers that take connections. */
  readonly isServed?: true;
}

/** Null if the text has no virtual servers. */
export function shownInPart(node: NodeDump, {protocol, destination, port}: Packet): PartOfServers | null {
  const text = (node.read('ipvsadm-part') ?? node.read('ipvsadm-save'))?.toString('utf8');
  if (text === undefined) return null;
  const {servers, unweighted, contradiction, strays} = parseIpvsadm(text);
  const server = `${protocol.toUpperCase()} ${joinHostPort(destination.text, port)}`;
  const isAsked = (one: {readonly protocol: string; readonly address: string; readonly port: number}): boolean =>
    one.protocol === protocol.toUpperCase() && one.address === destination.text && one.port === port;
  const weighted = servers.find(isAsked);
  const found = weighted ?? unweighted.find(isAsked);
  if (found === undefined) {
    const [named] = strays;
    if (named === undefined) return {reason: `this text shows virtual servers of IPVS only in part, and none of them is ${server}`};
    const names = `this text lists names in place of addresses, as on line ${named.line}`;
    return {reason: `${names}, so that it is not known which virtual server is ${server}: ipvsadm -Ln prints addresses`, condition: names};
  }
  const reals = found.realServers.map(({hostPort}) => hostPort);
  const isOther = contradiction !== null && (text.split('\n')[contradiction - 1] ?? '').includes(joinHostPort(destination.text, port));
  if (isOther) {
    const lists = `${server} has other real servers on line ${contradiction} than on line ${found.line}`;
    return {reason: `${lists}: the lists are of several nodes or times, and some of them are out of date`, condition: lists};
  }
  if (reals.length === 0)
    return {
      reason: `the virtual server ${server} is shown without real servers: if it has none, IPVS refuses the packet`,
      condition: `refused if ${server} has no real server`,
    };
  if (weighted?.realServers.every(({weight}) => weight === 0) === true)
    return {
      reason: `every real server of ${server} that is shown has the weight 0 and takes no new connection (${someOf(reals)})`,
      condition: `refused unless ${server} has other real servers`,
    };
  const reason = `the virtual server ${server} sends packets to ${someOf(reals)}, and to real servers that the text may lack`;
  return {reason, condition: `sent to ${someOf(reals)}, as far as the list shows`, isServed: true};
}
