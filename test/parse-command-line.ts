import {Parser} from '@oclif/core';
import {commandModules} from '../src/cli/command-modules.ts';

/** Parses `check -A …` as the program does. Rejects what it would call wrong use; a first word that is no command is a Service. */
export async function parseCommandLine(words: readonly string[]): Promise<unknown> {
  const [first = '', ...rest] = words;
  const load = commandModules[first];
  const loaded = await (load ?? commandModules['trace'])?.();
  if (loaded === undefined) throw new Error('there is no command trace');
  const {flags, args, strict} = loaded.default;
  return Parser.parse(load ? [...rest] : [...words], {flags, args, strict});
}
