import {diagnose} from '../../src/diagnose.ts';
import {type Address, contains, type Family, parseCidr} from '../../src/model/address.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Chain, ChainSource, Ruleset} from '../../src/model/ruleset.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {parseNodeAddresses} from '../../src/parse/ipvs/kube-ipvs0.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {mutate, type Mutation, mutationsOf} from './mutations.ts';
import {bystanders, type PacketSetup, packetsFor, packetsOf, type TestPacket} from './packets.ts';
import {markChange} from '../../src/parse/iptables/comparable-rule.ts';
import type {Environment, NodeRule} from '../../src/trace/walked-packet.ts';
import {walkPacket} from '../trace/walks.ts';

/** Where a packet ends: every end with its probability. Two outcomes are the same when all ends and probabilities are. */
type PathOutcome = ReadonlyMap<string, number>;

/** A packet, with the endpoint that already knows its sender (`recent`). */
interface Walk {
  readonly packet: TestPacket;
  readonly knownTo: ReadonlySet<string>;
}

interface Walked extends Walk {
  readonly pathOutcome: PathOutcome;
  /** The chains that the walk entered, as `table/chain`. No other chain can change the outcome. */
  readonly chains: ReadonlySet<string>;
}

class Walker {
  readonly #own: ReadonlySet<string>;

  constructor(nodeAddresses: readonly string[]) {
    this.#own = new Set(nodeAddresses);
  }

  walk(rules: ChainSource, {packet, knownTo}: Walk): Walked {
    const chains = new Set<string>();
    const watched: ChainSource = {
      family: rules.family,
      hasTable: table => rules.hasTable(table),
      chain: (table, name): Chain | undefined => {
        chains.add(`${table}/${name}`);
        return rules.chain(table, name);
      },
    };
    const pathOutcome = new Map<string, number>();
    for (const {verdict, destination, masquerade, path, probability} of walkPacket(watched, packet.packet, this.#environment(knownTo))) {
      const leaves = masquerade && verdict === 'accept' && destination !== null ? `masqueraded ${markAfter(path)}` : '';
      const end = [verdict, destination ?? '', leaves, ...remembered(path)].filter(part => part !== '').join(' ');
      pathOutcome.set(end, (pathOutcome.get(end) ?? 0) + probability);
    }
    return {packet, knownTo, pathOutcome, chains};
  }

  /** The `recent` lists that a first packet enters its sender into: clients that come back are found there. */
  listsOf(rules: ChainSource, walk: Walk): readonly string[] {
    return walkPacket(rules, walk.packet.packet, this.#environment(walk.knownTo)).flatMap(({path}) => remembered(path));
  }

  #environment(knownTo: ReadonlySet<string>): Environment {
    return {
      isLocal: address => this.#own.has(address.text) || isLoopback(address),
      canBeInterface: () => null,
      inSet: () => null,
      knownTo,
      redirectAddress: () => null,
    };
  }
}

const loopback = parseCidr('127.0.0.0/8');

function isLoopback(address: Address): boolean {
  return address.text === '::1' || (loopback !== null && contains(loopback, address));
}

function remembered(path: readonly NodeRule[]): readonly string[] {
  const lists = path.flatMap(({matches = []}) =>
    matches
      .filter(({name, options}) => name === 'recent' && options.some(({flag}) => flag === '--set'))
      .flatMap(({options}) => options.find(({flag}) => flag === '--name')?.values[0] ?? []),
  );
  return [...new Set(lists)];
}

/** The mark that a packet leaves with: the rules it matched, carried out one after another. */
function markAfter(path: readonly NodeRule[]): string {
  let mark = 0;
  for (const {target} of path) {
    if (target?.name !== 'MARK') continue;
    const [value = 0, mask = 0] = markChange(target.options).split('/').map(Number);
    mark = ((mark & ~mask) ^ value) >>> 0;
  }
  return `mark ${mark}`;
}

function isSameOutcome(a: PathOutcome, b: PathOutcome): boolean {
  const ends = new Set([...a.keys(), ...b.keys()]);
  return [...ends].every(end => Math.abs((a.get(end) ?? 0) - (b.get(end) ?? 0)) < 1e-6);
}

function pathOutcomeText(pathOutcome: PathOutcome): string {
  return [...pathOutcome].map(([end, probability]) => `${end} ${Math.round(probability * 1000) / 10} %`).join(', ');
}

/** The verdict on one mutant. */
export interface Examined {
  readonly mutation: Mutation;
  /** Findings that the dump did not have before the change. */
  readonly findings: readonly Finding[];
  /** Packets whose outcome changed, in words; a few of them. */
  readonly changed: readonly string[];
  /** Services with a packet whose outcome changed. */
  readonly services: readonly string[];
  readonly verdict: 'found' | 'harmless' | 'missed' | 'false alarm';
}

/** One dump of a healthy capture with the outcomes of all its packets: the reference that mutants are compared with. */
export class Laboratory {
  readonly mutations: readonly Mutation[];
  readonly #snapshot: Snapshot;
  readonly #node: string;
  readonly #file: string;
  readonly #dump: string;
  readonly #walker: Walker;
  readonly #setup: PacketSetup;
  readonly #ruleset: Ruleset;
  readonly #baseline: readonly Walked[];
  readonly #byChain = new Map<string, Walked[]>();
  readonly #known: ReadonlySet<string>;

