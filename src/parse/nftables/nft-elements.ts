import type {NftChain, NftChains, NftElement, NftFamily, NftRuleset, NftSet, NftStray, NftTable} from '../../model/nft-ruleset.ts';

/**
 * Reads the elements between the braces of `elements = { … }`, or of an anonymous set or map: `KEY [timeout T] [expires T]
 * [counter …] [comment "…"] [: VALUE]`, with commas between them.
 */
export function parseNftElements(text: string): readonly NftElement[] {
  return splitAtCommas(text)
    .map(part => part.trim())
    .filter(part => part !== '')
    .map(parseElement);
}

function splitAtCommas(text: string): readonly string[] {
  if (!text.includes('"')) return text.split(',');
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) quoted = !quoted;
    else if (code === comma && !quoted) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}

const quote = 0x22;
const comma = 0x2c;

const extras = /^(.*?)((?: (?:timeout|expires|counter|comment|limit|last|quota) .*?)*)(?: : ([^"]*))?$/s;

function parseElement(part: string): NftElement {
  const plain = part.replace(/\s+/g, ' ');
  if (!isExtended.test(plain)) {
    const separator = plain.lastIndexOf(' : ');
    if (separator < 0) return {key: bare(plain), value: null, comment: null};
    return {key: bare(plain.slice(0, separator)), value: plain.slice(separator + 3), comment: null};
  }
  const [, key = plain, middle = '', value] = extras.exec(plain) ?? [];
  return {key: bare(key), value: value ?? null, comment: / comment "([^"]*)"/.exec(middle)?.[1] ?? null};
}

const isExtended = / (?:timeout|expires|counter|comment|limit|last|quota) /;

/** Interface names are quoted. */
function bare(key: string): string {
  return key.replaceAll('"', '');
}

const unitSeconds: Readonly<Record<string, number>> = {w: 604_800, d: 86_400, h: 3600, m: 60, s: 1};

/** `3h`, `10m` or `9m59s996ms` in whole seconds; null if it is not a duration. */
export function nftSeconds(text: string): number | null {
  if (/^\d+$/.test(text)) return Number(text);
  if (!/^(?:\d+(?:ms|[wdhms]))+$/.test(text)) return null;
  const parts = [...text.matchAll(/(\d+)(ms|[wdhms])/g)];
  return parts.reduce((sum, [, digits, unit = '']) => sum + (unit === 'ms' ? 0 : Number(digits) * (unitSeconds[unit] ?? 0)), 0);
}

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
  dormant: boolean | null = false;
  declared = true;
  /** The first set that was declared twice. */
  repeated: string | null = null;
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

  addSet(set: NftDumpSet): void {
    if (this.sets.has(set.name)) this.repeated ??= set.name;
    this.sets.set(set.name, set);
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
export type NftDumpSet = {-readonly [K in keyof NftSet]: NftSet[K]} & {readonly elements: Map<string, NftElement>};

export function newDumpSet(table: string, name: string): NftDumpSet {
  return {
    table,
    name,
    keyTypes: [],
    valueTypes: null,
    flags: [],
    dynamic: null,
    timeout: null,
    size: null,
    complete: true,
    elements: new Map(),
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
  readonly truncation: NftRuleset['truncation'];
}

export function asNftRuleset({tables, toolVersion, strays, truncation}: DumpParts): NftRuleset {
  const all = [...tables.values()];
  const twice = all.find(({repeated}) => repeated !== null);
  return {
    tables,
    tableSources: all,
    toolVersion,
    strays,
    truncation,
    ...countsOf(all),
    ...(twice === undefined ? {} : {repeated: {table: twice.id, set: twice.repeated ?? ''}}),
  };
}

/** How many rules and chains tables have. */
export function countsOf(tables: readonly NftTable[]): Pick<NftRuleset, 'ruleCount' | 'chainCount'> {
  return {
    ruleCount: tables.reduce((sum, {chains}) => sum + chains.ruleCount, 0),
    chainCount: tables.reduce((sum, {chains}) => sum + chains.size, 0),
  };
}
