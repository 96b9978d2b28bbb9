import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {EntryTrace} from '../../src/model/service-trace.ts';
import {tree} from '../../src/render/table/tree.ts';
import {scenario} from '../scenario.ts';

async function traced(sysctls: string, capture?: string) {
  const given = await scenario(capture);
  given.file('node-a', 'sysctls', sysctls);
  const options = {
    toolVersion: '0.0.0',
    trace: true,
    selects: ({metadata: {name}}: {metadata: {name: string}}) => name === 'nodeport',
  } as const;
  const report = diagnose(given.snapshot(), options);
  const entries = report.traces.find(({node}) => node === 'node-a')?.entries ?? [];
  return {report, entries};
}

const marks = ({endpoints}: EntryTrace) =>
  endpoints.map(({hostPort, mark, share}) => `${hostPort} ${mark} ${Math.round((share ?? 0) * 100)}%`);

test.each(['healthy/1.36-iptables', 'nftables/1.36'])('with forwarding off, %s: trace shows no endpoint as reached', async capture => {
  const {report, entries} = await traced('net.ipv4.ip_forward = 0\n', capture);
  expect(entries.map(({entry: {kind}}) => kind)).toEqual(['clusterIP', 'nodePort']);
  for (const entry of entries)
    expect(marks(entry)).toEqual(['10.244.11.4:8080 wrong 0%', '10.244.11.5:8080 wrong 0%', '10.244.12.4:8080 wrong 0%']);
  const [fromOutside] = entries.slice(-1);
  expect(fromOutside?.end).toEqual({
    ...{verdict: 'dropped', rule: null},
    reason: 'the node forwards no such packets (net.ipv4.ip_forward is 0)',
  });
  const text = tree(report, {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'});
  expect(text).toContain('✗    0% 10.244.12.4:8080');
  expect(text).toContain('dropped: the node forwards no such packets (net.ipv4.ip_forward is 0)');
});

test('with forwarding on, or unread, every endpoint is reached', async () => {
  for (const sysctls of ['net.ipv4.ip_forward = 1\n', ''])
    for (const entry of (await traced(sysctls)).entries) expect(new Set(entry.endpoints.map(({mark}) => mark))).toEqual(new Set(['ok']));
});

test('where a rule cannot be told, no endpoint is said to get none', async () => {
  const given = await scenario();
  given.rules('node-a').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -i eth0 -j DROP');
  const selects = ({metadata: {name}}: {metadata: {name: string}}) => name === 'web';
  const {traces} = diagnose(given.snapshot(), {toolVersion: '0.0.0', trace: true, selects});
  const [entry] = traces.find(({node}) => node === 'node-a')?.entries ?? [];
  expect(entry?.end?.verdict).toBe('undecided');
  expect(entry?.mark).toBe('shown');
  expect(entry?.endpoints.map(({mark, share}) => `${mark} ${share}`)).toEqual(['shown null', 'shown null', 'shown null']);
});
