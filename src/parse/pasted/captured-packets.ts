import {familyOf, joinHostPort} from '../../model/address.ts';
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
    const isGone = lines.some(line => weightless.exec(line)?.[1] === end);
    const isKept = lines.some(line => /^\s*(?:TCP|UDP)\s.*\bpersistent\b/.test(line) && line.includes(`${server} `));
    if (isGone)
      return {
        text: `${plural(all.length, 'connection')} to ${server} ${all.length === 1 ? 'goes' : 'go'} to ${end}, which does not answer and has the weight 0: its endpoint is gone or about to go${isKept ? ', and session affinity ("persistent") still leads its clients there until the timeout, unless net.ipv4.vs.expire_quiescent_template is 1' : ', and IPVS keeps connections that come from the same port (net.ipv4.vs.conn_reuse_mode, expire_nodest_conn)'}`,
        about: [server, end],
      };
    const waits = `${plural(all.length, 'connection')} to ${server} ${all.length === 1 ? 'waits' : 'wait'}`;
    return {text: `${waits} for ${end}: it does not answer, or its answers do not come back through this node${why}`, about: [server, end]};
  });
}

/** A real server that takes no new connections. */
const weightless = /^\s*->\s+(\S+:\d+)\s+(?:Masq|Route|Tunnel)\s+0\s/;

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
    ? `no rule translated ${told.to.split(' ')[0]}, and rules are not asked again while it lasts (conntrack -D deletes it)`
    : told.others.length > 0
      ? `packets go to ${told.end}, which is none of the endpoints that kubectl lists (${someOf(told.others)}), and go there as long as they come`
      : told.isUnanswered
        ? `requests to DNS go to ${told.end}, which has not answered ([UNREPLIED]): if no pod of DNS has this address any more, the client keeps it as long as it asks from this port, until conntrack -D deletes the entry`
        : `packets go to ${told.end}`;
  return {text: `of the tracked connection on line ${told.line}, ${way}`, isFault: fault !== undefined, isTranslated: told.isTranslated};
}

/** What connections and tcpdump show to be lost or refused. Most telling first. */
export function packetsOf(lines: readonly string[], tracked: string, listed: Listed): readonly TextFact[] {
  const waiting = waitingConnections(lines, tracked);
  if (!lines.some(line => line.includes(' > '))) return waiting;
  const segments = segmentsOf(lines);
  return [
    ...waiting,
    ...meant(tellingLines, lines),
    ...untranslated(segments),
    ...unanswered(segments, listed),
    ...tooLarge(segments),
    ...lostEchoes(lines, listed),
  ];
}

/** Requests of ping without a reply in the capture, in a tunnel of IPIP too. Cluster IPs answer none. */
function lostEchoes(lines: readonly string[], {services}: Listed): readonly TextFact[] {
  const echoes = lines.flatMap(line => {
    const [, outer = '', from = '', to = '', kind, id] = line.includes(': ICMP echo ') ? (echoForm.exec(line) ?? []) : [];
    return kind === undefined ? [] : [{outer, from, to, kind, id}];
  });
  return [...Map.groupBy(echoes, ({from, to, id, kind}) => `${kind} ${from} ${to} ${id}`).values()].flatMap(all => {
    const [{outer = '', from = '', to = '', kind = '', id = ''} = {}] = all;
    const isAnswered = echoes.some(other => other.kind === 'reply' && other.from === to && other.to === from && other.id === id);
    if (kind !== 'request' || all.length < minSent || isAnswered || services.some(({clusterIPs}) => clusterIPs.includes(to))) return [];
    const ends = outer.split(' > ');
    const why =
      outer === ''
        ? 'packets do not arrive, or the answers are lost. The same capture on the node of that address shows which'
        : `they leave as IPIP from ${ends.join(' to ')}. If the same capture on ${ends[1]} shows none, the network between the nodes drops IP protocol 4, which is neither TCP nor UDP: security groups or allowed address pairs of a cloud, or a firewall, must let it pass`;
    return [{text: `${from} sent ${all.length} requests of ping to ${to} without an answer: ${why}`, about: [to]}];
  });
}

