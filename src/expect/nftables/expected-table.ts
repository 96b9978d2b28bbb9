import type {Family} from '../../model/address.ts';
import type {NftChain, NftElement, NftFamily, NftHook, NftRule, NftSet, NftTableSource} from '../../model/nft-ruleset.ts';
import {nftRule} from '../../parse/nftables/nft-rule.ts';
import {serviceKey} from '../cluster/cluster-view.ts';
import {nodePortDestinations, type NodeContext} from '../node-context.ts';
import {type BaseRuleChain, nftBaseRuleChains, ipWord} from './base-chains.ts';
import {baseSets, type SetShape, type SharedElement, serviceElements} from './set-elements.ts';
import {type NftPort, nftPlan, parseNftName} from './nft-names.ts';
import {PortObjects} from './port-objects.ts';
import {pushTo} from '../../model/lists.ts';

interface ExpectedTableInput {
  readonly context: NodeContext;
  readonly ports: readonly NftPort[];
  /** The actual value on the node, for an element that several Service ports claim. */
  readonly actualValue: (set: string, key: string) => string | null | undefined;
}

/**
 * The expected table `kube-proxy` on one node in one family. The objects of a Service port are created on demand and not kept; a walk only
 * needs those on its path.
 */
export class ExpectedTable implements NftTableSource {
  readonly id: string;
  readonly family: NftFamily;
  readonly declared = true;
  readonly context: NodeContext;
  readonly ports: readonly NftPort[];
  readonly baseChains: readonly NftChain[];
  readonly baseRules: readonly BaseRuleChain[];
  readonly baseSets: readonly SetShape[];
  readonly #chains = new Map<string, NftChain>();
  readonly #sets = new Map<string, NftSet>();
  #owners: Owners | null = null;
  #elements: ReadonlyMap<string, readonly SharedElement[]> | null = null;
  readonly #actualValue: ExpectedTableInput['actualValue'];

  constructor({context, ports, actualValue}: ExpectedTableInput) {
    this.family = ipWord(context.family);
    this.id = proxyTableId(context.family);
    this.context = context;
    this.ports = ports;
    this.#actualValue = actualValue;
    this.baseRules = nftBaseRuleChains(context);
    this.baseSets = baseSets(context);
    for (const {name, base, rules} of this.baseRules) this.#chains.set(name, this.#chain(name, base, rules));
    this.baseChains = this.baseRules.flatMap(({name, base}) => (base === null ? [] : (this.#chains.get(name) ?? [])));
  }

  objectsOf(item: NftPort): PortObjects {
    return new PortObjects(nftPlan(item, this.context));
  }

  /** The Service port with this part in its names; see `PortNames.base`. */
  portOfBase(base: string): NftPort | undefined {
    return this.ownerOf(`service-${base}`);
  }

  /** The Service port that a chain or an affinity set belongs to. */
  ownerOf(name: string): NftPort | undefined {
    this.#owners ??= new Owners(this.ports);
    return this.#owners.of(name);
  }

  chain(name: string): NftChain | undefined {
    const known = this.#chains.get(name);
    const owner = known === undefined ? this.ownerOf(name) : undefined;
    if (owner === undefined) return known;
    for (const [own, rules] of this.objectsOf(owner).chains) this.#chains.set(own, this.#chain(own, null, rules));
    return this.#chains.get(name);
  }

  /** Runs `work`, and then discards the chains of Service ports that were made for it. */
  forgetting<T>(work: () => T): T {
    const before = this.#chains.size;
    const result = work();
    for (const name of [...this.#chains.keys()].slice(before)) this.#chains.delete(name);
    return result;
  }

  set(name: string): NftSet | undefined {
    const known = this.#sets.get(name);
    if (known !== undefined) return known;
    const isNamed = (one: SetShape): boolean => one.name === name;
    const owner = this.baseSets.some(isNamed) ? undefined : this.ownerOf(name);
    const shape = (owner === undefined ? this.baseSets : this.objectsOf(owner).sets).find(isNamed);
    if (shape === undefined) return undefined;
    const made = this.#set(shape);
    this.#sets.set(name, made);
    return made;
  }

  #chain(name: string, base: NftHook | null, rules: readonly string[]): NftChain {
    return textChain({table: this.id, name, base}, rules);
  }

  #set({name, keyTypes, valueTypes, flags, timeout}: SetShape): NftSet {
    const elements = new Map<string, NftElement>();
    for (const {key, value, comment} of this.#sharedElements().get(name) ?? []) {
      const before = elements.get(key);
      if (before === undefined || this.#actualValue(name, key) === value) elements.set(key, {key, value, comment});
    }
    const plain = {size: null, complete: true, dynamic: timeout !== null};
    return {table: this.id, name, keyTypes, valueTypes, flags, timeout, ...plain, elements};
  }

  /** The elements of all Service ports, which only a walk needs. */
  #sharedElements(): ReadonlyMap<string, readonly SharedElement[]> {
    if (this.#elements !== null) return this.#elements;
    const shared = new Map<string, SharedElement[]>();
    const add = (element: SharedElement): void => {
      pushTo(shared, element.set, element);
    };
    for (const item of this.ports) serviceElements(nftPlan(item, this.context)).forEach(add);
    for (const key of nodePortDestinations(this.context) ?? []) add({set: 'nodeport-ips', key, value: null, comment: null});
    this.#elements = shared;
    return shared;
  }
}

/** Service ports by the names of chains and affinity sets. Those of endpoints are hashed once one of the Service is asked for. */
class Owners {
  readonly #byName = new Map<string, NftPort>();
  readonly #unnamed = new Map<string, NftPort[]>();

  constructor(ports: readonly NftPort[]) {
    for (const item of ports) {
      const {service, local, external, firewall} = item.names;
      for (const name of [service, local, external, firewall]) this.#byName.set(name, item);
      pushTo(this.#unnamed, serviceKey(item.port), item);
    }
  }

  of(name: string): NftPort | undefined {
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    const parsed = parseNftName(name);
    if (parsed === null) return undefined;
    const service = serviceKey(parsed);
    for (const item of this.#unnamed.get(service) ?? []) this.#nameEndpoints(item);
    this.#unnamed.delete(service);
    return this.#byName.get(name);
  }

  #nameEndpoints(item: NftPort): void {
    const {names, endpoints, port} = item;
    for (const endpoint of endpoints.reachable) {
      this.#byName.set(names.endpoint(endpoint), item);
      if (port.affinitySeconds !== null) this.#byName.set(names.affinity(endpoint), item);
    }
  }
}

export function proxyTableId(family: Family): string {
  return `${ipWord(family)} kube-proxy`;
}

/** A chain built from the texts of its rules. */
function textChain(
  {table, name, base}: {readonly table: string; readonly name: string; readonly base: NftHook | null},
  texts: readonly string[],
): NftChain {
  let rules: readonly NftRule[] | null = null;
  return {
    table,
    name,
    base,
    ruleCount: texts.length,
    complete: true,
    text: () => texts.join('\n'),
    holds: others => texts.join('\n') === others.join('\n'),
    rules: () => (rules ??= texts.map(text => nftRule({table, chain: name, line: 0, text}))),
  };
}
