import type {Command, Interfaces} from '@oclif/core';
import {builtManifest, packageJson} from './built-manifest.ts';
import {commandModules} from './command-modules.ts';

/** This program as a plugin of oclif whose commands are in the bundle. oclif's own loader would look for separate files. */
export function builtPlugin(root: string): Interfaces.Plugin {
  const pjson = packageJson(root);
  const manifest = builtManifest();
  const plugin: Interfaces.Plugin = {
    _base: '',
    alias: pjson.name,
    commandIDs: Object.keys(manifest.commands),
    commands: Object.values(manifest.commands).map(cached => ({...cached, load: () => loadCommand(cached.id, plugin)})),
    commandsDir: undefined,
    findCommand: id => loadCommand(id, plugin),
    hasManifest: true,
    hooks: {},
    isRoot: true,
    load: async () => {},
    moduleType: 'module',
    name: pjson.name,
    options: {root},
    pjson,
    root,
    topics: [],
    type: 'core',
    valid: true,
    version: pjson.version,
  };
  return plugin;
}

/** Throws for a name that is not a command: this is a bug, because oclif requests only those of the manifest. */
async function loadCommand(id: string, plugin: Interfaces.Plugin): Promise<Command.Class> {
  const load = commandModules[id];
  if (load === undefined) throw new Error(`no module holds the command ${id}`);
  const {default: command} = await load();
  return Object.assign(command, {id, plugin});
}
