import {setTimeout as sleep} from 'node:timers/promises';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import {parseTimeout} from '../../collect/kube/kubeconfig.ts';
import {escapeText} from '../../render/renderer.ts';
import {commandSpecs} from './command-spec.ts';
import {type Candidate, complete, type Completion, type LookUp, nothing} from './complete.ts';

/**
 * Prints how the last word of a command line may go on, as kubectl and the scripts of `completion` read it: a line for each candidate, a tab
 * between it and its description, and `:DIRECTIVE` at the end (cobra's `__complete`). Quiet: what goes wrong, or takes
 * longer than SVC_TRACE_COMPLETION_TIMEOUT, completes to nothing.
 * @param argv the words after the program's name; the last one is being typed, and may be empty
 * @param url of the executable, a file in the package's `bin`
 */
export async function completeMain(argv: readonly string[], url: string): Promise<void> {
  const root = fileURLToPath(new URL('..', url));
  const patience = parseTimeout(process.env['SVC_TRACE_COMPLETION_TIMEOUT'] ?? '') || usualPatience;
  const found = await Promise.race([completionOf(argv, root, patience), sleep(patience, nothing)]);
  process.stdout.write(completionText(found), () => process.exit(0));
}

/** In milliseconds. No user waits longer for a completion. */
const usualPatience = 1800;

async function completionOf(argv: readonly string[], root: string, patience: number): Promise<Completion> {
  try {
    const commands = await commandSpecs(root);
    // Commands and flags need no code for clusters. A request may take half of the time.
    const lookUp: LookUp = async (kind, words, typed) => {
      if (kind !== 'codes') return (await import('./look-up-names.ts')).lookUpNames(kind, words, {typed, requestTimeout: patience / 2});
      const {checks} = await import('../../checks/all-checks.ts');
      return checks.map(({code, name, summary}) => ({value: code, description: `${name}: ${summary}`}));
    };
    return await complete(argv.slice(0, -1), argv.at(-1) ?? '', {commands, lookUp});
  } catch {
    return nothing;
  }
}

/** Directives of cobra: 2, no space after the word; 4, no file names. */
function completionText({candidates, files, noSpace}: Completion): string {
  const directive = (noSpace ? 2 : 0) + (files ? 0 : 4);
  return `${candidates.map(lineOf).join('')}:${directive}\n`;
}

function lineOf({value, description = ''}: Candidate): string {
  const told = description.split('\n', 1)[0] ?? '';
  return `${escapeText(value)}${told === '' ? '' : `\t${escapeText(told.length > 80 ? `${told.slice(0, 79)}…` : told)}`}\n`;
}
