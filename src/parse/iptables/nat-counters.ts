import {detached, LineSplitter} from '../lines.ts';

/** The counters of one Service port in table nat. Only the first packet of a connection passes it: packets are connections. */
export interface PortCounters {
  /** Packets at each rule of the port's chains, by the rule. */
  readonly rules: ReadonlyMap<string, number>;
  /** Packets that were sent to an endpoint, by `ip:port`. */
  readonly endpoints: ReadonlyMap<string, number>;
}

export interface NatCounters {
  readonly ports: ReadonlyMap<string, PortCounters>;
  /** Rules of other endpoints. They show whether kube-proxy rewrote everything. */
  readonly others: ReadonlyMap<string, number>;
  /** Rules that kube-proxy rewrites in every sync. */
  readonly base: ReadonlyMap<string, number>;
  /** Whether there are kube-proxy's rules of Services: the kubelet leaves others. */
  readonly hasRules: boolean;
  /** False for a dump without counters. */
  readonly counted: boolean;
  /** The whole table was read, to its end. */
  readonly complete: boolean;
}

export interface NatCounterOptions {
  /** Service ports by the name in the comments of their endpoints' rules, such as `shop/web:http`. */
  readonly byName: ReadonlyMap<string, string>;
  /** Service ports by the part of the chain name that all their chains have in common. */
  readonly byHash: ReadonlyMap<string, string>;
}

/** Reads the counters of some Service ports while `iptables-save -c` or `iptables -t nat -S -v` is read. Other rules are not kept. */
export class NatCounterReader {
  readonly #options: NatCounterOptions;
  readonly #lines = new LineSplitter(line => this.#take(line));
  readonly #ports = new Map<string, OpenCounters>();
  readonly #others = new Map<string, number>();
  readonly #base = new Map<string, number>();
  #table = 'nat';
  #hasTables = false;
  #hasRules = false;
  #counted = false;
  #complete = false;

  constructor(options: NatCounterOptions) {
    this.#options = options;
  }

  add(part: Buffer): void {
    this.#lines.add(part);
  }

  result(): NatCounters {
    this.#lines.end();
    return {
      ports: this.#ports,
      others: this.#others,
      base: this.#base,
      hasRules: this.#hasRules,
      counted: this.#counted,
      complete: this.#complete || !this.#hasTables,
    };
  }

  #take(line: string): void {
    if (line.startsWith('*')) {
      this.#table = line.slice(1).trim();
      this.#hasTables = true;
    } else if (line.startsWith('COMMIT')) this.#complete ||= this.#table === 'nat';
    else if (this.#table === 'nat') this.#rule(line);
  }

  #rule(line: string): void {
    const at = line.indexOf('-A KUBE-');
    if (at < 0) return;
    const chain = line.slice(at + 3, line.indexOf(' ', at + 3));
    this.#hasRules ||= /^KUBE-(?:SERVICES$|SVC-|SVL-|SEP-)/.test(chain);
    const isEndpoint = chain.startsWith('KUBE-SEP-');
    const port = isEndpoint ? this.#options.byName.get(commentOf(line)) : this.#options.byHash.get(chain.slice(chain.lastIndexOf('-') + 1));
    const isOther = isEndpoint && port === undefined && this.#others.size < maxOthers;
    if (port === undefined && !isOther && !baseChains.has(chain) && this.#counted) return;
    const counters = before.exec(line) ?? within.exec(line);
    if (counters === null) return;
    this.#counted = true;
    const packets = Number(counters[1]);
    const text = detached(line.replace(counters[0], '').trim());
    if (isOther) this.#others.set(text, packets);
    else if (baseChains.has(chain)) add(this.#base, text, packets);
    else if (port !== undefined) this.#count(this.#port(port), text, packets);
  }

  #count({rules, endpoints}: OpenCounters, text: string, packets: number): void {
    add(rules, text, packets);
    const to = destination.exec(text)?.[1];
    if (to !== undefined) add(endpoints, detached(to), packets);
  }

  #port(key: string): OpenCounters {
    const known = this.#ports.get(key);
    if (known !== undefined) return known;
    const port = {rules: new Map<string, number>(), endpoints: new Map<string, number>()};
    this.#ports.set(key, port);
    return port;
  }
}

interface OpenCounters extends PortCounters {
  readonly rules: Map<string, number>;
  readonly endpoints: Map<string, number>;
}

const before = /^\[(\d+):\d+\] /;
const within = / -c (\d+) \d+(?= |$)/;
const destination = /^-A KUBE-SEP-\S+ .*-j DNAT .*?--to-destination (\S+)/;
const baseChains: ReadonlySet<string> = new Set(['KUBE-POSTROUTING', 'KUBE-MARK-MASQ', 'KUBE-NODEPORTS']);
const maxOthers = 5000;

/** The name of a Service port contains no quotes or spaces. */
function commentOf(line: string): string {
  const at = line.indexOf('--comment "');
  return at < 0 ? '' : line.slice(at + 11, line.indexOf('"', at + 11));
}

/** A chain may contain the same rule twice. */
function add(counts: Map<string, number>, key: string, packets: number): void {
  counts.set(key, (counts.get(key) ?? 0) + packets);
}
