import {createHash} from 'node:crypto';
import {chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {load} from 'js-yaml';
import {create} from 'tar';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import packageJson from '../package.json' with {type: 'json'};
import {codeBlocksOf, readPage} from './doc-pages.ts';
import {capturePath} from './fixtures.ts';
import {parseCommandLine} from './parse-command-line.ts';
import type {ApiServer} from './stand-in/api-server.ts';
import {startBundleCluster} from './stand-in/bundle-cluster.ts';

const root = join(import.meta.dirname, '..');
const program = join(root, 'bin/run.js');
const page = 'docs/integrations.md';
const yamlBlocks = codeBlocksOf(page)
  .filter(({language}) => language === 'yaml')
  .map(({text}) => load(text) as Readonly<Record<string, unknown>>);

let folder: string;
let server: ApiServer;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-integrations-'));
  server = await startBundleCluster(capturePath('faults/missing-endpoint'));
});
afterAll(async () => {
  rmSync(folder, {recursive: true});
  await server.close();
});

function blockWith<Block>(key: string): Block {
  const found = yamlBlocks.find(block => key in block);
  if (found === undefined) throw new Error(`${page} shows no YAML with ${key}`);
  return found as Block;
}

/** A folder for PATH with a program of this name, and a pager that does not wait. */
function script(name: string, text: string): string {
  const bin = mkdtempSync(join(folder, 'bin-'));
  for (const [file, content] of [
    [name, text],
    ['less', '#!/bin/sh\nexec cat\n'],
  ] as const) {
    writeFileSync(join(bin, file), content);
    chmodSync(join(bin, file), 0o755);
  }
  return bin;
}

describe('the k9s plugin', () => {
  interface Plugin {
    readonly shortCut: string;
    readonly scopes: readonly string[];
    readonly command: string;
    readonly args: readonly string[];
  }
  const {plugins} = blockWith<{readonly plugins: Readonly<Record<string, Plugin>>}>('plugins');
  const each = Object.entries(plugins);

  // internal/config/json/schemas/plugins.json of k9s.
  const keys = [
    'shortCut',
    'override',
    'description',
    'confirm',
    'dangerous',
    'scopes',
    'command',
    'background',
    'overwriteOutput',
    'args',
  ];

  test.each(each)('%s has the fields that k9s requires, and no others', (_, plugin) => {
    expect(keys).toEqual(expect.arrayContaining(Object.keys(plugin)));
    expect(plugin).toMatchObject({shortCut: expect.stringMatching(/^Shift-[A-Z]$/), description: expect.any(String), scopes: ['services']});
    expect(plugin.args.every(argument => typeof argument === 'string')).toBe(true);
  });

  test('each has a key of its own, and none that the Services view uses', () => {
    const shortCuts = each.map(([, {shortCut}]) => shortCut);
    expect(new Set(shortCuts).size).toBe(each.length);
    expect(shortCuts).not.toContain('Shift-T');
  });

  /** As k9s does it: `$NAME` and `${NAME}`; one that it does not know is an error. */
  function substituted(argument: string, values: Readonly<Record<string, string>>): string {
    return argument.replaceAll(/\$!?([\w|-]+)|\$\{!?([\w\-%/: ]+)\}/g, (_, plain?: string, braced?: string) => {
      const value = values[(plain ?? braced ?? '').toUpperCase()];
      if (value === undefined) throw new Error(`k9s knows no variable ${plain ?? braced}`);
      return value;
    });
  }

  test.each(each)('%s runs on the selected Service', async (_, {command, args}) => {
    const context = (load(readFileSync(server.kubeconfig, 'utf8')) as {readonly 'current-context': string})['current-context'];
    const words = args.map(argument => substituted(argument, {NAMESPACE: 'shop', NAME: 'web', CONTEXT: context}));
    const bin = script('kubectl', `#!/bin/sh\nshift\nexec '${process.execPath}' '${program}' "$@"\n`);
    const env = {PATH: `${bin}:${process.env['PATH']}`, KUBECONFIG: server.kubeconfig, TERM: 'xterm'};
    const {stdout} = await execa(command, words, {env, stdin: 'ignore', reject: false});
    expect(stdout).toContain('shop/web');
    expect(stdout).toContain('ST202');
    expect(stdout).toContain('\u001b[');
  });

  test('a context with characters of the shell stays one argument', async () => {
    const context = '$(touch pwned); "x';
    const {args} = plugins['svc-trace'] ?? {args: []};
    const words = args.map(argument => substituted(argument, {NAMESPACE: 'shop', NAME: 'web', CONTEXT: context}));
    const bin = script('kubectl', '#!/bin/sh\nprintf "%s\\n" "$@"\n');
    const {stdout} = await execa('bash', words, {cwd: folder, env: {PATH: `${bin}:${process.env['PATH']}`}, stdin: 'ignore'});
    expect(stdout.split('\n')).toEqual(['svc-trace', 'trace', 'shop/web', '--context', context, '--color', 'always']);
    expect(existsSync(join(folder, 'pwned'))).toBe(false);
  });
});

