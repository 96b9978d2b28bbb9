import type {Interfaces} from '@oclif/core';
import {isBuilt, packageJson} from './built-manifest.ts';

/** How oclif finds the commands of the package in this folder: the built ones, or those of the sources. */
export async function oclifOptions(root: string): Promise<Interfaces.Options> {
  if (!isBuilt) return sourceOptions(root);
  const {builtPlugin} = await import('./built-plugin.ts');
  const plugin = builtPlugin(root);
  return {root, pjson: plugin.pjson, plugins: new Map([[plugin.name, plugin]])};
}

/** From sources every command is loaded, so that help and completion know its flags. */
function sourceOptions(root: string): Interfaces.Options {
  const pjson = packageJson(root);
  const commands: Interfaces.PJSON['oclif']['commands'] = {
    strategy: 'pattern',
    target: './src/cli/commands',
    globPatterns: ['*.ts', '!base-command.ts'],
  };
  return {root, ignoreManifest: true, pjson: {...pjson, oclif: {...pjson.oclif, commands}}};
}
