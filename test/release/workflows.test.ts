import {randomUUID} from 'node:crypto';
import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import type {validate as Validate} from '@actions/languageservice';
import {build} from 'esbuild';
import {execa} from 'execa';
import {load} from 'js-yaml';
import {beforeAll, describe, expect, test} from 'vitest';
import {TextDocument} from 'vscode-languageserver-textdocument';
import packageJson from '../../package.json' with {type: 'json'};

interface Step {
  readonly id?: string;
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
}

interface Workflow {
  readonly on: unknown;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<
    Record<string, {readonly 'runs-on': string; readonly needs?: string | readonly string[]; readonly steps: readonly Step[]}>
  >;
}

const root = join(import.meta.dirname, '../..');
const folder = join(root, '.github/workflows');

/** GitHub's language service, in one file: its modules import JSON without the attribute that Node.js asks for. */
let validate: typeof Validate;

beforeAll(async () => {
  const output = mkdtempSync(join(tmpdir(), 'svc-trace-workflows-'));
  const outfile = join(output, 'language-service.cjs');
  const entry = fileURLToPath(import.meta.resolve('@actions/languageservice'));
  await build({entryPoints: [entry], bundle: true, platform: 'node', format: 'cjs', outfile, logLevel: 'error'});
  ({validate} = createRequire(import.meta.url)(outfile));
  rmSync(output, {recursive: true});
});

/** What GitHub's language service complains about: keys, triggers, permissions, expressions, and jobs that are needed and are not there. */
async function complaints(path: string, text: string): Promise<readonly string[]> {
  // It keeps what it parsed by the name of the file.
  const document = TextDocument.create(`file:///${randomUUID()}/${path}`, 'yaml', 1, text);
  return (await validate(document)).map(({range, message}) => `${range.start.line + 1}: ${message}`);
}

test.each([...readdirSync(folder).map(name => `.github/workflows/${name}`), 'docs/ci/github-actions.yaml', 'action.yml'])(
  'GitHub accepts %s',
  async path => expect(await complaints(path, readFileSync(join(root, path), 'utf8'))).toEqual([]),
);

test.each([
  ['.github/workflows/ci.yml', 'timeout-minutes', 'timeout', /Unexpected value 'timeout'/],
  ['.github/workflows/release.yml', 'needs: [sign, try]', 'needs: [sign, tried]', /Value 'tried' is not valid/],
  ['.github/workflows/release.yml', 'steps.version.outputs', 'step.version.outputs', /Unrecognized named-value: 'step'/],
  ['.github/workflows/codeql.yml', 'security-events: write', 'security-event: write', /Unexpected value 'security-event'/],
  ['action.yml', 'using: composite', 'using: compose', /compose/],
])('GitHub refuses %s with a mistake: %s becomes %s', async (path, right, wrong, message) => {
  const text = readFileSync(join(root, path), 'utf8').replace(right, wrong);
  expect((await complaints(path, text)).join('\n')).toMatch(message);
});

