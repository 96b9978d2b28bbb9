import type {Family} from '../../model/address.ts';
import type {Variant} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {namespacedName, plural} from '../../model/text.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

/** A chain or map that Service ports share. */
export interface PlaceOnNode {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
  /** Such as `nat/KUBE-NODEPORTS`. */
  readonly place: string;
  /** How many rules or elements it holds; null if it is not there. */
  readonly left: number | null;
  /** It is not there, and the rules that jump to it are gone with it. */
  readonly withJumps?: true;
  /** Where the entries of Services are: the one symptom for all that is gone, with the effect if all is. */
  readonly entries?: {
    readonly kind: SymptomKind;
    readonly effect: string;
    /** Set with an effect that other code reads, too. */
    readonly variant?: Variant;
  };
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
    const left = place.left ?? 0;
    const found = missing.flatMap(rule => leads(rule));
    const least = left > 0 ? minLost : place.entries === undefined || found.some(Boolean) ? 1 : 2;
    if (missing.length < least || missing.length <= left) return [];
    return found.length === 0 || found.filter(Boolean).length * 2 > found.length ? [{...place, missing}] : [];
  });
}

const minLost = 3;

interface AnyDifference {
  readonly kind: string;
  readonly rule: RuleText;
}

/** A Service port that lacks nothing but entries in places that are empty: no walk has to show that they do not answer. Otherwise null. */
export function emptiedEntries(port: Symptom['port'], differences: readonly AnyDifference[], lost: readonly LostPlace[]): Symptom | null {
  const isEmptied = ({kind, rule}: AnyDifference): boolean => {
    const place = placeOf(rule, lost);
    return kind === 'missing' && place?.entries !== undefined && !place.left;
  };
  const [{family} = {family: null}] = lost;
  if (family === null || !differences.every(isEmptied)) return null;
  return {kind: 'missing-entry', family, port, detail: '', expected: differences.map(({rule}) => rule), actual: []};
}

/** The symptoms that show only what is gone from these places become one for each place. Those of the base rules come without differences. */
export function mergeLost(
  found: readonly {readonly differences?: readonly AnyDifference[] | undefined; readonly symptoms: readonly Symptom[]}[],
  lost: readonly LostPlace[],
): readonly Symptom[] {
  const own = new Map<LostPlace, Symptom[]>(lost.map(place => [place, []]));
  const others = found.flatMap(({differences = [], symptoms}) => {
    const places = new Set(differences.map(({kind, rule}) => (kind === 'missing' ? placeOf(rule, lost) : undefined)));
    const [only] = places.size === 1 ? places : [];
    return symptoms.filter(symptom => {
      const shown = only === undefined ? new Set(symptom.expected.map(rule => placeOf(rule, lost))) : places;
      const isOfLoss = (place: LostPlace | undefined): boolean =>
        place !== undefined &&
        (symptom.severity === 'info' || ((only !== undefined || symptom.actual.length === 0) && isLoss(symptom, place)));
      if (shown.size === 0 || ![...shown].every(isOfLoss)) return true;
      for (const place of shown) if (place !== undefined) own.get(place)?.push(symptom);
      return false;
    });
  });
  return [...[...own].flatMap(([place, merged]) => lostSymptoms(place, merged)), ...others];
}

function isLoss({kind}: Symptom, {entries}: LostPlace): boolean {
  return entries === undefined || kind === entries.kind || entryKinds.has(kind);
}

/** The jump to the node ports is one of the rules of KUBE-SERVICES, and some versions mark packets there. */
const entryKinds: ReadonlySet<SymptomKind> = new Set([
  ...(['service-not-programmed', 'missing-entry', 'node-ports-unreachable', 'masquerade-mismatch'] as const),
]);

function placeOf(rule: RuleText, lost: readonly LostPlace[]): LostPlace | undefined {
  return lost.find(place => isIn(rule, place));
}

function isIn({table, chain, text}: RuleText, place: PlaceOnNode): boolean {
  return place.table === table && (place.chain === chain || (place.withJumps === true && text.split(' ').includes(place.chain)));
}

/** One for all entries that a place lost; elsewhere one of each kind. Where there is but one, it says more itself. */
function lostSymptoms(place: LostPlace, merged: readonly Symptom[]): readonly Symptom[] {
  const loud = merged.filter(({severity}) => severity !== 'info');
  const shown = loud.length > 0 ? loud : merged;
  return [...Map.groupBy(shown, ({kind}) => place.entries?.kind ?? kind)].flatMap(([kind, alike]) =>
    place.entries === undefined && alike.length === 1 ? alike : lostSymptom(place, kind, alike),
  );
}

/** What only that shows which is gone from the place. */
export function lostSymptom(
  {family, table, place, missing, left, withJumps, entries}: LostPlace,
  kind: SymptomKind,
  shown: readonly Symptom[],
): Symptom {
  const [first] = shown;
  // Without a severity it is that of its kind.
  const severe = shown.find(({severity}) => severity === 'error') ?? shown.find(({severity}) => severity === undefined) ?? first;
  const affects = [...new Set(shown.flatMap(({port}) => port ?? []))];
  const names = [...new Set(affects.map(({namespace, service}) => namespacedName({namespace, name: service})))];
  const number = plural(names.length, 'Service');
  const unit = table.includes(' ') ? 'elements' : 'rules';
  const lacks = withJumps
    ? `is missing, and so are the rules of ${number} that jump to it`
    : left
      ? `lacks ${missing.length} of the ${missing.length + left} ${unit} that it should hold`
      : `is ${left === null ? 'missing' : 'empty'}, and lacks ${missing.length === 1 ? `the one ${unit.slice(0, -1)}` : `all ${missing.length}`} that it should hold`;
  const whole = left ? undefined : entries;
  const nodePorts = shown.some(({port}) => port === null) ? '; no node port answers' : '';
  const partly = `: ${number} (such as ${names[0]}) ${names.length === 1 ? 'does' : 'do'} not answer there${nodePorts}`;
  const each = `${names.length === 0 ? '' : ` of ${number}, such as ${names[0]}`}: ${first?.detail}`;
  return {
    ...{kind, family, port: null},
    severity: entries !== undefined ? 'error' : severe?.severity,
    variant: entries === undefined ? first?.variant : whole?.variant,
    detail: `${place} ${lacks}${entries === undefined ? each : whole === undefined ? partly : `: ${whole.effect}`}`,
    ...{expected: missing.slice(0, 3), actual: []},
    ...(affects.length > 0 && (whole === undefined || kind !== 'no-service-rules') ? {affects} : {}),
  };
}
