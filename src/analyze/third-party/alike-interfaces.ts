import {heldIn} from '../../model/once.ts';
import type {Intervals} from '../../model/intervals.ts';
import type {NftSet, NftTable} from '../../model/nft-ruleset.ts';
import {lowerRule} from '../../trace/iptables/lower-iptables-rule.ts';
import {elementsIn} from '../../trace/match-conditions.ts';
import {lowerNftRule, verdictAction} from '../../trace/nftables/lower-nft-rule.ts';
import {type AlikeInterfaces, isInterfaceLike} from '../../trace/walked-packet.ts';
import type {Action, Condition, Expression, LoweredRule} from '../../trace/rule-language.ts';
import type {ThirdParties} from './distinctions.ts';
import {thirdPartyChains} from './iptables-rules.ts';

/**
 * The interfaces of a node by the third-party rules that their packets meet. A program with chains for each pod, such as Calico, writes the
 * same rules for most pods: these are one class of senders, and not a hundred.
 */
export function alikeInterfaces(parties: ThirdParties): AlikeInterfaces {
  const {environment, family} = parties;
  const shapes = new Shapes(parties);
  const names = environment.interfaces?.(family) ?? [];
  const groupsOf = (way: Place['way']): ReadonlyMap<string, readonly string[]> => {
    const groups = Map.groupBy(names, name => shapes.met({name, way}));
    return new Map([...groups.values()].flatMap(group => group.map(name => [name, group] as const)));
  };
  const groups = {in: groupsOf('in'), out: groupsOf('out')};
  const behind = new Map<readonly string[], Intervals | null>();
  return {
    covers: (table, chain) => shapes.seen.has(`${table}/${chain}`),
    behind: (name, way) => {
      const group = groups[way].get(name);
      return group === undefined ? null : heldIn(behind, group, () => environment.behind?.(new Set(group), family) ?? null);
    },
  };
}

/** An interface by which the packets of a client arrive, or by which established replies leave. */
interface Place {
  readonly name: string;
  readonly way: 'in' | 'out';
}

/** What packets of an interface meet: rules without the conditions that the interface decides, and without the names of chains. */
interface Shape {
  readonly id: number;
  /** Packets of other interfaces may meet other rules. */
  readonly isOfInterface: boolean;
  /** There is no chain of the name: it is a target, or a chain of kube-proxy. */
  readonly isNameAlone?: true;
}

/** The rules of a table, iptables' or nftables'. */
interface Book {
  /** Apart from those of other dumps. */
  readonly key: string;
  readonly table: string;
  /** Whether connection tracking is before all its chains. */
  readonly isTracked: boolean;
  /** The base chains that packets of an interface pass. */
  bases(place: Place): readonly string[];
  /** Null for a chain that is compared by its name: those of kube-proxy are the same for all interfaces. */
  chain(name: string): {readonly head: unknown; readonly rules: readonly LoweredRule[]} | null;
  set(name: string): NftSet | undefined;
}

function iptablesBooks({iptables}: ThirdParties): readonly Book[] {
  return iptables.flatMap((ruleset, index) => {
    const byTable = Map.groupBy(thirdPartyChains(ruleset), ({table}) => table);
    return [...byTable].map(([table, chains]): Book => {
      const byName = new Map(chains.map(chain => [chain.name, chain]));
      return {
        key: `${index} ${table}`,
        table,
        isTracked: table !== 'raw',
        bases: () => chains.filter(({policy}) => policy !== null).map(({name}) => name),
        chain: name => {
          const chain = byName.get(name);
          return chain === undefined ? null : {head: chain.policy, rules: chain.rules().map(lowerRule)};
        },
        set: () => undefined,
      };
    });
  });
}

function nftBook(table: NftTable): Book {
  return {
    key: table.id,
    table: table.id,
    isTracked: table.baseChains.every(({base}) => (base?.priority ?? 0) > trackingPriority),
    bases: place =>
      table.baseChains
        .filter(({base}) => base?.devices?.every(device => !isInterfaceLike(device, place.name)) !== true)
        .map(({name}) => name),
    chain: name => {
      const chain = table.chains.get(name);
      return chain === undefined ? null : {head: chain.base, rules: chain.rules().map(lowerNftRule)};
    },
    set: name => table.set(name),
  };
}

