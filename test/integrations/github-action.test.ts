import {createHash} from 'node:crypto';
import {mkdirSync, mkdtempSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {load} from 'js-yaml';
import {create} from 'tar';
import {describe, expect, test} from 'vitest';
import packageJson from '../../package.json' with {type: 'json'};
import {readPage} from '../doc-pages.ts';
import {parseCommandLine} from '../parse-command-line.ts';
import {describeWith} from '../require.ts';
import {brokenCluster} from './broken-cluster.ts';
import {page, root, script, thisBuild} from './integration-page.ts';

const cluster = brokenCluster();

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

  test('is a composite action whose steps name their shell, and whose inputs and outputs are described', () => {
    expect(action).toMatchObject({name: expect.any(String), description: expect.any(String), runs: {using: 'composite'}});
    for (const {description} of [...Object.values(inputs), ...Object.values(action.outputs)]) expect(description).toMatch(/^\S/);
    for (const step of runs.steps) expect(step).toMatchObject({shell: 'bash', run: expect.any(String)});
  });

  test('passes inputs to scripts through the environment only', () => {
    for (const {run} of runs.steps) expect(run).not.toContain('${{');
    const named = runs.steps.flatMap(({env}) => Object.values(env)).flatMap(value => /inputs\.([\w-]+)/.exec(value)?.[1] ?? []);
    expect(named.toSorted()).toEqual(Object.keys(inputs).toSorted());
  });

  test('has every input in the table of its page, with its default', () => {
    for (const [name, {default: value}] of Object.entries(inputs)) {
      expect(readPage(page)).toContain(`| \`${name}\` | `);
      if (name === 'arguments' || name === 'format') expect(readPage(page)).toContain(`| \`${name}\` | \`${value}\` |`);
    }
  });

  test('has a page with existing inputs, and with arguments that check accepts', async () => {
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
    const releases = mkdtempSync(join(cluster.folder, 'releases-'));
    const version = `v${packageJson.version}`;
    mkdirSync(join(releases, version));
    const bin = script(cluster.folder, 'kubectl-svc_trace', thisBuild);
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
    const temp = mkdtempSync(join(cluster.folder, 'runner-'));
    const files = {
      ...{GITHUB_PATH: join(temp, 'path'), GITHUB_OUTPUT: join(temp, 'output')},
      GITHUB_STEP_SUMMARY: join(temp, 'summary'),
    };
    for (const file of Object.values(files)) writeFileSync(file, '');
    const evaluated = (text: string) =>
      text
        .replaceAll(/\$\{\{ inputs\.([\w-]+) \}\}/g, (_, name: string) => given[name] ?? inputs[name]?.default ?? '')
        .replaceAll(/\$\{\{ github\.action_path \}\}/g, root);
    const log: string[] = [];
    for (const {run, env} of runs.steps) {
      const own = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, evaluated(value)]));
      const path = [...readFileSync(files.GITHUB_PATH, 'utf8').split('\n').filter(Boolean).toReversed(), process.env['PATH']].join(':');
      const runner = {RUNNER_OS: 'Linux', RUNNER_ARCH: 'X64', RUNNER_TEMP: temp, KUBECONFIG: cluster.server.kubeconfig, ...files};
      const {stdout, exitCode} = await execa('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c', run], {
        ...{cwd: temp, env: {...runner, ...own, PATH: path}, stdin: 'ignore', reject: false},
      });
      log.push(stdout);
      if (exitCode !== 0) return {log: log.join('\n'), exitCode, output: readFileSync(files.GITHUB_OUTPUT, 'utf8'), temp};
    }
    return {log: log.join('\n'), exitCode: 0, output: readFileSync(files.GITHUB_OUTPUT, 'utf8'), temp};
  }

  describeWith(['curl', 'tar'], 'on a runner', () => {
    test('installs the release and prints findings as annotations; the step fails as check does', async () => {
      const {log, exitCode, output, temp} = await runSteps({releases: await releaseFolder(), arguments: '-A --skip ST101'});
      expect(readFileSync(join(temp, 'summary'), 'utf8')).toMatch(
        /FAULTY: shop\/web on node-a: pod web-2 gets no traffic \\?\(ST202\\?\); 1 error[\s\S]*\| shop\/web \|[\s\S]*ST202/,
      );
      expect(log).toMatch(/^::error .*ST202/m);
      expect({exitCode, output}).toEqual({exitCode: 1, output: 'exit-code=1\n'});
    });

    test('passes if nothing fails, and writes the report to the file', async () => {
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

    test.each(['../../other', 'latest', 'v1', 'v0.1.0/..', 'v0.1.0$(id)', '-v0.1.0'])(
      'does not ask for a version such as %s',
      async version => {
        const {log, exitCode} = await runSteps({releases: await releaseFolder(), version});
        expect({log, exitCode}).toEqual({log: '::error::the input version is not a release such as v0.1.0', exitCode: 2});
      },
    );

    test('a release that does not exist fails the step', async () => {
      const {exitCode} = await runSteps({releases: await releaseFolder(), version: 'v99.0.0'});
      expect(exitCode).not.toBe(0);
    });
  });
});
