import type {NatCounters, PortCounters} from '../parse/iptables/nat-counters.ts';

/**
 * Why the counters of a Service port cannot be compared over two reads; null if they can. kube-proxy resets counters whenever it writes a
 * chain: the chains of a changed Service in a partial sync, all chains in a full one. A chain that was rewritten may have a higher counter
 * in the second read than in the first.
 */
export function whyNotComparable(before: NatCounters, after: NatCounters, key: string): string | null {
  const [old, now] = [before.ports.get(key), after.ports.get(key)];
  if (old === undefined || now === undefined) return old === now ? null : rewritten;
  if (hasDecreased(old.rules, now.rules) || !sameRules(old, now)) return rewritten;
  if (!hasDecreased(before.base, after.base)) return hasDecreased(before.others, after.others) ? uncertain(before, after, old, now) : null;
  return uncertain(before, after, old, now);
}

const rewritten = 'kube-proxy rewrote its chains between the reads, which sets their counters to 0';
const undecided = 'kube-proxy wrote rules between the reads, and whether it reset these counters is not known';

/** kube-proxy has written some rules. Unchanged counters of other rules show that it did not rewrite everything. */
function uncertain(before: NatCounters, after: NatCounters, old: PortCounters, now: PortCounters): string | null {
  const grown = sum(now.rules) - sum(old.rules);
  if (grown === 0 && sum(old.rules) > 0) return null;
  if (!isUnchanged(before.others, after.others)) return undecided;
  // After a reset, as many connections as before, or more, would have to have passed every rule since.
  return sum(old.rules) >= grown ? null : undecided;
}

/** A rule has a lower counter than before. */
function hasDecreased(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): boolean {
  return [...before].some(([rule, packets]) => (after.get(rule) ?? packets) < packets);
}

/** Counters that were high enough are unchanged: this does not happen by chance after a reset. */
function isUnchanged(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): boolean {
  const unchanged = [...before].reduce((total, [rule, packets]) => total + (after.get(rule) === packets ? packets : 0), 0);
  return unchanged >= enough;
}

const enough = 20;

function sameRules({rules: before}: PortCounters, {rules: after}: PortCounters): boolean {
  return before.size === after.size && [...before.keys()].every(rule => after.has(rule));
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, packets) => total + packets, 0);
}
