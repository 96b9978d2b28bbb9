import {joinHostPort} from '../../model/address.ts';
import {uniqueBy} from '../../model/lists.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {TextFact} from './captured-packets.ts';

/** A packet that the kernel traced (target TRACE, `nft monitor trace`): where its last line stands. */
interface TracedPacket {
  /** As it came, and as it was last seen; null where no line shows it. */
  readonly first: TracedTuple | null;
  readonly last: TracedTuple | null;
  readonly table: string;
  readonly chain: string;
  readonly step: 'rule' | 'policy' | 'return';
  /** Of the rule in its chain, from 1; null where the line does not have it. */
  readonly rule: number | null;
  /** The rule or its verdict, where the line has it. */
  readonly text: string;
  /** Whether a line of table nat shows that the packet may be translated, and whether it got to POSTROUTING. */
  readonly passedNat: boolean;
  readonly isLeaving: boolean;
}

interface TracedTuple {
  readonly source: string;
  readonly destination: string;
}

/** Where the traces of packets end, and the rule or policy there. */
export function endsOfTraces(lines: readonly string[], rulesets: readonly Ruleset[]): readonly TextFact[] {
  const all = tracedPackets(lines);
  // A packet always leaves the chains of kube-proxy in table nat: the text ends there, and not the trace, unless it is that of an endpoint.
  const whole = all.filter(({table, chain}) => !(table === 'nat' && /^KUBE-(?!SEP-)/.test(chain)));
  const opening = whole.filter(({passedNat}) => passedNat);
  const told = (opening.length > 0 ? opening : whole).map(packet => ({
    text: endOfTrace(packet, rulesets),
    about: packet.first === null ? [] : [packet.first.destination],
  }));
  return uniqueBy(told, ({text}) => text);
}

/** The packets that lines of a trace show, each with its last line. */
function tracedPackets(lines: readonly string[]): readonly TracedPacket[] {
  const steps = lines.flatMap(line => (/TRACE: |trace id /.test(line) ? (stepOfIptables(line) ?? stepOfNft(line) ?? []) : []));
  return [...Map.groupBy(steps, ({key}) => key).values()].flatMap(own => {
    const [tuples, places] = [own.flatMap(({tuple}) => tuple ?? []), own.map(({place}) => place)];
    const isOf = (pattern: RegExp): boolean => places.some(({table, chain}) => pattern.test(`${table} ${chain}`));
    return places.slice(-1).map(place => ({
      ...place,
      first: tuples[0] ?? null,
      last: tuples.at(-1) ?? null,
      passedNat: isOf(/nat/),
      isLeaving: isOf(/ .*(?:POSTROUTING|postrouting)/),
    }));
  });
}

interface TraceLine {
  readonly key: string;
  readonly tuple: TracedTuple | null;
  readonly place: Pick<TracedPacket, 'table' | 'chain' | 'step' | 'rule' | 'text'>;
}

/** `TRACE: filter:FORWARD:policy:4 IN=… SRC=…`; of xtables-monitor `TRACE: 2 fc475095 filter:FORWARD:rule:0x4:DROP  -4 -t filter -A …`. */
function stepOfIptables(line: string): TraceLine | null {
  const [, id, table = '', chain = '', step = '', number = '', verdict = '', rest = ''] =
    /\bTRACE: (?:\d+ ([\da-f]+) )?(raw|mangle|nat|filter|security):([\w.-]+):(rule|policy|return):(\w+)(?::(\w+))?(.*)/.exec(line) ?? [];
  if (step !== 'rule' && step !== 'policy' && step !== 'return') return null;
  const field = (name: string): string => new RegExp(` ${name}=(\\S+)`).exec(rest)?.[1] ?? '';
  const address = (name: string, port: string): string =>
    field(port) === '' ? field(name) : joinHostPort(field(name), Number(field(port)));
  const tuple = field('SRC') === '' ? null : {source: address('SRC', 'SPT'), destination: address('DST', 'DPT')};
  const text = /-A .*/.exec(rest)?.[0] ?? (/^(?:DROP|REJECT|ACCEPT)$/.test(verdict) ? verdict : '');
  // Translation changes the addresses, and no other packet at the time has the same numbers.
  const key = id ?? ['PROTO', 'SPT', 'ID', 'SEQ'].map(field).join();
  return {key, tuple, place: {table, chain, step, rule: id === undefined ? Number(number) : null, text}};
}

