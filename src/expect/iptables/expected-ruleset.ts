import {heldIn} from '../../model/once.ts';
import type {Family} from '../../model/address.ts';
import type {Chain, ChainSource, OwnerRules} from '../../model/ruleset.ts';
import {textChain} from '../../parse/iptables/dump-chain.ts';
import {baseRuleChains, writeBaseRules, writeNodePortTail} from './base-rules.ts';
import {parseChainName} from './chain-names.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {settingsOf} from './port-rules.ts';
import type {PortOnNode} from './service-rules.ts';
import {pushTo} from '../../model/lists.ts';

/**
 * What kube-proxy should have written on one node in one family. Rules of a Service port are rendered on demand and not kept, so that a
 * node with a million rules needs no million strings; a walk only needs the chains on its path.
 */
export class ExpectedRuleset implements ChainSource {
  readonly family: Family;
  readonly context: NodeContext;
  readonly ports: readonly PortOnNode[];
  /** Made when a Service port is looked up: a healthy node needs none. */
  #byHash: ReadonlyMap<string, PortOnNode> | null = null;
  readonly #base: BaseRules;
  /** Rules of shared chains, by `table/chain`, collected while Service ports are rendered. */
  #shared: Map<string, string[]> | null = null;
  /** By table and name. */
  readonly #chains = new Map<string, Map<string, Chain>>();

  readonly #portRules: (item: PortOnNode) => OwnerRules;

  /** `rules` renders the rules of one of the ports. */
  constructor(context: NodeContext, ports: readonly PortOnNode[], rules: (item: PortOnNode) => OwnerRules) {
    this.#portRules = rules;
    this.family = context.family;
    this.context = context;
    this.ports = ports;
    this.#base = baseRulesOf(context);
  }

  /** The same for some of the Service ports. */
  withPorts(ports: readonly PortOnNode[]): ExpectedRuleset {
    return new ExpectedRuleset(this.context, ports, this.#portRules);
  }

  /** The Service port with these 16 characters in its chain names. */
  portOfHash(hash: string): PortOnNode | undefined {
    this.#byHash ??= new Map(this.ports.map(item => [item.port.hash, item]));
    return this.#byHash.get(hash);
  }

  rulesOf(item: PortOnNode): OwnerRules {
    return this.#portRules(item);
  }

  /** Base rules by `table/chain`, including those of base chains and the last rules of KUBE-SERVICES. */
  baseRules(): ReadonlyMap<string, readonly string[]> {
    return this.#base.texts;
  }

  hasTable(table: string): boolean {
    return table === 'nat' || table === 'filter' || table === 'mangle';
  }

  chain(table: string, name: string): Chain | undefined {
    const known = this.#chains.get(table)?.get(name);
    if (known !== undefined) return known;
    const key = `${table}/${name}`;
    const parsed = table === 'nat' ? parseChainName(name) : null;
    if (parsed !== null) {
      const item = this.portOfHash(parsed.hash);
      if (item === undefined) return undefined;
      this.materialize(item);
      return this.#chains.get(table)?.get(name);
    }
    // The kubelet writes the rule that acts on the mark. A walk treats packets marked for dropping as dropped.
    if (key === 'nat/KUBE-MARK-DROP') return this.#keep(table, name, `-A ${name} -j DROP`);
    const rules = this.#sharedRules().get(key);
    if (rules === undefined) return isBaseChain(name) ? this.#keep(table, name, '') : undefined;
    const isOfAll = rules.length === this.#base.texts.get(key)?.length;
    const make = (): Chain =>
      expectedChain(
        table,
        name,
        rules.map(rule => `-A ${name} ${rule}`),
      );
    return this.#add(isOfAll ? heldIn(this.#base.chains, key, make) : make());
  }

  /** Runs `work`, and then discards the chains of Service ports that were rendered for it. */
  forgetting<T>(work: () => T): T {
    const chains = this.#chains.get('nat');
    const before = chains?.size ?? 0;
    const result = work();
    for (const name of [...(this.#chains.get('nat')?.keys() ?? [])].slice(before))
      if (parseChainName(name) !== null) this.#chains.get('nat')?.delete(name);
    return result;
  }

  /** Makes the chains of a Service port available to a walk: endpoint chains cannot be found by name alone. */
  materialize(item: PortOnNode): void {
    for (const [name, text] of this.rulesOf(item).own) this.#keep('nat', name, text);
  }

  /** All rules of shared chains, which only a walk needs. */
  #sharedRules(): ReadonlyMap<string, readonly string[]> {
    if (this.#shared !== null) return this.#shared;
    const shared = new Map<string, string[]>();
    for (const [table, chain] of baseRuleChains(this.context)) shared.set(`${table}/${chain}`, []);
    for (const item of this.ports) for (const {table, chain, text} of this.rulesOf(item).shared) pushTo(shared, `${table}/${chain}`, text);
    for (const [key, rules] of this.#base.texts) for (const rule of rules) pushTo(shared, key, rule);
    this.#shared = shared;
    return shared;
  }

  #keep(table: string, name: string, text: string): Chain {
    return this.#add(expectedChain(table, name, text === '' ? [] : text.split('\n')));
  }

  #add(chain: Chain): Chain {
    heldIn(this.#chains, chain.table, () => new Map<string, Chain>()).set(chain.name, chain);
    return chain;
  }
}

function expectedChain(table: string, name: string, texts: readonly string[]): Chain {
  return textChain({table, name, policy: isBaseChain(name) ? 'ACCEPT' : null, complete: true}, texts);
}

interface BaseRules {
  /** By `table/chain`. */
  readonly texts: ReadonlyMap<string, readonly string[]>;
  /** Those that packets of every Service pass: a promise is asked for each kind of Service, and would parse them each time. */
  readonly chains: Map<string, Chain>;
}

/** Base rules depend on nothing else, unless node ports answer at some of the node's addresses only. */
function baseRulesOf(context: NodeContext): BaseRules {
  const make = (): BaseRules => ({texts: newBaseRuleTexts(context), chains: new Map()});
  if (nodePortDestinations(context) !== null) return make();
  if (knownBaseRules.size > maxKnown) knownBaseRules.clear();
  return heldIn(knownBaseRules, settingsOf(context), make);
}

/** By settings: many nodes have the same. */
const knownBaseRules = new Map<string, BaseRules>();
const maxKnown = 16;

function newBaseRuleTexts(context: NodeContext): ReadonlyMap<string, readonly string[]> {
  const baseRules = new Map<string, string[]>(chainsOfProxyAlone(context).map(key => [key, []]));
  const write = (table: string, chain: string, rule: string): void => {
    pushTo(baseRules, `${table}/${chain}`, rule);
  };
  writeBaseRules(context, write);
  writeNodePortTail(context, write);
  return baseRules;
}

/** Chains in which only kube-proxy writes. The kubelet writes to KUBE-FIREWALL and KUBE-MARK-DROP. */
function chainsOfProxyAlone(context: NodeContext): readonly string[] {
  const chains = baseRuleChains(context).filter(([, chain]) => chain !== 'KUBE-FIREWALL' && chain !== 'KUBE-MARK-DROP');
  return chains.map(([table, chain]) => `${table}/${chain}`);
}

export function isBaseChain(name: string): boolean {
  return baseChains.has(name);
}

const baseChains = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);
