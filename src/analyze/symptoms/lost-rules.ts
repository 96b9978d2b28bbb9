import type {Family} from '../../model/address.ts';
import type {Variant} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {namespacedName, plural} from '../../model/text.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

/** A chain or map that Service ports share. */
export interface PlaceOnNode {
  readonly table: string;
  readonly chain: string;
  /** Such as `nat/KUBE-NODEPORTS`. */
  readonly place: string;
  /** How many rules or elements it holds. */
  readonly left: number;
  /** The kind of the one symptom for all that is gone. */
  readonly kind: SymptomKind;
  /** Where the entries of Services are: the effect if it is empty. */
  readonly effect?: string;
  /** Set with an effect that other code reads, too. */
  readonly variant?: Variant;
}

/** One that lost most of its rules. */
interface LostPlace extends PlaceOnNode {
  readonly missing: readonly RuleText[];
}

/**
 * The places that most of their rules are gone from. A kube-proxy that is behind lacks the chains of Services as well, and is reported for
 * each of them. `leads` tells of each such chain that a rule leads to whether it is on the node.
 */
export function lostPlaces({
  sharedPlaces,
  differences,
  leads,
}: {
  readonly sharedPlaces: readonly PlaceOnNode[];
  readonly differences: readonly {readonly kind: string; readonly rule: RuleText}[];
  leads(rule: RuleText): readonly boolean[];
}): readonly LostPlace[] {
  return sharedPlaces.flatMap(place => {
    // Services share elements, such as those of pods behind two of them.
    const gone = differences.flatMap(({kind, rule}) => (kind === 'missing' && isIn(rule, place) ? [rule] : []));
    const missing = [...new Map(gone.map(rule => [rule.text, rule])).values()];
    if (missing.length < (place.left === 0 ? 2 : minLost) || missing.length <= place.left) return [];
    const found = missing.flatMap(rule => leads(rule));
    return found.length === 0 || found.filter(Boolean).length * 2 > found.length ? [{...place, missing}] : [];
  });
}

const minLost = 3;

interface AnyDifference {
  readonly kind: string;
  readonly rule: RuleText;
}

/** A Service port that lacks nothing but entries in places that are empty: no walk has to show that they do not answer. Otherwise null. */
export function emptiedEntries(
  port: Symptom['port'],
  differences: readonly AnyDifference[],
  {family, lost}: {readonly family: Family; readonly lost: readonly LostPlace[]},
): Symptom | null {
  const isEmptied = ({kind, rule}: AnyDifference): boolean => {
    const place = placeOf(rule, lost);
    return kind === 'missing' && place?.effect !== undefined && place.left === 0;
  };
  if (!differences.every(isEmptied)) return null;
  return {kind: 'missing-entry', family, port, detail: '', expected: differences.map(({rule}) => rule), actual: []};
}

/** The symptoms that show only what is gone from these places become one for each place. */
export function mergeLost(symptoms: readonly Symptom[], lost: readonly LostPlace[]): readonly Symptom[] {
  if (lost.length === 0) return symptoms;
  const own = new Map<LostPlace, Symptom[]>(lost.map(place => [place, []]));
  const others = symptoms.filter(symptom => {
    const places = symptom.expected.map(rule => placeOf(rule, lost));
    const isMerged = places.length > 0 && places.every(place => place !== undefined && isOfLoss(symptom, place));
    for (const place of isMerged ? new Set(places) : []) if (place !== undefined) own.get(place)?.push(symptom);
    return !isMerged;
  });
  return [...[...own].flatMap(([place, merged]) => lostSymptom(place, merged)), ...others];
}

/** It shows that the place lacks its rules, or nothing. */
function isOfLoss({kind, severity, actual}: Symptom, place: LostPlace): boolean {
  if (severity === 'info') return true;
  return actual.length === 0 && (kind === place.kind || (place.effect !== undefined && entryKinds.has(kind)));
}

/** The jump to the node ports is one of the rules of KUBE-SERVICES. */
const entryKinds: ReadonlySet<SymptomKind> = new Set(['service-not-programmed', 'missing-entry', 'node-ports-unreachable']);

function placeOf(rule: RuleText, lost: readonly LostPlace[]): LostPlace | undefined {
  return lost.find(place => isIn(rule, place));
}

function isIn({table, chain}: RuleText, place: PlaceOnNode): boolean {
  return place.table === table && place.chain === chain;
}

function lostSymptom(
  {kind, table, place, missing, left, effect, variant: ofEmpty}: LostPlace,
  merged: readonly Symptom[],
): readonly Symptom[] {
  const loud = merged.filter(({severity}) => severity !== 'info');
  const shown = loud.length > 0 ? loud : merged;
  const [first] = shown;
  if (first === undefined) return [];
  const affects = [...new Set(shown.flatMap(({port}) => port ?? []))];
  const names = [...new Set(affects.map(({namespace, service}) => namespacedName({namespace, name: service})))];
  const number = plural(names.length, 'Service');
  const unit = table === 'nat' ? 'rules' : 'elements';
  const lacks =
    left === 0 ? `is empty, and lacks all ${missing.length}` : `lacks ${missing.length} of the ${missing.length + left} ${unit}`;
  const whole = left === 0 ? effect : undefined;
  const nodePorts = shown.some(({port}) => port === null) ? '; no node port answers' : '';
  const partly =
    effect === undefined
      ? `${first.detail.replace(' its ', ' the ')} (${number}, such as ${names[0]})`
      : `${number} (such as ${names[0]}) ${names.length === 1 ? 'does' : 'do'} not answer there${nodePorts}`;
  const variant = effect === undefined ? first.variant : left === 0 ? ofEmpty : undefined;
  const severe = effect !== undefined || shown.some(({severity}) => severity === 'error') ? 'error' : first.severity;
  return [
    {
      kind,
      family: first.family,
      port: null,
      severity: severe,
      variant,
      detail: `${place} ${lacks} that it should hold: ${whole ?? partly}`,
      expected: missing.slice(0, 3),
      actual: [],
      ...(whole === undefined || (kind === 'node-ports-unreachable' && affects.length > 0) ? {affects} : {}),
    },
  ];
}
