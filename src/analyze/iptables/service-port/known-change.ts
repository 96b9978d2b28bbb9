import {chainName} from '../../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {ChainsByName, RuleText, Ruleset} from '../../../model/ruleset.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {changeSymptoms, countChangedRules} from './change-symptoms.ts';
import type {EndpointChange} from './endpoint-change.ts';

/** What an endpoint change shows. */
export interface ChangedPort {
  readonly symptoms: readonly Symptom[];
  /** In how many rules the chains differ. */
  readonly rules: number;
}

/** A change that was found on a node, with all chains that it was read from. */
interface KnownChange {
  readonly change: EndpointChange;
  readonly found: ChangedPort;
  /** By name; null for a chain that the node does not have. */
  readonly chains: ReadonlyMap<string, KnownChain | null>;
}

interface KnownChain {
  readonly text: string;
  /** The line of its first rule, null if it has none. */
  readonly line: number | null;
}

/** By the expected chains, which nodes share if the Service port, its endpoints and all settings are the same: see `portRules`. */
const knownChanges = new WeakMap<EndpointChange['own'], KnownChange>();

/** The change of an earlier node, if the same is expected here and all its chains have the same text here; otherwise null. */
export function recallChange(
  item: PortOnNode,
  own: EndpointChange['own'],
  actual: Ruleset,
): {readonly change: EndpointChange; readonly found: () => ChangedPort} | null {
  const known = knownChanges.get(own);
  const chains = actual.tables.get('nat')?.chains;
  // Symptoms also say in which state endpoints are that the node should not use.
  if (known === undefined || chains === undefined || known.change.item.all !== item.all) return null;
  const shifts = shiftsOf(known, chains);
  if (shifts === null) return null;
  const {written} = known.change;
  return {
    change: {item, own, written: {...item, endpoints: written.endpoints}},
    found: () => (shifts.size === 0 ? known.found : {...known.found, symptoms: shiftLines(known.found.symptoms, shifts)}),
  };
}

/** What a change shows that is found on one node. */
export function changedPort(change: EndpointChange, actual: Ruleset): ChangedPort {
  return {symptoms: changeSymptoms(change, actual), rules: countChangedRules(change, actual)};
}

/** The same, kept for the next nodes, which get the same expected chains (`isKept`). */
export function rememberChange(change: EndpointChange, expected: ExpectedRuleset, actual: Ruleset): ChangedPort {
  const found = changedPort(change, actual);
  const chains = new Map<string, KnownChain | null>();
  const all = actual.tables.get('nat')?.chains;
  for (const name of chainsOf(change, expected)) {
    const place = all?.placeOf(name) ?? -1;
    chains.set(name, all === undefined || place < 0 ? null : {text: all.textAt(place), line: all.lineAt(place)});
  }
  knownChanges.set(change.own, {change, found, chains});
  return found;
}

/** Every chain that an EndpointChange is read from, and every one that must be missing. */
function chainsOf({item, own, written}: EndpointChange, expected: ExpectedRuleset): Iterable<string> {
  const picking = [chainName('SVC', item.port.hash), chainName('SVL', item.port.hash)];
  return new Set([...picking, ...expected.rulesOf(written).own.keys(), ...own.keys()]);
}

/** By how many lines chains moved, of those that did; null if a chain has another text, or its lines are not consecutive. */
function shiftsOf(known: KnownChange, chains: ChainsByName): ReadonlyMap<string, number> | null {
  const shifts = new Map<string, number>();
  for (const [name, chain] of known.chains) {
    const place = chains.placeOf(name);
    if (chain === null || place < 0) {
      if (chain !== null || place >= 0) return null;
      continue;
    }
    if (chains.textAt(place) !== chain.text) return null;
    if (chain.text === '') continue;
    const line = chains.lineAt(place);
    if (line === null || chain.line === null) return null;
    if (line !== chain.line) shifts.set(name, line - chain.line);
  }
  return shifts;
}

/** The same symptoms with the line numbers of another node. Symptoms share evidence, and still do. */
function shiftLines(symptoms: readonly Symptom[], shifts: ReadonlyMap<string, number>): readonly Symptom[] {
  const shifted = new Map<readonly RuleText[], readonly RuleText[]>();
  return symptoms.map(symptom => {
    let actual = shifted.get(symptom.actual);
    if (actual === undefined) {
      actual = symptom.actual.map(rule => ({...rule, line: rule.line + (shifts.get(rule.chain) ?? 0)}));
      shifted.set(symptom.actual, actual);
    }
    return {...symptom, actual};
  });
}
