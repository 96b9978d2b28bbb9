import type {Intervals} from '../../model/intervals.ts';
import type {NftExpression, NftRule, NftStatement, NftTable} from '../../model/nft-ruleset.ts';
import type {Chain, Match, Rule, Ruleset} from '../../model/ruleset.ts';
import {type AlikeInterfaces, isInterfaceLike} from '../../trace/packet.ts';
import {elementsOf} from '../../trace/nftables/evaluate.ts';
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
      if (group === undefined) return null;
      const found = behind.get(group) ?? environment.behind?.(new Set(group), family) ?? null;
      behind.set(group, found);
      return found;
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
}

/** The same of one rule. `parts` is empty where packets of the interface never match it. No packet passes one that `ends` them. */
interface RuleShape {
  readonly parts: readonly unknown[];
  readonly isOfInterface: boolean;
  readonly ends?: boolean;
}

class Shapes {
  /** The chains that were compared, as `table/chain`. */
  readonly seen = new Set<string>();
  readonly #parties: ThirdParties;
  readonly #ids = new Map<string, number>();
  /** Chains that are the same for all interfaces, those that are read now, and of each interface none. */
  readonly #known = new Map<string, Shape>();

  readonly #dumps: readonly OwnChains[];
  /** Of rules that ask for no interface. */
  readonly #texts = new Map<Rule, number>();

