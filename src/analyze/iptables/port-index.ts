import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {parseCidr} from '../../model/address.ts';
import type {Rule} from '../../model/ruleset.ts';
import {servicePortName} from './entry-rule.ts';
import {entriesOf} from '../outcomes/entries.ts';
import {pushTo} from '../../model/lists.ts';

/** Finds the Service ports that a rule in a shared chain may concern. */
export class PortIndex {
  readonly #expected: ExpectedRuleset;
  #byEntry: ReadonlyMap<string, readonly PortOnNode[]> | null = null;
  #byName: ReadonlyMap<string, PortOnNode> | null = null;
  /** Those of the rules so far: a big node has thousands of rules about Services that are not checked. */
  readonly #keys = new Map<Rule, string | null>();

  constructor(expected: ExpectedRuleset) {
    this.#expected = expected;
  }

  /** By the chain it jumps to or else by its comment, and by the address and port that it matches. */
  concerned(rule: Rule): readonly PortOnNode[] {
    const hash = this.#hashOf(rule);
    const named = hash === null ? this.#ofComment(rule) : this.#expected.portOfHash(hash);
    const entry = this.#entryKey(rule);
    const claimed = entry === null ? [] : (this.#entries().get(entry) ?? []);
    return [...new Set([...(named === undefined ? [] : [named]), ...claimed])];
  }

  /** A Service rule in a shared chain whose Service port is not expected. */
  isUnexpected(rule: Rule): boolean {
    if (!sharedServiceChains.has(rule.chain) || rule.target?.name === 'KUBE-NODEPORTS') return false;
    const hash = this.#hashOf(rule);
    return hash === null ? this.concerned(rule).length === 0 : this.#expected.portOfHash(hash) === undefined;
  }

  /** A rule in a shared chain that matches packets to more than one address and port. */
  isBroad(rule: Rule): boolean {
    if (!sharedServiceChains.has(rule.chain) || rule.target === null || rule.target.name === 'KUBE-NODEPORTS') return false;
    const key = this.#entryKey(rule);
    if (key === null) return true;
    const anyAddress = key.startsWith(' ');
    const ofNode = rule.chain === 'KUBE-NODEPORTS' || rule.matches.some(({name}) => name === 'addrtype');
    return anyAddress && !ofNode;
  }

  #ofComment(rule: Rule): PortOnNode | undefined {
    const name = servicePortName(rule);
    if (name === null) return undefined;
    this.#byName ??= new Map(this.#expected.ports.map(item => [item.port.servicePortName, item]));
    return this.#byName.get(name);
  }

  #hashOf(rule: Rule): string | null {
    return parseChainName(rule.target?.name ?? '')?.hash ?? null;
  }

  #entryKey(rule: Rule): string | null {
    const known = this.#keys.get(rule);
    if (known !== undefined) return known;
    const key = entryKeyOf(rule);
    this.#keys.set(rule, key);
    return key;
  }

  #entries(): ReadonlyMap<string, readonly PortOnNode[]> {
    if (this.#byEntry !== null) return this.#byEntry;
    const index = new Map<string, PortOnNode[]>();
    for (const item of this.#expected.ports) {
      for (const {address, port} of entriesOf(item.port, this.#expected.context)) {
        const key = `${address ?? ''} ${item.port.protocol.toLowerCase()} ${port}`;
        pushTo(index, key, item);
      }
    }
    this.#byEntry = index;
    return index;
  }
}

const sharedServiceChains = new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-EXTERNAL-SERVICES', 'KUBE-PROXY-FIREWALL']);

/** `ADDRESS PROTOCOL PORT`, without the address if the rule matches several; null for a rule that matches several protocols or ports. */
function entryKeyOf(rule: Rule): string | null {
  const protocol = rule.options.find(({flag, negated}) => flag === '-p' && !negated)?.values[0];
  const port = rule.matches.flatMap(match => match.options).find(({flag, negated}) => flag === '--dport' && !negated)?.values[0];
  if (protocol === undefined || port === undefined || port.includes(':')) return null;
  const destination = rule.options.find(({flag, negated}) => flag === '-d' && !negated)?.values[0];
  const cidr = destination === undefined ? null : parseCidr(destination);
  const host = cidr !== null && cidr.prefix === (cidr.family === 'IPv4' ? 32 : 128) ? cidr.text.split('/')[0] : undefined;
  return `${host ?? ''} ${protocol} ${port}`;
}
