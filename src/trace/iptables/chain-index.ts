import {parseAddress, parseCidr} from '../../model/address.ts';
import {type Chain, type Rule, ruleAt} from '../../model/ruleset.ts';
import type {Packet} from '../packet.ts';
import {pushTo} from '../../model/lists.ts';

/**
 * The rules of a chain that may match a packet, in order. A chain of many rules is indexed once by destination host, so that a walk through
 * KUBE-SERVICES evaluates a handful of its rules instead of all.
 */
export function candidateRules(chain: Chain, packet: Packet): readonly Rule[] {
  if (chain.ruleCount <= smallChain) return chain.rules();
  let index = indexes.get(chain);
  if (index === undefined) {
    index = buildIndex(chain);
    indexes.set(chain, index);
  }
  const own = index.byHost.get(packet.destination.text) ?? [];
  const byPort = index.byPort.get(`${packet.protocol} ${packet.port}`) ?? [];
  return [...own, ...byPort, ...index.others].sort((a, b) => a - b).flatMap(at => ruleAt(chain, at) ?? []);
}

const smallChain = 32;
const indexes = new WeakMap<Chain, ChainIndex>();

interface ChainIndex {
  readonly byHost: ReadonlyMap<string, readonly number[]>;
  /** Rules without a destination host that match one protocol and port, such as node ports. */
  readonly byPort: ReadonlyMap<string, readonly number[]>;
  readonly others: readonly number[];
}

function buildIndex(chain: Chain): ChainIndex {
  const byHost = new Map<string, number[]>();
  const byPort = new Map<string, number[]>();
  const others: number[] = [];
  for (const [at, line] of chain.text().split('\n').entries()) {
    // Nearly all rules have this form. A large chain has tens of thousands, and parsing each takes longer than all walks.
    const plain = plainHost.exec(line)?.[1];
    const rule = plain === undefined ? ruleAt(chain, at) : undefined;
    const host = plain ?? (rule === undefined ? null : destinationHost(rule));
    const port = host === null && rule !== undefined ? exactPort(rule) : null;
    if (host !== null) pushTo(byHost, host, at);
    else if (port !== null) pushTo(byPort, port, at);
    else others.push(at);
  }
  return {byHost, byPort, others};
}

function destinationHost(rule: Rule): string | null {
  const value = rule.options.find(({flag, negated}) => flag === '-d' && !negated)?.values[0] ?? '';
  const cidr = parseCidr(value);
  if (cidr === null || cidr.prefix !== (cidr.family === 'IPv4' ? 32 : 128)) return null;
  return parseAddress(cidr.text.split('/')[0] ?? '')?.text ?? null;
}

const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const plainHost = new RegExp(`^-A \\S+ (?:(?:! )?-s \\S+ )?-d (${octet}(?:\\.${octet}){3})/32 `);

function exactPort(rule: Rule): string | null {
  const protocol = rule.options.find(({flag, negated}) => flag === '-p' && !negated)?.values[0];
  const port = rule.matches.flatMap(match => match.options).find(({flag, negated}) => flag === '--dport' && !negated)?.values[0];
  return protocol === undefined || port === undefined || !/^\d+$/.test(port) ? null : `${protocol} ${port}`;
}
