import {mkdirSync, mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {build} from 'esbuild';
import {bundleOptions} from '../bundle.ts';
import {bunFor} from './bun.ts';
import {embedFiles} from './embed-files.ts';
import {executableName, ownPlatform, type Platform, platformName} from './platforms.ts';
import {root, run} from './run.ts';

/** The path of the executable that `compile` makes for this platform. */
export function executablePath(folder: string, platform: Platform): string {
  return join(folder, platformName(platform), executableName(platform));
}

/** Makes an executable for each platform, in a folder of its own. dist/ must have been built. */
export async function compile(folder: string, platforms: readonly Platform[]): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'svc-trace-compile-'));
  try {
    await bundleForBun(join(work, 'svc-trace.cjs'));
    const compiler = await bunFor(ownPlatform());
    for (const platform of platforms) {
      const outfile = executablePath(folder, platform);
      mkdirSync(join(folder, platformName(platform)), {recursive: true});
      const runtime = ['--compile-executable-path', await bunFor(platform), `--target=bun-${platform.bun.replace('aarch64', 'arm64')}`];
      run(
        compiler,
        ['build', '--compile', '--bytecode', ...lateCompilation, ...closed, ...runtime, 'svc-trace.cjs', '--outfile', outfile],
        work,
      );
    }
  } finally {
    rmSync(work, {recursive: true});
  }
}

/**
 * How many times later than usual Bun compiles code to machine code. Most runs end before this is worth the compiler's CPU time: a check of
 * a small bundle takes half of it, one of many nodes a seventh less, and one of a big node a few percent less. The longest runs take as long
 * as before; at a scale of 256, the runs that walk many packets take longer.
 */
const lateCompilation = ['--compile-jit-policy', '32'];

/** What lies in the folder where somebody happens to work is none of the program's business. */
const closed = ['--no-compile-autoload-dotenv', '--no-compile-autoload-bunfig'];

/**
 * One file, whose parts are still evaluated only when they are needed. CommonJS starts fastest with Bun's bytecode. Paths of the machine
 * that builds it do not get in: they would make each build another one.
 */
async function bundleForBun(outfile: string): Promise<void> {
  const {metafile: _, ...options} = bundleOptions;
  await build({
    ...options,
    stdin: {contents: entry, resolveDir: root, loader: 'ts'},
    outfile,
    format: 'cjs',
    target: 'esnext',
    banner: {},
    define: {__dirname: '"/"', __filename: '"/kubectl-svc_trace"'},
    plugins: [...bundleOptions.plugins, embedFiles],
    // Where there is no import.meta, there are no sources.
    logOverride: {'empty-import-meta': 'silent'},
  });
}

/** Bun prints nothing for `console.error()`, where Node.js prints an empty line. */
const entry = `import {pathToFileURL} from 'node:url';
  import {main} from './src/cli/main.ts';
  const {error, log} = console;
  console.error = (...args) => args.length === 0 ? error('') : error(...args);
  console.log = (...args) => args.length === 0 ? log('') : log(...args);
  main(process.argv.slice(2), pathToFileURL(process.execPath).href);`;
