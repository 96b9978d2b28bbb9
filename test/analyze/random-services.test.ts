import process from 'node:process';
import {describe, expect, test} from 'vitest';
import type {Finding} from '../../src/model/finding.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {cases} from '../cases.ts';
import {minors, randomCluster} from '../random-cluster.ts';
import {findingsOf} from '../scenario.ts';
import {areIndependent, chainOf} from './order.ts';
import {withFiles} from '../fixtures.ts';

/** Clusters for each version; more of them with `SVC_TRACE_ALL=1`. A failure names its seed. */
const perVersion = process.env['SVC_TRACE_ALL'] === '1' ? 200 : cases({usual: 2, long: 12});

describe.each(minors)('kube-proxy 1.%i', minor => {
  const seeds = Array.from({length: perVersion}, (_, index) => minor * 1000 + index);

  test('finds no fault in the rules that it should have written, whatever the Services', () => {
    expect(seeds.flatMap(seed => story(seed, nodeFindings(randomCluster(seededRandom(seed), minor))))).toEqual([]);
  });

  test('finds one changed rule among them, unless only the order of Services changed', () => {
    expect(seeds.flatMap(seed => changedRule(seed, minor))).toEqual([]);
  });
});

/** Without what random settings break of the API's promises (ST7xx): the rules are right for the settings. */
function nodeFindings(snapshot: Snapshot): readonly Finding[] {
  return findingsOf(snapshot, {nodes: name => name === 'node-a'}).filter(({node, code}) => node !== undefined && !code.startsWith('ST7'));
}

/** What was not found: a line for each change that should have been. */
function changedRule(seed: number, minor: number): readonly string[] {
  const random = seededRandom(seed);
  const snapshot = randomCluster(random, minor);
  const file = random.pick(['iptables-save', 'iptables-save', 'ip6tables-save']);
  const lines = (snapshot.nodes[0]?.read(file)?.toString() ?? '').split('\n');
  const change = mutate(lines, random);
  const found = nodeFindings(withFile(snapshot, file, change.lines.join('\n')));
  if (found.some(({code}) => /^ST[234]/.test(code)) || change.same) return [];
  return [`seed ${seed}, ${file}: ${change.kind} of ${change.rule}`, ...story(seed, found)];
}

interface Change {
  readonly kind: string;
  readonly rule: string;
  readonly lines: readonly string[];
  /** The rules do the same as before. */
  readonly same: boolean;
}

/** One rule is deleted, doubled, exchanged with the next one, or given another target, address or port. */
function mutate(lines: readonly string[], random: Random): Change {
  const rules = lines.flatMap((line, at) => (/^-A .*KUBE-/.test(line) ? [at] : []));
  const at = random.pick(rules as [number, ...number[]]);
  const [rule = '', next = ''] = lines.slice(at, at + 2);
  const kind = random.pick(['deletion', 'doubling', 'exchange', 'new target', 'new address', 'new port'] as const);
  const replaced = replacements[kind]?.(rule) ?? [];
  const changed = replaced.length === 0 || replaced[0] === rule ? [] : replaced;
  if (kind === 'exchange' && chainOf(next) === chainOf(rule) && next !== rule)
    return {kind, rule, lines: lines.toSpliced(at, 2, next, rule), same: areIndependent(rule, next)};
  if (changed.length > 0) return {kind, rule, lines: lines.toSpliced(at, 1, ...changed), same: false};
  return {kind: 'deletion', rule, lines: lines.toSpliced(at, 1), same: false};
}

const replacements: Readonly<Record<string, (rule: string) => readonly string[]>> = {
  doubling: rule => [rule, rule],
  'new target': rule => [rule.replace(/ -j \S+.*$/, ' -j RETURN')],
  'new address': rule => [
    rule.replace(/ (-d|-s) [0-9.]+\/\d+/, ' $1 192.0.2.77/32').replace(/ (-d|-s) [0-9a-f:]+:[0-9a-f:]*\/\d+/, ' $1 2001:db8:7::77/128'),
  ],
  'new port': rule => [rule.replace(/ --dport \d+/, ' --dport 6666')],
};

function withFile(snapshot: Snapshot, name: string, content: string): Snapshot {
  return {...snapshot, nodes: snapshot.nodes.map(node => withFiles(node, {[name]: content}))};
}

function story(seed: number, found: readonly Finding[]): readonly string[] {
  return found.map(({severity, code, message, family}) => `seed ${seed}: ${severity} ${code} ${family} ${message}`);
}
