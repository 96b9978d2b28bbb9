import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Rule} from '../../../model/ruleset.ts';
import {walkPacket} from '../../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import type {ProbeComparison} from '../../outcomes/path-outcome.ts';
import {hasOtherEndpointsOnly, lacksEndpointRulesOnly} from './endpoint-change.ts';
import {comparePathOutcomes} from '../../outcomes/compare-outcomes.ts';
import {clientsOfOtherRanges} from '../../outcomes/other-ranges.ts';
import {type Probe, probesFor} from '../../outcomes/probes.ts';
import {sourcesNamedIn} from '../../outcomes/sources.ts';
import {probesToWalk} from '../../outcomes/probes-to-walk.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {SymptomList} from '../../symptoms/symptom-list.ts';
import {affinityRules} from './affinity-rules.ts';
import {pathOutcomeOf} from '../iptables-outcome.ts';
import {IptablesSemantics} from './iptables-semantics.ts';
import {explainResidualDifferences} from './residual-differences.ts';
import {type PortCase, PortDifferences} from './port-differences.ts';
import {findStaleEntries} from './stale-entries.ts';

/**
 * What the differences of one Service port do to packets. Packets of every kind are walked through the expected and the actual
 * rules; a difference that changes no outcome is reported as harmless.
 */
export function analyzePort(given: PortCase): readonly Symptom<Rule>[] {
  const {item} = given;
  const own = new PortDifferences(given);
  const symptoms = new SymptomList<Rule>(item.port);
  const {context} = given.expected;
  const ranges = own.extraRules().filter(({chain}) => parseChainName(chain)?.role === 'FW');
  const clients = clientsOfOtherRanges(
    ranges.map(({text}) => text),
    item.port,
    context,
  );
  const named = sourcesNamedIn(
    own
      .extraRules()
      .filter(isNarrow)
      .map(({text}) => text),
    context,
    given.senders,
  ).filter(({kind}) => kind !== 'outside');
  const probes = probesFor({item, context, hairpins: hairpins(given), clients: [...clients, ...named]});
  const changesOutcome = comparePathOutcomes({
    ...{item, symptoms},
    ...probesToWalk(
      {probes, walk: probe => tryProbe(given, probe)},
      () => hasOtherEndpointsOnly(given) || lacksEndpointRulesOnly(given),
      clientsOf(item),
    ),
    semantics: new IptablesSemantics(given, own),
    affinity: differ => affinityRules({item, own, symptoms, changesOutcome: differ}),
  });
  findStaleEntries(given, own, symptoms);
  analyzeHealthCheck(item, own, symptoms);
  explainResidualDifferences({...given, symptoms, changesOutcome});
  return symptoms.all;
}

/** The rules of source ranges name clients, and those of an endpoint itself its own connections: these are tried in any case. */
function isNarrow({chain, target}: Rule): boolean {
  return parseChainName(chain)?.role !== 'FW' && target?.name !== 'KUBE-MARK-MASQ';
}

/** Clients that get the same endpoints: with an internal Local policy, those of the cluster IP get others than those of other entries. */
function clientsOf({port}: PortOnNode): (probe: Probe) => string {
  return ({entry}) => (port.internalPolicyLocal && entry.kind === 'clusterIP' ? 'internal' : 'external');
}

/** Walks a probe on both sides. */
function tryProbe({expected, view}: Pick<PortCase, 'expected' | 'view'>, probe: Probe): ProbeComparison {
  const environment = environmentOf(expected.context.facts, {knownTo: probe.knownTo});
  return {
    probe,
    expected: pathOutcomeOf(walkPacket(expected, probe.packet, environment)),
    actual: pathOutcomeOf(walkPacket(view, probe.packet, environment)),
  };
}

/** Endpoints whose chains are there and differ: only their own connections can have changed in a way that others' have not. */
function hairpins({item: {endpoints, endpointChain}, differences, actual}: PortCase): PortOnNode['endpoints']['reachable'] {
  const changed = new Set(differences.map(({chain}) => chain).filter(chain => actual.chain('nat', chain) !== undefined));
  return endpoints.reachable.filter(endpoint => changed.has(endpointChain(endpoint))).slice(0, 64);
}

function analyzeHealthCheck({port}: PortOnNode, own: PortDifferences, symptoms: SymptomList<Rule>): void {
  const missing = own.of('missing').filter(({table, chain}) => table === 'filter' && chain === 'KUBE-NODEPORTS');
  if (missing.length === 0 || symptoms.has('service-not-programmed')) return;
  const detail = `the rule that accepts health checks on port ${port.healthCheckNodePort} is missing: a load balancer may consider the node unhealthy`;
  symptoms.say({kind: 'health-check-port-blocked', detail, expected: missing.map(({rule}) => rule), actual: []});
}
