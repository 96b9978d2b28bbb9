import type {PacketRules} from '../../../src/analyze/packet-rules.ts';
import {type Family, families} from '../../../src/model/address.ts';
import type {Ruleset, RuleText} from '../../../src/model/ruleset.ts';
import type {NodeDump} from '../../../src/model/snapshot.ts';
import {comparableRule} from '../../../src/parse/iptables/comparable-rule.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import type {Namespace} from './namespace.ts';

export type BackendName = 'nft' | 'legacy';

/** The rules of one node, which are in a kernel. */
export interface RulesUnderTest {
  /** What of the dumps this kernel does not know and was left out. */
  readonly leftOut: readonly string[];
  /** The same, from the dump. */
  rules(family: Family): PacketRules;
  /** What was loaded and what the kernel holds now, in a form that compares. */
  readonly read: readonly {readonly given: object; readonly held: object}[];
  /** Empties the lists of clients that are to come back. */
  forgetClients(): Promise<void>;
  /** The lists that a rule puts a client on. */
  listsOf(this: void, rule: RuleText): readonly string[];
}

/** Loads the dumps of a node into the kernel with the tools of a backend. */
export function loadIptables(node: Namespace, backend: BackendName, {read}: NodeDump): RulesUnderTest {
  node.run('ipset', ['restore'], read('ipset-save')?.toString() ?? '');
  const loaded = families.map(family => {
    const dump = read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save')?.toString() ?? '';
    return {family, given: onlyRuleset(dump, family), ...loadRules(node, backend, {family, dump})};
  });
  const byFamily = new Map(loaded.map(({family, given}) => [family, given]));
  return {
    leftOut: [...new Set(loaded.flatMap(({leftOut}) => leftOut))],
    rules: family => ({iptables: byFamily.get(family) ?? onlyRuleset('', family), nft: null}),
    read: loaded.map(({given, held}) => ({given: comparableChains(given), held: comparableChains(held)})),
    forgetClients: () => node.forgetClients(),
    listsOf: ({chain}) => [chain],
  };
}

export interface Loaded {
  readonly held: Ruleset;
  readonly leftOut: readonly string[];
}

/** Loads a dump into the kernel with the tool of a backend, and reads it back. */
export function loadRules(node: Namespace, backend: BackendName, {family, dump}: {readonly family: Family; readonly dump: string}): Loaded {
  const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`;
  // Counting objects of nfacct would have to be made first, with a tool that few machines have. Matching, they change nothing.
  let text = dump.replace(/ -m nfacct --nfacct-name {1,2}\S+/g, '');
  const leftOut: string[] = [];
  let failure = restore(node, tool, text);
  for (const {name, without} of optional) {
    const less = without(text);
    if (failure === null || less === text) continue;
    text = less;
    leftOut.push(name);
    failure = restore(node, tool, text);
  }
  if (failure !== null) throw new Error(failure);
  return {held: onlyRuleset(node.run(`${tool}-save`, []), family), leftOut};
}

/** Matches that a kernel may have been built without. */
const optional = [
  {name: 'sctp', without: (text: string) => text.replace(/^-A .* -p sctp .*\n/gm, '')},
  {
    name: 'recent',
    without: (text: string) => text.replace(/^-A .* -m recent --rcheck .*\n/gm, '').replace(/ -m recent --set .*?(?= -m | -j )/g, ''),
  },
] as const;

function restore(node: Namespace, tool: string, text: string): string | null {
  try {
    node.run(`${tool}-restore`, [], text);
    return null;
  } catch (error) {
    return String(error);
  }
}

function onlyRuleset(text: string, family: Family): Ruleset {
  const [ruleset, ...more] = parseDumps(text, family);
  if (ruleset === undefined || more.length > 0 || ruleset.strays.length > 0) throw new Error('this is not one dump of iptables-save');
  return ruleset;
}

/** All rules, chain by chain, in the form in which rules that do the same read the same. Chains without rules are left out. */
function comparableChains(ruleset: Ruleset): Readonly<Record<string, readonly string[]>> {
  const chains = [...ruleset.tables.values()].flatMap(table => [...table.chains.values()]);
  return Object.fromEntries(
    chains
      .filter(({ruleCount}) => ruleCount > 0)
      .map(chain => [`${chain.table} ${chain.name} ${chain.policy}`, chain.rules().map(comparableRule)]),
  );
}