/** `trace id 9ab1 inet firewalld filter_FORWARD rule reject with icmpx admin-prohibited (verdict drop)`. */
function stepOfNft(line: string): TraceLine | null {
  const [, id, table = '', chain = '', kind = '', rest = ''] =
    /\btrace id (\w+) ((?:ip6?|inet) \S+) (\S+) (rule|verdict|policy|packet:) ?(.*)/.exec(line) ?? [];
  if (id === undefined) return null;
  const part = (name: string): string => new RegExp(`\\b${name} (\\S+)`).exec(rest)?.[1] ?? '';
  if (kind === 'packet:') {
    const address = (name: string, port: string): string =>
      part(port) === '' ? part(`ip6? ${name}`) : joinHostPort(part(`ip6? ${name}`), Number(part(port)));
    return {
      key: id,
      tuple: {source: address('saddr', 'sport'), destination: address('daddr', 'dport')},
      place: {table, chain, step: 'rule', rule: null, text: ''},
    };
  }
  const step = kind === 'policy' ? 'policy' : 'rule';
  return {key: id, tuple: null, place: {table, chain, step, rule: null, text: kind === 'verdict' ? `verdict ${rest}` : rest}};
}

/** Where the trace ends, in words; with the rule or policy there, where the text has it too. */
function endOfTrace({first, last, table, chain, step, rule, text, ...packet}: TracedPacket, rulesets: readonly Ruleset[]): string {
  const whole = rulesets.map(({tables}) => tables.get(table)?.chains.get(chain)).find(found => found !== undefined);
  const known = rule === null || whole?.complete !== true ? undefined : whole.rules()[rule - 1]?.text;
  const policy = whole?.policy ?? /\b(?:drop|accept|DROP|ACCEPT)\b/.exec(text)?.[0];
  const place = `${table}${table.includes(' ') ? ' ' : '/'}${chain}`;
  const what = text === '' ? known : text;
  const at =
    step === 'policy'
      ? `the policy of ${place}${policy == null ? '' : `, which is ${policy.toUpperCase()}`}`
      : `${rule === null ? 'a rule' : `rule ${rule}`} of ${place}${what === undefined ? '' : `: ${what}`}`;
  const tuple = first === null ? 'a packet' : `${withoutPort(first.source)} → ${first.destination}`;
  if (chain.startsWith('KUBE-SEP-'))
    return `the trace of ${tuple} ends at ${place}, which translates it to an endpoint, and no line of FORWARD or INPUT follows: unless the text leaves these out, the kernel drops it where it looks for the route, since rp_filter is 1 and the sender is reached by another interface than that by which it came, or no route leads to the endpoint (ip route get ENDPOINT from SENDER iif INTERFACE, sysctl -a | grep rp_filter)`;
  const to =
    first === null || last === null
      ? ''
      : first.destination === last.destination
        ? packet.passedNat && (packet.isLeaving || /INPUT|input/.test(chain))
          ? ', which no rule translated,'
          : ''
        : `, sent on to ${last.destination},`;
  const accepts =
    /^accept/i.test(step === 'policy' ? (policy ?? '') : text) || /\(verdict accept\)|-j ACCEPT|^verdict accept/.test(what ?? '');
  const end = packet.isLeaving
    ? ': it leaves this node, and what happens to it is on the next one'
    : accepts
      ? ''
      : /INPUT|input/.test(chain)
        ? ': it is dropped there, or a process of the node got it'
        : /^(?:filter|inet|ip )/.test(table)
          ? ': no line follows, so that it was dropped or refused there'
          : '';
  return `the trace of ${tuple}${to} ends at ${at}${end}`;
}

/** The source port is another one each time. */
function withoutPort(hostPort: string): string {
  return hostPort.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
}
