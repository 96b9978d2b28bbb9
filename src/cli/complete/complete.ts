import {firstWord, type GivenFlags, readFlags} from '../command-line.ts';
import type {ArgumentSpec, CommandSpec, FlagSpec} from './command-spec.ts';

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
  const before = readWords(words, commands);
  if (before.pending !== undefined) return completeValue(before.pending, typed, {words: before, lookUp});
  if (!before.onlyArgs && typed.startsWith('-')) return completeFlag(typed, {commands, words: before, lookUp});
  if (before.command === undefined) return completeFirst(typed, {commands, words: before, lookUp});
  return completeArgument(before.command, typed, {words: before, lookUp});
}

interface CompleteInput {
  readonly commands: readonly CommandSpec[];
  readonly lookUp: LookUp;
}

interface WordsBefore {
  readonly words: CommandWords;
  readonly lookUp: LookUp;
}

async function completeFlag(typed: string, {commands, words, lookUp}: WordsBefore & CompleteInput): Promise<Completion> {
  const flags = words.command?.flags ?? commands.find(({id}) => id === 'trace')?.flags ?? {};
  const [, name = '', value] = /^--([^=]+)=(.*)$/s.exec(typed) ?? [];
  if (value !== undefined) {
    const spec = flags[name];
    return spec === undefined || spec.type === 'boolean' ? nothing : completeValue(spec, value, {words, lookUp});
  }
  const open = Object.values(flags).filter(flag => flag.hidden !== true && (flag.multiple === true || !words.flags.has(flag.name)));
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

/** Only the value: shells keep the part before it (`--output=`). An argument that is there (`taken`) is not offered again. */
async function completeValue(
  spec: FlagSpec | ArgumentSpec,
  typed: string,
  {words, lookUp, taken}: WordsBefore & {readonly taken?: readonly string[]},
): Promise<Completion> {
  if (spec.options !== undefined)
    return matching(
      typed,
      spec.options.map(value => ({value})),
    );
  const kind = valueKind(spec);
  if (kind === null) return nothing;
  if (kind === 'files') return {...nothing, files: true};
  const found = await lookUp(kind, words, typed);
  if (kind === 'codes' && taken === undefined) return oneMore(typed, found);
  return matching(
    typed,
    found.filter(({value}) => !taken?.includes(value)),
  );
}

/** A list with commas: the existing items stay. */
function oneMore(typed: string, candidates: readonly Candidate[]): Completion {
  const there = typed.slice(0, typed.lastIndexOf(',') + 1);
  const taken = new Set(there.toUpperCase().split(','));
  const more = candidates.filter(({value}) => !taken.has(value)).map(({value, ...rest}) => ({value: there + value, ...rest}));
  return {...matching(typed, more), noSpace: true};
}

/** A Service can be in the position of a command. Services are looked up only if no command matches. */
async function completeFirst(typed: string, {commands, words, lookUp}: WordsBefore & CompleteInput): Promise<Completion> {
  const named = commands.filter(({hidden}) => hidden !== true).map(({id, summary = ''}) => ({value: id, description: summary}));
  const found = matching(typed, [...named, {value: 'help', description: 'show help'}]);
  return found.candidates.length > 0 ? found : matching(typed, await lookUp('services', words, typed));
}

async function completeArgument(command: CommandSpec, typed: string, {words, lookUp}: WordsBefore): Promise<Completion> {
  const specs = Object.values(command.args ?? {});
  const spec = specs[words.args.length] ?? (command.strict === false ? specs.at(-1) : undefined);
  return spec === undefined ? nothing : completeValue(spec, typed, {words, lookUp, taken: words.args});
}

/** No completion. */
export const nothing: Completion = {candidates: [], files: false, noSpace: false};

/** A candidate that ends in a slash is a namespace, and continues. */
function matching(typed: string, candidates: readonly Candidate[]): Completion {
  const fitting = candidates.filter(({value}) => value.toLowerCase().startsWith(typed.toLowerCase()));
  return {...nothing, candidates: fitting, noSpace: fitting.length > 0 && fitting.every(({value}) => value.endsWith('/'))};
}

/** An incomplete command line: the words before the one being typed. */
export interface CommandWords extends GivenFlags {
  /** Undefined until there is a word that is neither a flag nor a flag's value. */
  readonly command: CommandSpec | undefined;
}

/** Reads the words like the program itself: a first word that is not a command is a Service to trace. */
function readWords(words: readonly string[], commands: readonly CommandSpec[]): CommandWords {
  const all = Object.assign({}, ...commands.map(({flags}) => flags)) as Readonly<Record<string, FlagSpec>>;
  const at = firstWord(words, all);
  if (at === undefined) return {command: undefined, ...readFlags(words, all)};
  const named = commands.find(({id}) => id === words[at]);
  const command = named ?? commands.find(({id}) => id === 'trace');
  return {command, ...readFlags(named === undefined ? words : words.toSpliced(at, 1), command?.flags ?? all)};
}

/** Values that can be looked up, or are left to the shell. */
export type ValueKind = 'services' | 'pods' | 'namespaces' | 'nodes' | 'contexts' | 'clusters' | 'users' | 'codes' | 'files';

const byName: Readonly<Record<string, ValueKind>> = {
  service: 'services',
  destination: 'services',
  source: 'pods',
  code: 'codes',
  context: 'contexts',
  cluster: 'clusters',
  user: 'users',
  before: 'files',
  after: 'files',
};

const byHelpValue: Readonly<Record<string, ValueKind>> = {
  NAMESPACE: 'namespaces',
  NODE: 'nodes',
  CODES: 'codes',
  FILE: 'files',
  BUNDLE: 'files',
  DIR: 'files',
};

/**
 * The kind of values of a flag or argument, by its name and its help; null if they cannot be looked up.
 * @internal
 */
export function valueKind(spec: {readonly name: string; readonly helpValue?: string | readonly string[] | undefined}): ValueKind | null {
  const {name, helpValue = ''} = spec;
  const shown = (typeof helpValue === 'string' ? helpValue : (helpValue[0] ?? '')).split(/[|.]/, 1)[0] ?? '';
  return byName[name] ?? byHelpValue[shown] ?? null;
}
