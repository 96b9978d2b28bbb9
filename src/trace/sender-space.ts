import {append} from '../model/lists.ts';
import type {Family} from '../model/address.ts';
import {holds, intersect, type Intervals, subtract} from '../model/intervals.ts';

/** The packets that differ by their sender alone: its address, and its port. */
export interface SenderSpace {
  readonly address: Intervals;
  readonly port: Intervals;
}

/** The sender of one packet. */
export interface Sender {
  readonly address: bigint;
  readonly port: number;
}

export type SenderField = keyof SenderSpace;

/** Senders that a walk cannot tell apart, with the result of walking one of them. */
export interface SenderClass<T> {
  readonly sender: Sender;
  readonly space: SenderSpace;
  readonly result: T;
}

export const allPorts: Intervals = [[0n, 65_535n]];

/** The ports with the same answer as one of them to whether they are among some ports. */
export function alikePorts(ports: Intervals, port: number): Intervals {
  return holds(ports, BigInt(port)) ? ports : subtract(allPorts, ports);
}

export function allAddresses(family: Family): Intervals {
  return [[0n, (1n << (family === 'IPv4' ? 32n : 128n)) - 1n]];
}

/** What the rules on a path ask of the sender. `alike` has all values for which the answer is the one for this sender. */
export type NoteCondition = (field: SenderField, alike: Intervals) => void;

/**
 * Collects the conditions on the sender that decide a walk. A rule that fails by a condition on something else tells no senders apart, so
 * the conditions of a rule are staged until it is known whether they decide it.
 */
export class SenderConditions {
  /** Whether an endpoint that connects to itself is a sender like all others, and not one of its own kind. */
  readonly countsEndpoints: boolean;
  readonly #note: NoteCondition;
  #added: (readonly [SenderField, Intervals])[] = [];
  #staged: (readonly [SenderField, Intervals])[] = [];

  constructor(note: NoteCondition, {countsEndpoints = false} = {}) {
    this.#note = note;
    this.countsEndpoints = countsEndpoints;
  }

  add(field: SenderField, alike: Intervals): void {
    this.#added.push([field, alike]);
  }

  /** Whether the match that was just evaluated is about the sender. Then its conditions are staged until `commit`. */
  stage(): boolean {
    if (this.#added.length === 0) return false;
    append(this.#staged, this.#added);
    this.#added = [];
    return true;
  }

  /** The match that was just evaluated decides the walk by itself. */
  commitAdded(): void {
    this.stage();
    this.commit();
  }

  get stagedCount(): number {
    return this.#staged.length;
  }

  /** The staged conditions from one index on decide the rule; by default all. The others are discarded. */
  commit(from = 0, to = this.#staged.length): void {
    for (const [field, alike] of this.#staged.slice(from, to)) this.#note(field, alike);
    this.discard();
  }

  discard(): void {
    this.#added = [];
    this.#staged = [];
  }
}

/** Above this number of classes, the rest of the space is not walked. */
const maxClasses = 10_000;

interface Exploration<T> {
  /** The parts of the space: each is walked, however alike they are. */
  readonly spaces: readonly SenderSpace[];
  /** Some sender in a space that is not empty. */
  readonly pick: (space: SenderSpace) => Sender;
  readonly walk: (sender: Sender, note: NoteCondition) => T;
  readonly most?: number;
  /** Whether the walks took so much that no other follows; one at least is made. */
  readonly isOver?: (() => boolean) | undefined;
}

/** The senders that one walk cannot tell apart from this one, with the result of walking it. */
export function senderClassOf<T>({family}: {readonly family: Family}, walk: (conditions: SenderConditions) => T) {
  let space: SenderSpace = {address: allAddresses(family), port: allPorts};
  const note: NoteCondition = (field, values) => {
    space = {...space, [field]: intersect(space[field], values)};
  };
  const result = walk(new SenderConditions(note, {countsEndpoints: true}));
  return {space, result};
}

/**
 * Divides senders into classes: walks one, takes all away for which every condition on its path has the same answer, and walks one of the
 * rest, until none is left. What holds for the sender that was walked holds for its class. `rest`: what was not walked because there are
 * too many classes.
 */
export function senderClasses<T>({spaces, pick, walk, most = maxClasses, isOver = () => false}: Exploration<T>) {
  const open = spaces.filter(({address, port}) => address.length > 0 && port.length > 0);
  const classes: SenderClass<T>[] = [];
  for (let space = open.shift(); space !== undefined; space = open.shift()) {
    if (classes.length >= most || (classes.length > 0 && isOver())) return {classes, rest: [space, ...open]};
    const sender = pick(space);
    let alike = space;
    const result = walk(sender, (field, values) => {
      const others = subtract(alike[field], values);
      if (others.length === 0) return;
      open.push({...alike, [field]: others});
      alike = {...alike, [field]: intersect(alike[field], values)};
    });
    classes.push({sender, space: alike, result});
  }
  return {classes, rest: []};
}
