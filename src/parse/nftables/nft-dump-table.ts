import type {NftChain, NftElement, NftFamily, NftRuleset, NftSet, NftStray, NftTable} from '../../model/nft-ruleset.ts';
import {NftDumpChain, type RuleSource} from './nft-dump-chain.ts';

/** A table while it is read from a dump, and after. */
export class NftDumpTable implements NftTable {
  readonly id: string;
  readonly family: NftFamily;
  readonly name: string;
  readonly isJson: boolean;
  readonly chains = new Map<string, NftDumpChain>();
  readonly sets = new Map<string, NftDumpSet>();
  readonly others: string[] = [];
  comment: string | null = null;
  dormant = false;
  declared = true;
  complete = true;
  #baseChains: readonly NftChain[] | null = null;

  constructor(family: NftFamily, name: string, {isJson}: {readonly isJson: boolean}) {
    this.id = `${family} ${name}`;
    this.family = family;
    this.name = name;
    this.isJson = isJson;
  }

  get baseChains(): readonly NftChain[] {
    this.#baseChains ??= [...this.chains.values()].filter(({base}) => base !== null);
    return this.#baseChains;
  }

  chain(name: string): NftDumpChain | undefined {
    return this.chains.get(name);
  }

  set(name: string): NftSet | undefined {
    return this.sets.get(name);
  }

  /** The chain of this name, which is new if it has not been declared. */
  openChain(name: string, source: RuleSource): NftDumpChain {
    const known = this.chains.get(name);
    if (known !== undefined) return known;
    const chain = new NftDumpChain(this.id, name, source);
    this.chains.set(name, chain);
    return chain;
  }
}

/** A set or map while it is read, and after. */
export interface NftDumpSet extends NftSet {
  keyTypes: readonly string[];
  valueTypes: readonly string[] | null;
  flags: readonly string[];
  dynamic: boolean | null;
  timeout: number | null;
  size: number | null;
  comment: string | null;
  complete: boolean;
  readonly elements: Map<string, NftElement>;
}

export function newDumpSet(table: string, name: string): NftDumpSet {
  return {
    ...{table, name, keyTypes: [], valueTypes: null, flags: [], dynamic: null, timeout: null, size: null, comment: null},
    ...{complete: true, elements: new Map()},
  };
}

const families: readonly string[] = ['ip', 'ip6', 'inet', 'arp', 'bridge', 'netdev'] satisfies readonly NftFamily[];

export function isNftFamily(text: string): text is NftFamily {
  return families.includes(text);
}

interface DumpParts {
  readonly tables: ReadonlyMap<string, NftDumpTable>;
  readonly toolVersion: string | null;
  readonly strays: readonly NftStray[];
  readonly cut: NftRuleset['cut'];
}

export function asNftRuleset({tables, toolVersion, strays, cut}: DumpParts): NftRuleset {
  const all = [...tables.values()];
  const chains = all.flatMap(table => [...table.chains.values()]);
  const ruleCount = chains.reduce((sum, chain) => sum + chain.ruleCount, 0);
  return {tables, tableSources: all, toolVersion, strays, cut, ruleCount, chainCount: chains.length};
}