const echoForm = /(?:(\d\S+ > \d\S+): (?:IP )?)?(\d\S+) > (\d\S+): ICMP echo (request|reply), id (\d+)/;

/** A pattern a line, and below it what that means in the words of this program: `$1` is a group of the pattern. */
export function meanings(text: string): readonly Meaning[] {
  return [...text.matchAll(/^(\S.*)\n {2}(.*)$/gm)].map(([, pattern = '', form = '']) => ({pattern: new RegExp(pattern), form}));
}

interface Meaning {
  readonly pattern: RegExp;
  readonly form: string;
}

/** What entries of a text mean, about the addresses that they name; the same of several servers once. Of alternatives the groups of one count. */
export function meant(table: readonly Meaning[], entries: readonly string[]): readonly TextFact[] {
  return table.flatMap(({pattern, form}) => {
    const found = entries.flatMap(entry => {
      const groups = pattern.exec(entry);
      return groups === null ? [] : [groups.slice(1).flatMap((group?: string) => group?.replaceAll(/,(?=\S)/g, ', ') ?? [])];
    });
    return [...Map.groupBy(found, ([, ...rest]) => rest.join(' ')).values()].map(alike => {
      const groups = [someOf([...new Set(alike.map(([first = '']) => first))]), ...(alike[0]?.slice(1) ?? [])];
      const many = form
        .replace(/\$1 has\b/, '$1 have')
        .replace(/\$1 is\b/, '$1 are')
        .replace(/^\$1 answers/, '$1 answer')
        .replace('Service $1', 'Services $1');
      const text = (groups[0]?.includes(', ') === true ? many : form).replaceAll(/\$(\d)/g, (_, place) => groups[Number(place) - 1] ?? '');
      return {text, about: alike.flat().filter(group => familyOf(group) !== null)};
    });
  });
}

/** What a line of tcpdump says by itself. The other node drops packets of a tunnel whose outer checksum is wrong; VXLAN mostly has none. */
const tellingLines = meanings(String.raw`
\bIP6? (\S+) > \S+: ICMP6?\b.* unreachable - admin prohibited
  $1 answers with "admin prohibited": a rule with REJECT on that host stops the packets (icmp-host-prohibited or icmp-admin-prohibited, as firewalld and iptables-services write it)
> (\S+)\.(?:8472|4789): \[bad udp cksum
  packets of VXLAN to $1 have a wrong checksum of UDP: unless the network card of the sender completes it after this capture, $1 drops them. kube-proxy 1.16.13, 1.17.9 and 1.18.6 mended one cause, and ethtool -K flannel.1 tx-checksum-ip-generic off avoids it
(\S+) > \S+: ICMP6?,? (\S+) unreachable - need to frag \(mtu (\d+)\)
  packets to $2 are larger than the $3 bytes (MTU) that $1 can pass on: where its message does not reach the sender, small packets arrive and large ones do not. The MTU of the network plugin must leave room for its tunnel
(\S+) > \S+: ICMP (\S+) (tcp|udp|sctp) port (\w+) unreachable
  $1 answers that $3 port $4 of $2 is unreachable: nothing listens there, or a rule with REJECT refuses, as kube-proxy writes for a Service without endpoints
`);

interface Segment {
  /** `address.port`. */
  readonly from: string;
  readonly to: string;
  readonly flags: string;
  readonly seq: string;
  /** Of the data that it carries, in bytes. */
  readonly length: number;
  /** In seconds of the day, of this line or, where tcpdump writes two for a packet, of the one before; without a clock that of the sender. */
  readonly time: number;
}

