import {describe, expect, test} from 'vitest';
import {type Picture, type PictureBox, picturesOf} from '../../../src/render/graph/picture.ts';
import {dot, mermaid} from '../../../src/render/graph/graph-languages.ts';
import {svg} from '../../../src/render/graph/svg.ts';
import {columnsOf, wrapLetters} from '../../../src/render/graph/picture-boxes.ts';
import {findingOf, plain, reportOf} from '../report.ts';
import {endpoint, entry, manyEndpoints, trace, traced} from '../traces.ts';

const few = {all: false};

/** The boxes of each path as text: clients, `>`, endpoints. */
function textOf({paths}: Picture): readonly string[] {
  const words = ({sign, title, fault}: PictureBox): string =>
    [sign, title, fault === '' ? '' : `(${fault})`].filter(part => part !== '').join(' ');
  return paths.map(
    ({sources, ends}) => `${sources.map(source => source.map(words).join(' > ')).join(' + ')} > ${ends.map(words).join(' | ')}`,
  );
}

test('a missing endpoint and the one that gets its share come first, with their expected shares', async () => {
  const [faulty, healthy, ...more] = picturesOf(await traced('faults/missing-endpoint', 'shop/web'), few);
  expect(more).toEqual([]);
  expect(faulty?.title).toBe('shop/web:http port 80/TCP on node-a');
  expect(faulty && textOf(faulty)).toEqual([
    'cluster IP 10.96.1.1:80 > ✗ shop/web-2 (missing: should get 33.3%) | ✗ shop/web-3 (should be 33.3%) | ✓ shop/web-1',
  ]);
  expect(healthy?.title).toBe('shop/web:http port 80/TCP on node-b, node-c (line numbers of node-b)');
  expect(healthy && textOf(healthy)).toEqual(['cluster IP 10.96.1.1:80 > ✓ shop/web-1 | ✓ shop/web-2 | ✓ shop/web-3']);
});

test('the rules of a box are those of its chains, in the order of the path', async () => {
  const report = await traced('healthy/1.36-iptables', 'shop/nodeport', 'node-a');
  const entryBox = picturesOf(report, few)[0]
    ?.paths[0]?.sources.flat()
    .find(({title}) => title === 'node port 30080');
  expect(entryBox?.rules.map(rule => /-j (\S+)/.exec(rule)?.[1])).toEqual([
    'KUBE-NODEPORTS',
    expect.stringMatching(/^KUBE-EXT-/),
    expect.stringMatching(/^KUBE-SVC-/),
  ]);
  expect(entryBox?.rules.every(rule => /^line \d+: nat -A /.test(rule))).toBe(true);
});

