import {expect, test} from 'vitest';
import {github} from '../../../src/render/ci/github.ts';
import {markdown} from '../../../src/render/ci/markdown.ts';
import {sarif} from '../../../src/render/ci/sarif.ts';
import {findingOf, numbered, plain, reportOf} from '../report.ts';

/** kube-proxy says that it is not healthy, which is a warning, and its Services lack endpoints, which are errors. */
const findings = [
  findingOf('node-a', null, {code: 'ST505', name: 'kube-proxy-not-syncing', severity: 'warning', message: 'it does not keep up'}),
  ...numbered('web', 3).map(name => findingOf('node-a', `shop/${name}`, {severity: 'error'})),
];
const report = reportOf({nodes: ['node-a'], services: [], findings});

test('a warning that stands for errors is an error in GitHub, SARIF and Markdown, so that what fails a pipeline is seen', () => {
  expect(github(report, plain)).toMatch(/^::error title=ST505 kube-proxy-not-syncing on node-a::/m);
  const {runs} = JSON.parse(sarif(report, plain)) as {runs: readonly {results: readonly {ruleId: string; level: string}[]}[]};
  expect(runs[0]?.results.map(({ruleId, level}) => [ruleId, level])).toEqual([['ST505', 'error']]);
  expect(markdown(report, plain)).toMatch(/^\| error \| \[ST505\]/m);
});
