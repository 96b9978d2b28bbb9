import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {IpvsContext} from '../../expect/ipvs/ipvs-context.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {traceServedPort} from '../trace-served-port.ts';
import {pathOutcomeOn, type IpvsSides} from './ipvs-sides.ts';

interface IpvsTraceInput {
  readonly item: ServedPort;
  readonly context: IpvsContext;
  readonly sides: IpvsSides;
}

/** The path of a packet to its virtual server, and on to its real servers. */
export function traceIpvsPort({item, context, sides}: IpvsTraceInput): PortTrace {
  return traceServedPort<Rule>({
    ...{item, context, isSentByIpvs: true},
    walk: packet => ({should: pathOutcomeOn(sides.expected, packet), does: pathOutcomeOn(sides.whole, packet)}),
    stepsOf: path =>
      path.filter(isVirtualServer).map(({table, chain, line, text}) => ({table, chain, line, text, to: `virtual server ${chain}`})),
    pickOf: path => path.find(isRealServer) ?? null,
    rewriteOf: path => path.find(isRealServer) ?? null,
  });
}

function isVirtualServer({table, text}: Rule): boolean {
  return table === 'ipvs' && !isOfRealServer(text);
}

function isRealServer({table, text}: Rule): boolean {
  return table === 'ipvs' && isOfRealServer(text);
}

/** As ipvsadm-save spells it, or the list of ipvsadm. */
function isOfRealServer(text: string): boolean {
  return text.startsWith('-a ') || text.startsWith('->');
}
