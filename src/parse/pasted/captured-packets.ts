import {joinHostPort} from '../../model/address.ts';
import {plural, someOf} from '../../model/text.ts';
import {parseConntrack} from '../conntrack.ts';
import type {Listed} from './listed-objects.ts';

/** What a pasted text shows to be wrong, in a few words. */
export interface TextFact {
  readonly text: string;
  /** Addresses that packets to which it happens have, some with a port; empty where it is not known. */
  readonly about: readonly string[];
}

/** Facts of which it is not known what packets they concern. */
export function told(texts: readonly string[]): readonly TextFact[] {
  return texts.map(text => ({text, about: []}));
}

/**
 * Connections whose handshake is not complete: `TCP 00:57 SYN_RECV 10.244.1.3:40112 10.96.0.10:53 10.244.2.5:53` of IPVS, and those that
 * conntrack lists as SYN_SENT.
 */
function waitingConnections(lines: readonly string[], tracked: string): readonly TextFact[] {
  const ofIpvs = lines.flatMap(line => {
    const [, client = '', server = '', end] = /^\s*TCP\s+\d+:\d\d\s+SYN_(?:RECV|SENT)\s+(\S+):\d+\s+(\S+:\d+)\s+(\S+:\d+)/.exec(line) ?? [];
    return end === undefined ? [] : [{server, end, isOfNode: server.startsWith(`${client}:`)}];
  });
  const ofRules = [...parseConntrack(tracked, 'tcp')].flatMap(({state, original, reply}) => {
    const [server, end] = [joinHostPort(original.destination, original.destinationPort), joinHostPort(reply.source, reply.sourcePort)];
    return state === 'SYN_SENT' && server !== end ? [{server, end, isOfNode: false}] : [];
  });
  return [...Map.groupBy([...ofIpvs, ...ofRules], ({server, end}) => `${server} ${end}`).values()].map(all => {
    const [{server = '', end = '', isOfNode = false} = {}] = all;
    const why = isOfNode
      ? `. The client is the node itself, and has the address of the virtual server: nothing masquerades what it sends there (the jump of POSTROUTING to KUBE-POSTROUTING, KUBE-MARK-MASQ, or the set KUBE-CLUSTER-IP lacks it)`
      : '';
    const waits = `${plural(all.length, 'connection')} to ${server} ${all.length === 1 ? 'waits' : 'wait'}`;
    return {text: `${waits} for ${end}: it does not answer, or its answers do not come back through this node${why}`, about: [server, end]};
  });
}

/**
 * Where a tracked connection goes that no rule translated while rules translate others or kubectl lists its Service, that goes to no endpoint
 * that is listed, or that asks DNS and gets no answer; of others, where the first goes, which is no fault.
 */
export function connectionIn(
  lines: readonly string[],
  {services, endpoints, ready, empty}: Listed,
): {readonly text: string; readonly isFault: boolean; readonly isTranslated: boolean} | null {
  const tracked = lines.join('\n');
  const owners = new Map(
    services
      .toReversed()
      .flatMap(service => [...service.clusterIPs, ...(service.balancers ?? [])].map(address => [address, service] as const)),
  );
  const flows = ['udp', 'tcp'].flatMap(protocol =>
    [...parseConntrack(tracked, protocol)].map(({line, state, original, reply: {source, sourcePort}}) => {
      const {name = '', ports = []} = owners.get(original.destination) ?? {};
      const isTranslated = source !== original.destination;
      const [end, list] = [joinHostPort(source, sourcePort), ready.has(name) ? [...(endpoints.get(name) ?? [])] : []];
      const isAsked = ports.some(({port}) => port === original.destinationPort) && !empty.has(name);
      return {
        line,
        isTranslated,
        isLost: !isTranslated && isAsked && (state === null || state === 'SYN_SENT'),
        isUnanswered: isTranslated && original.destinationPort === 53 && lines[line - 1]?.includes('[UNREPLIED]') === true,
        end,
        others: isTranslated && !list.includes(end) ? list : [],
        to: `${original.destination} ${original.destinationPort}`,
      };
    }),
  );
  const translated = new Set(flows.flatMap(({to, isTranslated}) => (isTranslated ? to : [])));
  const fault =
    flows.find(({to, isTranslated, isLost}) => isLost || (!isTranslated && translated.has(to))) ??
    flows.find(({others}) => others.length > 0) ??
    flows.find(({isUnanswered}) => isUnanswered);
  const told = fault ?? flows[0];
  if (told === undefined) return null;
  const way = !told.isTranslated
    ? `no rule translated ${told.to.split(' ')[0]}, and rules are not asked again while it lasts`
    : told.others.length > 0
      ? `packets go to ${told.end}, which is none of the endpoints that kubectl lists (${someOf(told.others)}), and go there as long as they come`
      : told.isUnanswered
        ? `requests to DNS go to ${told.end}, which has not answered ([UNREPLIED]): if no pod of DNS has this address any more, the client keeps it as long as it asks from this port, until conntrack -D deletes the entry`
        : `packets go to ${told.end}`;
  return {text: `of the tracked connection on line ${told.line}, ${way}`, isFault: fault !== undefined, isTranslated: told.isTranslated};
}

