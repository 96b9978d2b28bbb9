// `npm run test:source-mutants`: changes the sources of the program's own core at random, one place at a time, and runs those tests of the
// core that import it. A change that no test notices survives and is listed. It says where tests are thin; it is no gate. Nothing is written: this file
// is also the configuration of vitest, and changes a module while it is loaded.
import {spawn} from 'node:child_process';
import {readdirSync, readFileSync} from 'node:fs';
import {join, relative} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {parseSync} from '@swc/core';
import {defineConfig} from 'vitest/config';
import {common, long} from '../../vitest.config.ts';
import {seededRandom} from '../bench/random.ts';

const root = join(import.meta.dirname, '../..');
const core = ['model', 'parse', 'expect', 'compare', 'trace', 'analyze', 'checks', 'diagnosis'];
/** Longer than all tests take: a change that makes a loop endless is found by this. */
const maxMilliseconds = 15 * 60_000;

/** One changed place of a file: these bytes are replaced. */
interface Mutant {
  readonly file: string;
  readonly start: number;
  readonly end: number;
  readonly by: string;
}

const mutant = process.env['SVC_TRACE_MUTANT'];

/** For the runs of vitest that this script starts. */
export default defineConfig({
  root,
  plugins: mutant === undefined ? [] : [mutate(JSON.parse(mutant) as Mutant)],
  test: {
    ...common,
    // Node.js would load the file as it is, and the cache of vitest has it without the change.
    experimental: {viteModuleRunner: true},
    fsModuleCache: false,
    include: [
      'test/{analyze,checks,compare,diagnosis,diff,expect,incidents,model,parse,pasted,preview,redact,render,trace,traffic}/**/*.test.ts',
      'test/laws.test.ts',
    ],
    exclude: [...long, '**/*browser*'],
    bail: 1,
    reporters: ['dot'],
  },
});

function mutate(changed: Mutant) {
  return {
    name: 'mutate',
    enforce: 'pre' as const,
    transform: (code: string, id: string) => (id.split('?')[0] === join(root, changed.file) ? applied(changed, code) : null),
  };
}

function applied({start, end, by}: Mutant, code: string): string {
  const bytes = Buffer.from(code);
  return bytes.toString('utf8', 0, start) + by + bytes.toString('utf8', end);
}

async function main(): Promise<void> {
  const {values, positionals} = parseArgs({
    options: {seed: {type: 'string'}, count: {type: 'string', default: '30'}, help: {type: 'boolean', short: 'h'}},
    allowPositionals: true,
  });
  const [part = ''] = positionals;
  if (values.help) return say('usage: npm run test:source-mutants -- [part of a path] [--count N] [--seed N]');
  const seed = Number(values.seed ?? Date.now() % 1_000_000);
  const all = core.flatMap(folder => sourcesIn(join(root, 'src', folder))).filter(file => file.includes(part));
  const places = all.flatMap(mutantsOf);
  const chosen = seededRandom(seed).shuffle(places).slice(0, Number(values.count));
  say(`seed ${seed}: ${chosen.length} of ${places.length} changes of ${all.length} files`);
  const survivors: string[] = [];
  for (const one of chosen) {
    const [, , folder = ''] = one.file.split('/');
    // The tests beside it notice most changes, and take less time than all.
    const beside = `test/${one.file.split('/')[1]}/${folder.endsWith('.ts') ? '' : folder}`;
    const failure = (await failureOf(one, ['run', beside])) ?? (await failureOf(one, ['related', one.file]));
    if (failure === null) survivors.push(described(one));
    else await assertDueToChange(failure);
    say(`${failure === null ? 'SURVIVED' : 'noticed '} ${described(one)}`);
  }
  say(`\n${survivors.length} of ${chosen.length} survived${survivors.map(text => `\n  ${text}`).join('')}`);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function sourcesIn(folder: string): readonly string[] {
  const files = readdirSync(folder, {recursive: true, withFileTypes: true}).filter(({name}) => /(?<!\.d)\.ts$/.test(name));
  return files.map(({parentPath, name}) => relative(root, join(parentPath, name))).sort();
}

function described({file, start, end, by}: Mutant): string {
  const bytes = readFileSync(join(root, file));
  const line = bytes.toString('utf8', 0, start).split('\n').length;
  return `${file}:${line}: ${JSON.stringify(bytes.toString('utf8', start, end))} -> ${JSON.stringify(by)}`;
}

const passing = new Set<string>();

/** Throws if a test file that failed with a change also fails without. */
async function assertDueToChange(failure: string): Promise<void> {
  for (const [, file = ''] of failure.matchAll(/^ *FAIL .*?(test\/\S+\.test\.ts)/gm)) {
    if (passing.has(file)) continue;
    const without = await failureOf(null, ['run', file]);
    if (without !== null) throw new Error(`${file} fails without a change:\n${without}`);
    passing.add(file);
  }
}

/** What vitest printed if a test fails, or the tests do not end; null if all pass. */
function failureOf(change: Mutant | null, which: readonly string[]): Promise<string | null> {
  const args = ['node_modules/vitest/vitest.mjs', ...which, '--run', '--passWithNoTests', '--config', 'test/mutants/source.ts'];
  const env = {...process.env, NO_COLOR: '1', ...(change === null ? {} : {SVC_TRACE_MUTANT: JSON.stringify(change)})};
  // A group of its own: its workers end with it.
  const child = spawn(process.execPath, args, {cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true});
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const timer = setTimeout(() => process.kill(-(child.pid ?? 0), 'SIGKILL'), maxMilliseconds);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', code => {
      clearTimeout(timer);
      resolve(code === 0 ? null : output);
    });
  });
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** A node of swc's tree, of which only these parts are of interest. */
interface Node {
  readonly type: string;
  readonly span: Span;
  readonly operator?: string;
  readonly value?: unknown;
  readonly left?: Node;
  readonly right?: Node;
  readonly argument?: Node;
  readonly test?: Node;
}

