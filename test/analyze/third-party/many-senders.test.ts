import {expect, test} from 'vitest';
import {scenario} from '../../scenario.ts';

const base = ['-A FORWARD', 'KUBE-PROXY-FIREWALL'];

test('rules that tell more senders apart than are walked are a warning: the outcome for the others is undetermined', async () => {
  const given = await scenario();
  const dump = given.rules('node-a');
  const chains = Array.from({length: 200}, (_, index) => index);
  for (const chain of chains) dump.declare('filter', `BAN-${chain}`);
  dump.insertBefore(base, ...chains.map(chain => `-A FORWARD -j BAN-${chain}`));
  for (const chain of chains)
    for (const last of [1, 2, 3, 4]) dump.append('filter', `-A BAN-${chain} -s 100.64.${chain}.${last}/32 -j DROP`);
  const found = given.newFindings({nodes: name => name === 'node-a'});
  expect(found.filter(({code}) => code === 'ST403')).toMatchObject([
    {
      severity: 'warning',
      message: expect.stringMatching(/only 20000 classes of them were walked: the outcome for packets from the others is undetermined$/),
    },
  ]);
  const named = new Set(found.flatMap(({message}) => /100\.64\.\d+\.\d+/.exec(message) ?? []));
  expect(named.size).toBe(800);
});

test('networks of whom a long chain says the same are one class of senders, and a smaller one inside is another', async () => {
  const given = await scenario();
  const dump = given.rules('node-a');
  const banned = Array.from({length: 3000}, (_, index) => `-A FORWARD -s 100.${64 + (index >> 8)}.${index & 255}.0/24 -p tcp -j DROP`);
  dump.insertBefore(base, '-A FORWARD -s 100.64.0.128/25 -j ACCEPT', ...banned);
  const found = given.newFindings({nodes: name => name === 'node-a'}).map(({message}) => message);
  expect(found).toEqual([
    expect.stringMatching(/^it has no endpoints, so packets from 100\.64\.0\.128\/25 to .* a third-party rule accepts them/),
    expect.stringMatching(/^packets from 100\.64\.0\.0\/25, 100\.64\.1\.0-100\.75\.183\.255 to .* and then dropped by a third-party rule/),
  ]);
});
