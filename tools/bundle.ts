import {join} from 'node:path';
import {type BuildOptions, build, type Metafile} from 'esbuild';
import {leaveOut} from './leave-out.ts';
import {plainBuiltins} from './plain-builtins.ts';

const root = join(import.meta.dirname, '..');

/** What both bundles, for Node.js and for executables, are made with. Names stay as they are: a stack trace is part of a bug report. */
export const bundleOptions = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node22.19',
  charset: 'utf8',
  legalComments: 'none',
  minifySyntax: true,
  logLevel: 'warning',
  metafile: true,
  plugins: [leaveOut, plainBuiltins],
  // oclif and others are CommonJS, and ask for Node's own modules by require.
  banner: {
    js: "import {createRequire as svcTraceRequire} from 'node:module';\nconst require = /* @__PURE__ */ svcTraceRequire(import.meta.url);",
  },
} as const satisfies BuildOptions;

/**
 * Bundles the program and the library with what they depend on: an entry for each executable of `bin` and for the library, and
 * chunks beside them that are loaded when a command needs them. Says which file went where.
 */
export async function bundle(folder: string): Promise<Metafile> {
  const {metafile} = await build({
    ...bundleOptions,
    entryPoints: {main: 'src/cli/main.ts', complete: 'src/cli/complete/print-completion.ts', index: 'src/index.ts'},
    splitting: true,
    outdir: folder,
    // Beside the entries: packageFile() counts on it.
    chunkNames: '[name]-[hash]',
  });
  return metafile;
}
