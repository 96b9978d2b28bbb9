import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {afterAll, beforeAll, expect, test} from 'vitest';

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
  'bin/dev.js': `import {main} from ${JSON.stringify(join(root, 'src/cli/main.ts'))};\nawait main(process.argv.slice(2), import.meta.url);`,
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
};

let project: string;

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'svc-trace-main-'));
  for (const folder of ['bin', 'src/cli/commands']) mkdirSync(join(project, folder), {recursive: true});
  for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text);
});

afterAll(() => rmSync(project, {recursive: true}));

const sample = execa({node: true, reject: false});
const run = (...args: string[]) => sample(join(project, 'bin/dev.js'), args);

test('a Service given in place of a command is traced', async () => {
  expect(await run('web')).toMatchObject({stdout: 'traced web', exitCode: 0});
});

test.each([[], ['--help'], ['-h'], ['help']].map(args => [args.join(' ') || 'no argument', args] as const))(
  '%s shows the help of the program',
  async (_, args) => {
    const {stdout, exitCode} = await run(...args);
    expect(stdout).toContain('COMMANDS');
    expect(exitCode).toBe(0);
  },
);

test('--version is the version of the package', async () => {
  expect((await run('--version')).stdout).toMatch(/^sample\/1\.2\.3 /);
});

test('an unknown flag is an error of a few lines', async () => {
  const {stderr, exitCode} = await run('web', '--nope');
  expect(stderr).toContain('unknown flag --nope');
  expect(stderr).not.toContain('USAGE');
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

test('a slow reader gets all output before the process ends, whatever its exit code', async () => {
  const {stdout, exitCode} = await sample(
    'bash',
    ['-c', 'set -o pipefail; "$@" | { sleep 0.3; wc -c; }', 'bash', process.execPath, join(project, 'bin/dev.js'), 'much'],
    {
      node: false,
    },
  );
  expect(stdout.trim()).toBe('10000001');
  expect(exitCode).toBe(1);
});

test('a reader that closes the pipe early causes no error', async () => {
  const {stderr, exitCode} = await sample(
    'bash',
    ['-c', 'set -o pipefail; "$@" | head -c 1', 'bash', process.execPath, join(project, 'bin/dev.js'), 'much'],
    {node: false},
  );
  expect(stderr).toBe('');
  expect(exitCode).toBe(1);
});