/** All changes of a file. */
function mutantsOf(file: string): readonly Mutant[] {
  const source = readFileSync(join(root, file));
  // swc counts bytes on from the file before: the first token is where this one begins.
  const tree = parseSync(`;${source.toString()}`, {syntax: 'typescript', target: 'es2024'}) as unknown as Node;
  const base = tree.span.start + 1;
  const found: Mutant[] = [];
  const note = ({start, end}: Span, by: string): void => {
    found.push({file, start: start - base, end: end - base, by});
  };
  const textOf = ({start, end}: Span): string => source.toString('utf8', start - base, end - base);
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) return value.forEach(visit);
    const node = value as Node;
    // Types, imports and names of properties are not run.
    if (/^(?:Ts(?!Satisfies|As|NonNull|Const)|Import|Export(?:All|Named))/.test(node.type ?? '')) return;
    noteChanges(node, note, textOf);
    for (const [key, child] of Object.entries(value))
      if (!['span', 'key', 'typeAnnotation', 'typeParams', 'typeArguments'].includes(key)) visit(child);
  };
  visit(tree);
  return found;
}

const others: Readonly<Record<string, string>> = {
  ...{'===': '!==', '!==': '===', '<': '<=', '<=': '<', '>': '>=', '>=': '>', '+': '-', '-': '+', '*': '/', '/': '*', '%': '*'},
  ...{'&&': '||', '||': '&&', '??': '&&', '&': '|', '|': '&'},
};

function noteChanges(node: Node, note: (span: Span, by: string) => void, textOf: (span: Span) => string): void {
  const {type, span, operator = '', value, left, right, argument, test} = node;
  if (type === 'BinaryExpression' && left !== undefined && right !== undefined && others[operator] !== undefined) {
    const between = {start: left.span.end, end: right.span.start};
    note(between, textOf(between).replace(operator, others[operator]));
  } else if (type === 'UnaryExpression' && operator === '!' && argument !== undefined) note(span, textOf(argument.span));
  else if ((type === 'IfStatement' || type === 'ConditionalExpression') && test !== undefined) note(test.span, `!(${textOf(test.span)})`);
  else if (type === 'BooleanLiteral') note(span, String(value !== true));
  else if (type === 'NumericLiteral') note(span, String(Number(value) + 1));
  else if (type === 'StringLiteral') note(span, value === '' ? "'x'" : "''");
  else if (type === 'TemplateElement' && span.end > span.start) note({start: span.end, end: span.end}, 'x');
  else if (type === 'ExpressionStatement') note(span, ';');
}

if (import.meta.main) await main();
