import {families, type Family} from '../../model/address.ts';
import type {Backend, ChainsByName, Ruleset} from '../../model/ruleset.ts';
import {iptablesFiles, type NodeDump} from '../../model/snapshot.ts';
import {parseDumps} from '../../parse/iptables/iptables-save.ts';
import type {Dumps} from '../proxy-mode.ts';
import {misprintsOf, whyMisprinted} from './misprints.ts';

/**
 * The output of the node's default tools has precedence over that of a backend asked for by name, unless kube-proxy's rules are in the other
 * backend alone, or another program printed them better: kube-proxy may run with other tools than the node's.
 */
export function readDumps(node: NodeDump): Dumps {
  const current = new Map<Family, Ruleset>();
  const named = new Map<string, Ruleset>();
  const uncounted = new Set<string>();
  const contradictions = new Map<Family, string>();
  for (const {file, ofFile, rulesets} of families.flatMap(family => readFiles(node, family))) {
    if (rulesets.every(({isUncounted}) => isUncounted)) uncounted.add(file);
    const contradicted = firstContradicted(rulesets);
    if (contradicted !== undefined) contradictions.set(contradicted.family, whyContradictory(file, contradicted));
    for (const ruleset of rulesets) {
      const {family, backend} = ruleset;
      if (backend !== null) named.set(`${family} ${backend}`, ruleset);
      if (!current.has(family) || (ofFile === null && backend === current.get(family)?.backend)) current.set(family, ruleset);
    }
  }
  const both = families.flatMap(family => {
    const nft = named.get(`${family} nft`);
    const legacy = named.get(`${family} legacy`);
    return nft === undefined || legacy === undefined ? [] : [{family, nft, legacy}];
  });
  for (const {family, nft, legacy} of both) {
    const [own, ...others] = [nft, legacy].filter(holdsServices);
    if (own !== undefined && others.length === 0) current.set(family, own);
  }
  for (const family of misprintsOf(new Map(current)).keys()) {
    const others = ['nft', 'legacy'].flatMap(backend => named.get(`${family} ${backend}`) ?? []);
    const other = others.find(ruleset => holdsServices(ruleset) && misprintsOf(new Map([[family, ruleset]])).size === 0);
    if (other !== undefined) current.set(family, other);
  }
  return {current, both, uncounted, contradictions};
}

/** The files of a family, that of the default tools first. `ofFile`: the backend that was asked for by name. A file may hold both families. */
function readFiles(node: NodeDump, family: Family) {
  return iptablesFiles(family).flatMap(file => {
    const content = node.read(file);
    if (content === null) return [];
    const ofFile: Backend | null = file.includes('-nft-') ? 'nft' : file.includes('-legacy-') ? 'legacy' : null;
    const backendOf = (ruleset: Ruleset): Backend | null => ofFile ?? ruleset.backend ?? backendOfTools(node, family, ruleset);
    const rulesets = parseDumps(content, family).map(ruleset => ({...ruleset, backend: backendOf(ruleset)}));
    return [{file, ofFile, rulesets}];
  });
}

/**
 * The first dump that shows other rules than one of its family and backend before it, such as those of two nodes or two times in one file.
 * Those before it are equal, so that one of them is enough to compare with, however often a file repeats a table.
 */
function firstContradicted(rulesets: readonly Ruleset[]): Ruleset | undefined {
  const shown = new Map<string, ChainsByName>();
  return rulesets.find(ruleset =>
    [...ruleset.tables].some(([name, {chains}]) => {
      const key = `${ruleset.family} ${ruleset.backend} ${name}`;
      const before = shown.get(key);
      if (before === undefined) shown.set(key, chains);
      return before !== undefined && !isSame(before, chains);
    }),
  );
}

function isSame(before: ChainsByName, chains: ChainsByName): boolean {
  return before.size === chains.size && [...chains.values()].every(chain => before.get(chain.name)?.text() === chain.text());
}

function whyContradictory(file: string, {family}: Ruleset): string {
  return `its ${file} holds two dumps of ${family} with different rules: which one is true is not known`;
}

/** Why the rules of a family are not known, although they were read; null if they are. */
export function whyDistrusted({current, contradictions}: Dumps, family: Family): string | null {
  const misprint = misprintsOf(current).get(family);
  return contradictions.get(family) ?? (misprint === undefined ? null : whyMisprinted(misprint));
}

/** Of a version whose header does not show it. A dump of the other backend is read beside it, and only rules of nft are misprinted. */
function backendOfTools(node: NodeDump, family: Family, ruleset: Ruleset): Backend | null {
  const {toolVersion} = ruleset;
  if (toolVersion === null) return null;
  const said = node.read('iptables-version')?.toString('utf8', 0, 200) ?? '';
  if (said.includes(`v${toolVersion}`)) return said.includes('nf_tables') ? 'nft' : 'legacy';
  const [, ofNft = '', ofLegacy = ''] = iptablesFiles(family);
  if (node.files.includes(ofLegacy) || misprintsOf(new Map([[ruleset.family, ruleset]])).size > 0) return 'nft';
  return node.files.includes(ofNft) ? 'legacy' : null;
}

/** Rules of Services. */
export function holdsServices(ruleset: Ruleset): boolean {
  return (ruleset.chain('nat', 'KUBE-SERVICES')?.ruleCount ?? 0) > 0;
}

export function countRules({current}: Dumps): {readonly rules: number; readonly chains: number} {
  const all = [...current.values()];
  return {rules: all.reduce((sum, {ruleCount}) => sum + ruleCount, 0), chains: all.reduce((sum, {chainCount}) => sum + chainCount, 0)};
}

/** Why nothing can be reported about a family's Services in its iptables; null if the dump contains the tables of Services. */
export function whyNoTables(family: Family, ruleset: Ruleset | null): string | null {
  if (ruleset === null) return `there is no ${dumpOf(family)} of it`;
  const missing = ['nat', 'filter'].filter(table => !ruleset.hasTable(table));
  if (missing.length === 0) return null;
  const foreign = missing.find(table => ruleset.strays.some(({text}) => text.startsWith(`# Table \`${table}' is incompatible`)));
  if (foreign !== undefined) return `iptables cannot show its table ${foreign}, into which another program wrote rules with nft`;
  return `the dump holds no table ${missing.join(' and no table ')}: it is of other tables only, or everything was flushed`;
}

/** Why the node's dump of a family gave no ruleset: there is none, or the file holds no rule and no chain, as when the command failed. */
export function whyNoRules(node: NodeDump, family: Family): string {
  const name = dumpOf(family);
  const content = node.files.includes(name) ? node.read(name) : null;
  const failure = node.missing?.find(({file}) => file === name)?.reason;
  if (content === null) return failure === undefined ? `there is no ${name} of it` : `its ${name} was not read: ${failure}`;
  const line = content
    .toString('utf8', 0, 4096)
    .split('\n')
    .find(text => text.trim() !== '');
  if (line === undefined) return `its ${name} is empty: the command failed, or everything was flushed`;
  return `its ${name} holds no rules, and begins with: ${line.slice(0, 160)}`;
}

function dumpOf(family: Family): string {
  return family === 'IPv4' ? 'iptables-save' : 'ip6tables-save';
}

/** Whether rules of a chain may be on the node that a truncated dump does not show: none of them is reported as missing. */
export function isBeyondTruncation(ruleset: Ruleset, table: string, chain: string): boolean {
  if (ruleset.truncation === null) return false;
  const read = ruleset.tables.get(table);
  if (read === undefined) return true;
  return !read.complete && ruleset.chain(table, chain)?.complete !== true;
}