describe('the GitHub Action', () => {
  interface Step {
    readonly name: string;
    readonly shell: string;
    readonly env: Readonly<Record<string, string>>;
    readonly run: string;
  }
  interface Action {
    readonly name: string;
    readonly description: string;
    readonly inputs: Readonly<Record<string, {readonly description: string; readonly default: string}>>;
    readonly outputs: Readonly<Record<string, {readonly description: string; readonly value: string}>>;
    readonly runs: {readonly using: string; readonly steps: readonly Step[]};
  }
  const action = load(readFileSync(join(root, 'action.yml'), 'utf8')) as Action;
  const {inputs, runs} = action;

  test('is a composite action whose steps say their shell, and whose inputs and outputs are described', () => {
    expect(action).toMatchObject({name: expect.any(String), description: expect.any(String), runs: {using: 'composite'}});
    for (const {description} of [...Object.values(inputs), ...Object.values(action.outputs)]) expect(description).toMatch(/^\S/);
    for (const step of runs.steps) expect(step).toMatchObject({shell: 'bash', run: expect.any(String)});
  });

  test('puts inputs into scripts through the environment only', () => {
    for (const {run} of runs.steps) expect(run).not.toContain('${{');
    const named = runs.steps.flatMap(({env}) => Object.values(env)).flatMap(value => /inputs\.([\w-]+)/.exec(value)?.[1] ?? []);
    expect(named.toSorted()).toEqual(Object.keys(inputs).toSorted());
  });

  test('every input is in the table of the page, with its default', () => {
    for (const [name, {default: value}] of Object.entries(inputs)) {
      expect(readPage(page)).toContain(`| \`${name}\` | `);
      if (name === 'arguments' || name === 'format') expect(readPage(page)).toContain(`| \`${name}\` | \`${value}\` |`);
    }
  });

  test('the page uses inputs that there are, and arguments that check accepts', async () => {
    const used = [...readPage(page).matchAll(/- uses: svc-trace\/svc-trace@v([\d.]+)\n(?:.*\n)*? *with:\n((?: {6,}.*\n)+)/g)];
    expect(used).toHaveLength(2);
    for (const [, version, text = ''] of used) {
      expect(version).toBe(packageJson.version);
      const values = load(text) as Readonly<Record<string, string>>;
      expect(Object.keys(inputs)).toEqual(expect.arrayContaining(Object.keys(values)));
      await parseCommandLine(['check', ...(values['arguments'] ?? '--all-namespaces').split(' '), '-o', values['format'] ?? 'github']);
    }
  });

  /** A release with one archive, as `npm run release` names it, in which the program is this build. */
  async function releaseFolder(change: (sums: string) => string = sums => sums): Promise<string> {
    const releases = mkdtempSync(join(folder, 'releases-'));
    const version = `v${packageJson.version}`;
    mkdirSync(join(releases, version));
    const bin = script('kubectl-svc_trace', `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
    const name = `svc-trace_${version}_linux_amd64.tar.gz`;
    await create({cwd: bin, file: join(releases, version, name), gzip: true}, ['kubectl-svc_trace']);
    const sum = createHash('sha256')
      .update(readFileSync(join(releases, version, name)))
      .digest('hex');
    writeFileSync(join(releases, version, 'checksums.txt'), change(`${'0'.repeat(64)}  another.tgz\n${sum}  ${name}\n`));
    return `file://${releases}`;
  }

  /** Runs the steps one after the other, as a runner does; a step that fails ends it. */
  async function runSteps(given: Readonly<Record<string, string>>) {
    const temp = mkdtempSync(join(folder, 'runner-'));
    const files = {GITHUB_PATH: join(temp, 'path'), GITHUB_OUTPUT: join(temp, 'output')};
    for (const file of Object.values(files)) writeFileSync(file, '');
    const evaluated = (text: string) =>
      text
        .replaceAll(/\$\{\{ inputs\.([\w-]+) \}\}/g, (_, name: string) => given[name] ?? inputs[name]?.default ?? '')
        .replaceAll(/\$\{\{ github\.action_path \}\}/g, root);
    const log: string[] = [];
    for (const {run, env} of runs.steps) {
      const own = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, evaluated(value)]));
      const path = [...readFileSync(files.GITHUB_PATH, 'utf8').split('\n').filter(Boolean).toReversed(), process.env['PATH']].join(':');
      const runner = {RUNNER_OS: 'Linux', RUNNER_ARCH: 'X64', RUNNER_TEMP: temp, KUBECONFIG: server.kubeconfig, ...files};
      const {stdout, exitCode} = await execa('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c', run], {
        ...{cwd: temp, env: {...runner, ...own, PATH: path}, stdin: 'ignore', reject: false},
      });
      log.push(stdout);
      if (exitCode !== 0) return {log: log.join('\n'), exitCode, output: readFileSync(files.GITHUB_OUTPUT, 'utf8'), temp};
    }
    return {log: log.join('\n'), exitCode: 0, output: readFileSync(files.GITHUB_OUTPUT, 'utf8'), temp};
  }

  test('installs the release and prints findings as annotations; the step fails as check does', async () => {
    const {log, exitCode, output} = await runSteps({releases: await releaseFolder(), arguments: '-A --skip ST101'});
    expect(log).toMatch(/^::error .*ST202/m);
    expect({exitCode, output}).toEqual({exitCode: 1, output: 'exit-code=1\n'});
  });

  test('passes where nothing fails, and writes the report to the file', async () => {
    const given = {releases: await releaseFolder(), arguments: '-A --fail-on never', format: 'sarif', 'output-file': 'services.sarif'};
    const {exitCode, output, temp} = await runSteps(given);
    expect({exitCode, output}).toEqual({exitCode: 0, output: 'exit-code=0\n'});
    expect(JSON.parse(readFileSync(join(temp, 'services.sarif'), 'utf8'))).toMatchObject({version: '2.1.0'});
  });

  test.each([
    ['another checksum', (sums: string) => sums.replaceAll(/^[0-9a-f]{64}/gm, 'f'.repeat(64))],
    ['no checksum', () => ''],
  ])('does not run an archive with %s', async (_, change) => {
    const {log, exitCode, output} = await runSteps({releases: await releaseFolder(change)});
    expect(log).toMatch(/^::error::the checksum of svc-trace_v[\d.]+_linux_amd64\.tar\.gz does not match/m);
    expect({exitCode, output}).toEqual({exitCode: 2, output: ''});
  });

  test('a release that does not exist fails the step', async () => {
    const {exitCode} = await runSteps({releases: await releaseFolder(), version: 'v99.0.0'});
    expect(exitCode).not.toBe(0);
  });
});

