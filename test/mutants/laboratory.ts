import {diagnose} from '../../src/diagnose.ts';
import type {Family} from '../../src/model/address.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Ruleset} from '../../src/model/ruleset.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {parseNodeAddresses} from '../../src/parse/ipvs/kube-ipvs0.ts';
import {snapshotOf} from '../fixtures.ts';
import {pathOutcomeText, isSameOutcome, Walker, type Walked} from './outcomes.ts';
import {type Mutation, mutate, mutationsOf} from './mutations.ts';
import {bystanders, type PacketSetup, packetsFor, packetsOf} from './packets.ts';

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
    const nodes = this.#snapshot.nodes.filter(({name}) => name === this.#node).map(node => withFile(node, this.#file, dump));
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

function withFile(node: NodeDump, name: string, content: string): NodeDump {
  const bytes = Buffer.from(content);
  return {...node, read: file => (file === name ? bytes : node.read(file))};
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

function identity({code, severity, message, service, entry, endpoint}: Finding): string {
  return JSON.stringify([code, severity, message, service, entry, endpoint]);
}
