import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {parseNftName} from '../../expect/nftables/nft-names.ts';
import {mayKeepEmptyChains} from '../../expect/nftables/nft-versions.ts';
import type {Family} from '../../model/address.ts';
import type {NftChain, NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import {orphanChains} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {type NftCase, type NftPortDifference, targetsOf} from './nft-case.ts';
import {isEntryMap} from './service-port/nft-semantics.ts';

/** Chains of Service ports and endpoints that are not expected and hold rules: one symptom for those that no rule jumps to. */
export function leftoverNftChains(
  {expected, actual}: NftCase,
  {unexpectedChains, isAsExpected}: {readonly unexpectedChains: readonly NftChain[]; isAsExpected(place: number): boolean},
): readonly Symptom[] {
  const leftovers = unexpectedChains.filter(({name}) => parseNftName(name) !== null);
  const inUse = targetsInUse(actual, new Set(leftovers.map(({name}) => name)), isAsExpected);
  return orphanChains(leftovers, {family: expected.context.family, inUse, targetsOf: targetsOfChain});
}

function* targetsInUse(
  {sets, chains}: NftTable,
  leftovers: ReadonlySet<string>,
  isAsExpected: (place: number) => boolean,
): Iterable<string> {
  for (const {elements} of sets.values()) for (const {value} of elements.values()) yield value?.replace(/^(?:goto|jump) /, '') ?? '';
  for (let place = 0; place < chains.size; place++) {
    const chain = chains.at(place);
    // The rules that kube-proxy writes for an endpoint lead to no chain of a Service.
    if (chain === undefined || leftovers.has(chain.name) || (isAsExpected(place) && chain.name.startsWith('endpoint-'))) continue;
    yield* targetsOfChain(chain);
  }
}

function targetsOfChain(chain: NftChain): readonly string[] {
  return targetsOf({table: chain.table, chain: chain.name, line: 0, text: chain.text()});
}

/** From this number of Service ports on, all have one cause. */
const minPorts = 5;

/**
 * If many Services lead to empty chains of endpoints, there is one cause: a kube-proxy that took over the chains, already flushed,
 * from its predecessor.
 */
export function mergeEmptyChains({context, ports}: ExpectedTable, symptoms: readonly Symptom[]): readonly Symptom[] {
  const broken = symptoms.filter(({kind, endpoint}) => kind === 'broken-jump' && endpoint !== undefined);
  const concerned = new Set(broken.map(({port}) => port));
  const many = concerned.size >= minPorts || (concerned.size === ports.length && ports.length > 1);
  if (!many || !mayKeepEmptyChains(context.version)) return symptoms;
  const names = [...concerned].slice(0, 3).map(port => port?.servicePortName ?? '');
  const detail = `${broken.length} chains of endpoints are empty, though rules lead to them, and connections sent there are not translated: ${concerned.size} of ${ports.length} Service ports are broken, such as ${names.join(', ')}. kube-proxy ${context.version.text} may leave them so for an hour after it took over from another one`;
  const whole: Symptom = {
    kind: 'broken-jump',
    family: context.family,
    port: null,
    detail,
    expected: broken.flatMap(({expected}) => expected).slice(0, 2),
    actual: broken.flatMap(({actual}) => actual).slice(0, 2),
  };
  return [whole, ...symptoms.filter(symptom => !broken.includes(symptom))];
}

/** Tables of ARP that may drop it. Their effect on packets of Services is not evaluated, which is reported. */
export function unwalkedChains({tables}: NftRuleset, family: Family): readonly Symptom[] {
  return [...tables.values()].flatMap(table => {
    const chains = table.dormant || table.family !== 'arp' ? [] : table.baseChains;
    // Which chain calls which does not matter, since none of them is followed.
    const stopping =
      chains.length === 0 ? [] : [...table.chains.values()].flatMap(chain => chain.rules().filter(({body}) => stops.test(body)));
    const policies = chains.filter(({base}) => base?.policy === 'drop');
    if (stopping.length === 0 && policies.length === 0) return [];
    const names = chains.map(({name, base}) => `${name} (hook ${base?.hook})`).join(', ');
    const what = policies.length > 0 ? 'a policy that drops' : 'rules that drop or take packets';
    const detail = `table ${table.id} has ${what} at ${names}, where svc-trace does not walk: whether they affect packets of Services was not checked`;
    return [{kind: 'undecided-path', severity: 'info', family, port: null, detail, expected: [], actual: stopping.slice(0, 3)} as const];
  });
}

const stops = /(?:^|[ :])(?:drop|reject|queue|fwd to|dup to|redirect|dnat)(?: |,|$)/;

/** Unattributed elements, at addresses of no Service. */
export function unexpectedElements({context: {family}}: ExpectedTable, elements: readonly NftPortDifference[]): Symptom {
  const takes = elements.some(({rule}) => isEntryMap(rule.chain));
  const count = elements.length === 1 ? 'an element' : `${elements.length} elements`;
  const detail = `${count} of ${elements[0]?.rule.chain} that kube-proxy would not have written: ${takes ? 'they intercept packets to addresses of no Service' : 'no packet of a Service matches them'}`;
  return {
    kind: 'unexpected-rule',
    severity: takes ? 'warning' : 'info',
    family,
    port: null,
    detail,
    expected: [],
    actual: elements.map(({rule}) => rule).slice(0, 6),
  };
}