/** What connections and tcpdump show to be lost or refused. Most telling first. */
export function packetsOf(lines: readonly string[], tracked: string): readonly TextFact[] {
  const waiting = waitingConnections(lines, tracked);
  if (!lines.some(line => line.includes(' > '))) return waiting;
  const segments = segmentsOf(lines);
  return [
    ...waiting,
    ...wrongChecksums(lines),
    ...tooLarge(lines),
    ...untranslated(segments),
    ...unreachable(lines),
    ...unanswered(segments),
  ];
}

/** The other node drops packets of a tunnel whose outer checksum is wrong. VXLAN mostly has none. */
function wrongChecksums(lines: readonly string[]): readonly TextFact[] {
  const nodes = lines.flatMap(line => / > (\S+)\.(?:8472|4789): \[bad udp cksum /.exec(line)?.[1] ?? []);
  return [...new Set(nodes)].map(node => ({
    text: `packets of VXLAN to ${node} have a wrong checksum of UDP: unless the network card of the sender completes it after this capture, ${node} drops them. kube-proxy 1.16.13, 1.17.9 and 1.18.6 mended one cause, and ethtool -K flannel.1 tx-checksum-ip-generic off avoids it`,
    about: [node],
  }));
}

function tooLarge(lines: readonly string[]): readonly TextFact[] {
  const found = lines.flatMap(line => {
    const [, by = '', to = '', mtu] = /(\S+) > \S+: ICMP6?,? (\S+) unreachable - need to frag \(mtu (\d+)\)/.exec(line) ?? [];
    return mtu === undefined ? [] : [{by, to, mtu}];
  });
  return [...Map.groupBy(found, ({to}) => to)].map(([to, own]) => ({
    text: `packets to ${to} are larger than the ${own[0]?.mtu} bytes (MTU) that ${own[0]?.by} can pass on: where its message does not reach the sender, small packets arrive and large ones do not. The MTU of the network plugin must leave room for its tunnel`,
    about: [to],
  }));
}

/** `IP 10.244.1.3 > 10.244.2.8: ICMP 10.96.0.10 udp port 53 unreachable`. */
function unreachable(lines: readonly string[]): readonly TextFact[] {
  const found = lines.flatMap(line => {
    const [, by = '', host = '', protocol = '', port] = /(\S+) > \S+: ICMP (\S+) (tcp|udp|sctp) port (\w+) unreachable/.exec(line) ?? [];
    return port === undefined ? [] : [{by, host, to: `${protocol} port ${port} of ${host}`}];
  });
  return [...Map.groupBy(found, ({to}) => to)].map(([to, own]) => ({
    text: `${own[0]?.by} answers that ${to} is unreachable: nothing listens there, or a rule with REJECT refuses, as kube-proxy writes for a Service without endpoints`,
    about: own.map(({host}) => host),
  }));
}

interface Segment {
  /** `address.port`. */
  readonly from: string;
  readonly to: string;
  readonly flags: string;
  readonly seq: string;
  /** In seconds of the day, of this line or, where tcpdump writes two for a packet, of the one before. */
  readonly time: number;
}

function segmentsOf(lines: readonly string[]): readonly Segment[] {
  let time = 0;
  return lines.flatMap((line): readonly Segment[] => {
    const clock = /^\s*(?:\d{4}-\d\d-\d\d )?(\d\d):(\d\d):(\d\d\.\d+)/.exec(line);
    if (clock !== null) time = Number(clock[1]) * 3600 + Number(clock[2]) * 60 + Number(clock[3]);
    if (!line.includes(': Flags [')) return [];
    const [, from = '', to = '', flags = '', seq = ''] =
      /(\S+\.[\w-]+) > (\S+\.[\w-]+): Flags \[(\S+)\](?:.*?\bseq (\d+))?/.exec(line) ?? [];
    return to === '' ? [] : [{from, to, flags, seq, time}];
  });
}

/** A client refuses the answer to a SYN that it sent to another address, from which it gets none. A capture of all interfaces has the SYN twice. */
function untranslated(segments: readonly Segment[]): readonly TextFact[] {
  const has = (flags: string, from: string, to: string): boolean =>
    segments.some(segment => segment.flags.startsWith(flags) && segment.from === from && segment.to === to);
  return segments.flatMap(({from, to, flags}) => {
    if (flags !== 'S.' || !has('R', to, from)) return [];
    const asked = segments.find(other => other.flags === 'S' && other.from === to && other.to !== from);
    if (asked === undefined || has('S.', asked.to, to)) return [];
    return [{text: untranslatedText(hostOf(from), hostOf(asked.to)), about: [hostOf(asked.to)]}];
  });
}

export function untranslatedText(from: string, to: string): string {
  return `the answer to a request to ${to} came from ${from}: nothing translated it back. Where client and server are pods on one bridge, their packets bypass the rules without br_netfilter and net.bridge.bridge-nf-call-iptables = 1; otherwise the answer took another way than the request`;
}

/** A client repeats a SYN to which it got no answer, whatever else the capture has. */
function unanswered(segments: readonly Segment[]): readonly TextFact[] {
  const opening = segments.filter(({flags}) => flags === 'S');
  return [...Map.groupBy(opening, ({from, to, seq}) => `${from} ${to} ${seq}`).values()].flatMap(all => {
    const [first] = all;
    if (first === undefined) return [];
    const answers = segments.filter(({from, to}) => from === first.to && to === first.from);
    const server = hostPortOf(first.to);
    // A capture of several interfaces has a packet more than once at nearly the same time.
    const sent = all.filter(({time}, at) => at === 0 || time - (all[at - 1]?.time ?? 0) > minPause);
    if (answers.some(({flags, seq}) => /^R\.?$/.test(flags) && seq === '0'))
      return {
        text: `${server} refuses connections with a reset: nothing listens on that port there, or a rule rejects so`,
        about: [server],
      };
    const last = sent.at(-1)?.time ?? 0;
    const isAnswered = answers.some(({flags, time}) => flags === 'S.' && time >= last && time - last < minPause);
    if (sent.length < (isAnswered ? 2 : minSent)) return [];
    const end = answers.length > 0 ? ' before an answer came' : '';
    const text = `${hostPortOf(first.from).replace(/:\w+$/, '')} sent the same SYN to ${server} ${sent.length} times${end}: the ${isAnswered ? 'first packets did' : 'packets do'} not arrive, or the answers are lost. The same capture on the node of ${server.replace(/:\w+$/, '')} shows which; through VXLAN (flannel.1), wrong checksums are one cause, which ethtool -K flannel.1 tx-checksum-ip-generic off avoids`;
    return {text, about: [server]};
  });
}

/** The kernel sends a SYN again after a second, and later after more. */
const minPause = 0.8;
const minSent = 3;

function hostOf(place: string): string {
  return place.replace(/\.[\w-]+$/, '');
}

function hostPortOf(place: string): string {
  return place.replace(/\.([\w-]+)$/, ':$1');
}
