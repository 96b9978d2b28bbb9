import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {Config, handle, type Interfaces, run, settings} from '@oclif/core';
import {valueFlags, withCommand} from './command-line.ts';

/**
 * Runs the command line and sets the exit code.
 * @param argv what follows the executable's name
 * @param url of the executable, a file in the package's `bin`
 */
export async function main(argv: readonly string[], url: string): Promise<void> {
  if (argv[0] === '__complete') return (await import('./complete/main.ts')).completeMain(argv.slice(1), url);
  try {
    // dist/ holds what the sources were when they were built; oclif must not go looking for TypeScript next to it.
    settings.enableAutoTranspile = false;
    const config = await Config.load(loadOptions(fileURLToPath(new URL('..', url))));
    const args = withCommand(argv, config.commandIDs, valueFlags);
    // With a wrong flag or argument oclif shows the help of the command it finds here.
    process.argv.splice(2, Infinity, ...args);
    await run(args, config);
    await flush();
  } catch (error) {
    // oclif ends the process, and what a pipe has not taken yet would be lost.
    await flush();
    await handle(withExitCode(error));
  }
}

/** Started from the sources (`bin/dev.js`), the commands are those of the sources too. */
function loadOptions(root: string): Interfaces.Options {
  if (!import.meta.url.endsWith('.ts')) return {root};
  const pjson = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));
  const commands = {strategy: 'pattern', target: './src/commands', globPatterns: sourcePatterns(pjson.oclif.commands.globPatterns)};
  return {root, ignoreManifest: true, pjson: {...pjson, oclif: {...pjson.oclif, commands}}};
}

function sourcePatterns(patterns: readonly string[]): string[] {
  return patterns.map(pattern => pattern.replace(/\.js$/, '.ts'));
}

/** Resolves when stdout has taken everything written so far, or is gone: a reader that has seen enough (`| head`) is no error. */
function flush(): Promise<void> {
  return new Promise(resolve => {
    process.stdout.write('', () => resolve());
  });
}

/** An error that does not name its exit code is a bug. It must not look like a finding (1), so it ends as "could not look" (3). */
function withExitCode(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  return 'oclif' in error ? error : Object.assign(error, {oclif: {exit: 3}});
}
