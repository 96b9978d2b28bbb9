import {expect, test} from 'vitest';
import {github} from '../../src/render/github.ts';
import {findingOf, hostile, plain, reportOf} from './report.ts';

test('each finding is an annotation with its code, and the same one on many nodes is one', () => {
  const findings = ['node-a', 'node-b'].map(node => findingOf(node, 'shop/web', {message: '50% of it is lost'}));
  const lines = github(reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], findings}), plain).split('\n');
  expect(lines).toEqual([
    'FAULTY: 2 errors on 2 of 2 nodes (1 Service)',
    '::error title=ST202 missing-endpoint on node-a%2C node-b::50%25 of it is lost%0ARestart kube-proxy.',
  ]);
});

test('a warning is a warning, and what is harmless or known is no annotation', () => {
  const findings = [
    findingOf('node-a', null, {severity: 'warning', message: 'w'}),
    findingOf('node-a', null, {severity: 'info', message: 'i'}),
    {...findingOf('node-a', null, {message: 'k'}), known: true as const},
  ];
  const text = github(reportOf({nodes: ['node-a'], services: [], findings}), plain);
  expect(text.match(/^::.*$/gm)).toEqual([expect.stringMatching(/^::warning .*::w%0A/)]);
});

test.each(Object.entries(hostile))('a name cannot give a command of its own: %s', (_, name) => {
  const findings = [findingOf(name, `shop/${name}`, {message: `${name}\n::set-output name=x::y`})];
  const lines = github(reportOf({nodes: [name], services: [], findings}), plain).split('\n');
  expect(lines).toHaveLength(2);
  expect(lines.join('')).not.toContain(name);
});