/** Chains with a lower priority are passed before connection tracking. */
const trackingPriority = -200;

/** What of a rule is the same for all interfaces. */
interface Prepared {
  /** Conditions that the interface alone decides. */
  readonly decided: readonly Comparison[];
  /** The conditions left, and the actions that lead to no chain. */
  readonly rest: number;
  /** Actions that may lead to chains. */
  readonly leading: readonly Leading[];
  readonly asksElse: boolean;
  readonly states: readonly string[] | null;
  readonly ends: boolean;
}

type Comparison = Condition & {readonly kind: 'compare'};
type Leading = Action & {readonly kind: 'call' | 'verdict map'};

class Shapes {
  /** The chains that were compared, as `table/chain`. */
  readonly seen = new Set<string>();
  readonly #parties: ThirdParties;
  readonly #books: readonly Book[];
  readonly #ids = new Map<string, number>();
  /** Chains that are the same for all interfaces, those that are read now, and of each interface none. */
  readonly #known = new Map<string, Shape>();
  readonly #prepared = {in: new Map<LoweredRule, Prepared>(), out: new Map<LoweredRule, Prepared>()};

  constructor(parties: ThirdParties) {
    this.#parties = parties;
    this.#books = [...iptablesBooks(parties), ...parties.tables.map(nftBook)];
  }

  /** All rules that packets of an interface meet, as a number: the same one where they are the same. */
  met(place: Place): number {
    return this.#idOf(this.#books.map(book => book.bases(place).map(name => this.#chain(book, name, place).id)));
  }

