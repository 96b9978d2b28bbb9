import {type Address, contains, parseCidr} from '../../src/model/address.ts';
import type {Chain, ChainSource, Rule} from '../../src/model/ruleset.ts';
import {markChange} from '../../src/parse/iptables/comparable-rule.ts';
import type {Environment} from '../../src/trace/packet.ts';
import {walkPacket} from '../../src/trace/iptables/walk-packet.ts';
import type {TestPacket} from './packets.ts';

/** Where a packet ends: every end with its probability. Two outcomes are the same when all ends and probabilities are. */
export type PathOutcome = ReadonlyMap<string, number>;

/** A packet, with the endpoint that already knows its sender (`recent`). */
export interface Walk {
  readonly packet: TestPacket;
  readonly knownTo: ReadonlySet<string>;
}

export interface Walked extends Walk {
  readonly pathOutcome: PathOutcome;
  /** The chains that the walk entered, as `table/chain`. No other chain can change the outcome. */
  readonly chains: ReadonlySet<string>;
}

export class Walker {
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

function remembered(path: readonly Rule[]): readonly string[] {
  const lists = path.flatMap(({matches}) =>
    matches
      .filter(({name, options}) => name === 'recent' && options.some(({flag}) => flag === '--set'))
      .flatMap(({options}) => options.find(({flag}) => flag === '--name')?.values[0] ?? []),
  );
  return [...new Set(lists)];
}

/** The mark that a packet leaves with: the rules it matched, carried out one after another. */
function markAfter(path: readonly Rule[]): string {
  let mark = 0;
  for (const {target} of path) {
    if (target?.name !== 'MARK') continue;
    const [value = 0, mask = 0] = markChange(target.options).split('/').map(Number);
    mark = ((mark & ~mask) ^ value) >>> 0;
  }
  return `mark ${mark}`;
}

export function isSameOutcome(a: PathOutcome, b: PathOutcome): boolean {
  const ends = new Set([...a.keys(), ...b.keys()]);
  return [...ends].every(end => Math.abs((a.get(end) ?? 0) - (b.get(end) ?? 0)) < 1e-6);
}

export function pathOutcomeText(pathOutcome: PathOutcome): string {
  return [...pathOutcome].map(([end, probability]) => `${end} ${Math.round(probability * 1000) / 10} %`).join(', ');
}
