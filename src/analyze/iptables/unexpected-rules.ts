import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {entryText} from '../../model/entry.ts';
import type {Severity} from '../../model/finding.ts';
import type {Chain, ChainSource, Rule} from '../../model/ruleset.ts';
import type {Environment} from '../../trace/packet.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {type Probe, probesFor} from '../outcomes/probes.ts';
import {listChain, type IptablesServiceView} from './iptables-service-view.ts';
import {sourceNames} from '../outcomes/sources.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {describePathOutcome, type PathOutcome, hasSameEnds, isSameOutcome} from '../outcomes/path-outcome.ts';
import {pathOutcomeOf} from './iptables-outcome.ts';

export interface UnexpectedRulesCase {
  readonly expected: ExpectedRuleset;
  readonly view: IptablesServiceView;
  /** Unattributed rules in chains that Services share. */
  readonly rules: readonly Rule[];
  /** Service ports that are evaluated elsewhere. */
  readonly except?: ReadonlySet<PortOnNode>;
}

/** Unattributed rules: their severity is their effect on packets, which are walked with and without them. */
export function analyzeUnexpectedRules({expected, view, rules, except = new Set()}: UnexpectedRulesCase): Symptom {
  const ports = expected.ports.filter(item => !except.has(item));
  const effect = effectOf(expected, view, {rules, ports});
  const [first] = rules;
  const what =
    rules.length === 1
      ? `a rule in ${first?.table}/${first?.chain} is not one that kube-proxy would have written`
      : `${rules.length} rules in kube-proxy's chains were not written by kube-proxy`;
  return {
    kind: 'unexpected-rule',
    severity: effect.severity,
    family: expected.family,
    port: null,
    detail: `${what}: ${effect.text}`,
    expected: [],
    actual: rules.slice(0, 6),
  };
}

interface TrafficEffect {
  readonly severity: Severity;
  readonly text: string;
}

/** Above this number, Service ports are not probed one by one. */
const maxPorts = 300;

function effectOf(
  expected: ExpectedRuleset,
  view: IptablesServiceView,
  {rules, ports}: {readonly rules: readonly Rule[]; readonly ports: readonly PortOnNode[]},
): TrafficEffect {
  const environment = environmentOf(expected.context.facts);
  const cleaned = without(view, rules);
  const changed: Change[] = [];
  for (const item of ports.slice(0, maxPorts)) {
    const change = changeOf(item, expected, {view, cleaned, environment});
    if (change !== null) changed.push(change);
  }
  const worst = changed.find(({lost}) => lost) ?? changed[0];
  if (worst === undefined) return {severity: 'info', text: 'no traffic is affected'};
  const {item, probe, pathOutcome, other} = worst;
  const more = changed.length > 1 ? `, and ${changed.length - 1} more Service ports are affected` : '';
  const where = `packets from ${sourceNames[probe.source.kind]} to the ${entryText(probe.entry)} of ${item.port.servicePortName}`;
  const text = worst.lost
    ? `${where} end in ${describePathOutcome(pathOutcome)}, and without it in ${describePathOutcome(other)}${more}`
    : `${where} are masqueraded differently because of it${more}`;
  return {severity: worst.lost ? 'error' : 'warning', text};
}

interface Change {
  readonly item: PortOnNode;
  readonly probe: Probe;
  readonly pathOutcome: PathOutcome;
  readonly other: PathOutcome;
  /** They end elsewhere, and are not only masqueraded differently. */
  readonly lost: boolean;
}

interface Walks {
  readonly view: IptablesServiceView;
  readonly cleaned: ChainSource;
  readonly environment: Environment;
}

function changeOf(item: PortOnNode, {context}: ExpectedRuleset, {view, cleaned, environment}: Walks): Change | null {
  for (const probe of probesFor({item, context, hairpins: []})) {
    if (probe.knownTo.size > 0) continue;
    const pathOutcome = pathOutcomeOf(walkPacket(view, probe.packet, environment));
    const other = pathOutcomeOf(walkPacket(cleaned, probe.packet, environment));
    if (!isSameOutcome(pathOutcome, other)) return {item, probe, pathOutcome, other, lost: !hasSameEnds(pathOutcome, other)};
  }
  return null;
}

/** The actual rules without these. */
function without(view: IptablesServiceView, rules: readonly Rule[]): ChainSource {
  const left = new Set(rules);
  const touched = new Set(rules.map(({table, chain}) => `${table}/${chain}`));
  const made = new Map<string, Chain>();
  return {
    family: view.family,
    hasTable: table => view.hasTable(table),
    chain: (table, name) => {
      const key = `${table}/${name}`;
      const chain = view.chain(table, name);
      if (chain === undefined || !touched.has(key)) return chain;
      const known =
        made.get(key) ??
        listChain(
          chain,
          chain.rules().filter(rule => !left.has(rule)),
        );
      made.set(key, known);
      return known;
    },
  };
}
