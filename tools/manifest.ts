import {join} from 'node:path';
import {type Command, type Interfaces, Plugin, settings} from '@oclif/core';
import {oclifOptions} from '../src/cli/oclif-options.ts';

/** What oclif knows of the commands once it has loaded them all: with it written down, it need load none but the one that is run. */
export async function commandManifest(): Promise<Interfaces.Manifest> {
  settings.enableAutoTranspile = false;
  const root = join(import.meta.dirname, '..');
  const plugin = new Plugin({...(await oclifOptions(root)), root, errorOnManifestCreate: true, isRoot: true, type: 'core'});
  await plugin.load();
  const commands = Object.entries(plugin.manifest.commands).map(([id, command]) => [id, withoutPlace(command)] as const);
  return {...plugin.manifest, commands: Object.fromEntries(commands.sort(([a], [b]) => (a < b ? -1 : 1)))};
}

/** Where the source lies is of no use to those who have the bundle. */
function withoutPlace(command: Command.Cached): Command.Cached {
  return {...command, isESM: undefined, relativePath: undefined};
}
