import process from 'node:process';
import {commandSpecs} from '../complete/command-spec.ts';
import {packageJson} from '../package-json.ts';
import {commandHelp, type HelpSpec} from './command-help.ts';
import {programHelp} from './program-help.ts';

/** Prints the help of the command at the beginning of the arguments, or of the program. False if the arguments do not ask for help. */
export async function showHelp(args: readonly string[], {root, bin}: {readonly root: string; readonly bin: string}): Promise<boolean> {
  const end = args.indexOf('--');
  const flags = end < 0 ? args : args.slice(0, end);
  if (args.length > 0 && !flags.includes('--help') && !flags.includes('-h')) return false;
  const commands = await commandSpecs(root);
  const spec = commands.find(({id}) => id === args[0]);
  const layout = {bin, width: process.stdout.columns ?? 80};
  const text =
    spec === undefined
      ? programHelp({description: packageJson(root).oclif.description ?? '', commands}, layout)
      : commandHelp(spec as HelpSpec, layout);
  process.stdout.write(`${text}\n`);
  return true;
}
