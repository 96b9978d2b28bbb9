import {heldIn, onceAsked} from '../../model/once.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {bitsOf, joinHostPort, parseCidr} from '../../model/address.ts';
import {pushTo} from '../../model/lists.ts';
import {type Chain, type ChainSource, commentOf, matchOptionOf, optionOf, type Rule, ruleAt, type Ruleset} from '../../model/ruleset.ts';
import type {Entry} from '../../model/service-port.ts';
import {entriesOf} from '../outcomes/probes.ts';
import {joinChains, replaced} from './chain-texts.ts';

/** Whether a rule matches the packets of this entry. */
export function isEntryRule(rule: Rule, entry: Entry): boolean {
  if (matchOptionOf(rule, '--dport') !== String(entry.port)) return false;
  if (entry.address === null) return rule.chain === 'KUBE-NODEPORTS' || rule.chain === 'KUBE-EXTERNAL-SERVICES';
  return destinationOf(rule) === entry.address;
}

/** The address and port, or the node port, that a rule of a shared chain matches, for a message. */
export function entryOfRule(rule: Rule): string {
  const port = matchOptionOf(rule, '--dport') ?? 'any port';
  if (rule.chain === 'KUBE-NODEPORTS') return `node port ${port}`;
  return joinHostPort(destinationOf(rule) ?? 'any address', port);
}

/** The only address whose packets the rule matches. */
export function destinationOf(rule: Rule): string | undefined {
  const destination = optionOf(rule, '-d');
  const cidr = destination === undefined ? null : parseCidr(destination);
  return cidr !== null && cidr.prefix === bitsOf(cidr.family) ? cidr.text.split('/')[0] : undefined;
}

/** kube-proxy's comments begin with the name of the Service port; null for a rule that names none. */
export function servicePortName(rule: Rule): string | null {
  const comment = commentOf(rule) ?? '';
  return /^([^\s/]+\/[^\s/]+)(?: |$)/.exec(comment)?.[1] ?? null;
}

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
    return heldIn(this.#keys, rule, entryKeyOf);
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
  const protocol = optionOf(rule, '-p');
  const port = matchOptionOf(rule, '--dport');
  if (protocol === undefined || port === undefined || port.includes(':')) return null;
  return `${destinationOf(rule) ?? ''} ${protocol} ${port}`;
}

/**
 * The actual per-Service rules inside the expected base rules. The base rules are evaluated separately, so that one broken hook is one
 * finding and not one for every Service.
 */
export function iptablesServiceView(expected: ExpectedRuleset, actual: Ruleset): ChainSource {
  const services = onceAsked(() => withTail(actual.chain('nat', 'KUBE-SERVICES'), expected.chain('nat', 'KUBE-SERVICES')));
  return replaced(expected, (table, name) => {
    if (table === 'raw' || table === 'mangle' || table === 'security') return undefined;
    // A table that a truncated dump does not show is assumed to be as expected.
    if (!actual.hasTable(table)) return expected.chain(table, name);
    if (!/^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|(?:SVC|SVL|EXT|FW|XLB|SEP)-.*)$/.test(name))
      return expected.chain(table, name) ?? actual.chain(table, name);
    return table === 'nat' && name === 'KUBE-SERVICES' ? services() : actual.chain(table, name);
  });
}

/** The actual KUBE-SERVICES, with the expected node-port jump. */
function withTail(actual: Chain | undefined, expected: Chain | undefined): Chain | undefined {
  if (actual === undefined || expected === undefined) return actual;
  const tail = tailOf(actual);
  const rest = Array.from({length: actual.ruleCount}, (_, index) => index).filter(index => !tail.includes(index));
  // A rule of somebody else that was appended behind the jump stays behind it.
  const behind = rest.filter(index => index > (tail.at(-1) ?? Infinity));
  const areOthers = behind.every(index => !ruleAt(actual, index)?.target?.name.startsWith('KUBE-'));
  const last = areOthers ? behind : [];
  return joinChains(actual, [
    {chain: actual, indexes: rest.slice(0, rest.length - last.length)},
    {chain: expected, indexes: tailOf(expected)},
    {chain: actual, indexes: last},
  ]);
}

/** The indexes of the rules that jump to the node ports. */
function tailOf(chain: Chain): readonly number[] {
  const lines = chain.text().split('\n');
  return lines.flatMap((line, index) =>
    line.includes('KUBE-NODEPORTS') && ruleAt(chain, index)?.target?.name === 'KUBE-NODEPORTS' ? index : [],
  );
}
