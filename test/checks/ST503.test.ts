import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {snapshotOfText} from '../pasted/trace-text.ts';
import {containing, scenario} from '../scenario.ts';

test('a kube-proxy that reports IPVS on a node with iptables rules is reported with both', async () => {
  const given = await scenario();
  given.file('node-b', 'proxy-mode', 'ipvs');
  expect(given.newFindings()).toContainEqual({
    ...{code: 'ST503', severity: 'warning', node: 'node-b'},
    message: containing('kube-proxy reports ipvs mode (proxy-mode), and the kernel holds the rules of iptables'),
  });
});

test('a node with the mode that kube-proxy reports, and some rules of another, is ST502 and not this', async () => {
  const given = await scenario();
  given.file('node-b', 'ipvsadm-save', '-A -t 10.96.1.1:80 -s rr\n');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST502']);
});

test('a node that shows no mode stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'proxy-mode', 'ipvs');
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, null);
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST503');
});

test('an older kube-proxy that does not report its mode stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'proxy-mode', null);
  expect(given.newFindings()).toEqual([]);
});

test('a kube-proxy that reports iptables beside a table of nftables mode is reported', async () => {
  const given = await scenario('nftables/1.36');
  given.file('node-b', 'proxy-mode', 'iptables');
  expect(given.newFindings({only: new Set(['ST503'])})).toEqual([
    expect.objectContaining({code: 'ST503', node: 'node-b', message: containing('reports iptables mode', 'nftables')}),
  ]);
});

test('a text with a chain of IPVS mode shows the mode by itself: nobody reports another', () => {
  const text = 'Chain KUBE-IPVS-FILTER (1 references)\ntarget     prot opt source               destination\n';
  const codes = diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).findings.map(({code}) => code);
  expect(codes).toEqual(['ST901']);
});
