import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Chain, ChainSource, Rule} from '../../model/ruleset.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {effectOf, maxPorts, newConnections, type OutcomeChange, outcomeChanges, type TwoWalks} from '../outcomes/outcome-changes.ts';
import {constantsIn, namedEndpoints, namedFirst} from '../outcomes/rule-constants.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {type KnownSenders, sourcesNamedIn} from '../outcomes/sources.ts';
import {textsOf} from './rule-texts.ts';
import type {IptablesServiceView} from './iptables-service-view.ts';
import {listChain} from './listed-chains.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {pathOutcomeOf} from './iptables-outcome.ts';

export interface UnexpectedRulesCase {
  readonly expected: ExpectedRuleset;
  readonly view: IptablesServiceView;
  /** Unattributed rules in chains that Services share. */
  readonly rules: readonly Rule[];
  readonly senders: () => KnownSenders;
  /** Service ports that are evaluated elsewhere. */
  readonly except?: ReadonlySet<PortOnNode>;
}

/** Unattributed rules: their severity is their effect on packets, which are walked with and without them. */
export function analyzeUnexpectedRules({expected, view, rules, senders, except = new Set()}: UnexpectedRulesCase): Symptom {
  const ports = expected.ports.filter(item => !except.has(item));
  const environment = environmentOf(expected.context.facts);
  const cleaned = without(view, rules);
  const effect = effectOf(
    firstChanges(
      ports,
      {context: expected.context, texts: textsOf(rules, view), senders},
      {
        walk: packet => pathOutcomeOf(walkPacket(view, packet, environment)),
        walkWithout: packet => pathOutcomeOf(walkPacket(cleaned, packet, environment)),
      },
    ),
  );
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

/** The first change of each Service port; those that the rules name come first. */
function firstChanges(
  ports: readonly PortOnNode[],
  {context, texts, senders}: {readonly context: NodeContext; readonly texts: readonly string[]; readonly senders: () => KnownSenders},
  walks: TwoWalks<Rule>,
): readonly OutcomeChange<Rule, PortOnNode>[] {
  const constants = constantsIn(texts);
  const clients = sourcesNamedIn(texts, context, senders);
  return namedFirst(ports, context, constants)
    .slice(0, maxPorts)
    .flatMap(item => {
      for (const change of outcomeChanges(newConnections(item, context, namedEndpoints(item, constants), clients), walks)) return [change];
      return [];
    });
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
