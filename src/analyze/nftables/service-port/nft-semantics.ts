import type {RuleText} from '../../../model/ruleset.ts';
import type {Outcome} from '../../../trace/outcome.ts';
import type {Evidence, KeyedSymptom, Misdirected, ModeSemantics, Subject} from '../../outcomes/mode-semantics.ts';
import type {PathOutcome, ProbeComparison} from '../../outcomes/path-outcome.ts';
import type {NftPortCase} from '../nft-case.ts';
import {nftPolicyOf} from '../nft-outcome.ts';
import {nftEvidence} from './nft-evidence.ts';
import {extraOf, isOwnChain} from './nft-port-rules.ts';
import {isCheck, isEndpointCheck, isEntryMap, isRefusal} from './nft-rule-roles.ts';
import {specialSymptoms} from './nft-special-symptoms.ts';

/** What the rules and elements of one Service port show beside the outcomes of packets. */
export class NftSemantics implements ModeSemantics<RuleText> {
  readonly #case: NftPortCase;

  constructor(given: NftPortCase) {
    this.#case = given;
  }

  /** The packet passes, or expected rules and elements of the checks after the Services reject it. */
  isUnentered({verdict, destination, path}: Outcome<RuleText>): boolean {
    if (path.some(({chain}) => isOwnChain(this.#case, chain))) return false;
    if (verdict === 'accept') return destination === null;
    return verdict !== 'undecided' && isCheck(path.at(-1)?.chain ?? '') && !extraOf(this.#case).some(isRefusal);
  }

  hasNoEntry(): boolean {
    const {item, expected, actual} = this.#case;
    const entries = expected.objectsOf(item).elements.filter(({set}) => isEntryMap(set));
    return entries.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value !== value);
  }

  refusedFor({verdict, path}: Outcome<RuleText>): 'ranges' | 'policy' | 'other' {
    const chain = path.at(-1)?.chain ?? '';
    if (chain.startsWith('firewall-')) return 'ranges';
    return verdict === 'drop' && isEndpointCheck(chain) ? 'policy' : 'other';
  }

  policyOf(pathOutcome: PathOutcome<RuleText>): 'Cluster' | 'Local' | null {
    return nftPolicyOf(pathOutcome);
  }

  misdirected(pathOutcome: PathOutcome<RuleText>): ReadonlyMap<string, Misdirected<RuleText>> {
    const found = new Map<string, Misdirected<RuleText>>();
    for (const [destination, {path}] of pathOutcome.destinations) {
      const rule = path.findLast(({text}) => text.includes('dnat '));
      const owner = rule === undefined ? null : this.#ownerOf(rule, destination, pathOutcome);
      if (rule !== undefined && owner !== null && owner !== destination) found.set(owner, {destination, rule});
    }
    return found;
  }

  /** The endpoint that a rule is for: by the name of its chain, or by its address if only the port differs. */
  #ownerOf({chain}: RuleText, destination: string, pathOutcome: PathOutcome<RuleText>): string | null {
    const {item} = this.#case;
    const named = item.endpoints.reachable.find(endpoint => item.names.endpoint(endpoint) === chain);
    if (named !== undefined) return named.hostPort;
    if (item.all.some(({hostPort}) => hostPort === destination)) return null;
    const replaced = this.#replacedIn(chain, destination);
    if (replaced !== null) return replaced;
    const address = destination.replace(/:\d+$/, '');
    const left = item.endpoints.reachable.filter(({hostPort}) => hostPort.replace(/:\d+$/, '') === address);
    return left.find(({hostPort}) => !pathOutcome.destinations.has(hostPort))?.hostPort ?? null;
  }

  /** kube-proxy writes endpoints in order. If one replaces another out of order, its address is the wrong one. */
  #replacedIn(chain: string, destination: string): string | null {
    const {actual, expected} = this.#case;
    const found = endpointsIn(actual.chain(chain)?.rules() ?? []);
    const should = endpointsIn(expected.chain(chain)?.rules() ?? []);
    const off = should.filter((hostPort, at) => found[at] !== hostPort);
    if (found.length !== should.length || off.length !== 1 || !found.includes(destination)) return null;
    return found.join() === found.toSorted().join() ? null : (off[0] ?? null);
  }

  special(comparison: ProbeComparison<RuleText>): readonly KeyedSymptom<RuleText>[] {
    return specialSymptoms(this.#case, comparison);
  }

  evidence(subject: Subject<RuleText>): Evidence<RuleText> {
    return nftEvidence(this.#case, subject);
  }
}

/** The endpoints of a rule that picks one of them at random, in its order. */
function endpointsIn(rules: readonly RuleText[]): readonly string[] {
  const text = rules.find(rule => rule.text.includes(' dnat '))?.text ?? '';
  return [...text.matchAll(/\d+ : (\S+) \. (\d+)/g)].map(([, address = '', port = '']) =>
    address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`,
  );
}