  #chain(book: Book, name: string, place: Place): Shape {
    const chain = book.chain(name);
    if (chain === null) return {id: this.#idOf([name]), isOfInterface: false, isNameAlone: true};
    const key = `${place.way} ${book.key}/${name}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.seen.add(`${book.table}/${name}`);
    // The kernel refuses a chain that leads back to itself.
    this.#known.set(key, {id: this.#idOf([key]), isOfInterface: true});
    const all = chain.rules.map(rule => this.#rule(book, rule, place));
    const last = all.findIndex(({ends}) => ends === true);
    const shapes = last < 0 ? all : all.slice(0, last + 1);
    const shape: Shape = {
      id: this.#idOf([chain.head, ...shapes.filter(({parts}) => parts.length > 0).map(({parts}) => parts)]),
      isOfInterface: shapes.some(({isOfInterface}) => isOfInterface),
    };
    if (shape.isOfInterface) this.#known.delete(key);
    else this.#known.set(key, shape);
    return shape;
  }

  /** The same of one rule. `parts` is empty where packets of the interface never match it. No packet passes one that `ends` them. */
  #rule(book: Book, rule: LoweredRule, place: Place) {
    const {decided, rest, leading, asksElse, states, ends} = this.#prepare(book, rule, place.way);
    if (states?.includes('established') === false) return {parts: [], isOfInterface: false};
    const isNamed = ({key}: {readonly key: string}): boolean => isInterfaceLike(key, place.name);
    const fails = ({operator, right}: Comparison): boolean => elementsIn(right, book).some(isNamed) === (operator === '!=');
    if (decided.some(fails)) return {parts: [], isOfInterface: true};
    const led = leading.map(action => this.#led(book, action, place));
    return {
      parts: [rest, led.map(({id}) => id), asksElse ? place.name : null],
      isOfInterface: decided.length > 0 || asksElse || led.some(({isOfInterface}) => isOfInterface),
      ends,
    };
  }

  #prepare(book: Book, rule: LoweredRule, way: Place['way']): Prepared {
    const known = this.#prepared[way].get(rule);
    if (known !== undefined) return known;
    const conditions = rule.steps.flatMap(step => step.conditions);
    const actions = rule.steps.flatMap(({action}) => action ?? []);
    const isDecided = (condition: Condition): condition is Comparison =>
      condition.kind === 'compare' && isInterface(condition.left, way) && (condition.operator === '==' || condition.operator === '!=');
    const others = conditions.filter(condition => !isDecided(condition));
    const isLeading = (action: Action): action is Leading => action.kind === 'call' || action.kind === 'verdict map';
    const rest = [others, actions.filter(action => !isLeading(action))];
    const states = way === 'in' || !book.isTracked ? null : statesOf(conditions);
    const [last] = actions;
    const prepared: Prepared = {
      decided: conditions.filter(isDecided),
      rest: this.#idOf(rest),
      leading: actions.filter(isLeading),
      asksElse: this.#asksElse(rest, others, way),
      states,
      ends: states !== null && conditions.length === 1 && actions.length === 1 && last !== undefined && accepts(last),
    };
    this.#prepared[way].set(rule, prepared);
    return prepared;
  }

  /** Whether the conditions ask for the interface together with something else, or in a way that is not understood. */
  #asksElse(rest: unknown, conditions: readonly Condition[], way: Place['way']): boolean {
    const sets = conditions.map(condition => (condition.kind === 'ipset' ? this.#parties.sets.get(condition.name) : undefined));
    const text = JSON.stringify(rest);
    return (
      asksInterface(text, way) ||
      /physdev|devgroup|limit-iface|"reverse path"|"[sd]addr oif"|"ofInterface":"/.test(text) ||
      sets.some(set => set?.parts.includes('iface'))
    );
  }

  /** Where an action leads: to a chain, or, by a map that the interface decides, to the verdict for it. */
  #led(book: Book, action: Leading, place: Place): Shape {
    if (action.kind === 'call') {
      const led = this.#chain(book, action.chain, place);
      // Where there is a chain of that name, no target of that name is meant.
      const otherwise = led.isNameAlone === true ? action.otherwise : null;
      return {id: this.#idOf([action.isGoto, otherwise, led.id]), isOfInterface: led.isOfInterface};
    }
    const elements = elementsIn(action.elements, book);
    const isDecided = isInterface(action.key, place.way);
    const own = elements.find(({key}) => isInterfaceLike(key, place.name)) ?? elements.find(({key}) => key === '*');
    const verdicts = isDecided ? [own?.value ?? 'continue'] : elements.map(({value}) => value ?? '');
    const led = verdicts.map((verdict): Shape => {
      const next = verdictAction(verdict);
      return next.kind === 'call' ? this.#led(book, next, place) : {id: this.#idOf([next]), isOfInterface: false};
    });
    // Together with something else: `iifname . oifname vmap`.
    const asksElse = !isDecided && asksInterface(JSON.stringify(action.key), place.way);
    const asked = isDecided ? null : [action.key, elements.map(({key}) => key), asksElse ? place.name : null];
    return {
      id: this.#idOf([asked, led.map(({id}) => id)]),
      isOfInterface: isDecided || asksElse || led.some(({isOfInterface}) => isOfInterface),
    };
  }

  #idOf(parts: readonly unknown[]): number {
    return heldIn(this.#ids, JSON.stringify(parts), () => this.#ids.size);
  }
}

function asksInterface(text: string, way: Place['way']): boolean {
  return (way === 'in' ? /"iif"|\biif/ : /"oif"|\boif/).test(text);
}

function isInterface(expression: Expression, way: Place['way']): boolean {
  return expression.kind === 'field' && expression.field.about === undefined && expression.field.name === (way === 'in' ? 'iif' : 'oif');
}

function accepts(action: Action): boolean {
  if (action.kind === 'call') return action.otherwise !== undefined && accepts(action.otherwise);
  return action.kind === 'verdict' && action.verdict === 'accept';
}

/** The states of connection tracking that conditions ask for; null where they ask for none, or in another way. */
function statesOf(conditions: readonly Condition[]): readonly string[] | null {
  const asked = conditions.filter(
    (one): one is Comparison => one.kind === 'compare' && one.left.kind === 'field' && one.left.field.name === 'ct state',
  );
  const [match] = asked;
  if (asked.length !== 1 || match?.operator !== '==' || match.right.kind !== 'list') return null;
  return match.right.elements.flatMap(({key}) => key.split(','));
}
