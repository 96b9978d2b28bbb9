import {diagnose} from '../../src/diagnose.ts';
import {parseAddress} from '../../src/model/address.ts';
import {UnreadableText} from '../../src/model/text.ts';
import type {Ruleset} from '../../src/model/ruleset.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {undecorate} from '../../src/parse/iptables/pasted-text.ts';
import type {Environment, Packet} from '../../src/trace/walked-packet.ts';
import {walkPacket} from '../trace/walks.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {mergedDump} from '../analyze/third-party/merge.ts';
import {capturePath, snapshotOf, withFiles} from '../fixtures.ts';
import {readFileSync} from 'node:fs';
import {mangle} from './mangle.ts';

/** What is mangled, and the cluster that it is then diagnosed in. */
export interface Material {
  readonly dumps: readonly [string, ...string[]];
  readonly snapshot: Snapshot;
}

export async function material(): Promise<Material> {
  const captures = ['healthy/1.36-iptables', 'healthy/1.23-iptables', 'healthy/1.36-iptables-legacy', 'settings/detect-bridge'];
  const own = captures.map(name => readFileSync(`${capturePath(name)}/nodes/node-a/iptables-save`, 'utf8'));
  const thirdParty = ['calico', 'firewalld', 'kube-router'].map(mergedDump);
  const six = readFileSync(`${capturePath('healthy/1.36-iptables')}/nodes/node-a/ip6tables-save`, 'utf8');
  return {dumps: [six, ...own, ...thirdParty], snapshot: await snapshotOf('healthy/1.36-iptables')};
}

/**
 * Mangles one dump and puts it through the parser, the walk and the diagnosis. Returns what went wrong: a crash, a line that
 * got lost, or probabilities that do not add up. What takes time without end is for who runs it to end.
 */