describe.each(readdirSync(folder))('.github/workflows/%s', name => {
  const workflow = load(readFileSync(join(folder, name), 'utf8')) as Workflow;
  const jobs = Object.values(workflow.jobs);
  const steps = jobs.flatMap(job => job.steps);
  const scripts = steps.flatMap(({run}) => run ?? []).join('\n');

  test('has triggers, read-only permissions unless a job has more, and jobs with a runner and steps', () => {
    expect(workflow.on).toBeTruthy();
    expect(workflow.permissions).toEqual({contents: 'read'});
    for (const job of jobs) expect(job).toMatchObject({'runs-on': expect.any(String), steps: expect.any(Array)});
  });

  test('has steps that either use an action or run something', () => {
    for (const {uses, run} of steps) expect([uses, run].filter(Boolean)).toHaveLength(1);
  });

  test('needs existing jobs', () => {
    expect(Object.keys(workflow.jobs)).toEqual(expect.arrayContaining(jobs.flatMap(({needs}) => needs ?? [])));
  });

  test('runs existing scripts and files', () => {
    const named = [...scripts.matchAll(/npm run ([\w:]+)/g)].map(([, script]) => script);
    expect(Object.keys(packageJson.scripts)).toEqual(expect.arrayContaining(named));
    const files = [...scripts.matchAll(/(?<=[\s'"])((?:tools|test|bin|\.ci)\/[\w./-]+|vitest[\w.]+\.ts)/g)].map(([, file = '']) => file);
    expect(files.filter(file => !existsSync(join(root, file)))).toEqual([]);
  });
});

test('the first release does not fail where a package or a plugin is unknown', () => {
  const {jobs} = load(readFileSync(join(folder, 'release.yml'), 'utf8')) as Workflow;
  const steps = jobs['publish']?.steps ?? [];
  expect(steps.find(({name}) => name === 'npm')?.run).toContain('is not on npm yet');
  expect(steps.find(({id}) => id === 'krew')?.run).toContain('krew-index has no plugin $name yet');
  const bot = steps.find(({uses}) => uses?.startsWith('rajatjindal/krew-release-bot@'));
  expect(bot).toMatchObject({if: "env.PRERELEASE == 'false' && steps.krew.outputs.known == 'true'"});
});

test('a release has the provenance of its downloads beside them, and the page of pasted rules on GitHub Pages', () => {
  const {jobs} = load(readFileSync(join(folder, 'release.yml'), 'utf8')) as Workflow;
  const steps = jobs['publish']?.steps ?? [];
  const provenance = steps.find(({id}) => id === 'provenance');
  expect(provenance).toMatchObject({
    uses: expect.stringMatching(/^actions\/attest@/),
    with: {'subject-checksums': 'release/checksums.txt'},
  });
  expect(steps.find(({name}) => name === 'GitHub release')).toMatchObject({
    env: {PROVENANCE: expect.stringContaining('steps.provenance.outputs.bundle-path')},
    run: expect.stringMatching(
      /^cp "\$PROVENANCE" "release\/svc-trace_\$GITHUB_REF_NAME\.intoto\.jsonl"\n[\s\S]*release\/\*\.intoto\.jsonl/,
    ),
  });
  expect(jobs['page']).toMatchObject({needs: 'publish', permissions: {pages: 'write', 'id-token': 'write'}});
});

describe('actions', () => {
  const pages = [
    ...readdirSync(folder).map(name => `.github/workflows/${name}`),
    'action.yml',
    'docs/integrations.md',
    'docs/ci/github-actions.yaml',
  ];
  const used = pages.flatMap(page =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/^ *(?:- )?uses: (?!svc-trace\/)(\S+)@(.*)$/gm)].map(
      ([, action = '', version = '']) => ({page, action: action.split('/').slice(0, 2).join('/'), version}),
    ),
  );

  test('are pinned by a commit, with the version beside it, which Dependabot moves', () => {
    expect(used.length).toBeGreaterThan(20);
    expect(used.filter(({version}) => !/^[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(version))).toEqual([]);
    expect(readFileSync(join(root, '.github/dependabot.yml'), 'utf8')).toContain('package-ecosystem: github-actions');
  });

  test('have the same version everywhere', () => {
    const versions = Map.groupBy(used, ({action}) => action);
    expect([...versions].filter(([, uses]) => new Set(uses.map(({version}) => version)).size > 1)).toEqual([]);
  });

  test('of a checkout do not leave its token in .git', () => {
    for (const name of readdirSync(folder)) {
      const text = readFileSync(join(folder, name), 'utf8');
      expect(text.match(/persist-credentials: false/g)?.length).toBe(text.match(/actions\/checkout@/g)?.length);
    }
  });
});

describe('the version', () => {
  const checkVersion = (tag: string) => execa(process.execPath, [join(root, 'tools/release/check-version.ts'), tag], {reject: false});

  test('of a tag must be that of the package, of the krew manifest and of a section of the changelog', async () => {
    const {stderr, exitCode} = await checkVersion('v999.0.0');
    const named = ['package.json', 'deploy/agents/daemonset.yaml', 'docs/ci/helm-test.yaml', 'CHANGELOG.md'];
    expect(stderr.split('\n')).toEqual(expect.arrayContaining(named.map(file => `${file} does not name version v999.0.0`)));
    expect(exitCode).toBe(1);
    expect((await checkVersion(`v${packageJson.version}`)).stderr).not.toMatch(/package\.json|deploy|docs/);
  });
});
