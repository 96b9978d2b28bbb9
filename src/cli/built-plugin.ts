import type {Command, Interfaces} from '@oclif/core';
import {builtManifest} from './built-manifest.ts';
import {commandModules} from './command-modules.ts';
import {packageFile} from './package-file.ts';

/** This program as a plugin of oclif whose commands are parts of the bundle, where oclif's own loader would look for files of theirs. */
export function builtPlugin(root: string): Interfaces.Plugin {
  const pjson: Interfaces.PJSON = JSON.parse(packageFile('package.json'));
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

/** Throws for a name that is none of a command: that is a bug, as oclif asks for those of the manifest only. */
async function loadCommand(id: string, plugin: Interfaces.Plugin): Promise<Command.Class> {
  const load = commandModules[id];
  if (load === undefined) throw new Error(`no module holds the command ${id}`);
  const {default: command} = await load();
  return Object.assign(command, {id, plugin});
}