describe('the pre-push hooks', () => {
  interface Hook {
    readonly id: string;
    readonly entry: string;
    readonly language: string;
    readonly stages: readonly string[];
  }
  const {repos} = blockWith<{readonly repos: readonly {readonly repo: string; readonly hooks: readonly Hook[]}[]}>('repos');

  test('pre-commit gets a local hook with the fields that it requires, and a command that check accepts', async () => {
    expect(repos).toMatchObject([
      {repo: 'local', hooks: [{id: 'svc-trace', name: expect.any(String), language: 'system', stages: ['pre-push']}]},
    ]);
    const entry = repos[0]?.hooks[0]?.entry ?? '';
    expect(entry).toMatch(/^kubectl svc-trace /);
    await parseCommandLine(entry.split(' ').slice(2));
  });

  test('the script refuses a push when something fails', async () => {
    const text = codeBlocksOf(page).find(block => block.text.startsWith('#!/bin/sh'))?.text ?? '';
    const bin = script('kubectl', `#!/bin/sh\nshift\nexec '${process.execPath}' '${program}' "$@"\n`);
    const env = {PATH: `${bin}:${process.env['PATH']}`, KUBECONFIG: server.kubeconfig};
    const {stdout, stderr, exitCode} = await execa('sh', ['-c', text], {env, stdin: 'ignore', reject: false});
    expect(stdout).toContain('ST202');
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 1});
  });
});