  constructor(snapshot: Snapshot, node: string, family: Family) {
    this.#snapshot = snapshot;
    this.#node = node;
    this.#file = family === 'IPv4' ? 'iptables-save' : 'ip6tables-save';
    this.#dump = read(snapshot, node, this.#file);
    this.mutations = mutationsOf(this.#dump);
    const addresses = addressesOf(snapshot, node);
    const clusterCIDR = /clusterCIDR: (\S+)/.exec(read(snapshot, node, 'kube-proxy-config.yaml'))?.[1] ?? '';
    this.#setup = {api: snapshot.api, node, family, nodeAddresses: addresses, clusterCIDR};
    this.#walker = new Walker(addresses);
    this.#ruleset = parse(this.#dump, family);
    this.#baseline = this.#walkAll();
    for (const walked of this.#baseline) {
      for (const chain of walked.chains) {
        const list = this.#byChain.get(chain);
        if (list === undefined) this.#byChain.set(chain, [walked]);
        else list.push(walked);
      }
    }
    this.#known = new Set(this.#findings(this.#dump).map(identity));
  }

  /** How many packets are walked. */
  get packets(): number {
    return this.#baseline.length;
  }

  examine(mutation: Mutation): Examined {
    const dump = mutate(this.#dump, mutation);
    const findings = this.#findings(dump).filter(finding => !this.#known.has(identity(finding)));
    const changed = this.#changed(mutation, parse(dump, this.#setup.family));
    const alarm = findings.some(({severity, code}) => severity === 'error' || (severity === 'warning' && !hazards.has(code)));
    const found = findings.some(({code}) => /^ST[234]/.test(code));
    const concerned = changed.filter(({before}) => !bystanders.has(before.packet.about));
    const services = [...new Set(changed.map(({before}) => before.packet.about))].filter(about => about.includes('/'));
    const missed = concerned.length > 0 && !isSaid(services, findings);
    const verdict = missed ? 'missed' : changed.length === 0 && alarm ? 'false alarm' : found ? 'found' : 'harmless';
    return {
      ...{mutation, findings, verdict},
      changed: (concerned.length > 0 ? concerned : changed)
        .slice(0, 3)
        .map(
          ({before, after}) =>
            `${before.packet.text} (${before.packet.about}): ${pathOutcomeText(before.pathOutcome)} → ${pathOutcomeText(after.pathOutcome)}`,
        ),
      services,
    };
  }

  #walkAll(): readonly Walked[] {
    const first = packetsOf(this.#setup).map(packet => this.#walker.walk(this.#ruleset, {packet, knownTo: new Set()}));
    const returning = first
      .filter(({packet}) => packet.affinity)
      .flatMap(({packet}) => {
        const lists = new Set(this.#walker.listsOf(this.#ruleset, {packet, knownTo: new Set()}));
        return [...lists].map(list => this.#walker.walk(this.#ruleset, {packet, knownTo: new Set([list])}));
      });
    return [...first, ...returning];
  }

  #changed({table, chain, before, after}: Mutation, ruleset: Ruleset): readonly {before: Walked; after: Walked}[] {
    const named = after.filter(rule => rule !== before).flatMap(rule => packetsFor(rule, this.#setup));
    const walks = [
      ...(this.#byChain.get(`${table}/${chain}`) ?? []),
      ...named.map(packet => this.#walker.walk(this.#ruleset, {packet, knownTo: new Set()})),
    ];
    return walks.flatMap(walked => {
      const now = this.#walker.walk(ruleset, walked);
      return isSameOutcome(walked.pathOutcome, now.pathOutcome) ? [] : [{before: walked, after: now}];
    });
  }

  #findings(dump: string): readonly Finding[] {
    const nodes = this.#snapshot.nodes.filter(({name}) => name === this.#node).map(node => withFiles(node, {[this.#file]: dump}));
    const {findings} = diagnose({...this.#snapshot, nodes}, {toolVersion: '0.0.0', nodes: name => name === this.#node});
    return findings.filter(({node}) => node !== undefined);
  }
}

/** An actionable finding covers the whole node, or the findings name every Service with a packet whose outcome changed. */
function isSaid(services: readonly string[], findings: readonly Finding[]): boolean {
  const loud = findings.filter(({severity, code}) => severity !== 'info' && /^ST[234]/.test(code));
  const named = new Set(loud.map(({service}) => (service === undefined ? null : `${service.namespace}/${service.name}`)));
  return named.has(null) || (loud.length > 0 && services.every(service => named.has(service)));
}

/**
 * Warnings of what will break on the next change, although no outcome has changed yet: a health-check port or a hook of the
 * filter table that only matters once the policy is DROP or the chain behind it is filled.
 */
const hazards: ReadonlySet<string> = new Set(['ST219', 'ST301']);

export async function laboratory(capture: string, family: Family, node = 'node-a'): Promise<Laboratory> {
  return new Laboratory(await snapshotOf(capture), node, family);
}

/** Those of the interfaces, or where they were not read those of the Node object. */
function addressesOf(snapshot: Snapshot, node: string): readonly string[] {
  const read = snapshot.nodes.find(({name}) => name === node)?.read('addresses.json') ?? null;
  const own = read === null ? null : parseNodeAddresses(read.toString());
  if (own !== null) return own.flatMap(link => link.addresses);
  const object = snapshot.api.nodes?.find(({metadata}) => metadata.name === node);
  return [...(object?.status?.addresses ?? []).flatMap(({address}) => address ?? []), '127.0.0.1', '::1'];
}

function read(snapshot: Snapshot, node: string, file: string): string {
  const content = snapshot.nodes.find(({name}) => name === node)?.read(file);
  if (content === undefined || content === null) throw new Error(`${snapshot.origin} has no ${file} of ${node}`);
  return content.toString();
}

function parse(dump: string, family: Family): Ruleset {
  const [ruleset] = parseDumps(dump, family);
  if (ruleset === undefined) throw new Error('the dump holds no rules');
  return ruleset;
}

/** By which the same finding is known in two reports of one node. */
export function identity({code, severity, message, service, entry, endpoint}: Finding): string {
  return JSON.stringify([code, severity, message, service, entry, endpoint]);
}
