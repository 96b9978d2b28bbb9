import {toolFolders} from './root-command.ts';

/** The line that the login shell of the node gets: every word quoted, and a PATH in which a plain user finds the tools too. */
export function remoteCommand(argv: readonly string[]): string {
  return `env PATH="$PATH:${toolFolders}" ${argv.map(quoted).join(' ')}`;
}

/** In single quotes nothing means anything to a POSIX shell, but the single quote. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
