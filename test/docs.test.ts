import {existsSync, globSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {availableParallelism, tmpdir} from 'node:os';
import {basename, dirname, join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import pLimit from 'p-limit';
import {create} from 'tar';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import AgentCommand from '../src/cli/commands/agent.ts';
import CheckCommand from '../src/cli/commands/check.ts';
import {someOf} from './cases.ts';
import {commandLinesOf, docPages, readPage, type ShownRun, shownRunsOf} from './doc-pages.ts';
import {demoPicture} from '../tools/demo.ts';
import {causesOf} from '../src/render/headline.ts';
import {capturePath} from './fixtures.ts';
import {parseCommandLine} from './parse-command-line.ts';
import {findingOf} from './render/report.ts';
import type {ApiServer} from './stand-in/api-server.ts';
import {startBundleCluster} from './stand-in/bundle-cluster.ts';
import {svcTrace} from './svc-trace.ts';

const root = join(import.meta.dirname, '..');
const faulty = capturePath('faults/missing-endpoint');
const healthy = capturePath('healthy/1.36-iptables');
/** `SVC_TRACE_DOCS=write npx vitest run test/docs.test.ts` writes the actual output into the pages. Read the diff. */
const writesPages = process.env['SVC_TRACE_DOCS'] === 'write';

describe('links', () => {
  test.each(docPages)('every link of %s has a target', page => {
    const text = readPage(page).replaceAll(/^ *```[\s\S]*?^ *```$/gm, '');
    const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target).filter(target => !/^[a-z]+:/.test(target));
    expect(targets.filter(target => !hasTarget(target, page))).toEqual([]);
  });
});

function hasTarget(target: string, page: string): boolean {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, file))) return false;
  return anchor === undefined || anchorsOf(file).includes(anchor);
}