function segmentsOf(lines: readonly string[]): readonly Segment[] {
  let time = 0;
  return lines.flatMap((line): readonly Segment[] => {
    const clock = /^\s*(?:\d{4}-\d\d-\d\d )?(\d\d):(\d\d):(\d\d\.\d+)/.exec(line);
    if (clock !== null) time = Number(clock[1]) * 3600 + Number(clock[2]) * 60 + Number(clock[3]);
    const [from = '', to = '', id = ''] =
      ofDns
        .exec(line.slice(0, longestHead))
        ?.slice(1)
        .filter(group => group !== undefined) ?? [];
    // A request of DNS opens what its answer ends.
    if (id !== '') return [{from, to, flags: /\.(?:53|domain)$/.test(to) ? 'S' : 'S.', seq: id, length: 0, time}];
    if (!line.includes(': Flags [')) return [];
    const [, sender = '', receiver = '', flags = '', seq = ''] =
      /(\S+\.[\w-]+) > (\S+\.[\w-]+): Flags \[(\S+)\](?:.*?\bseq (\d+))?/.exec(line) ?? [];
    const [, sent] = time === 0 ? (/\bTS val (\d+)/.exec(line) ?? []) : [];
    const own = {from: sender, to: receiver, flags, seq, length: Number(/, length (\d+)/.exec(line)?.[1] ?? 0)};
    if (sent !== undefined) return [{...own, time: Number(sent) / 1000}];
    return receiver === '' ? [] : [{...own, time}];
  });
}

/** Of a line, what it says of its packet. */
const longestHead = 500;
/** A request or an answer, with its id. */
const ofDns = /(\S+\.[\w-]+) > (\S+\.(?:53|domain)): (\d+)\+? .*\?|(\S+\.(?:53|domain)) > (\S+\.[\w-]+): (\d+)\S* /;

/**
 * A client refuses the answer to a SYN that it sent to another address, from which it gets none, or sends the SYN again after that. A capture
 * of all interfaces has the SYN twice.
 */
function untranslated(segments: readonly Segment[]): readonly TextFact[] {
  const has = (flags: string, from: string, to: string): boolean =>
    segments.some(segment => segment.flags.startsWith(flags) && segment.from === from && segment.to === to);
  return segments.flatMap(({from, to, flags}, at): readonly TextFact[] => {
    if (/^(?:F|FP|P)?\.$/.test(flags) && has('R', to, from)) {
      // In the middle of a connection, whose server the client knows by another address.
      const own = segments.filter(other => other.from === to && !other.flags.startsWith('R'));
      const server = segments.find(other => other.to === to && own.some(sent => sent.to === other.from))?.from ?? '';
      if (server === '' || own.some(sent => sent.to === from) || has('R', to, server)) return [];
      const text = `packets of the connection of ${hostOf(to)} to ${hostOf(server)} come from ${hostOf(from)}, and the client resets them: nothing translates them back any more, since conntrack of the node has lost the connection (no packet came for as long as net.netfilter.nf_conntrack_tcp_timeout_established says, or its entry was deleted)`;
      return [{text, about: [hostOf(server)]}];
    }
    if (flags !== 'S.' || !has('R', to, from)) return [];
    const asked = segments.find(other => other.flags === 'S' && other.from === to && other.to !== from);
    if (asked !== undefined && !has('S.', asked.to, to))
      return [{text: untranslatedText(hostOf(from), hostOf(asked.to)), about: [hostOf(asked.to)]}];
    const again = segments.slice(at).find(other => other.flags === 'S' && other.from === to && other.to === from);
    const isSame = again !== undefined && segments.slice(0, at).some(({seq, from: by}) => by === to && seq === again.seq);
    return isSame ? [{text: untranslatedText(hostOf(from), 'another address'), about: [hostOf(from)]}] : [];
  });
}

export function untranslatedText(from: string, to: string): string {
  return `the answer to a request to ${to} came from ${from}: nothing translated it back. Where client and server are pods on one bridge, their packets bypass the rules without br_netfilter and net.bridge.bridge-nf-call-iptables = 1; otherwise the answer took another way than the request`;
}

