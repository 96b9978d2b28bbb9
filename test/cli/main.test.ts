import {mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {build} from 'esbuild';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';

const root = join(import.meta.dirname, '../..');

// A small program around the real main(), whose only command does what no real command should.
const oclif = JSON.stringify(import.meta.resolve('@oclif/core'));
const files = {
  'package.json': JSON.stringify({
    name: 'sample',
    version: '1.2.3',
    type: 'module',
    oclif: {bin: 'sample', additionalHelpFlags: ['-h'], commands: {globPatterns: ['*.js']}},
  }),
  'bin/dev.js': `import {main} from '../dist/main.ts';\nawait main(process.argv.slice(2), import.meta.url);`,
  'src/cli/commands/trace.ts': `
    import {Args, Command} from ${oclif};
    export default class Trace extends Command {
      static summary = 'Do as told.';
      static args = {service: Args.string()};
      async run() {
        const {args} = await this.parse(Trace);
        if (args.service === 'bug') throw new TypeError('not a function');
        if (args.service === 'finding') this.exit(1);
        if (args.service === 'wrong-use') this.error('no such Service');
        if (args.service === 'much') {
          this.log('x'.repeat(10_000_000));
          this.exit(1);
        }
        this.log('traced ' + args.service);
      }
    }`,
  'src/cli/commands/check.ts': `
    import {Args} from ${oclif};
    import {BaseCommand} from '../../../dist/base-command.ts';
    function* pieces(broken) {
      for (let count = 0; count < 50; count++) yield 'x'.repeat(200_000);
      if (broken) throw new TypeError('not a function');
    }
    export default class Check extends BaseCommand {
      static summary = 'Print a report in pieces.';
      static args = {service: Args.string(), file: Args.string()};
      async run() {
        const {args} = await this.parse(Check);
        await this.printPieces(pieces(args.service === 'broken'), args.file);
        process.exitCode ??= 1;
      }
    }`,
};

const project = mkdtempSync(join(tmpdir(), 'svc-trace-main-'));

beforeAll(async () => {
  // Loading some hundred sources would be most of each run.
  await build({
    entryPoints: [join(root, 'src/cli/main.ts'), join(root, 'src/cli/commands/base-command.ts')],
    outdir: join(project, 'dist'),
    entryNames: '[name]',
    bundle: true,
    splitting: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    // As from sources, the commands are those of the folder, and not those that a build has recorded.
    outExtension: {'.js': '.ts'},
  });
  symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'));
  for (const folder of ['bin', 'src/cli/commands']) mkdirSync(join(project, folder), {recursive: true});
  for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text);
});

afterAll(() => rmSync(project, {recursive: true}));

// The sources are compiled once for all runs.
const sample = execa({node: true, reject: false, env: {NODE_COMPILE_CACHE: join(project, 'compiled')}});
const run = (...args: string[]) => sample(join(project, 'bin/dev.js'), args);

test('a Service given in place of a command is traced', async () => {
  expect(await run('web')).toMatchObject({stdout: 'traced web', exitCode: 0});
});

test.each([[], ['--help'], ['-h'], ['help']].map(args => [args.join(' ') || 'no argument', args] as const))(
  '%s shows the help of the program',
  async (_, args) => {
    const {stdout, exitCode} = await run(...args);
    expect(stdout).toContain('COMMAND --help shows examples and flags');
    expect(exitCode).toBe(0);
  },
);

test('--version is the version of the package, the platform, and the version of Node.js', async () => {
  const {stdout, exitCode} = await run('--version');
  expect(stdout).toBe(`sample/1.2.3 ${process.platform}-${process.arch} node-${process.version}`);
  expect(exitCode).toBe(0);
});

test('an unknown flag is an error of a few lines', async () => {
  const {stderr, exitCode} = await run('web', '--nope');
  expect(stderr).toContain('unknown flag --nope');
  expect(stderr).not.toContain('Usage');
  expect(stderr.trim().split('\n').length).toBeLessThan(8);
  expect(exitCode).toBe(2);
});

test.each([
  ['a finding', 'finding', 1],
  ['wrong use', 'wrong-use', 2],
  ['a bug, which must not look like a finding,', 'bug', 3],
])('%s has its exit code', async (_, service, exitCode) => {
  expect(await run(service)).toMatchObject({exitCode});
});

describe.each([
  ['at once', ['much']],
  ['in pieces', ['check', 'whole']],
])('of a report that is written %s', (_, args) => {
  const through = (pipe: string) =>
    sample('bash', ['-c', `set -o pipefail; "$@" | ${pipe}`, 'bash', process.execPath, join(project, 'bin/dev.js'), ...args], {
      node: false,
    });

  test('a slow reader gets all before the process ends, whatever its exit code', async () => {
    const {stdout, exitCode} = await through('{ sleep 0.3; wc -c; }');
    expect(stdout.trim()).toBe('10000001');
    expect(exitCode).toBe(1);
  });

  test('a reader that closes the pipe early causes no error', async () => {
    const {stderr, exitCode} = await through('head -c 1');
    expect(stderr).toBe('');
    expect(exitCode).toBe(1);
  });
});

test.each([['to stdout'], ['to a file', 'report']])(
  'a bug in making a piece of a report %s does not look like a finding, nor like success',
  async (_, ...file) => {
    const {stderr, exitCode} = await sample(join(project, 'bin/dev.js'), ['check', 'broken', ...file.map(name => join(project, name))]);
    expect(stderr).toContain('not a function');
    expect(exitCode).toBe(3);
  },
);

test('a report in pieces that cannot be written to a file is wrong use', async () => {
  for (const [file, reason] of [
    [join(project, 'nowhere/report'), 'no such file or directory'],
    ['/dev/full', 'no space left on device'],
  ] as const) {
    const {stderr, exitCode} = await run('check', 'whole', file);
    expect(stderr).toContain(`cannot write the report to ${file}: `);
    expect(stderr).toContain(reason);
    expect(exitCode).toBe(2);
  }
});

describe.each([
  ['a report that is written at once', ['much'], 1],
  ['a report in pieces', ['check', 'whole'], 1],
  ['the help of the program', ['--help'], 0],
  ['the help of a command', ['check', '--help'], 0],
  ['the version', ['--version'], 0],
])('%s', (_, args, usualExitCode) => {
  const redirected = (redirection: string) =>
    sample('bash', ['-c', `"$@" ${redirection}`, 'bash', process.execPath, join(project, 'bin/dev.js'), ...args], {node: false});

  test('that stdout does not take is an error of one line, like a file that cannot be written', async () => {
    const {stderr, exitCode} = await redirected('> /dev/full');
    expect(stderr).toBe('Error: cannot write to stdout: no space left on device');
    expect(exitCode).toBe(2);
  });

  test('for a reader that has closed the pipe is no error', async () => {
    const {stderr, stdout} = await redirected('> >(true); echo "exit code $?"');
    expect(stderr).toBe('');
    expect(stdout).toBe(`exit code ${usualExitCode}`);
  });
});

test('a report in pieces is written to a file with a newline at its end', async () => {
  const file = join(project, 'report');
  expect(await run('check', 'whole', file)).toMatchObject({stdout: '', exitCode: 1});
  expect(readFileSync(file, 'utf8')).toBe(`${'x'.repeat(10_000_000)}\n`);
});
