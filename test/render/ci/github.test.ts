import process from 'node:process';
import {error, notice, warning} from '@actions/core';
import {describe, expect, test, vi} from 'vitest';
import {github} from '../../../src/render/ci/github.ts';
import {loud, reports} from '../real-reports.ts';
import {findingOf, hostile, numbered, plain, reportOf} from '../report.ts';

/** An annotation as the runner understands it. */
interface Annotation {
  readonly level: string;
  readonly title: string;
  readonly message: string;
}

/** What the runner takes for a command, and how it reads it. */
function annotationsOf(text: string): readonly Annotation[] {
  return text
    .split('\n')
    .filter(line => line.trimStart().startsWith('::'))
    .map(line => {
      const [, level = '', title = '', message = ''] = /^::(error|warning|notice) title=([^:,\r]*)::([^\r]*)$/.exec(line) ?? [];
      const decoded = (part: string) => part.replaceAll('%3A', ':').replaceAll('%2C', ',');
      const data = (part: string) => part.replaceAll('%0A', '\n').replaceAll('%0D', '\r').replaceAll('%25', '%');
      return {level, title: data(decoded(title)), message: data(message)};
    });
}

/** The same as GitHub's own toolkit writes it. */
function byToolkit({level, title, message}: Annotation): string {
  const written: string[] = [];
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation(text => written.push(String(text)) > 0);
  try {
    ({error, warning, notice})[level as 'error' | 'warning' | 'notice'](message, {title});
  } finally {
    spy.mockRestore();
  }
  return written.join('').trimEnd();
}

describe.each(Object.entries(reports))('a report: %s', (_, make) => {
  test("has annotations like those of GitHub's toolkit, no more than GitHub shows, and no other commands", async () => {
    const text = github(await make(), loud);
    const annotations = annotationsOf(text);
    const lines = text.split('\n');
    expect(annotations.map(byToolkit)).toEqual(lines.filter(line => line.startsWith('::')));
    for (const level of ['error', 'warning', 'notice'])
      expect(annotations.filter(annotation => annotation.level === level).length).toBeLessThanOrEqual(10);
    for (const {title} of annotations) expect(title.length).toBeLessThanOrEqual(255);
    expect(lines.filter(line => !line.startsWith('::') && line.includes('##['))).toEqual([]);
  });
});

test('the tenth annotation counts the remaining findings, which are in the log', () => {
  const findings = numbered('web', 30).map(name => findingOf('node-a', `shop/${name}`, {name, remedy: name}));
  const text = github(reportOf({nodes: ['node-a'], services: [], findings}), plain);
  const annotations = annotationsOf(text);
  expect(annotations).toHaveLength(10);
  expect(annotations[9]?.title).toBe('21 more errors; see the log of this step');
  expect(annotations[9]?.message.split('\n')).toHaveLength(21);
  expect(text).toContain('\nST202 web-030 on node-a: shop/web-030 is missing an endpoint');
});

test('a name cannot be a command of the old syntax', () => {
  const text = github(
    reportOf({nodes: ['node-a'], services: [], findings: numbered('##[add-mask]x', 12).map(name => findingOf(name, null))}),
    plain,
  );
  expect(text.split('\n').filter(line => line.includes('##[') && !line.startsWith('::'))).toEqual([]);
});

test('the log contains how long nodes took', () => {
  const wait = {
    ...{limitSeconds: 60, seconds: 60, looks: 9, clean: false},
    nodes: [{name: 'node-a', look: 1, seconds: 0.1}, {name: 'node-b', look: 2, seconds: 3.25}, {name: '::error::c'}],
  };
  expect(
    github(reportOf({nodes: ['node-a'], services: ['shop/web'], wait}), plain)
      .split('\n')
      .slice(1),
  ).toEqual(['converged: in 3.3 s on node-b', 'converged: not yet on ::error::c']);
});

test('each finding is an annotation with its code, and the same finding on many nodes is one annotation', () => {
  const findings = ['node-a', 'node-b'].map(node => findingOf(node, 'shop/web', {message: '50% of it is lost'}));
  const lines = github(reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], findings}), plain).split('\n');
  expect(lines).toEqual([
    'FAULTY: shop/web on node-a, node-b: an endpoint gets no traffic (ST202); 2 errors on 2 of 2 nodes (1 Service with findings)',
    '::error title=ST202 missing-endpoint on node-a%2C node-b::50%25 of it is lost%0ARestart kube-proxy.',
  ]);
});

test('a warning is a warning annotation, and harmless or known findings have none', () => {
  const findings = [
    findingOf('node-a', null, {severity: 'warning', message: 'w'}),
    findingOf('node-a', null, {severity: 'info', message: 'i'}),
    {...findingOf('node-a', null, {message: 'k'}), known: true as const},
  ];
  const text = github(reportOf({nodes: ['node-a'], services: [], findings}), plain);
  expect(text.match(/^::.*$/gm)).toEqual([expect.stringMatching(/^::warning .*::w%0A/)]);
});

test.each(Object.entries(hostile))('a name cannot become a command: %s', (_, name) => {
  const findings = [findingOf(name, `shop/${name}`, {message: `${name}\n::set-output name=x::y`})];
  const lines = github(reportOf({nodes: [name], services: [], findings}), plain).split('\n');
  expect(lines).toHaveLength(2);
  expect(lines.join('')).not.toContain(name);
});