test('a third-party rule stands between the client whose packets it intercepts and the endpoints, and no other client', async () => {
  const [hijacked, ...others] = picturesOf(await traced('faults/hostport-hijack', 'shop/nodeport'), few);
  const paths = hijacked === undefined ? [] : textOf(hijacked);
  expect(paths).toHaveLength(2);
  expect(paths[0]).toMatch(/^node port 30080 > ✗ third-party rule \(ST401\) \(intercepts the packets\) > ✗ shop\/web-1 \(gets none/);
  expect(paths[0]).toContain('✗ 10.244.13.200:80 (by a rule of another program: not an endpoint of the Service)');
  expect(paths[1]).toMatch(/^cluster IP 10\.96\.1\.3:80 > ✓ shop\/web-1 /);
  expect(hijacked?.paths[0]?.sources[0]?.[1]?.lines.join('')).toContain('-A PREROUTING -p tcp -m tcp --dport 30080');
  expect(others.flatMap(textOf).join('')).not.toContain('third-party');
});

describe('a finding that no box shows is above the path, on the affected nodes only', () => {
  test.each([
    ['faults/no-prerouting-hook', 'ST301 services-chain-not-hooked, all Services of the node: '],
    ['faults/split-brain', 'ST501 error two-backends: iptables-legacy and iptables-nft '],
    ['faults/no-hairpin', 'ST211 error masquerade-mismatch: shop/web:http: packets from endpoint'],
  ])('%s', async (capture, start) => {
    const pictures = picturesOf(await traced(capture, 'shop/web'), few);
    expect(pictures.map(({alerts}) => alerts.length)).toEqual([1, 0]);
    expect(pictures[0]?.alerts[0]).toMatch(new RegExp(`^${start}`));
    expect(pictures.map(({isFault}) => isFault)).toEqual([true, false]);
  });
});

test('a finding that boxes show is not repeated above them', async () => {
  for (const {alerts} of picturesOf(await traced('faults/missing-endpoint', 'shop/web'), few)) expect(alerts).toEqual([]);
});

test('a finding of another port of the Service is not shown for this port', () => {
  const findings = [findingOf('node-a', 'shop/web', {code: 'ST209', port: {name: 'https', protocol: 'TCP', port: 443}})];
  const [picture] = picturesOf(reportOf({nodes: ['node-a'], services: ['shop/web'], findings, traces: [trace]}), few);
  expect(picture).toMatchObject({alerts: [], isFault: false});
});

describe('in a picture of many endpoints', () => {
  const ends = (count: number, faulty: number, all = false): readonly PictureBox[] =>
    picturesOf(manyEndpoints(count, faulty), {all})[0]?.paths[0]?.ends ?? [];
  const signs = (boxes: readonly PictureBox[]): string => boxes.map(({sign}) => sign).join('');

  test('the faulty ones are drawn first, then a few others, and the rest as one box with their share', () => {
    const boxes = ends(60, 4);
    expect(signs(boxes)).toBe(`${'✗'.repeat(4)}${'✓'.repeat(5)}✓`);
    expect(boxes.at(-1)).toMatchObject({title: '51 more endpoints', lines: ['in sync, 91.1% together'], share: null});
  });

  test('no more than a dozen faulty endpoints are drawn, and the others are counted', () => {
    const boxes = ends(60, 60);
    expect(signs(boxes)).toBe('✗'.repeat(13));
    expect(boxes.at(-1)).toMatchObject({title: '48 more endpoints', fault: 'faulty: 0% together, should be 80%'});
  });

  test('all are drawn if all are requested', () => expect(ends(60, 4, true)).toHaveLength(60));
});

test('an address without rules is last, with the reason and no endpoint', () => {
  const unserved = [{kind: 'loadBalancerIP', address: '203.0.113.9', port: 80, reason: 'ipMode is Proxy'}] as const;
  const report = reportOf({nodes: ['node-a'], services: ['shop/web'], traces: [{...trace, unserved}]});
  const [picture] = picturesOf(report, few);
  expect(picture && textOf(picture).at(-1)).toBe('○ load-balancer IP 203.0.113.9:80 > ');
  expect(picture?.paths.at(-1)?.sources[0]?.[0]?.lines).toEqual(['no rules: ipMode is Proxy']);
  expect(picture?.isFault).toBe(false);
  for (const render of [mermaid, dot])
    expect(render(report, plain)).toMatch(/○ load-balancer IP 203\.0\.113\.9:80(<br\/>|\\n)no rules: ipMode is Proxy/);
});

test('entries without any rule share one list of missing endpoints', async () => {
  const [first] = picturesOf(await traced('faults/nat-flushed', 'shop/lb-local'), few);
  expect(first?.paths).toHaveLength(1);
  expect(first?.paths[0]?.sources.flat().map(({fault}) => fault)).toEqual(Array(3).fill('reaches no endpoint'));
});

test('rules alone show neither correct nor faulty boxes', () => {
  const shown = {
    ...entry,
    mark: 'shown' as const,
    endpoints: [{...endpoint, mark: 'shown' as const, pod: null, state: null, expectedShare: null}],
  };
  const report = {...reportOf({nodes: ['node-a'], services: [], traces: [{...trace, entries: [shown]}]}), basis: 'rules' as const};
  expect(picturesOf(report, few).flatMap(textOf)).toEqual(['cluster IP 10.96.0.1:80 > 10.0.0.1:80']);
  // Nothing is marked as in sync by a color either.
  expect(svg(report, plain)).not.toMatch(/class="[^"]*\bok\b/);
  expect(svg(reportOf({nodes: ['node-a'], services: ['shop/web'], traces: [trace]}), plain)).toContain('class="endpoint ok"');
});

describe('wrapped text', () => {
  const texts = [
    'from outside the cluster',
    'payments-production/checkout-frontend-6c8f9d7b5-255s on ip-10-0-0-20.compute.internal',
    'x'.repeat(50),
    '反射'.repeat(20),
    '',
  ];

  test.each(texts)('fits the line, and nothing is left out: %s', text => {
    for (const max of [10, 22, 40]) {
      const lines = wrapLetters(text, max);
      for (const line of lines) expect(columnsOf(line)).toBeLessThanOrEqual(max);
      expect(lines.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''));
    }
  });

  test('breaks at spaces, and names that are wider than a line after a punctuation mark', () => {
    expect(wrapLetters('-m tcp --dport 30080', 12)).toEqual(['-m tcp', '--dport', '30080']);
    expect(wrapLetters('shop/checkout-frontend-1', 14)).toEqual(['shop/checkout-', 'frontend-1']);
  });
});
