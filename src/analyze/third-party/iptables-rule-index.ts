import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {parseAddress} from '../../model/address.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {Environment} from '../../trace/packet.ts';
import {entriesOf} from '../outcomes/entries.ts';
import {concerns, type ThirdPartyRule} from './iptables-rules.ts';
import {addressesOf} from '../outcomes/probes.ts';
import {pushTo} from '../../model/lists.ts';

/** Finds the third-party rules that name an address or port of a Service port, without comparing each rule with each endpoint. */
export class ThirdPartyRuleIndex {
  readonly #narrow: readonly ThirdPartyRule[];
  /** Rules after routing that match one host, by its address: most rules about pods. */
  readonly #byHost = new Map<string, ThirdPartyRule[]>();
  readonly #wide: readonly ThirdPartyRule[];

  constructor(rules: readonly ThirdPartyRule[]) {
    this.#narrow = rules.filter(({conditions}) => conditions.ports.length > 0 || conditions.destinations.length > 0);
    const wide: ThirdPartyRule[] = [];
    for (const rule of this.#narrow.filter(({stage}) => stage === 'after')) {
      const host = rule.conditions.destinations.find(({family, prefix}) => prefix === (family === 'IPv4' ? 32 : 128));
      const address = host?.text.split('/')[0];
      if (address === undefined) wide.push(rule);
      else pushTo(this.#byHost, address, rule);
    }
    this.#wide = wide;
  }

  /** In the order of the ruleset. */
  concerning(item: ServedPort, context: NodeContext, environment: Environment): readonly Rule[] {
    if (this.#narrow.length === 0) return [];
    const found = new Set<ThirdPartyRule>();
    for (const target of this.#entryTargets(item, context, environment)) {
      for (const rule of this.#narrow) if (!found.has(rule) && concerns(rule.conditions, target)) found.add(rule);
    }
    for (const {address, port} of item.endpoints.reachable) {
      const candidates = [...(this.#byHost.get(address) ?? []), ...this.#wide.filter(rule => !found.has(rule))];
      if (candidates.length === 0) continue;
      const target = targetOf(address, port, item, environment);
      for (const rule of candidates) if (target !== null && concerns(rule.conditions, target)) found.add(rule);
    }
    return this.#narrow.filter(rule => found.has(rule)).map(({rule}) => rule);
  }

  #entryTargets(item: ServedPort, context: NodeContext, environment: Environment): readonly EntryTarget[] {
    return entriesOf(item.port, context).flatMap(entry =>
      addressesOf(entry, context).flatMap(address => targetOf(address, entry.port, item, environment) ?? []),
    );
  }
}

type EntryTarget = Parameters<typeof concerns>[1];

function targetOf(text: string, port: number, {port: {protocol}}: ServedPort, environment: Environment): EntryTarget | null {
  const address = parseAddress(text);
  return address === null ? null : {address, port, protocol: protocol.toLowerCase(), local: environment.isLocal(address) === true};
}
