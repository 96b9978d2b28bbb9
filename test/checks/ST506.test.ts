import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {needsAction, containing, scenario} from '../scenario.ts';

const place = {code: 'ST506', severity: 'warning', node: 'node-b', family: 'IPv4'};

test('reports a truncated dump with its line and table, and no rule after that as missing', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.cutAfter('-A KUBE-SEP-', '"shop/external-ips:http"', 'DNAT --to-destination 10.244.12.4:8080');
  const line = dump.toString().split('\n').length - 1;
  const found = given.newFindings();
  expect(found).toEqual([
    {...place, message: containing(`the IPv4 dump is truncated at line ${line} inside table nat: rules after that were not checked`)},
  ]);
});

test('faults before the end of the dump are still reported', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.delete('-A KUBE-NODEPORTS', '"shop/lb-local:http health check node port"');
  dump.delete('-A FORWARD', '-j KUBE-SERVICES');
  dump.cutAfter('-A KUBE-SEP-', '"shop/external-ips:http"', 'DNAT --to-destination 10.244.12.4:8080');
  expect(
    given
      .newFindings()
      .filter(needsAction)
      .map(({code}) => code),
  ).toEqual(expect.arrayContaining(['ST219', 'ST301', 'ST506']));
});

test('a node with a truncated dump counts as not read, which is no second finding', async () => {
  const given = await scenario();
  given.rules('node-b').cutAfter('-A KUBE-POSTROUTING', 'MASQUERADE');
  const {nodes, summary} = diagnose(given.snapshot(), {toolVersion: '0.0.0'});
  expect(nodes.find(({name}) => name === 'node-b')).toMatchObject({status: 'unread', reason: containing('is truncated')});
  expect(summary).toMatchObject({nodesChecked: 2, nodesUnread: 1, verdict: 'incomplete'});
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST506']);
});

test.each(['-A KUBE-EXT-', '-A KUBE-SEP-', '-A KUBE-SERVICES', '-A KUBE-SVC-'])(
  'a dump that ends in the middle of rules that begin with %s is truncated, with a COMMIT too',
  async start => {
    const given = await scenario();
    const lines = given.rules('node-b').toString().split('\n');
    const own = lines.flatMap((text, at) => (text.startsWith(start) ? [at] : []));
    given.file('node-b', 'iptables-save', [...lines.slice(0, own[Math.floor(own.length / 2)]), 'COMMIT', ''].join('\n'));
    const found = given.newFindings();
    expect(found).toEqual([{...place, message: containing('inside table nat (its last ')}]);
  },
);

test.each([/^-A KUBE-SVC-/, /^-A KUBE-(?:SVC|SEP|EXT)-/, /^-A KUBE-/])(
  'chains whose rules %s were all deleted are a fault',
  async deleted => {
    const given = await scenario();
    const lines = given.rules('node-b').toString().split('\n');
    given.file('node-b', 'iptables-save', lines.filter(text => !deleted.test(text)).join('\n'));
    const codes = given.newFindings().map(({code}) => code);
    expect(codes).not.toContain('ST506');
    expect(codes).toEqual(expect.arrayContaining([expect.stringMatching(/^ST[23]/)]));
  },
);

test.each([':0 --persistent', '0.0.0.0:0'])('a destination that reads as %s shows a reader older than the writer', async destination => {
  const given = await scenario();
  given.file(
    'node-b',
    'iptables-save',
    given
      .rules('node-b')
      .toString()
      .replaceAll(/--to-destination \S+/g, `--to-destination ${destination}`),
  );
  const found = given.newFindings();
  expect(found).toEqual([
    {...place, message: containing('the iptables that read these rules is older than the one that wrote them'), actual: expect.anything()},
  ]);
});

test('a complete dump stays silent, with and without a newline at its end', async () => {
  const given = await scenario();
  given.file('node-b', 'iptables-save', given.rules('node-b').toString().trimEnd());
  expect(given.newFindings()).toEqual([]);
});

test('lines of other programs between the tables stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['*nat'], '# Warning: iptables-legacy tables present, use iptables-legacy-save to see them');
  expect(given.newFindings()).toEqual([]);
});