/** A client repeats a SYN to which it got no answer, whatever else the capture has. */
function unanswered(segments: readonly Segment[], {services}: Listed): readonly TextFact[] {
  const opening = segments.filter(({flags}) => flags === 'S');
  return [...Map.groupBy(opening, ({from, to, seq}) => `${from} ${to} ${seq}`).values()].flatMap(all => {
    const [first] = all;
    if (first === undefined) return [];
    const answers = segments.filter(({from, to}) => from === first.to && to === first.from);
    // What rules translate is seen once more on its way to the endpoint, which is told where it does not answer.
    const alike = opening.filter(({seq}) => seq !== '' && seq === first.seq);
    const next = alike.slice(alike.indexOf(first)).find(({to}) => !alike.slice(0, alike.indexOf(first) + 1).some(other => other.to === to));
    if (next !== undefined && !segments.some(({from}) => from === next.to)) return [];
    const server = hostPortOf(first.to);
    // A capture of several interfaces has a packet more than once at nearly the same time.
    const sent = all.filter(({time}, at) => at === 0 || time - (all[at - 1]?.time ?? 0) > minPause);
    if (answers.some(({flags, seq}) => /^R\.?$/.test(flags) && seq === '0'))
      return {
        text: `${server} refuses connections with a reset: nothing listens on that port there, or a rule rejects so`,
        about: [server],
      };
    const last = sent.at(-1)?.time ?? 0;
    // A client that resets in between had an answer: it sends the SYN once more for that reason.
    if (segments.some(({flags, from, to, time}) => flags.startsWith('R') && from === first.from && to === first.to && time < last))
      return [];
    const isAnswered = answers.some(({flags, time}) => flags === 'S.' && time >= last && time - last < minPause);
    const isName = /\.(?:53|domain)$/.test(first.to);
    if (isName && answers.length > 0) return [];
    if (sent.length < (isAnswered || isName ? 2 : minSent)) return [];
    const end = answers.length > 0 ? ' before an answer came' : '';
    const owner = services.find(({clusterIPs}) => clusterIPs.includes(hostOf(first.to)));
    const start = `${hostOf(first.from)} sent the same ${isName ? 'request' : 'SYN'} to ${server} ${sent.length} times${end}: `;
    if (owner !== undefined && next === undefined && !isAnswered)
      return {
        text: `${start}it is the cluster IP of ${owner.name}, and no translated packet is in the capture. tcpdump -ni any with the port of the endpoints shows whether a rule translates it; between pods on one bridge (cni0, docker0) answers bypass the rules unless net.bridge.bridge-nf-call-iptables is 1`,
        about: [server],
      };
    if (ofCloud.test(first.from) && !isAnswered)
      return {
        text: `${start}so come health checks of a cloud, and a load balancer sends nothing to a node that does not answer: a firewall or rp_filter there drops them, or the node does not have that address`,
        about: [server],
      };
    const text = `${start}the ${isAnswered ? 'first packets did' : 'packets do'} not arrive, or the answers are lost. The same capture on the node of ${hostOf(first.to)} shows which; through VXLAN (flannel.1), wrong checksums are one cause, which ethtool -K flannel.1 tx-checksum-ip-generic off avoids`;
    return {text, about: [server]};
  });
}

/** A full segment is sent again and again on a connection on which smaller ones pass. */
function tooLarge(segments: readonly Segment[]): readonly TextFact[] {
  const full = segments.filter(({length}) => length >= 1200);
  return [...Map.groupBy(full, ({from, to, seq}) => `${from} ${to} ${seq}`).values()].flatMap(all => {
    const [{from = '', to = '', length = 0} = {}, ...others] = all;
    // Copies of a packet in a capture of several interfaces are closer.
    const again = others.filter(({time}, at) => time - (all[at]?.time ?? 0) > 0.15);
    const isOpen = segments.some(segment => segment.from === to && segment.to === from);
    const goesOn = full.some(other => other.from === from && other.to === to && other.time > (all.at(-1)?.time ?? 0));
    if (again.length < minSent - 1 || !isOpen || goesOn) return [];
    const text = `${hostOf(from)} sent the same ${length} bytes to ${hostPortOf(to)} ${again.length + 1} times, and smaller packets of the connection passed: mostly the MTU of pods is larger than what the network between nodes carries`;
    return [{text, about: [hostPortOf(to), hostPortOf(from)]}];
  });
}

/** Of Google and Azure. */
const ofCloud = /^(?:169\.254\.169\.254|168\.63\.129\.16|35\.191\.\d+\.\d+|130\.211\.[0-3]\.\d+)\./;

/** The kernel sends a SYN again after a second, and later after more. */
const minPause = 0.8;
const minSent = 3;

function hostOf(place: string): string {
  return place.replace(/\.[\w-]+$/, '');
}

function hostPortOf(place: string): string {
  return place.replace(/\.([\w-]+)$/, ':$1');
}
