import {expect} from 'vitest';
import {parseAddress} from '../../src/model/address.ts';
import type {ChainSource, Ruleset} from '../../src/model/ruleset.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import type {Environment, Outcome, Packet} from '../../src/trace/walked-packet.ts';
import {walkPacket} from './walks.ts';

/** The first packet of a connection, as a test spells it. Packets from an address of the node are its own. */
export interface Sent {
  readonly from: string;
  readonly to: string;
  readonly port: number;
  readonly protocol?: 'tcp' | 'udp' | 'sctp';
  readonly inInterface?: string;
  readonly outInterface?: string;
  readonly mark?: number;
  readonly connectionMark?: number;
}

export interface NodeSetup {
  /** Addresses of the node beside 127.0.0.1 and ::1. */
  readonly local?: readonly string[];
  readonly knownTo?: readonly string[];
  /** Members of ipsets by name; a set that is not given was not read. */
  readonly sets?: Readonly<Record<string, readonly string[]>>;
  /** Interfaces that cannot be the one. */
  readonly notInterfaces?: readonly string[];
  readonly redirectAddress?: string | null;
  readonly localUnknown?: boolean;
}

const ownAddresses = ['127.0.0.1', '::1', '192.168.1.10', '10.9.9.9', 'fd00:192::10'];

export function environment(setup: NodeSetup = {}): Environment {
  const own = new Set([...ownAddresses, ...(setup.local ?? [])]);
  return {
    isLocal: address => (own.has(address.text) ? true : setup.localUnknown ? null : false),
    canBeInterface: name => (setup.notInterfaces?.includes(name) ? false : null),
    inSet: (name, {source, destination}, directions) => {
      const members = setup.sets?.[name];
      const looked = directions.startsWith('src') ? source.text : destination.text;
      return members === undefined ? null : members.includes(looked);
    },
    knownTo: new Set(setup.knownTo ?? []),
    redirectAddress: () => (setup.redirectAddress === null ? null : parseAddress(setup.redirectAddress ?? '192.168.1.10')),
  };
}

export function packetOf(sent: Sent): Packet {
  const [source, destination] = [parseAddress(sent.from), parseAddress(sent.to)];
  if (source === null || destination === null) throw new Error(`no address: ${sent.from} or ${sent.to}`);
  return {
    family: destination.family,
    protocol: sent.protocol ?? 'tcp',
    source,
    destination,
    port: sent.port,
    origin: ownAddresses.includes(sent.from) ? 'node' : 'arriving',
    inInterface: sent.inInterface ?? null,
    outInterface: sent.outInterface ?? null,
    mark: sent.mark ?? 0,
    connectionMark: sent.connectionMark ?? 0,
    rewritten: false,
    masquerade: false,
    untracked: false,
  };
}

/** Where a packet ends up; the probabilities are checked to add up to 1. */
export function outcomes(rules: ChainSource, sent: Sent, setup: NodeSetup = {}): readonly Outcome[] {
  const ends = walkPacket(rules, packetOf(sent), environment(setup));
  expect(ends.reduce((sum, {probability}) => sum + probability, 0)).toBeCloseTo(1, 6);
  return ends;
}

/**
 * The outcomes in short, each once and in order: `10.0.0.1:80`, `10.0.0.1:80 masqueraded`, `REJECT`, `DROP`, `passes` for a
 * packet that nothing was done to.
 */
export function flow(rules: ChainSource, sent: Sent, setup: NodeSetup = {}): string {
  return [...new Set(outcomes(rules, sent, setup).map(short))].sort().join(', ');
}

function short({verdict, destination, masquerade}: Outcome): string {
  if (verdict !== 'accept') return verdict === 'undecided' ? verdict : verdict.toUpperCase();
  return `${destination ?? 'passes'}${masquerade ? ' masqueraded' : ''}`;
}

/** A ruleset from the rules of its tables; chains need not be declared, base chains accept unless a line says otherwise. */
export function ruleset(tables: Readonly<Record<string, string>>, policies: Readonly<Record<string, string>> = {}): Ruleset {
  const text = Object.entries(tables).map(([table, body]) => {
    const rules = body
      .split('\n')
      .map(line => line.trim())
      .filter(line => line !== '');
    const mentioned = rules.flatMap(rule => [rule.split(' ')[1] ?? '', / -[jg] ([\w-]+)/.exec(rule)?.[1] ?? '']);
    const chains = [
      ...new Set([...mentioned.filter(name => rules.some(rule => rule.startsWith(`-A ${name} `))), ...Object.keys(policies)]),
    ];
    const declared = chains.map(name => `:${name} ${baseChains.has(name) ? (policies[name] ?? 'ACCEPT') : '-'} [0:0]`);
    return [`*${table}`, ...declared, ...rules, 'COMMIT', ''].join('\n');
  });
  const [first] = parseDumps(text.join(''));
  if (first === undefined) throw new Error('no ruleset');
  return first;
}

const baseChains = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);
