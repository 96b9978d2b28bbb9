import type {Family} from '../../../src/model/family.ts';
import type {Ruleset} from '../../../src/model/ruleset.ts';
import {comparableRule} from '../../../src/parse/comparable-rule.ts';
import {parseDumps} from '../../../src/parse/iptables-save.ts';
import type {Namespace} from './namespace.ts';

export type BackendName = 'nft' | 'legacy';

export interface Loaded {
  /** What the kernel holds now, as iptables-save prints it. */
  readonly ruleset: Ruleset;
  /** What of the dump this kernel does not know and was left out. */
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
  return {ruleset: onlyRuleset(node.run(`${tool}-save`, []), family), leftOut};
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

export function onlyRuleset(text: string, family: Family): Ruleset {
  const [ruleset, ...more] = parseDumps(text, family);
  if (ruleset === undefined || more.length > 0 || ruleset.strays.length > 0) throw new Error('this is not one dump of iptables-save');
  return ruleset;
}

/** All rules, chain by chain, in the form in which rules that do the same read the same. Chains without rules are left out. */
export function comparableChains(ruleset: Ruleset): Readonly<Record<string, readonly string[]>> {
  const chains = [...ruleset.tables.values()].flatMap(table => [...table.chains.values()]);
  return Object.fromEntries(
    chains
      .filter(({ruleCount}) => ruleCount > 0)
      .map(chain => [`${chain.table} ${chain.name} ${chain.policy}`, chain.rules().map(comparableRule)]),
  );
}
