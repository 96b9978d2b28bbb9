import type {CommandSpec, FlagSpec} from './command-spec.ts';
import {type CommandWords, readWords} from './command-words.ts';
import {valueKind, type ValueKind} from './value-kind.ts';

export interface Candidate {
  readonly value: string;
  readonly description?: string;
}

/** The possible completions of the word being typed. */
export interface Completion {
  readonly candidates: readonly Candidate[];
  /** The shell completes file names. */
  readonly files: boolean;
  /** The word may continue. */
  readonly noSpace: boolean;
}

/** Looks up names. Resolves to none if they cannot be read. `typed` is the beginning of the word. */
export type LookUp = (kind: ValueKind, words: CommandWords, typed: string) => Promise<readonly Candidate[]>;

/** The completion of `typed` after these words. */
export async function complete(words: readonly string[], typed: string, {commands, lookUp}: CompleteInput): Promise<Completion> {
  const known = readWords(words, commands);
  if (known.pending !== undefined) return completeValue(known.pending, typed, {known, lookUp});
  if (!known.onlyArgs && typed.startsWith('-')) return completeFlag(typed, {commands, known, lookUp});
  if (known.command === undefined) return completeFirst(typed, {commands, known, lookUp});
  return completeArgument(known.command, typed, {known, lookUp});
}

interface CompleteInput {
  readonly commands: readonly CommandSpec[];
  readonly lookUp: LookUp;
}

interface WordsBefore {
  readonly known: CommandWords;
  readonly lookUp: LookUp;
}

async function completeFlag(typed: string, {commands, known, lookUp}: WordsBefore & CompleteInput): Promise<Completion> {
  const flags = known.command?.flags ?? commands.find(({id}) => id === 'trace')?.flags ?? {};
  const [, name = '', value] = /^--([^=]+)=(.*)$/s.exec(typed) ?? [];
  if (value !== undefined) {
    const spec = flags[name];
    return spec === undefined || spec.type === 'boolean' ? nothing : completeValue(spec, value, {known, lookUp});
  }
  const open = Object.values(flags).filter(flag => flag.hidden !== true && (flag.multiple === true || !known.flags.has(flag.name)));
  const candidates = open.flatMap(flag => spellings(flag, typed));
  return matching(typed, [...candidates, {value: '--help', description: 'show help'}]);
}

/** The short form is offered only after a single dash, and `--no-…` only if it was begun. */
function spellings(flag: FlagSpec, typed: string): readonly Candidate[] {
  const description = flag.description ?? '';
  return [
    {value: `--${flag.name}`, description},
    ...(flag.char !== undefined && typed === '-' ? [{value: `-${flag.char}`, description}] : []),
    ...(flag.allowNo === true && typed.startsWith('--no') ? [{value: `--no-${flag.name}`, description}] : []),
  ];
}

/** Only the value: shells keep the part before it (`--output=`). */
async function completeValue(flag: FlagSpec, typed: string, {known, lookUp}: WordsBefore): Promise<Completion> {
  if (flag.options !== undefined)
    return matching(
      typed,
      flag.options.map(value => ({value})),
    );
  const kind = valueKind(flag);
  if (kind === null) return nothing;
  if (kind === 'files') return {...nothing, files: true};
  const found = await lookUp(kind, known, typed);
  return kind === 'codes' ? oneMore(typed, found) : matching(typed, found);
}

/** A list with commas: the existing items stay. */
function oneMore(typed: string, found: readonly Candidate[]): Completion {
  const there = typed.slice(0, typed.lastIndexOf(',') + 1);
  const taken = new Set(there.toUpperCase().split(','));
  const more = found.filter(({value}) => !taken.has(value)).map(({value, ...rest}) => ({value: there + value, ...rest}));
  return {...matching(typed, more), noSpace: true};
}

/** A Service can be in the position of a command. Services are looked up only if no command matches. */
async function completeFirst(typed: string, {commands, known, lookUp}: WordsBefore & CompleteInput): Promise<Completion> {
  const named = commands.filter(({hidden}) => hidden !== true).map(({id, summary = ''}) => ({value: id, description: summary}));
  const found = matching(typed, [...named, {value: 'help', description: 'show help'}]);
  return found.candidates.length > 0 ? found : matching(typed, await lookUp('services', known, typed));
}

async function completeArgument(command: CommandSpec, typed: string, {known, lookUp}: WordsBefore): Promise<Completion> {
  const specs = Object.values(command.args ?? {});
  const spec = specs[known.args.length] ?? (command.strict === false ? specs.at(-1) : undefined);
  if (spec === undefined) return nothing;
  if (spec.options !== undefined)
    return matching(
      typed,
      spec.options.map(value => ({value})),
    );
  const kind = valueKind(spec);
  if (kind === null) return nothing;
  if (kind === 'files') return {...nothing, files: true};
  const found = await lookUp(kind, known, typed);
  return matching(
    typed,
    found.filter(({value}) => !known.args.includes(value)),
  );
}

/** No completion. */
export const nothing: Completion = {candidates: [], files: false, noSpace: false};

/** A candidate that ends in a slash is a namespace, and continues. */
function matching(typed: string, candidates: readonly Candidate[]): Completion {
  const fitting = candidates.filter(({value}) => value.toLowerCase().startsWith(typed.toLowerCase()));
  return {...nothing, candidates: fitting, noSpace: fitting.length > 0 && fitting.every(({value}) => value.endsWith('/'))};
}
