import {closest} from '../run/scope/closest.ts';

/** What oclif's parser adds to an error about a flag or an argument. */
interface ParseError extends Error {
  /** Set, oclif prints the whole help after the error, which pushes the error off the screen. */
  showHelp?: boolean;
  suggestions?: readonly string[];
  /** Flags that do not exist. */
  readonly flags?: readonly string[];
  readonly oclif?: {readonly exit?: number};
  readonly parse?: {readonly input?: {readonly flags?: Readonly<Record<string, unknown>>}};
}

/** An error about flags without the whole help behind it, and with the flags that may have been meant. */
export function shortError(error: ParseError): Error {
  if (error.showHelp === undefined) return error;
  error.showHelp = false;
  const known = Object.keys(error.parse?.input?.flags ?? {}).map(name => `--${name}`);
  const meant = (error.flags ?? []).flatMap(flag => closest(flag.replace(/=.*/s, ''), known));
  if (meant.length > 0) error.suggestions = meant;
  return error;
}

/** Wrong use that begins with a word taken for a Service: it may be a command that was mistyped. `word` is null when a command was given. */
export function meantCommand(error: Error, {word, commands}: {readonly word: string | null; readonly commands: readonly string[]}): Error {
  const {oclif, suggestions = []} = error as ParseError;
  const meant = word === null || oclif?.exit !== 2 ? [] : closest(word, commands).map(name => `the command "${name}"`);
  return meant.length === 0 ? error : Object.assign(error, {suggestions: [...suggestions, ...meant.slice(0, 1)]});
}
