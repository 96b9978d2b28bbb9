import process from 'node:process';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {compareRulesets} from '../../src/compare/compare-rulesets.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../../src/expect/iptables/expect-ruleset.ts';
import {nodeFacts} from '../../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../../src/expect/resolve-proxy-config.ts';
import {asExpectation} from '../../src/analyze/iptables/resolve-version.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';

/** One part of a check, and the CPU time (user and system) that it took. */
export interface Stage {
  name: string;
  seconds: number;
}

/** Runs `work` and notes its time under `name`; several runs of one name add up. */
type TimeStage = <T>(name: string, work: () => T | Promise<T>) => Promise<T>;

/** Where a check's time goes: the product's own steps on the bundle in `dir`, one node after another. */
async function runStages(dir: string, time: TimeStage): Promise<void> {
  const snapshot = await time('reading objects', () => readBundle(dir));
  const view = new ClusterView(snapshot.api);
  for (const node of snapshot.nodes) {
    const {config} = resolveProxyConfig(node, snapshot.api, {});
    const facts = nodeFacts(node, snapshot.api);
    for (const [family, file] of dumps) {
      const bytes = node.read(file);
      if (bytes === null) continue;
      const [ruleset = null] = await time('parsing', () => parseDumps(bytes, family));
      if (ruleset === null) continue;
      const expected = await time('expecting', () => {
        const made = expectRuleset({view, config, facts, family, ruleset});
        // Rules are rendered when they are asked for, and comparing asks again: this is what rendering them costs.
        for (const item of made.ports) made.rulesOf(item);
        return made;
      });
      await time('expecting and comparing', () => compareRulesets(asExpectation(expected), ruleset));
    }
  }
}

const dumps = [
  ['IPv4', 'iptables-save'],
  ['IPv6', 'ip6tables-save'],
] as const;

/** Runs after everything else is measured, as it fills this process's memory. */
export async function measureStages(dir: string): Promise<Stage[]> {
  const seconds = new Map<string, number>();
  await runStages(dir, async (name, work) => {
    const started = process.cpuUsage();
    const result = await work();
    const {user, system} = process.cpuUsage(started);
    const took = (user + system) / 1_000_000;
    seconds.set(name, (seconds.get(name) ?? 0) + took);
    return result;
  });
  return [...seconds].map(([name, total]) => ({name, seconds: total}));
}
