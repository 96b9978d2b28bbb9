import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {create} from 'tar';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {capturePath} from './fixtures.ts';
import type {ApiServer} from './stand-in/api-server.ts';
import {startBundleCluster} from './stand-in/bundle-cluster.ts';

const root = join(import.meta.dirname, '..');
const faulty = capturePath('faults/missing-endpoint');
const healthy = capturePath('healthy/1.36-iptables');
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...markdownIn('docs'),
  ...markdownIn('docs/ci'),
  ...markdownIn('docs/checks'),
];

function markdownIn(folder: string): readonly string[] {
  return readdirSync(join(root, folder))
    .filter(name => name.endsWith('.md'))
    .map(name => join(folder, name));
}

function read(page: string): string {
  return readFileSync(join(root, page), 'utf8');
}

interface Block {
  readonly language: string;
  readonly text: string;
}

function blocksOf(page: string): readonly Block[] {
  return [...read(page).matchAll(/^( *)```(\w+)\n([\s\S]*?)^ *```$/gm)].map(([, , language = '', text = '']) => ({language, text}));
}

describe('links', () => {
  test.each(pages)('%s links to what is there', page => {
    const text = read(page).replaceAll(/^ *```[\s\S]*?^ *```$/gm, '');
    const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target).filter(target => !/^[a-z]+:/.test(target));
    expect(targets.filter(target => !leadsSomewhere(target, page))).toEqual([]);
  });
});

function leadsSomewhere(target: string, page: string): boolean {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, file))) return false;
  return anchor === undefined || anchorsOf(file).includes(anchor);
}

/** The anchors that GitHub makes of headings. */
function anchorsOf(page: string): readonly string[] {
  return [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{Letter}\p{Number}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

describe('what the README shows', () => {
  let folder: string;
  let server: ApiServer;

  beforeAll(async () => {
    server = await startBundleCluster(faulty);
    folder = mkdtempSync(join(tmpdir(), 'svc-trace-readme-'));
    symlinkSync(faulty, join(folder, 'bundle'));
    symlinkSync(join(faulty, 'nodes/node-a/iptables-save'), join(folder, 'dump.txt'));
    await create({cwd: faulty, file: join(folder, 'bundle.tgz'), gzip: true}, ['api', 'nodes']);
    symlinkSync('bundle.tgz', join(folder, 'after.tgz'));
    await create({cwd: healthy, file: join(folder, 'before.tgz'), gzip: true}, ['api', 'nodes']);
    await run(['check', '-A', '--from', 'bundle', '-o', 'json', '--output-file', 'baseline.json']);
  });

  afterAll(async () => {
    rmSync(folder, {recursive: true});
    await server.close();
  });

  function run(args: readonly string[]) {
    const env = {COLUMNS: '100', NO_COLOR: undefined, FORCE_COLOR: undefined, KUBECONFIG: server.kubeconfig};
    return execa(process.execPath, [join(root, 'bin/run.js'), ...args], {cwd: folder, env, stdin: 'ignore', reject: false});
  }

  const runs = blocksOf('README.md')
    .filter(({language}) => language === 'console')
    .map(({text}) => text.split('\n'))
    .map(([prompt = '', ...lines]) => ({command: prompt.replace(/^\$ kubectl svc-trace /, ''), lines: lines.slice(0, -1)}));

  test('it shows something', () => expect(runs.map(({command}) => command)).not.toEqual([]));

  // After a line of nothing but `…` the rest of the output is left out.
  test.each(runs)('is what `$command` prints', async ({command, lines}) => {
    const {stdout} = await run(command.split(' '));
    const shown = lines.at(-1) === '…' ? lines.slice(0, -1) : lines;
    const printed = stdout.split('\n');
    expect(shown).toEqual(lines.length === shown.length ? printed : printed.slice(0, shown.length));
  });

  const commands = ['README.md', 'docs/install.md'].flatMap(page => [
    ...blocksOf(page)
      .filter(({language}) => language === 'sh')
      .flatMap(({text}) => text.split('\n')),
    ...[...read(page).matchAll(/`(kubectl svc-trace [^`]*--from[^`]*)`/g)].map(([, command = '']) => command),
  ]);
  const lines = commands.flatMap(line => /^kubectl svc-trace (.*?)(?:\s+#.*)?$/.exec(line)?.[1]?.trim() ?? []);

  test('it shows how to use it', () => expect(lines.length).toBeGreaterThan(6));

  test.each(lines)('can be run: %s', async line => {
    const {stderr, exitCode} = await run(line.split(/\s+/));
    expect(stderr.replace(/^3 of 3 nodes as they should be at the first look$/, '')).toBe('');
    expect([0, 1]).toContain(exitCode);
  });

  test('the formats in its table are those that there are', async () => {
    for (const [, command = '', formats = ''] of read('README.md').matchAll(/^\| `(\w+)` \| (`\w+` \(default\).*) \|$/gm)) {
      const named = [...formats.matchAll(/`(\w+)`/g)].map(([, name]) => name);
      const {stdout} = await run([command, '--help']);
      // The list is broken where the line ends.
      expect(stdout.replace(/\s+/g, '')).toContain(`<options:${named.join('|')}>`);
    }
  });
});

describe('the demo', () => {
  test('shows what the tool is for on one screen, and ends well', async () => {
    const {stdout, exitCode} = await execa(process.execPath, [join(root, 'tools/demo.ts'), '--no-build'], {reject: false, stdin: 'ignore'});
    const lines = stdout.split('\n');
    expect(exitCode).toBe(0);
    expect(lines.filter(line => line.startsWith('$ '))).toHaveLength(2);
    expect(stdout).toContain('ST202 error  missing-endpoint  node-a');
    expect(lines.length).toBeLessThanOrEqual(52);
    expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(100);
  });
});

test('the README says how to test, in the words in which CI runs it', () => {
  expect(read('README.md')).toContain('npm ci && npm test');
});
