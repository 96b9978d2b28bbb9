import {parseAddress, parseCidr} from '../../model/address.ts';
import {type Intervals, intervalsOf} from '../../model/intervals.ts';
import {type Chain, type Rule, ruleAt} from '../../model/ruleset.ts';
import {askAddress, type Environment, type Packet} from '../packet.ts';
import {pushTo} from '../../model/lists.ts';

/**
 * The rules of a chain that may match a packet, in order. A chain of many rules is indexed once by destination host, so that a walk through
 * KUBE-SERVICES evaluates a handful of its rules instead of all.
 */
export function candidateRules(chain: Chain, packet: Packet, environment: Environment): readonly Rule[] {
  if (chain.ruleCount <= smallChain) return chain.rules();
  let index = indexes.get(chain);
  if (index === undefined) {
    index = buildIndex(chain);
    indexes.set(chain, index);
  }
  const own = index.byHost.get(packet.destination.text) ?? [];
  const byPort = index.byPort.get(`${packet.protocol} ${packet.port}`) ?? [];
  const bySource = index.bySource.get(packet.source.text);
  const rules = [...own, ...byPort, ...(bySource?.rules ?? []), ...index.others]
    .sort((a, b) => a - b)
    .flatMap(at => ruleAt(chain, at) ?? []);
  if (index.bySource.size > 0 && environment.sender !== undefined) askSource(index, rules, packet, environment);
  return rules;
}

/** Hosts of which the chain says the same in the same place are one class: a list of a thousand banned hosts is one condition. */
function askSource({bySource, sources, allSources}: ChainIndex, rules: readonly Rule[], packet: Packet, environment: Environment): void {
  const said = bySource.get(packet.source.text)?.said;
  const alike = said === undefined ? undefined : sources.get(said);
  askAddress(alike ?? allSources, 'source', packet, environment);
  environment.sender?.decideAlone();
  if (alike !== undefined) for (const rule of rules) if (exactHost(rule, '-s') === packet.source.text) sharedSources.set(rule, alike);
}

/** Of a rule that a list of hosts is matched by: all hosts of which its chain says the same. */
const sharedSources = new WeakMap<Rule, Intervals>();

export function sourcesLikeThis(rule: Rule): Intervals | undefined {
  return sharedSources.get(rule);
}

const smallChain = 32;
const indexes = new WeakMap<Chain, ChainIndex>();

interface ChainIndex {
  readonly byHost: ReadonlyMap<string, readonly number[]>;
  /** Rules without a destination host that match one protocol and port, such as node ports. */
  readonly byPort: ReadonlyMap<string, readonly number[]>;
  /** Rules without a destination that match one source host, and what they say of it: their places among the other rules, and texts. */
  readonly bySource: ReadonlyMap<string, {readonly rules: readonly number[]; readonly said: string}>;
  /** The source hosts by what the chain says of them. */
  readonly sources: ReadonlyMap<string, Intervals>;
  readonly allSources: Intervals;
  readonly others: readonly number[];
}

function buildIndex(chain: Chain): ChainIndex {
  const byHost = new Map<string, number[]>();
  const byPort = new Map<string, number[]>();
  const bySource = new Map<string, {rules: number[]; said: string}>();
  const others: number[] = [];
  let place = 0;
  for (const [at, line] of chain.text().split('\n').entries()) {
    // Nearly all rules have this form. A large chain has tens of thousands, and parsing each takes longer than all walks.
    const plain = plainHost.exec(line)?.[1];
    const rule = plain === undefined ? ruleAt(chain, at) : undefined;
    const host = plain ?? (rule === undefined ? null : exactHost(rule, '-d'));
    const port = host === null && rule !== undefined ? exactPort(rule) : null;
    const source = host === null && port === null && rule !== undefined ? exactHost(rule, '-s') : null;
    if (source === null) place++;
    if (host !== null) pushTo(byHost, host, at);
    else if (port !== null) pushTo(byPort, port, at);
    else if (source !== null) {
      const known = bySource.get(source) ?? {rules: [], said: ''};
      const said = line.replace(/(?: ! | )-s \S+/, '');
      bySource.set(source, {rules: [...known.rules, at], said: `${known.said}${place} ${said}\n`});
    } else others.push(at);
  }
  const hosts = new Map<string, [bigint, bigint][]>();
  for (const [host, {said}] of bySource) {
    const address = parseAddress(host);
    if (address !== null) pushTo(hosts, said, [address.value, address.value]);
  }
  const sources = new Map([...hosts].map(([said, values]) => [said, intervalsOf(values)] as const));
  return {byHost, byPort, bySource, sources, allSources: intervalsOf([...hosts.values()].flat()), others};
}

function exactHost(rule: Rule, wanted: '-d' | '-s'): string | null {
  const value = rule.options.find(({flag, negated}) => flag === wanted && !negated)?.values[0] ?? '';
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
