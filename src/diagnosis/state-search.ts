import type {ServiceDifferences} from '../analyze/differing.ts';
import type {ServiceState, ServiceStates} from '../expect/cluster/service-states.ts';
import {parseChainName, servicePortHash} from '../expect/iptables/chain-names.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Family} from '../model/family.ts';
import type {Finding} from '../model/finding.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';

/** Searches for the state of one Service in one family that a node matches, from the newest on. */
export class StateSearch {
  readonly family: Family;
  readonly service: string;
  readonly states: readonly ServiceState[];
  #index = 0;
  #best: TestedDistance | null = null;
  #isDone = false;

  /** For each state that was tested, the parts of the dumps that do not fit it. */
  #parts: ReadonlySet<string>[] = [];
  #isPiecemeal = false;
  /** How many rules differ from each state that was tested. */
  #tested: number[] = [];

  /** The 16 characters in the names of its chains in iptables mode, in all states. */
  readonly hashes: ReadonlySet<string>;
  readonly #keepsOldChains: boolean;
  readonly #graceMs: number;

  constructor({family, service, states}: ServiceStates, {isLarge, graceMs}: {readonly isLarge: boolean; readonly graceMs: number}) {
    this.family = family;
    this.service = service;
    this.states = states.slice(0, maxStates);
    this.hashes = new Set(states.flatMap(({service: object}) => (object === null ? [] : chainHashes(object))));
    this.#keepsOldChains = isLarge;
    this.#graceMs = graceMs;
  }

  /** Whether a chain belongs to the Service, without those of its endpoints. */
  owns(chain: string): boolean {
    const parsed = parseChainName(chain);
    if (parsed !== null) return parsed.role !== 'SEP' && this.hashes.has(parsed.hash);
    return /^(?:service|local|external|firewall)-/.test(chain) && chain.includes(`-${this.service}/`);
  }

  get chosen(): ServiceState | undefined {
    return this.states[this.#index];
  }

  /** Null if the node matches none. */
  get lagSeconds(): number | null {
    return this.#best?.rules === 0 ? (this.states[this.#best.index]?.age ?? 0) / 1000 : null;
  }

  start(): void {
    this.#parts = [];
    this.#tested = [];
    this.#index = 0;
    this.#best = null;
    this.#isDone = false;
  }

  /**
   * The findings for the current state, and how many chains of the Service no rule reaches. In a state without the Service, an entry rule
   * that was removed would not be missed, but its chains would remain.
   */
  note(tested: TestedDifferences): void {
    if (this.#isDone) return;
    const {differences, isReadPiecemeal, findings} = tested;
    const rules = this.#rulesOf(tested);
    this.#tested[this.#index] = rules;
    this.#isPiecemeal ||= isReadPiecemeal;
    const isSomewhere = tested.left > 0 || differences === undefined;
    this.#parts.push(rules > 0 && isSomewhere ? anyPart : (differences?.parts ?? new Set()));
    const severity = findings.reduce((sum, finding) => sum + weights[finding.severity], 0);
    const best = this.#best;
    if (best === null || rules < best.rules || (rules === best.rules && severity > best.severity))
      this.#best = {index: this.#index, rules, severity};
  }

  /** Whether another analysis of the chosen state finds as many differences as the search did. */
  agrees(tested: TestedDifferences): boolean {
    return this.#tested[this.#index] === this.#rulesOf(tested);
  }

  #rulesOf({findings, left, differences}: TestedDifferences): number {
    const shown = findings.reduce((sum, finding) => sum + countRules(finding), 0);
    const differing = differences?.count ?? 0;
    return (differing === 0 || shown === 0 ? shown : differing) + (this.#keepsOldChains ? 0 : left);
  }

  /** Whether each part of the dumps fits some state, although all together fit none: kube-proxy may have written between two of them. */
  get isPerhapsTorn(): boolean {
    if (this.lagSeconds !== null) return false;
    if (this.#isPiecemeal) return true;
    const parts = new Set(this.#parts.flatMap(one => [...one]));
    return [...parts].every(part => this.#parts.some(one => one !== anyPart && !one.has(part)));
  }

  /** Chooses the next state if none matches yet; false if there is nothing more to test. */
  advance(): boolean {
    if (this.#isDone) return false;
    this.#isDone = this.#best?.rules === 0 || this.#index + 1 >= this.states.length;
    this.#index = this.#isDone ? (this.#best?.index ?? 0) : this.#index + 1;
    return !this.#isDone;
  }

  /** Chooses the state to report against: the nearest one, or the latest if the nearest is too old. */
  conclude(): void {
    const best = this.#best?.index ?? 0;
    this.#index = (this.states[best]?.age ?? 0) > this.#graceMs ? 0 : best;
  }
}

/** What an analysis of a state tells of one Service in one family. */
export interface TestedDifferences {
  readonly findings: readonly Finding[];
  /** How many chains of the Service nothing reaches. */
  readonly left: number;
  readonly differences: ServiceDifferences | undefined;
  readonly isReadPiecemeal: boolean;
}

/** Names as in current versions and as in those up to 1.19. */
function chainHashes({metadata, spec}: ServiceObject): readonly string[] {
  return (spec?.ports ?? []).flatMap(({name = '', protocol = 'TCP'}) => {
    const base = namespacedName(metadata);
    if (protocol !== 'TCP' && protocol !== 'UDP' && protocol !== 'SCTP') return [];
    return (name === '' ? [base, `${base}:`] : [`${base}:${name}`]).map(text => servicePortHash(text, protocol));
  });
}

/** The distance between the node and a state. */
interface TestedDistance {
  readonly index: number;
  /** Rules or other objects that differ. */
  readonly rules: number;
  /** Of two states at equal distance, the one with more findings: with the other, a removed rule would not be missed. */
  readonly severity: number;
}

function countRules({expected = [], actual = []}: Finding): number {
  return Math.max(1, expected.length + actual.length);
}

const weights = {error: 1_000_000, warning: 1000, info: 1};

/** It is not known where the difference is. */
const anyPart: ReadonlySet<string> = new Set(['']);

/** The number of states of a Service that are tested. More within the grace period mean that something else is wrong. */
const maxStates = 400;
