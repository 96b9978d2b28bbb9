import {entryText} from '../../model/service-port.ts';
import {type Chain, matchOptionOf, optionOf, type Rule, type Ruleset} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {plural, servicePortText, someOf} from '../../model/text.ts';

/** The entries of Services that rules alone show to be refused or dropped, in a few words. */
export function closedEntries(traces: readonly PortTrace[]): readonly string[] {
  const closed = traces.flatMap(({service, port, entries}) =>
    entries.flatMap(({entry, endpoints, end}) => {
      if (endpoints.length > 0 || end?.rule == null || (end.verdict !== 'rejected' && end.verdict !== 'dropped')) return [];
      return [{name: servicePortText(service, port), at: entryText(entry), why: whyClosed(end.verdict, end.rule.text)}];
    }),
  );
  return [...Map.groupBy(closed, ({why}) => why)].map(([why, all]) => {
    const byName = [...Map.groupBy(all, ({name}) => name)].map(([name, own]) => {
      const entries = own.map(({at}) => at);
      return `${name} (${someOf(entries, {max: 2})})`;
    });
    return `${someOf(byName, {max: 3, noun: 'Service port'})} ${why}`;
  });
}

function whyClosed(verdict: 'rejected' | 'dropped', rule: string): string {
  if (verdict === 'rejected') return 'refuses connections: for kube-proxy it has no endpoint';
  return rule.includes('no local endpoints')
    ? 'is dropped: for kube-proxy it has no endpoint on this node, and its traffic policy is Local'
    : 'is dropped: for kube-proxy it has no endpoint';
}

/** Rules that no packet meets, and why: one before them ends the path of every packet, or has the same port. */
export function unmetRules({tables}: Ruleset): readonly string[] {
  return [...tables.values()].flatMap(({chains}) =>
    [...chains.values()].flatMap(chain =>
      chain.ruleCount < 2 || /^KUBE-(?:SVC|SEP|SVL|EXT|FW|XLB|SERVICES|NODEPORTS)/.test(chain.name)
        ? []
        : [...afterTheEnd(chain), ...sharedPorts(chain, chains), ...toNobody(chain)],
    ),
  );
}

/** What follows a rule that ends the path of every packet. */
function afterTheEnd(chain: Chain): readonly string[] {
  const rules = chain.rules();
  const at = rules.findIndex(
    ({options, matches, target}) =>
      options.length === 0 && matches.every(({name}) => name === 'comment') && /^(?:DROP|REJECT)$/.test(target?.name ?? ''),
  );
  const end = rules[at];
  const after = rules.length - at - 1;
  if (end === undefined || after === 0) return [];
  const verb = end.target?.name === 'DROP' ? 'drops' : 'refuses';
  return [
    `"${end.text}" (table ${chain.table}) ${verb} every packet that comes to it: ${plural(after, 'rule')} after it in ${chain.name} ${after === 1 ? 'is' : 'are'} never met`,
  ];
}

/** Rules of programs that publish ports, which send the same packets to different places. The first of them wins. */
function sharedPorts(chain: Chain, chains: {get(name: string): Chain | undefined}): readonly string[] {
  const rules = chain.rules().filter(rule => publishes.test(rule.target?.name ?? '') && portsOf(rule) !== undefined);
  const alike = [...Map.groupBy(rules, conditionsOf).values()].filter(all => new Set(all.map(({target}) => target?.name)).size > 1);
  return alike.flatMap(([first, ...others]) => {
    const name = first?.target?.name ?? '';
    const shown = chains.get(name)?.rules();
    // A rule of one address leaves the others to the next.
    const takes = shown?.some(rule => rule.target?.name === 'DNAT' && optionOf(rule, '-d') === undefined);
    if (first === undefined || takes === false) return [];
    const port = `${portsOf(first)}/${optionOf(first, '-p') ?? 'any'}`;
    const rest = someOf(others.map(({target}) => target?.name ?? ''));
    return `${plural(others.length + 1, 'rule')} of ${chain.name} publish port ${port}: ${takes === true ? '' : 'if it translates packets, '}${name} is the first and gets all of them, ${rest} none. One of a pod that is gone was left behind`;
  });
}

const publishes = /^(?:CNI-DN-|KUBE-HP-)/;

function portsOf(rule: Rule): string | undefined {
  return matchOptionOf(rule, '--dport') ?? matchOptionOf(rule, '--dports');
}

function conditionsOf({options, matches}: Rule): string {
  return JSON.stringify([options, matches.filter(({name}) => name !== 'comment')]);
}

/** No packet has the destination 0.0.0.0: an old plugin wrote it for all addresses. */
function toNobody(chain: Chain): readonly string[] {
  const rules = chain.rules().filter(rule => rule.target?.name === 'DNAT' && /^0\.0\.0\.0(?:\/32)?$/.test(optionOf(rule, '-d') ?? ''));
  return rules.map(({text}) => `"${text}" translates nothing: no packet has the destination 0.0.0.0`);
}