export function tryCase(seed: number, {dumps, snapshot}: Material): readonly string[] {
  const random = seededRandom(seed);
  const bytes = mangle(random.pick(dumps), random);
  const problems: string[] = [];
  const attempt = (stage: string, run: () => readonly string[]): void => {
    try {
      problems.push(...run().map(problem => `${stage}: ${problem}`));
    } catch (error) {
      problems.push(`${stage}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  };
  let rulesets: readonly Ruleset[] = [];
  attempt('parse', () => {
    const read = withoutNuls(bytes);
    rulesets = parseDumps(read);
    return lostLines(read, rulesets);
  });
  attempt('walk', () => rulesets.flatMap(ruleset => walkSome(ruleset, random)));
  attempt('diagnose', () => diagnoseWith(bytes, snapshot));
  return problems;
}

/** A text with rules and a NUL inside is damaged, and refused as that: then the rest of it is tried. */
function withoutNuls(bytes: Buffer): Buffer {
  if (!bytes.includes(0)) return bytes;
  try {
    parseDumps(bytes);
    return bytes;
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    return Buffer.from(bytes.map(byte => (byte === 0 ? 1 : byte)));
  }
}

/** The bytes of a case, to reproduce it. */
export function caseBytes(seed: number, {dumps}: Material): Buffer {
  const random = seededRandom(seed);
  return mangle(random.pick(dumps), random);
}

/** Every line must be a rule or the rest of one, a declaration, a table, a comment, or kept as a stray line. */
function lostLines(bytes: Buffer, rulesets: readonly Ruleset[]): readonly string[] {
  const problems: string[] = [];
  const kept = new Set<number>();
  for (const {tables, strays, ruleCount, chainCount} of rulesets) {
    const chains = [...tables.values()].flatMap(table => [...table.chains.values()]);
    const rules = chains.flatMap(chain => chain.rules());
    for (const {line} of [...rules, ...strays]) {
      if (kept.has(line)) problems.push(`line ${line} was read twice`);
      kept.add(line);
    }
    for (const chain of chains)
      if (chain.ruleCount !== chain.rules().length)
        problems.push(`chain ${chain.name} counts ${chain.ruleCount} rules and has ${chain.rules().length}`);
    if (ruleCount !== rules.length) problems.push(`${ruleCount} rules were counted, and ${rules.length} are there`);
    if (chainCount !== chains.length) problems.push(`${chainCount} chains were counted, and ${chains.length} are there`);
  }
  const ruleTexts = rulesets.flatMap(({tables}) =>
    [...tables.values()].flatMap(({chains}) => [...chains.values()].flatMap(chain => chain.rules().map(({text}) => text))),
  );
  for (const [index, line] of bytes.toString('latin1').split('\n').entries()) {
    const text = line.trim();
    if (
      text === '' ||
      kept.has(index + 1) ||
      /^(?:[*:]|-[NP] \S|# (?:Generated|Completed)|COMMIT$)/.test(line.startsWith(':') ? line : text)
    )
      continue;
    // A rule that was broken over lines has the number of its first line.
    const rest = undecorate(Buffer.from(line, 'latin1').toString('utf8')).trim();
    if (ruleTexts.some(rule => rule.endsWith(rest) || rule.includes(`${rest} `))) continue;
    if (rulesets.length > 0) problems.push(`line ${index + 1} got lost: ${JSON.stringify(line.slice(0, 120))}`);
  }
  return problems.slice(0, 5);
}

const destinations = {
  IPv4: ['10.96.1.1', '10.96.1.10', '172.18.0.11', '203.0.113.13', '127.0.0.1', '9.9.9.9'],
  IPv6: ['fd00:96::3', 'fd00:96::4', '::1', '2620:fe::fe'],
} as const;
const sources = {
  IPv4: ['10.244.11.4', '10.244.12.77', '198.51.100.9', '172.18.0.11'],
  IPv6: ['fd00:10:244:11::9', '2620:fe::9', '::1'],
} as const;
const ports = [80, 53, 443, 8080, 30080, 30093] as const;

function walkSome(ruleset: Ruleset, random: Random): readonly string[] {
  return Array.from({length: 12}).flatMap(() => walkOne(ruleset, random));
}

function walkOne(ruleset: Ruleset, random: Random): readonly string[] {
  const {family} = ruleset;
  const [source, destination] = [random.pick(sources[family]), random.pick(destinations[family])];
  const parts = {source, destination, port: random.pick(ports), protocol: random.pick(['tcp', 'udp', 'sctp'])};
  const packet = packetOf(parts);
  if (packet === null) return ['no packet'];
  const origin = random.pick<Packet['origin']>(['node', 'arriving']);
  const inInterface = random.pick([null, 'eth0', 'cali0a1b2c3d4e5']);
  const outcomes = walkPacket(ruleset, {...packet, origin, inInterface}, externalEnvironment);
  const sum = outcomes.reduce((total, {probability}) => total + probability, 0);
  return Math.abs(sum - 1) < 1e-6 ? [] : [`probabilities add up to ${sum} for ${JSON.stringify(parts)}`];
}

interface PacketParts {
  readonly source: string;
  readonly destination: string;
  readonly port: number;
  readonly protocol: string;
}

/** A new packet that arrives; null when an address is none. */
export function packetOf(parts: PacketParts): Packet | null {
  const source = parseAddress(parts.source);
  const destination = parseAddress(parts.destination);
  if (source === null || destination === null) return null;
  return {
    ...{family: destination.family, source, destination, port: parts.port, protocol: parts.protocol, origin: 'arriving'},
    ...{inInterface: null, outInterface: null, mark: 0, connectionMark: 0, rewritten: false, masquerade: false, untracked: false},
  };
}

export const externalEnvironment: Environment = {
  isLocal: ({text}) => text === '172.18.0.11' || text === '127.0.0.1' || text === '::1',
  canBeInterface: () => null,
  inSet: () => null,
  knownTo: new Set(['A']),
  redirectAddress: () => null,
};

function diagnoseWith(bytes: Buffer, snapshot: Snapshot): readonly string[] {
  const nodes = snapshot.nodes.filter(({name}) => name === 'node-a').map(node => withFiles(node, {'iptables-save': bytes}));
  const {findings, nodes: reports} = diagnose({...snapshot, nodes}, {toolVersion: '0.0.0', nodes: name => name === 'node-a', trace: true});
  const unclear = findings
    .filter(({message}) => /undefined|\[object|bug of svc-trace/.test(message))
    .map(({message}) => `a message nobody can read: ${message}`);
  return reports.length === 1 ? unclear.slice(0, 3) : [`${reports.length} nodes were reported`];
}