/** The anchors that GitHub makes of headings. */
function anchorsOf(page: string): readonly string[] {
  return [...readPage(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{Letter}\p{Number}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('the table of docs/architecture.md has every folder of src', () => {
  const folders = globSync('src/*/', {cwd: root}).map(path => basename(path));
  const rows = [...readPage('docs/architecture.md').matchAll(/^\| `(\w+)` \| .* \| .*\|$/gm)].map(([, name = '']) => name);
  expect(rows.toSorted()).toEqual(folders.toSorted());
});

describe('docs/dev/security.md names a test for each bound', () => {
  const bounds = [...readPage('docs/dev/security.md').matchAll(/^\| (.+?) \| `(test\/\S+)`: (.+) \|$/gm)].map(
    ([, bound = '', path = '', title = '']) => ({
      bound,
      path,
      title,
    }),
  );

  test.each(bounds)('$bound', ({path, title}) => {
    expect(readPage(path)).toContain(title);
  });

  test('in a table of two columns', () => {
    const [, table = ''] = readPage('docs/dev/security.md').split('# Bounds and their tests');
    const rows = table.split('## ')[0]?.match(/^\|(?! bound|---).*/gm) ?? [];
    expect(bounds.length).toBeGreaterThan(20);
    expect(bounds).toHaveLength(rows.length);
  });
});

test.each([
  ['docs/dev', 12_000],
  ['README.md and docs', 50_000],
])('%s has fewer than %i words', (folder, most) => {
  const counted = docPages.filter(page => (folder === 'docs/dev' ? page.startsWith('docs/dev/') : /^(?:README|docs\/)/.test(page)));
  expect(counted.reduce((sum, page) => sum + readPage(page).trim().split(/\s+/).length, 0)).toBeLessThan(most);
});

describe('paths in the text', () => {
  // Where a page says so, paths are relative to src.
  const bases = ['', 'src'];
  const folders = 'src|test|tools|bin|agent|analyze|checks|cli|collect|compare|diagnosis|diff|expect|model|parse|redact|render|run|trace';

  test.each(['docs/architecture.md', 'CONTRIBUTING.md', ...docPages.filter(page => page.startsWith('docs/dev/'))])(
    'every file and folder that %s names exists',
    page => {
      const named = [...readPage(page).matchAll(new RegExp(`\`((?:(?:${folders})/)[\\w./-]+|[\\w-]+\\.ts)\``, 'g'))].map(
        ([, path = '']) => path,
      );
      const known = named.filter(path => !path.includes('NNN'));
      expect(known.filter(path => !bases.some(base => existsSync(join(root, base, path))) && !isSomewhere(path))).toEqual([]);
    },
  );
});

/** A bare file name, of a folder that the sentence names. */
function isSomewhere(path: string): boolean {
  return !path.includes('/') && globSync(`src/**/${path}`, {cwd: root}).length > 0;
}

describe('commands in the pages', () => {
  let folder: string;
  let server: ApiServer;
  let isPrepared = false;
  const runs = new Map<string, ReturnType<typeof runProgram>>();

  beforeAll(async () => {
    server = await startBundleCluster(faulty);
    folder = mkdtempSync(join(tmpdir(), 'svc-trace-docs-'));
    await writeInputs();
    isPrepared = true;
    for (const {command} of shownRuns) run(command);
    for (const {line} of runnable) run(withShortWait(line));
  });

  afterAll(async () => {
    rmSync(folder, {recursive: true});
    await server.close();
  });

  /** The files that the pages name: two bundles, a dump, and reports. */
  async function writeInputs(): Promise<void> {
    symlinkSync(faulty, join(folder, 'bundle'));
    symlinkSync(join(faulty, 'nodes/node-a/iptables-save'), join(folder, 'dump.txt'));
    await create({cwd: faulty, file: join(folder, 'bundle.tgz'), gzip: true}, ['api', 'nodes']);
    symlinkSync('bundle.tgz', join(folder, 'after.tgz'));
    await create({cwd: healthy, file: join(folder, 'before.tgz'), gzip: true}, ['api', 'nodes']);
    await run('check -A --from before.tgz -o json --output-file before.json');
    for (const report of ['after.json', 'baseline.json']) await run(`check -A --from after.tgz -o json --output-file ${report}`);
    await run('preview -A --proxy-mode nftables -o json --output-file plan.json');
    runs.clear();
  }

  // Some runs wait for what changes, and others compute meanwhile.
  const slots = pLimit(availableParallelism() + 1);

  /** The built program, run once for each command line: pages repeat them. */
  function run(line: string): ReturnType<typeof runProgram> {
    const known = runs.get(line) ?? slots(runProgram, line);
    runs.set(line, known);
    return known;
  }

  async function runProgram(line: string) {
    const options = {cwd: cwdOf(line), env: {COLUMNS: '100', KUBECONFIG: server.kubeconfig}};
    const args = line.split(/\s+/);
    if (!line.startsWith('watch')) return svcTrace(args, options);
    // Watching ends with its first report, as by Ctrl-C.
    const running = execa(process.execPath, [join(root, 'bin/run.js'), ...args], {...options, stdin: 'ignore', reject: false});
    running.stdout.once('data', () => running.kill('SIGINT'));
    return running;
  }

  /** What writes a file gets a folder of its own without that file, so that nothing else reads it; `capture` writes over none. */
  function cwdOf(line: string): string {
    const [, written] = (line.startsWith('capture') ? /-o (\S+)/ : /--output-file (\S+)/).exec(line) ?? [];
    if (written === undefined || !isPrepared) return folder;
    const own = mkdtempSync(join(folder, 'run-'));
    for (const entry of readdirSync(folder, {withFileTypes: true}))
      if (!entry.isDirectory() && entry.name !== written) symlinkSync(join(folder, entry.name), join(own, entry.name));
    return own;
  }

  const shownRuns = docPages.flatMap(shownRunsOf);

  test('the README shows a check', () => expect(shownRunsOf('README.md').map(({command}) => command)).toEqual(['check -A']));

  test.each(shownRuns)('$page shows what `$command` prints', async shown => {
    const {stdout} = await run(shown.command);
    const actual = asShown(stdout, shown);
    const prompt = `$ kubectl svc-trace ${shown.command}\n`;
    if (writesPages)
      writeFileSync(
        join(root, shown.page),
        readPage(shown.page).replace(prompt + shown.output, () => prompt + actual),
      );
    else expect(shown.output).toBe(actual);
  });

  /** Output that a page shortens is compared up to there. */
  function asShown(stdout: string, {output}: ShownRun): string {
    if (!output.endsWith('\n…\n')) return `${stdout}\n`;
    const lines = output.split('\n').length - 2;
    return `${stdout.split('\n').slice(0, lines).join('\n')}\n…\n`;
  }

  const lines = docPages.flatMap(page => commandLinesOf(page).map(line => ({page, line}))).filter(({line}) => line !== '--version');

  test.each(lines)('$page: svc-trace accepts `$line`', async ({line}) => {
    await expect(parseCommandLine(line.split(/\s+/))).resolves.toMatchObject({flags: expect.any(Object)});
  });

  const ofIncidents = [...readPage('docs/incidents.md').matchAll(/\| `([a-z]+ [^`|]+)` \|/g)].map(([, line = '']) => line);

  test('docs/incidents.md has a command for each symptom', () => expect(ofIncidents.length).toBeGreaterThan(10));

  test.each(ofIncidents)('docs/incidents.md: svc-trace accepts `%s`', async line => {
    await expect(parseCommandLine(line.split(/\s+/))).resolves.toMatchObject({flags: expect.any(Object)});
  });

  // What needs agents (test/deploy, test/e2e/live/agents.test.ts), counters or nodes of its own (test/e2e/live, test/collect/transports).
  const notRunHere = /--agents|--counters|--transport (?:ssh|debug|docker|local)|^agent|…|\b[A-Z]{3,}\b/;
  const runnable = lines.filter(({line}) => !notRunHere.test(line));

  // Those of the README are what people try first.
  const [first, others] = [runnable.filter(({page}) => page === 'README.md'), runnable.filter(({page}) => page !== 'README.md')];

  test.each([...first, ...someOf(others)])('$page: `$line` runs', async ({line}) => {
    const {stderr, exitCode} = await run(withShortWait(line));
    if (line.startsWith('capture')) expect(stderr).toMatch(/^\S+: 3 nodes$/m);
    else expect(line.includes('--wait') ? '' : stderr.replace(/^wrote \S+ \(\d+ \w+\).*$/m, '')).toBe('');
    // A busy machine may not read every node in so short a wait, and the recorded nodes have no counters.
    expect(line.startsWith('watch') ? [130] : /^top|--wait/.test(line) ? [0, 1, 3] : [0, 1]).toContain(exitCode);
  });

  /** The cluster has a fault, so that a wait never ends early. */
  function withShortWait(line: string): string {
    return line.replace(/--wait \S+/, '--wait 2s');
  }

  test('every flag that docs/agents.md lists is one of agent or check', () => {
    const listed = [...readPage('docs/agents.md').matchAll(/^\| (`--[^|]*) \|/gm)].flatMap(([, cell = '']) =>
      [...cell.matchAll(/`--([\w-]+)/g)].map(([, name = '']) => name),
    );
    expect(listed).toContain('settle');
    expect(Object.keys({...AgentCommand.flags, ...CheckCommand.flags})).toEqual(expect.arrayContaining(listed));
  });

  test('the formats in docs/formats.md are those of each command', async () => {
    const rows = [...readPage('docs/formats.md').matchAll(/^\| `(\w+)` \| (`\w+` \(default\).*) \|$/gm)];
    expect(rows.length).toBeGreaterThan(2);
    for (const [, command = '', formats = ''] of rows) {
      const named = [...formats.matchAll(/`(\w+)`/g)].map(([, name]) => name);
      const {stdout} = await run(`${command} --help`);
      // Help wraps the list.
      expect(stdout.replace(/\s+/g, '')).toContain(`outputformat:${named.join(',')}(default`);
    }
  });
});

describe('the demo', () => {
  test('prints on one screen what the picture of the README shows, and exits with 0', async () => {
    const {stdout, exitCode} = await execa(process.execPath, [join(root, 'tools/demo.ts'), '--no-build'], {reject: false, stdin: 'ignore'});
    const [, ...lines] = stdout.trimEnd().split('\n');
    expect(exitCode).toBe(0);
    expect(stdout).toContain('ST202 error  missing-endpoint  node-a');
    expect(lines.length).toBeLessThanOrEqual(36);
    expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(100);
    expect(textOfPicture(readPage('docs/images/trace.svg'))).toEqual(['$ kubectl svc-trace web -n shop', ...lines]);
  });

  test('is drawn in the colors of a terminal as it was last recorded', () => {
    const drawn = demoPicture();
    if (writesPages) writeFileSync(join(root, 'docs/images/trace.svg'), drawn);
    else expect(readPage('docs/images/trace.svg')).toBe(drawn);
    expect(drawn).toMatch(/fill="#ff7b72">missing</);
  });

  function textOfPicture(svg: string): readonly string[] {
    const unescaped = (text: string) => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
    return [...svg.matchAll(/^<text .*$/gm)].map(([line]) => unescaped(line.replaceAll(/<[^>]*>/g, '')));
  }
});

describe('the README', () => {
  const lines = readPage('README.md').trimEnd().split('\n');

  test('has fewer than 140 lines, and says before line 30 how to install and what to run first', () => {
    expect(lines.length).toBeLessThan(140);
    const start = lines.slice(0, 29).join('\n');
    for (const command of ['npm ci && npm run demo', 'kubectl svc-trace check -A', 'kubectl svc-trace web -n shop'])
      expect(start).toContain(command);
  });

  test('contains the command with which CI tests', () => {
    expect(readPage('README.md')).toContain('npm ci && npm test');
  });

  const symptoms = [...readPage('README.md').matchAll(/^\| .+ \| `(.+)` \((ST.+)\) \|$/gm)].map(([, words = '', codes = '']) => ({
    words,
    codes,
  }));
  const captures: Readonly<Record<string, string>> = {
    ...{ST202: 'missing-endpoint', ST203: 'frozen-node', ST305: 'nat-flushed', ST401: 'hostport-hijack'},
    ...{'ST211, ST603': 'no-hairpin', ST501: 'split-brain'},
  };

  test('has ten symptoms', () => expect(symptoms).toHaveLength(10));

  test.each(symptoms)('$codes: the first line of a report says "$words"', async ({words, codes}) => {
    const capture = captures[codes];
    const findings = [findingOf('node-a', null, {code: codes})];
    const first =
      capture === undefined
        ? causesOf({findings}, undefined)[0]?.message
        : (await svcTrace(['check', '-A', '--from', capturePath(`faults/${capture}`)], {cwd: root, env: {COLUMNS: '400'}})).stdout.split(
            '\n',
            1,
          )[0];
    expect(first).toContain(words.replace(' …', ''));
  });
});
