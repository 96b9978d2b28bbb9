import process from 'node:process';
import {commandSpecs} from '../complete/command-spec.ts';
import {commandHelp, type HelpSpec} from './command-help.ts';

/** Prints the help of the command at the beginning of the arguments. False if they do not ask for help, which is left to oclif. */
export async function showHelp(args: readonly string[], {root, bin}: {readonly root: string; readonly bin: string}): Promise<boolean> {
  const end = args.indexOf('--');
  const flags = end < 0 ? args : args.slice(0, end);
  if (!flags.includes('--help') && !flags.includes('-h')) return false;
  const spec = (await commandSpecs(root)).find(({id}) => id === args[0]);
  if (spec === undefined) return false;
  process.stdout.write(`${commandHelp(spec as HelpSpec, {bin, width: process.stdout.columns ?? 80})}\n`);
  return true;
}
