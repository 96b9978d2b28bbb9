import {toolFolders} from './root-command.ts';

/** The line for the login shell of the node: every word quoted, and a PATH with the directories of the tools. */
export function remoteCommand(argv: readonly string[]): string {
  return `env PATH="$PATH:${toolFolders}" ${argv.map(quoted).join(' ')}`;
}

/** In single quotes, only the single quote is special in a POSIX shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
