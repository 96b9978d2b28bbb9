import {existsSync, globSync, readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import type {Check} from '../../src/checks/check-types.ts';
import {checks} from '../../src/checks/all-checks.ts';
import {severities} from '../../src/model/finding.ts';

const pages = join(import.meta.dirname, '../../docs/checks');

/** Pages of codes whose check is still to come. A code leaves this list when it enters the registry. */
const pagesBeforeTheirCheck: readonly string[] = [];

const sections = ['What to do', 'See it yourself', 'Harmless when'];

const all: readonly Check[] = checks;
const codes = all.map(({code}) => code);

test('codes are unique and sorted in the registry', () => {
  expect(codes).toEqual([...new Set(codes)].sort());
});

test('every row of the catalog belongs to a check', () => {
  const rows = read(join(import.meta.dirname, '../../src/checks/catalog.ts')).match(/^ST\d+(?= )/gm);
  expect(rows).toEqual(codes);
});

test('names are unique', () => {
  expect(new Set(all.map(({name}) => name)).size).toBe(all.length);
});

test('every page belongs to a check, or to an announced one', () => {
  const written = readdirSync(pages).flatMap(file => /^(ST\d+)\.md$/.exec(file)?.[1] ?? []);
  expect(written.filter(code => !codes.includes(code)).sort()).toEqual(pagesBeforeTheirCheck);
});

test('all pages together have fewer than 22,000 words', () => {
  const words = readdirSync(pages).map(file => read(join(pages, file)).trim().split(/\s+/).length);
  expect(words.reduce((sum, count) => sum + count, 0)).toBeLessThan(22_000);
});

test('the page about previews explains every cause that the sources name', () => {
  const root = join(import.meta.dirname, '../..');
  const sources = globSync('src/preview/**/*.ts', {cwd: root}).map(path => read(join(root, path)));
  const named = new Set(sources.flatMap(text => [...text.matchAll(/(?:\bid: |\badvise\('\w+', )'([a-z-]+)'/g)].map(([, id = '']) => id)));
  const explained = [...read(join(pages, 'preview.md')).matchAll(/^## (.+)$/gm)].map(([, id = '']) => id);
  expect(named.size).toBeGreaterThan(10);
  expect([...named].filter(id => !explained.includes(id))).toEqual([]);
});

describe.each(all)('$code $name', ({code, name, severity, summary, remedy, cluster, node, nodes, traffic}) => {
  test('has a code, a name and a severity of the right form', () => {
    expect(code).toMatch(/^ST[1-9]\d\d$/);
    expect(name).toMatch(/^[a-z]+(?:-[a-z]+)*$/);
    expect(severities).toContain(severity);
  });

  test('has a summary of one line, and a remedy of whole sentences', () => {
    expect(summary).toMatch(/^\S.*[^.\s]$/);
    expect(remedy).toMatch(/^[A-Z].*[.)]$/);
    expect(`${summary}${remedy}`).not.toContain('\n');
  });

  test('checks the cluster, a node, nodes beside each other, or traffic', () => {
    expect([cluster, node, nodes, traffic].filter(look => look !== undefined)).not.toEqual([]);
  });

  test('has a page with its name, its severity, what it means and every section', () => {
    const [title, , severityLine = '', , meaning, ...rest] = read(join(pages, `${code}.md`)).split('\n');
    expect(meaning).toMatch(/^(?![#*-])\S+ \S/);
    expect(title).toBe(`# ${code} ${name}`);
    expect(severityLine.replaceAll('`', '')).toMatch(new RegExp(`^\\*\\*Severity:\\*\\* ${severity}\\b`));
    expect(rest.filter(line => line.startsWith('## ')).map(line => line.slice(3))).toEqual(sections);
  });

  test('has a page whose commands have placeholders in place of names', () => {
    const commands = [...read(join(pages, `${code}.md`)).matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text).join('');
    expect(commands.match(/\beth0\b|\bnode-[a-z]\b|-n shop|\bshop\/|\b10\.(?:96|244)\.\d+\.\d+|KUBE-S\w\w-[A-Z0-9]{16}/g)).toBeNull();
  });

  test('has a page that shows the restart and the log that the remedy names', () => {
    const page = read(join(pages, `${code}.md`));
    if (/^Restart kube-proxy|Then restart it/.test(remedy)) expect(page).toMatch(/kubectl -n kube-system delete pod (?:PROXY|CILIUM)_POD/);
    if (/^Read the log/.test(remedy)) expect(page).toMatch(/kubectl -n kube-system logs (?:PROXY|CILIUM)_POD/);
  });

  test('has a test in which it is reported and one in which it stays silent', () => {
    // Facts that were read of a node are all tested in the same way, and so are tables of Cilium.
    const text = read(
      join(import.meta.dirname, code.startsWith('ST6') ? 'facts.test.ts' : code.startsWith('ST8') ? 'cilium.test.ts' : `${code}.test.ts`),
    );
    const fires = text.split('\n').some(line => line.includes(`'${code}'`) && !line.includes('.not.') && !line.includes('!=='));
    const staysSilent = text.includes('.toEqual([])') || text.includes(`.not.toContain('${code}')`);
    expect({fires, staysSilent}).toEqual({fires: true, staysSilent: true});
  });
});

function read(file: string): string {
  if (!existsSync(file)) throw new Error(`there is no ${file}`);
  return readFileSync(file, 'utf8');
}