  constructor(parties: ThirdParties) {
    this.#parties = parties;
    this.#dumps = parties.iptables.map((ruleset, index) => {
      const chains = thirdPartyChains(ruleset);
      return {
        ruleset,
        index,
        chains: new Set(chains.map(({table, name}) => `${table}/${name}`)),
        bases: chains.filter(({policy}) => policy !== null),
      };
    });
  }

  /** All rules that packets of an interface meet, as a number: the same one where they are the same. */
  met(place: Place): number {
    const {tables} = this.#parties;
    const ofIptables = this.#dumps.map(own => own.bases.map(chain => this.#iptablesChain(own, chain.table, chain.name, place).id));
    for (const {id} of tables) this.seen.add(`${id}/`);
    const ofNft = tables.flatMap(table =>
      table.baseChains
        .filter(({base}) => base?.devices?.every(device => !isInterfaceLike(device, place.name)) !== true)
        .map(chain => this.#nftChain(table, chain.name, place).id),
    );
    return this.#idOf([ofIptables, ofNft]);
  }

  /** Chains of kube-proxy are the same for all: what they ask of interfaces is asked of each. */
  #iptablesChain(own: OwnChains, table: string, name: string, place: Place): Shape {
    const chain = own.ruleset.chain(table, name);
    if (chain === undefined || !own.chains.has(`${table}/${name}`)) return {id: this.#idOf([name]), isOfInterface: false};
    return this.#shapeOf(`${table}/${name}`, `${own.index} ${place.way}`, [chain.policy], () =>
      chain.rules().map(rule => this.#iptablesRule(rule, place, target => this.#iptablesChain(own, table, target, place))),
    );
  }

  #iptablesRule(rule: Rule, {name, way}: Place, follow: (chain: string) => Shape): RuleShape {
    const {options, matches, target} = rule;
    const flag = way === 'in' ? '-i' : '-o';
    const decided = options.filter(option => option.flag === flag);
    const conditions = matches.filter(match => match.name !== 'comment');
    // Table raw is passed before connection tracking.
    const states = way === 'in' || rule.table === 'raw' ? null : statesOf(conditions);
    if (states?.includes('ESTABLISHED') === false) return {parts: [], isOfInterface: false};
    if (decided.some(({values, negated}) => isInterfaceLike(values[0] ?? '', name) === negated)) return {parts: [], isOfInterface: true};
    const sets = matches.flatMap(match => match.options.map(({values}) => this.#parties.sets.get(values[0] ?? '')));
    const asksElse = /physdev|devgroup|rpfilter|--limit-iface/.test(rule.text) || sets.some(set => set?.parts.includes('iface'));
    const led = target === null ? null : follow(target.name);
    const known = decided.length === 0 ? this.#texts.get(rule) : undefined;
    const rest = options.filter(option => !decided.includes(option));
    const text = known ?? this.#idOf([rest, conditions, target?.goto, target?.options]);
    if (decided.length === 0) this.#texts.set(rule, text);
    return {
      parts: [text, led?.id, asksElse ? name : null],
      isOfInterface: decided.length > 0 || asksElse || led?.isOfInterface === true,
      ends: states !== null && rest.length === 0 && conditions.length === 1 && target?.name === 'ACCEPT',
    };
  }

  #nftChain(table: NftTable, name: string, place: Place): Shape {
    const chain = table.chains.get(name);
    if (chain === undefined) return {id: this.#idOf([name]), isOfInterface: false};
    return this.#shapeOf(`${table.id}/${name}`, place.way, [chain.base], () =>
      chain.rules().map(rule => this.#nftRule(rule, table, place)),
    );
  }

  #nftRule(rule: NftRule, table: NftTable, place: Place): RuleShape {
    const parts: unknown[] = [];
    let isOfInterface = false;
    const statements = rule.statements();
    const isTracked = table.baseChains.every(({base}) => (base?.priority ?? 0) > trackingPriority);
    const states = place.way === 'in' || !isTracked ? null : nftStatesOf(statements);
    if (states?.includes('established') === false) return {parts: [], isOfInterface: false};
    for (const statement of statements) {
      const decided = decide(statement, table, place);
      if (decided === 'never') return {parts: [], isOfInterface: true};
      const verdicts = decided ?? verdictsOf(statement, table);
      const led = verdicts.map(verdict => {
        const [, how, chain = ''] = /^(jump|goto) (\S+)$/.exec(verdict) ?? [];
        return how === undefined ? {id: this.#idOf([verdict]), isOfInterface: false} : this.#nftChain(table, chain, place);
      });
      const asksElse = decided === null && (place.way === 'in' ? /\biif/ : /\boif/).test(JSON.stringify(statement));
      parts.push(
        decided === null && led.length === 0 ? statement : null,
        verdicts.map((verdict, at) => [/^\w*/.exec(verdict)?.[0], led[at]?.id]),
        asksElse ? place.name : null,
      );
      if (statement.kind === 'vmap' && decided === null)
        parts.push(
          statement.key,
          elementsOf(statement.map, table).map(({key}) => key),
        );
      isOfInterface ||= decided !== null || asksElse || led.some(shape => shape.isOfInterface);
    }
    const asked = statements.filter(({kind}) => kind !== 'passive');
    return {parts, isOfInterface, ends: states !== null && asked.length === 2 && / accept$/.test(rule.body)};
  }

  #shapeOf(place: string, way: string, head: readonly unknown[], rules: () => readonly RuleShape[]): Shape {
    const key = `${way} ${place}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.seen.add(place);
    // The kernel refuses a chain that leads back to itself.
    this.#known.set(key, {id: this.#idOf([place]), isOfInterface: true});
    const all = rules();
    const last = all.findIndex(({ends}) => ends === true);
    const shapes = last < 0 ? all : all.slice(0, last + 1);
    const shape: Shape = {
      id: this.#idOf([...head, ...shapes.filter(({parts}) => parts.length > 0).map(({parts}) => parts)]),
      isOfInterface: shapes.some(({isOfInterface}) => isOfInterface),
    };
    if (shape.isOfInterface) this.#known.delete(key);
    else this.#known.set(key, shape);
    return shape;
  }

  #idOf(parts: readonly unknown[]): number {
    const text = JSON.stringify(parts);
    const id = this.#ids.get(text) ?? this.#ids.size;
    this.#ids.set(text, id);
    return id;
  }
}

/** Chains with a lower priority are passed before connection tracking. */
const trackingPriority = -200;

/** The chains of one dump that are compared. */
interface OwnChains {
  readonly ruleset: Ruleset;
  readonly index: number;
  readonly chains: ReadonlySet<string>;
  readonly bases: readonly Chain[];
}

/** The states of connection tracking that iptables' conditions ask for; null where they ask for none, or for others than these. */
function statesOf(conditions: readonly Match[]): readonly string[] | null {
  const asked = conditions.flatMap(({options}) => options.filter(({flag}) => flag === '--ctstate' || flag === '--state'));
  return asked.length === 1 && asked[0]?.negated === false ? (asked[0].values[0] ?? '').split(',') : null;
}

/** The verdicts that are left where the interface decides a statement alone; `never` where it keeps packets from the rest of the rule. */
function decide(statement: NftStatement, table: NftTable, {name, way}: Place): readonly string[] | 'never' | null {
  const isAsked = (key: NftExpression): boolean =>
    key.kind === 'selector' && (way === 'in' ? /^(?:meta )?iif(?:name)?$/ : /^(?:meta )?oif(?:name)?$/).test(key.text);
  const isNamed = ({key}: {readonly key: string}): boolean => isInterfaceLike(key, name);
  if (statement.kind === 'match' && isAsked(statement.left) && (statement.operator === '==' || statement.operator === '!='))
    return elementsOf(statement.right, table).some(isNamed) === (statement.operator === '==') ? [] : 'never';
  if (statement.kind !== 'vmap' || !isAsked(statement.key)) return null;
  const elements = elementsOf(statement.map, table);
  return [(elements.find(isNamed) ?? elements.find(({key}) => key === '*'))?.value ?? 'continue'];
}

/** The verdicts of a statement that no interface decides. */
function verdictsOf(statement: NftStatement, table: NftTable): readonly string[] {
  if (statement.kind === 'vmap') return elementsOf(statement.map, table).map(({value}) => value ?? '');
  if (statement.kind !== 'verdict') return [];
  return [[statement.verdict.kind, 'chain' in statement.verdict ? statement.verdict.chain : ''].join(' ')];
}

/** The same of nftables' conditions. */
function nftStatesOf(statements: readonly NftStatement[]): readonly string[] | null {
  const asked = statements.flatMap(one =>
    one.kind === 'match' && one.left.kind === 'selector' && one.left.text === 'ct state' ? [one] : [],
  );
  const [match] = asked;
  if (asked.length !== 1 || match?.operator !== '==') return null;
  if (match.right.kind === 'list') return match.right.elements.map(({key}) => key);
  return match.right.kind === 'value' ? match.right.text.split(',') : null;
}
