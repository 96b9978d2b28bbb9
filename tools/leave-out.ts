import type {OnResolveArgs, Plugin} from 'esbuild';

/**
 * What oclif finds commands, plugins, settings and compilers with, in a program where the build already decides all of that
 * (src/cli/built-plugin.ts). It would be loaded at every start.
 */
const unusedByOclif = ['lilconfig', 'minimatch', 'semver', 'tinyglobby', 'typescript'];

/**
 * What client-node makes typed requests, proxies and logins with (docs/architecture.md). Its KubeConfig imports all of it,
 * and src/collect/kube calls none of it: 3 MB that would be loaded before every live check.
 */
const unusedByClient = [
  'undici',
  'openid-client',
  'jsonpath-plus',
  'hpagent',
  'socks',
  'socks-proxy-agent',
  './gen/index.js',
  './middleware.js',
];

/** oclif asks at every start whether Linux runs under Windows, and says no more of it than "wsl" in place of "linux". */
const answered: Readonly<Record<string, string>> = {'wsl-utils': 'export const isWsl = false;'};

/** Leaves packages out of the bundle that it has no use for. Should one be used after all, that fails loudly. */
export const leaveOut: Plugin = {
  name: 'leave-out',
  setup(build) {
    const names = [...unusedByOclif, ...unusedByClient, ...Object.keys(answered)].map(name => name.replaceAll('.', '\\.'));
    build.onResolve({filter: new RegExp(`^(${names.join('|')})$`)}, args =>
      isUsed(args) ? undefined : {path: args.path, namespace: 'left-out'},
    );
    build.onLoad({filter: /.*/, namespace: 'left-out'}, ({path}) => ({contents: answered[path] ?? failingModule(path)}));
  },
};

/** src/collect/kube/socks-tunnel.ts connects with `socks`. */
function isUsed({path, importer}: OnResolveArgs): boolean {
  return unusedByClient.includes(path) && !/[\\/]@kubernetes[\\/]client-node[\\/]/.test(importer);
}

/** `__esModule` is what the importing side asks for, before anything is used. */
function failingModule(name: string): string {
  return `module.exports = new Proxy({}, {
    get(_, member) {
      if (member === '__esModule') return true;
      throw new Error('${name} is not part of this program: ' + String(member));
    },
  });`;
}
