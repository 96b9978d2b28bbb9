import type {CommandSpec, FlagSpec} from './command-spec.ts';
import {pushTo} from '../../model/lists.ts';

/** An incomplete command line: the words before the one being typed. */
export interface CommandWords {
  /** Undefined until there is a word that is neither a flag nor a flag's value. */
  readonly command: CommandSpec | undefined;
  /** By long name; a switch has the value `true`. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
  readonly args: readonly string[];
  /** The flag whose value is being typed. */
  readonly pending: FlagSpec | undefined;
  /** No flags follow after `--`. */
  readonly onlyArgs: boolean;
}

/** Reads the words like the program itself: a first word that is not a command is a Service to trace. */
export function readWords(words: readonly string[], commands: readonly CommandSpec[]): CommandWords {
  const all = allFlags(commands);
  const at = firstArgument(words, all);
  if (at === undefined) return {command: undefined, ...readRest(words, all)};
  const named = commands.find(({id}) => id === words[at]);
  const command = named ?? commands.find(({id}) => id === 'trace');
  return {command, ...readRest(named === undefined ? words : words.toSpliced(at, 1), command?.flags ?? all)};
}

function firstArgument(words: readonly string[], flags: Readonly<Record<string, FlagSpec>>): number | undefined {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (word === '--') return undefined;
    if (!word.startsWith('-')) return at;
    if (flagOf(word, flags)?.takesNext) at++;
  }
  return undefined;
}

function readRest(words: readonly string[], known: Readonly<Record<string, FlagSpec>>): Omit<CommandWords, 'command'> {
  const flags = new Map<string, string[]>();
  const args: string[] = [];
  let pending: FlagSpec | undefined;
  let onlyArgs = false;
  const give = (name: string, value: string): void => void pushTo(flags, name, value);
  for (const word of words) {
    const flag = onlyArgs || pending !== undefined ? undefined : flagOf(word, known);
    if (pending !== undefined) {
      give(pending.name, word);
      pending = undefined;
    } else if (onlyArgs || (flag === undefined && !word.startsWith('-'))) args.push(word);
    else if (word === '--') onlyArgs = true;
    else if (flag?.takesNext) pending = flag.spec;
    else if (flag !== undefined) give(flag.spec.name, flag.value);
  }
  return {flags, args, pending, onlyArgs};
}

interface GivenFlag {
  readonly spec: FlagSpec;
  readonly value: string;
  /** The next word is its value. */
  readonly takesNext: boolean;
}

/** Undefined for a word that is not a flag, and for an unknown flag. */
function flagOf(word: string, known: Readonly<Record<string, FlagSpec>>): GivenFlag | undefined {
  const [, dashes = '', name = '', value] = /^(--?)([^=]+)(?:=(.*))?$/s.exec(word) ?? [];
  if (dashes === '') return undefined;
  const spec =
    dashes === '--'
      ? (known[name] ?? known[name.replace(/^no-/, '')])
      : Object.values(known).find(({char}) => char !== undefined && name.startsWith(char));
  if (spec === undefined) return undefined;
  if (spec.type === 'boolean') return {spec, value: 'true', takesNext: false};
  const attached = dashes === '-' && name.length > 1 ? name.slice(1) : value;
  return {spec, value: attached ?? '', takesNext: attached === undefined};
}

function allFlags(commands: readonly CommandSpec[]): Readonly<Record<string, FlagSpec>> {
  return Object.assign({}, ...commands.map(({flags}) => flags)) as Readonly<Record<string, FlagSpec>>;
}
