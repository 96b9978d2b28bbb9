import process from 'node:process';
import {fileURLToPath} from 'node:url';
import {valueFlags, withCommand} from './command-line.ts';
import {commandModules} from './command-modules.ts';
import {showHelp} from './help/show-help.ts';
import {versionText} from './built-manifest.ts';
import {endOnWriteError} from './terminal.ts';

/**
 * Runs the command line and sets the exit code.
 * @param argv what follows the executable's name
 * @param url of the executable, a file in the package's `bin`
 */
export async function main(argv: readonly string[], url: string): Promise<void> {
  if (argv[0] === '__complete') return (await import('./complete/print-completion.ts')).completeMain(argv.slice(1), url);
  endOnWriteError();
  const commands = Object.keys(commandModules);
  // Help and the version are shown without oclif, whose loading takes longer than they do.
  const oclif = () => import('./run-command.ts');
  try {
    // `help -h` is `help`, as in kubectl.
    const asked = argv[0] === 'help' && /^(?:-h|--help)$/.test(argv[1] ?? '') ? ['help'] : argv;
    const args = withCommand(asked, commands, valueFlags);
    const root = fileURLToPath(new URL('..', url));
    if (args[0] === 'help') throw (await oclif()).unknownCommand(args[1] ?? '', commands);
    if (args[0] === '--version') process.stdout.write(`${versionText(root)}\n`);
    else if (!(await showHelp(args, {root, bin}))) await (await oclif()).runCommand(args, root);
    await flush();
  } catch (error) {
    // Ending the process would lose output that is still in the pipe.
    await flush();
    await (await oclif()).endWith(error, {argv, commands, flagsWithValue: valueFlags, bin});
  }
}

const bin = 'kubectl svc-trace';

/** Resolves when stdout has written everything, or is closed. */
function flush(): Promise<void> {
  return new Promise(resolve => {
    process.stdout.write('', () => resolve());
  });
}
