import type {Plugin} from 'esbuild';

/**
 * What oclif finds commands, plugins, settings and compilers with, in a program where the build already decides all of that
 * (src/cli/built-plugin.ts). It would be loaded at every start.
 */
const unused = ['lilconfig', 'minimatch', 'semver', 'tinyglobby', 'typescript'];

/** oclif asks at every start whether Linux runs under Windows, and says no more of it than "wsl" in place of "linux". */
const answered: Readonly<Record<string, string>> = {'wsl-utils': 'export const isWsl = false;'};

/** Leaves packages out of the bundle that it has no use for. Should one be used after all, that fails loudly. */
export const leaveOut: Plugin = {
  name: 'leave-out',
  setup(build) {
    const names = [...unused, ...Object.keys(answered)];
    build.onResolve({filter: new RegExp(`^(${names.join('|')})$`)}, ({path}) => ({path, namespace: 'left-out'}));
    build.onLoad({filter: /.*/, namespace: 'left-out'}, ({path}) => ({contents: answered[path] ?? failingModule(path)}));
  },
};

/** `__esModule` is what the importing side asks for, before anything is used. */
function failingModule(name: string): string {
  return `module.exports = new Proxy({}, {
    get(_, member) {
      if (member === '__esModule') return true;
      throw new Error('${name} is not part of this program: ' + String(member));
    },
  });`;
}
