import type {NftChain, NftChains, NftElement, NftFamily, NftRuleset, NftSet, NftStray, NftTable} from '../../model/nft-ruleset.ts';

/** The chains of a table while they are read, and after. */
export interface TableChains extends NftChains {
  baseChains(): readonly NftChain[];
}

/** A table while it is read from a dump, and after. */
export class NftDumpTable<Chains extends TableChains = TableChains> implements NftTable {
  readonly id: string;
  readonly family: NftFamily;
  readonly name: string;
  readonly chains: Chains;
  readonly sets = new Map<string, NftDumpSet>();
  readonly others: string[] = [];
  comment: string | null = null;
  dormant = false;
  declared = true;
  complete = true;
  #baseChains: readonly NftChain[] | null = null;

  constructor(family: NftFamily, name: string, chains: Chains) {
    this.id = tableId(family, name);
    this.family = family;
    this.name = name;
    this.chains = chains;
  }

  get baseChains(): readonly NftChain[] {
    this.#baseChains ??= this.chains.baseChains();
    return this.#baseChains;
  }

  chain(name: string): NftChain | undefined {
    return this.chains.get(name);
  }

  set(name: string): NftSet | undefined {
    return this.sets.get(name);
  }
}

/** `ip kube-proxy`. */
export function tableId(family: NftFamily, name: string): string {
  return `${family} ${name}`;
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
  return {tables, tableSources: all, toolVersion, strays, cut, ...countsOf(all)};
}

/** How many rules and chains tables have. */
export function countsOf(tables: readonly NftTable[]): Pick<NftRuleset, 'ruleCount' | 'chainCount'> {
  return {
    ruleCount: tables.reduce((sum, {chains}) => sum + chains.ruleCount, 0),
    chainCount: tables.reduce((sum, {chains}) => sum + chains.size, 0),
  };
}
