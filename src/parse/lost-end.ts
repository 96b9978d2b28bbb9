/** The chains of a table, in the order of a dump: it declares all of them, then prints their rules in the same order. */
interface PrintedChains {
  readonly size: number;
  nameOf(place: number): string;
  ruleCountAt(place: number): number;
}

interface PrintedTable {
  readonly chains: PrintedChains;
  readonly bytes: Buffer;
  /** What precedes the name of a chain where a rule or a map refers to it, and what follows it. */
  readonly calls: {readonly before: readonly string[]; readonly after: string};
  /** Whether the rules of this chain, the last with any, show that others followed. */
  readonly isEarly: (last: number) => boolean;
}

/**
 * A dump that lost its end and was closed again: the last chains of the last table have no rules, and kube-proxy never calls a chain
 * without rules. Returns how many; 0 for a whole dump. Where all chains of a kind have none, or those of one Service, this may be what
 * somebody did to the node: such a dump is whole.
 */
export function chainsWithLostRules({chains, bytes, calls, isEarly}: PrintedTable): number {
  let last = chains.size - 1;
  while (last >= 0 && chains.ruleCountAt(last) === 0) last--;
  const lost = chains.size - 1 - last;
  if (last < 0 || lost < fewest) return 0;
  const names = Array.from({length: lost}, (_, at) => chains.nameOf(last + 1 + at));
  const empty = new Set(names.filter(name => kindOf(name) !== null));
  if (empty.size < fewest || !(isWithinKind(chains, last, empty) || isEarly(last))) return 0;
  if (names.includes('KUBE-SERVICES')) return lost;
  const called = calledOf(empty, bytes, calls);
  return called.size >= fewest && new Set([...called].map(ownerOf)).size > 1 ? lost : 0;
}

const fewest = 3;

/** The role of a chain that belongs to one Service port; null for other chains. */
export function kindOf(name: string): string | null {
  return /^(?:KUBE-(?:SEP|SVC|SVL|XLB|EXT|FW)-|(?:service|endpoint|local|external|firewall)-(?=[A-Z\d]{8}-))/.exec(name)?.[0] ?? null;
}

/** The Service of a chain of nftables mode. The names of iptables mode do not show it. */
function ownerOf(name: string): string {
  return /^[a-z]+-[A-Z\d]{8}-([^/]*\/[^/]*)/.exec(name)?.[1] ?? name;
}

/** Whether other chains of these kinds have rules. */
function isWithinKind(chains: PrintedChains, last: number, empty: ReadonlySet<string>): boolean {
  const kinds = new Set([...empty].map(kindOf));
  for (let place = last; place >= 0; place--) {
    const kind = kindOf(chains.nameOf(place));
    if (kind !== null && kinds.has(kind) && chains.ruleCountAt(place) > 0) return true;
  }
  return false;
}

/** Those of these chains that a rule or a map refers to. */
function calledOf(names: ReadonlySet<string>, bytes: Buffer, {before, after}: PrintedTable['calls']): ReadonlySet<string> {
  const called = new Set<string>();
  for (const mark of before) {
    for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) {
      const start = at + mark.length;
      const name = bytes.toString('latin1', start, Math.max(start, bytes.indexOf(after, start)));
      if (names.has(name)) called.add(name);
    }
  }
  return called;
}
