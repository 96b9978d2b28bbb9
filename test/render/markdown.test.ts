import {expect, test} from 'vitest';
import {markdown} from '../../src/render/markdown.ts';
import {findingOf, numbered, plain, reportOf, ruleOf} from './report.ts';

test('the verdict comes first, then a table, and the evidence is folded', () => {
  const finding = findingOf('node-a', 'shop/web', {message: 'it is lost', expected: [ruleOf('-A KUBE-SVC-X -j <none>')]});
  const parts = markdown(reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [finding]}), plain).split('\n\n');
  expect(parts[0]).toBe('**FAULTY: 1 error on 1 of 1 node \\(1 Service\\)**');
  expect(parts[1]?.split('\n')[2]).toMatch(/^\| error \| \[ST202\]\(https:.*ST202\.md\) missing-endpoint \| shop\/web \| node-a \|$/);
  expect(parts.slice(2)).toEqual([
    '<details><summary>ST202 on node-a: it is lost</summary>',
    '<pre>\nexpected nat -A KUBE-SVC-X -j &lt;none&gt;\n</pre>',
    'Restart kube-proxy.',
    '</details>',
  ]);
});

test('a healthy report is one line', () => {
  expect(markdown(reportOf({nodes: ['node-a'], services: ['shop/web']}), plain)).toBe(
    '**OK: 1 Service on 1 node, all programmed as they should be**',
  );
});

test('a comment stays short enough to be posted', () => {
  const findings = numbered('svc', 500).map(name => findingOf('node-a', `shop/${name}`, {actual: [ruleOf('x'.repeat(5000), 1)]}));
  const text = markdown(reportOf({nodes: ['node-a'], services: [], findings}), plain);
  expect(text.length).toBeLessThan(65_536);
  expect(text).toContain('_460 more are in the other output formats_');
});

test('names cannot break the table, make links or tags, or call anybody', () => {
  const name = 'a|b](http://evil) <img src=x> @maintainer `x`\n# head';
  const text = markdown(reportOf({nodes: [name], services: [], findings: [findingOf(name, `shop/${name}`)]}), plain);
  expect(text).not.toMatch(/<img|^# head|@maintainer/m);
  // Inside the tag of a summary Markdown is not read.
  expect(text.split('<details>')[0]).not.toContain('](http://evil)');
  expect(text.split('\n').filter(line => line.startsWith('| error'))).toHaveLength(1);
});
