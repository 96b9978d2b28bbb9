import type {Endpoint} from '../../../model/endpoint.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import {comparePathOutcomes} from '../../outcomes/compare-outcomes.ts';
import {clientsOfOtherRanges} from '../../outcomes/other-ranges.ts';
import {probesFor} from '../../outcomes/probes.ts';
import {sourcesNamedIn} from '../../outcomes/sources.ts';
import {probesToWalk} from '../../outcomes/probes-to-walk.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {SymptomList} from '../../symptoms/symptom-list.ts';
import {nftAffinityRules} from './nft-affinity-rules.ts';
import {explainNftResidualDifferences} from './nft-residual-differences.ts';
import type {NftPortCase} from '../nft-case.ts';
import {tryNftProbe} from '../nft-outcome.ts';
import {hasOtherNftEndpointsOnly} from './nft-endpoint-change.ts';
import {NftSemantics} from './nft-semantics.ts';
import {findStaleNftEntries} from './stale-nft-entries.ts';

/**
 * What the differences of one Service port do to packets. Packets of every kind are walked through the expected and the actual
 * rules; a difference that changes no outcome is reported as harmless.
 */
export function analyzeNftPort(given: NftPortCase): readonly Symptom<RuleText>[] {
  const {item, expected, view} = given;
  const symptoms = new SymptomList<RuleText>(item.port);
  const {context} = expected;
  const ranges = given.differences.filter(({kind, name}) => kind === 'extra' && name === item.names.firewall);
  const clients = clientsOfOtherRanges(
    ranges.map(({rule}) => rule.text),
    item.port,
    context,
  );
  const extra = given.differences.filter(({kind, name}) => kind === 'extra' && name !== item.names.firewall);
  const named = sourcesNamedIn(
    extra.map(({rule}) => rule.text),
    context,
    given.senders,
  ).filter(({kind}) => kind !== 'outside');
  const probes = probesFor({item, context, hairpins: changedEndpoints(given), clients: [...clients, ...named]});
  const changesOutcome = comparePathOutcomes({
    ...{item, symptoms},
    ...probesToWalk({probes, walk: probe => tryNftProbe(expected, view, probe)}, () => hasOtherNftEndpointsOnly(given)),
    semantics: new NftSemantics(given),
    affinity: () => nftAffinityRules(given, symptoms),
  });
  findStaleNftEntries(given, symptoms);
  explainNftResidualDifferences(given, symptoms, changesOutcome);
  return symptoms.all;
}

/** Endpoints that the differences name: only their own connections can have changed in a way that others' have not. */
function changedEndpoints({item, differences}: NftPortCase): readonly Endpoint[] {
  const names = new Set(differences.map(({name}) => name));
  const keys = new Set(differences.flatMap(({name, key}) => (name === 'hairpin-connections' ? [key ?? ''] : [])));
  const protocol = item.port.protocol.toLowerCase();
  return item.endpoints.reachable
    .filter(endpoint => {
      const {address, port} = endpoint;
      return names.has(item.names.endpoint(endpoint)) || keys.has(`${address} . ${address} . ${protocol} . ${port}`);
    })
    .slice(0, 64);
}
